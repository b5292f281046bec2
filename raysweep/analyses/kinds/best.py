"""The analysis `best`: the cell with the best mean of a metric, and which other cells are not told from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Needed, Outcome
from raysweep.analyses.outcomes import takes
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import MEANS, all_keys, bounds_of, interval, is_number, means_table, varying
from raysweep.analyses.searched import axes_of, importance
from raysweep.analyses.series import CurvesPlot, curves_plot
from raysweep.analyses.single_runs import values_of_single_runs
from raysweep.fits.statistics import LEVEL
from raysweep.fits.with_best import from_best
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.space import checks

TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
ROW = ("estimate", "low", "high", "theory", "draws")
"""What a row of the finding has of a cell."""


def run(question: Question) -> Finding:
    """One setting per cell, the best first: its mean, and whether it is told from the best one.

    Cells are compared by the differences of equal draws; single runs by draws of what they would give on average, of
    which estimates are the mean. A cell that is as good in every draw is a best one too.
    """
    metric, workload, design = question.metric, question.workload, question.design
    keys = [key for key in all_keys(question.rows, workload, None, design.varied(), design) if key in question.rows]
    of_cell = keys or ["cell"]
    table, drawn = ranked(question, of_cell, means_table(question.rows, of_cell, metric, workload))
    apart = differences(question, of_cell, table, drawn)
    whole = with_intervals(question, table, drawn)
    rows = [
        {name: cell[name] for name in (*keys, *ROW) if name in cell} | outcome(other, place, cell["draws"])
        for place, (cell, other) in enumerate(zip(whole.to_dict("records"), apart, strict=True))
    ]
    main = effects(table, keys, question.turn == "max")
    shares = importance(table, axes_of(table, keys, design, workload), table["mean"].to_numpy(float))
    axes = [*shares, *(key for key in keys if key not in shares)]
    return question.finding(
        "best",
        rows,
        keys,
        meanings=meaning(question, keys, table, apart),
        facts={"shares": shares} | ({} if drawn is None else {"method": "single_runs"}),
        tables={
            f"{question.name}_cells": table if drawn is None else whole,
            **({f"{question.name}_effects": main} if len(main) else {}),
        },
        plots=lambda: curve_over(question, axes) if len(table) > 2 else [],
    )


def ranked(question: Question, keys: list[str], table: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray | None]:
    """(the table of `means_table`, the best cell first, draws of what its cells give on average if they have single
    runs that say it, (draws, cells), else None). Cells are ranked by the means of the draws, without them by their own.
    """
    drawn = values_of_single_runs(question, keys, table)
    values = table["mean"].to_numpy(float) if drawn is None else drawn.mean(0)
    order = np.argsort(-values if question.turn == "max" else values, kind="stable")
    return table.iloc[order].reset_index(drop=True), None if drawn is None else drawn[:, order]


def effects(table: pd.DataFrame, keys: list[str], largest: bool) -> pd.DataFrame:
    """The main effects: for each value of each axis, the best first, the mean and number of all cells that have it."""
    parts = []
    for key in (key for key in keys if table[key].nunique() > 1):
        of_key = table.groupby(key)["mean"].agg(mean="mean", cells="size").rename_axis("axis_value")
        of_key = of_key.sort_values("mean", ascending=not largest, kind="stable").reset_index()
        parts.append(of_key.assign(axis=key)[["axis", "axis_value", "mean", "cells"]])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def with_intervals(question: Question, table: pd.DataFrame, drawn: np.ndarray | None) -> pd.DataFrame:
    """The table of means with estimate, low and high: of the draws of `ranked`, without them the mean and Student's t
    over runs, NaN of one run."""
    bounds = bounds_of(question.metric, question.workload)
    if drawn is None:
        low, high = interval(table, bounds)
        return table.assign(estimate=table["mean"], low=low, high=high)
    middle, ends = np.clip(drawn.mean(0), *bounds), np.clip(np.quantile(drawn, TAILS, axis=0), *bounds)
    return table.assign(estimate=middle, low=ends[0], high=ends[1])


def differences(
    question: Question, keys: list[str], table: pd.DataFrame, drawn: np.ndarray | None = None
) -> list[tuple[float, float]]:
    """(mean, half width of its interval on the side of 0) of each cell of the table less the first one: of the draws of
    `ranked`, without them those of `from_best`, draws paired by seed."""
    if drawn is not None:
        less = drawn - drawn[:, :1]
        middle, (below, above) = less.mean(0), np.quantile(less, TAILS, axis=0)
        return list(zip(middle.tolist(), np.where(middle > 0, middle - below, above - middle).tolist(), strict=True))
    good = question.rows[question.rows["status"] == "ok"]
    good = good[[*keys, "seed", question.metric]].merge(table[keys].assign(_place=range(len(table))), on=keys)
    wide = good.pivot_table(index="seed", columns="_place", values=question.metric).reindex(columns=range(len(table)))
    mean, half = from_best(wide.to_numpy(float))
    return list(zip(mean.tolist(), half.tolist(), strict=True))


def outcome(apart: tuple[float, float], place: int, draws: int) -> dict[str, Any]:
    """Whether a cell is the best one, not told from it, or worse. apart: of `differences`. place: in the ranking."""
    mean, half = apart
    if place == 0 or mean == half == 0:
        return {"outcome": Outcome.BEST}
    if abs(mean) > half:
        return {"outcome": Outcome.WORSE}
    return {"outcome": Outcome.ALIKE, **takes(Needed.MORE_DRAWS, draws)}


def meaning(
    question: Question, keys: list[str], table: pd.DataFrame, apart: list[tuple[float, float]]
) -> dict[str, str]:
    """What the space calls the difference of the larger and the smaller value of an axis, if these are the two cells
    and they differ."""
    vary = varying(keys, table)
    if not question.words or len(table) != 2 or len(vary) != 1 or not is_number(table, vary[0]):
        return {}
    mean, half = apart[1]  # the second less the best
    if not abs(mean) > half:
        return {}
    rises = (mean > 0) == (table[vary[0]][1] > table[vary[0]][0])
    return {"best": question.words["higher" if rises else "lower"]}


def curve_over(question: Question, axes: list[str]) -> list[CurvesPlot]:
    """The metric over the first of the axes along which cells can be compared; empty without one."""
    for x in axes:
        keys = list(dict.fromkeys([*(key for key in axes if key != x), *question.keys(x)]))
        values = question.rows.groupby(keys, dropna=False)[x] if keys else question.rows[[x]]
        if values.nunique().gt(1).any() and (
            plots := curves_plot(question, question.metric, x, keys, f"{question.name}_curves")
        ):
            return plots
    return []


ANALYSIS = Analysis(
    kind="best",
    question="Which cell is best for {metric}?",
    run=run,
    required={"metric": checks.metric},
    optional={"words": allowed.words("higher", "lower")},
    columns=(*MEANS, "axis", "axis_value", "cells"),
    means_only=True,
)
