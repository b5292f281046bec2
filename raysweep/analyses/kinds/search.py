"""The analysis `search`: the best configurations of a search, which axes matter, and every run as a point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.analyses.explored import asinh_width, plain_number
from raysweep.analyses.finding import Finding, Outcome, Plot
from raysweep.analyses.kinds.best import ROW, differences, outcome, ranked, with_intervals
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import MEANS, all_keys, better_extremum, bounds_of, interval, means_table
from raysweep.analyses.searched import Axis, active, axes_of, importance
from raysweep.lazy import pd
from raysweep.ledger.curves import STEP
from raysweep.numbers import NOTHING, number
from raysweep.space import checks
from raysweep.workloads.declaration import OK, STOPPED, Workload

SHOWN = 8
"""Configurations in the table."""
OTHERS = 3
"""Other metrics next to the one that chooses; the CSV has all."""
SLICES = 6
LINES = 1000
"""Configurations that parallel coordinates show, the best ones."""
KINDS = 4
"""Values of an axis that colours tell apart."""
LOST = "lost"
"""The state of a run without a number; others are ok or stopped."""


@dataclass(frozen=True, eq=False)
class Runs:
    """Every run. at: the number of its configuration, from 1. value: NaN if it has none. state: ok, stopped or lost.
    first: whether its configuration is in the table. turn: max if larger values are better, else min."""

    at: np.ndarray
    value: np.ndarray
    state: np.ndarray
    first: np.ndarray
    turn: str


@dataclass(frozen=True, eq=False)
class HistoryPlot(Plot):
    """The metric of each run in order, and the best mean of a configuration so far: `best` at `at`.

    order: finished, asked or listed.
    """

    metric: str
    runs: Runs
    at: np.ndarray
    best: np.ndarray
    order: str


@dataclass(frozen=True, eq=False)
class SlicesPlot(Plot):
    """The metric of each run over each of the most important axes. columns: the values, None where inactive.
    every: how many axes there are."""

    metric: str
    runs: Runs
    axes: Sequence[Axis]
    columns: Mapping[str, Sequence[Any]]
    every: int


@dataclass(frozen=True, eq=False)
class ImportancePlot(Plot):
    """The metric of each run over the most important axis, and the shares of all axes in its variance.

    column: the values on the axis, None where inactive. kind: an axis of a few values that tells runs apart, and
    kinds: the value of each run; empty without one. rest: the share of combinations of axes.
    """

    metric: str
    runs: Runs
    axis: Axis
    column: Sequence[Any]
    kind: str
    kinds: Sequence[Any]
    shares: Mapping[str, float]
    rest: float


@dataclass(frozen=True, eq=False)
class StoppedPlot(Plot):
    """The learning curves of runs: (ok, stopped or lost; steps; values)."""

    metric: str
    stage: str
    curves: Sequence[tuple[str, np.ndarray, np.ndarray]]


def run(question: Question) -> Finding:
    """The best configurations, the first one first, with the mean of their draws.

    `best` says how they are compared. One in which most draws diverged, failed or were stopped is never the best.
    """
    rows, metric, workload, design = question.rows, question.metric, question.workload, question.design
    keys = [key for key in all_keys(rows, workload, None, design.varied(), design) if key in rows] or ["cell"]
    table = means_table(rows, keys, metric, workload)
    most = 2 * table["draws"] >= table["computed"]
    table = table[most] if most.any() else table
    table, drawn = ranked(question, keys, table)
    others = others_of(question)
    table = with_intervals(question, table, drawn).merge(others_table(question, keys, others), on=keys, how="left")
    shown = active(table, keys, design)
    axes = axes_of(shown, keys, design, workload)
    shares = importance(shown, axes, table["mean"].to_numpy(float))
    one_draw = bool((table["draws"] < 2).all()) and drawn is None
    apart = differences(question, keys, table, drawn)
    outcomes = [outcome(other, k, draws) for k, (other, draws) in enumerate(zip(apart, table["draws"], strict=True))]
    axes = sorted(axes, key=lambda axis: list(shares).index(axis.name)) if shares else axes
    names = [*keys, *ROW, *(f"{other}_{end}" for other in others[:OTHERS] for end in ("mean", "low", "high"))]
    best = [
        {name: cell[name] for name in names if name in cell} | ({"outcome": Outcome.MEASURED} if one_draw else told)
        for cell, told in zip(shown.head(SHOWN).to_dict("records"), outcomes, strict=False)
    ]
    tables = {f"{question.name}_cells": shown}
    if shares:
        tables[f"{question.name}_importance"] = pd.DataFrame({"axis": shares.keys(), "importance": shares.values()})
    return question.finding(
        "search",
        best,
        keys,
        facts={
            "shares": shares,
            **({} if drawn is None else {"method": "single_runs"}),
            "axes": [axis.name for axis in axes],
            "others": others[:OTHERS],
            "configurations": len(shown),
            "alike": 0 if one_draw else sum(one["outcome"] != Outcome.WORSE for one in outcomes) - 1,
            "one_draw": one_draw,
            "elsewhere": elsewhere(table, others[:OTHERS], workload),
        },
        tables=tables,
        plots=lambda: plots_of(question, keys, shown, axes, shares),
        explored=[lambda: parallel(metric, shown, axes)] if len(axes) > 1 else [],
    )


def elsewhere(table: pd.DataFrame, others: Sequence[str], workload: Workload) -> dict[str, tuple[str, int]]:
    """Which place the best cell by each other metric has, from 1, with its extremum, if it is not the first. table: the
    best cell first."""
    out = {}
    for name in others:
        way, values = better_extremum(name, workload), table[f"{name}_mean"].to_numpy(float)
        values = values if way == "max" else -values
        if np.isfinite(values).any():
            best = float(np.nanmax(values))
            if place := int(np.argmax(values >= best - NOTHING * abs(best))):
                out[name] = (way, place + 1)
    return out


def others_of(question: Question) -> list[str]:
    """The other metrics: of a function all, else those of which more or less is better."""
    workload = question.workload
    named = [one.name for one in workload.metrics if workload.function or one.direction != "none"]
    named += (workload.function.returned or ()) if workload.function else ()
    there = [name for name in dict.fromkeys(named) if name != question.metric and name in question.rows]
    return [name for name in there if np.isfinite(question.rows[name].astype(float)).any()]


def others_table(question: Question, keys: list[str], others: Sequence[str]) -> pd.DataFrame:
    """The keys, and NAME_mean, NAME_low and NAME_high of the other metrics, over the draws from which the metric has
    its mean. Ends are NaN for a single draw."""
    rows, metric = question.rows, question.metric
    good = rows[(rows["status"] == OK) & np.isfinite(rows[metric].astype(float))]
    grouped = good.groupby(keys, dropna=False)
    out = grouped.size().rename("_size").reset_index()[keys]
    for name in others:
        means = grouped[name].agg(mean="mean", standard_error="sem", draws="count").reset_index(drop=True)
        low, high = interval(means, bounds_of(name, question.workload))
        out = out.assign(**{f"{name}_mean": means["mean"], f"{name}_low": low, f"{name}_high": high})
    return out


def runs_of(question: Question, keys: Sequence[str], best: pd.DataFrame) -> tuple[Runs, pd.DataFrame, str]:
    """(the runs in order, their rows with None at inactive axes, what the order is). best: the rows of the table."""
    rows, spaces, order = question.rows, question.design.spaces, "listed"
    if "finished" in rows and "finished" not in question.workload.by_name and rows["finished"].nunique() > 1:
        rows, order = rows.sort_values("finished", kind="stable"), "finished"
    elif spaces and all(space.get("ranges") or "imported" in space.get("search", {}) for space in spaces):
        order = "asked"
    rows = active(rows, keys, question.design)
    value, status = rows[question.metric].to_numpy(float), rows["status"].to_numpy(object)
    finite = np.isfinite(value)
    state = np.select([finite & (status == OK), finite & (status == STOPPED)], ["ok", "stopped"], LOST)
    at = rows["cell"].factorize()[0] + 1
    top = among(rows, best, keys)
    return Runs(at, np.where(state == LOST, np.nan, value), state, top, question.turn), rows, order


def among(rows: pd.DataFrame, some: pd.DataFrame, keys: Sequence[str]) -> np.ndarray:
    """Whether the configuration of each row is one of some."""
    marked = some[keys].drop_duplicates().astype(object).assign(_some=True)  # of no inactive axis a column is of floats
    return rows[keys].astype(object).merge(marked, on=keys, how="left")["_some"].notna().to_numpy()


def plots_of(
    question: Question, keys: list[str], cells: pd.DataFrame, axes: Sequence[Axis], shares: Mapping[str, float]
) -> list[Plot]:
    """The objective over the axes, the most important one first, over time, and of runs that were stopped early."""
    name, metric = question.name, question.metric
    runs, rows, order = runs_of(question, keys, cells.head(SHOWN))
    inside = among(rows, cells, keys) & (runs.state == OK)
    at = np.unique(runs.at[inside])
    means = np.array([runs.value[inside & (runs.at == one)].mean() for one in at])
    best = (np.maximum if question.turn == "max" else np.minimum).accumulate(means)
    out: list[Plot] = []
    if shares:
        kind = next((axis.name for axis in axes[1:] if 1 < len(axis.values) <= KINDS), "")
        column, kinds = rows[axes[0].name].tolist(), rows[kind].tolist() if kind else []
        rest = max(0.0, 1 - sum(shares.values()))
        out.append(ImportancePlot(f"{name}_importance", metric, runs, axes[0], column, kind, kinds, shares, rest))
    if axes:
        few = axes[:SLICES]
        columns = {axis.name: rows[axis.name].tolist() for axis in few}
        out.append(SlicesPlot(f"{name}_slices", metric, runs, few, columns, len(axes)))
    return [*out, HistoryPlot(f"{name}_history", metric, runs, at, best, order), *stopped_plots(question)]


def stopped_plots(question: Question) -> list[StoppedPlot]:
    """The learning curves of all runs if some were stopped early; empty without any, or if nothing was logged."""
    if question.curves is None or not (question.rows["status"] == STOPPED).any():
        return []
    points = question.curves().merge(question.rows[["cell", "seed"]].drop_duplicates(), on=["cell", "seed"])
    stopping = [(space.get("early_stopping") or {}).get("metric") for space in question.design.spaces]
    metric = next((one for one in (*stopping, question.metric) if one and one in points), "")
    points = points[np.isfinite(points[metric].astype(float))] if metric else points.iloc[:0]
    if points.empty:
        return []
    stage = str(points["stage"].iloc[-1])
    points = points[points["stage"] == stage]
    states = points["status"].where(points["status"].isin([OK, STOPPED]), LOST)
    curves = [
        (state, one[STEP].to_numpy(float), one[metric].to_numpy(float))
        for (*_, state), one in points.groupby(["sweep", "cell", "seed", states], sort=False)
    ]
    return [StoppedPlot(f"{question.name}_stopped", metric, stage, curves)]


def parallel(metric: str, cells: pd.DataFrame, axes: Sequence[Axis]) -> dict[str, Any]:
    """Parallel coordinates, which the page draws: each of the best `LINES` configurations is a line through its places
    on all axes, the last of which is the metric.

    Per axis its ticks [place, text], per configuration its places (None where inactive) and its values as text.
    cells: the best first.
    """
    shown = cells.head(LINES)
    means = shown["mean"].to_numpy(float)
    low, high = float(means.min()), float(means.max())
    last = Axis(metric, (), low, high if high > low else low + 1.0, low > 0 and bool(asinh_width(means)))
    shown, axes = shown.assign(**{metric: means}), [*axes, last]
    columns = [shown[axis.name].tolist() for axis in axes]
    places = np.column_stack([axis.places(column) for axis, column in zip(axes, columns, strict=True)]).round(4)
    return {
        "form": "parallel",
        "metric": metric,
        "axes": [
            {"name": axis.name, "ticks": [[plain_number(round(at, 4)), number(value, 3)] for at, value in axis.ticks()]}
            for axis in axes
        ],
        "lines": [
            {"at": list(map(plain_number, at)), "texts": ["–" if value is None else number(value) for value in values]}
            for at, values in zip(places, zip(*columns, strict=True), strict=True)
        ],
    }


ANALYSIS = Analysis(
    kind="search",
    question="Which configuration is best for {metric}, and which axes matter?",
    run=run,
    required={"metric": checks.metric},
    columns=(*MEANS, "axis", "importance"),
)
