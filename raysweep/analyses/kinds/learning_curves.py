"""What a stage logged at each step: means over draws with a band."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from raysweep.analyses.explored import asinh_width, curve
from raysweep.analyses.finding import Finding, Needed, Nothing, Outcome, Plot
from raysweep.analyses.logged import IDENTITY, OPTIONS, check_logged, check_metric, keys_of, points_of, stage_of
from raysweep.analyses.outcomes import takes
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import Where, groups, plain_means, spread
from raysweep.analyses.series import Panel, laid_out
from raysweep.fits.draws import log_axis
from raysweep.fits.lost_draws import among_lost
from raysweep.fits.statistics import mean_band
from raysweep.lazy import pd
from raysweep.ledger.curves import STEP, aligned
from raysweep.space import analysis_options as allowed
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import OK

FIXED = [*IDENTITY, "status", "stage", STEP]  # the columns of points that are no metrics
VALUE = "_value"  # the column of a logged metric; no parameter name begins with an underscore
POINTS = 60  # a curve has so many points at most in a page: enough for the eye, few enough for a small file


@dataclass(frozen=True, eq=False)
class Curve:
    """The learning curves of one setting of the parameters.

    x, mean, low, high: the mean over ok draws and its band, at each x that all ok draws have.
    seeds, stacked: the ok draws and their values at x, (draws, points).
    left_out: (status, x, values) of each draw that is not ok. lost: whether most draws diverged or failed.
    silent: whether draws are ok, and none of these logged a value.
    """

    where: Where
    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: Sequence[int]
    stacked: np.ndarray
    left_out: Sequence[tuple[str, np.ndarray, np.ndarray]]
    silent: bool
    lost: bool


@dataclass(frozen=True, eq=False)
class LearningPlot(Plot):
    """What a stage logged over its steps.

    steps: what the entry calls them; empty if it does not. share: whether they are shares of the last one.
    logarithmic: whether they are drawn in log, which leaves out 0. every: how many lines there are.
    """

    panels: Sequence[Panel[Curve]]
    metric: str
    stage: str
    steps: str
    share: bool
    logarithmic: bool
    every: int


def run(question: Question) -> Finding:
    """The curves of each setting. InputError if the stage logged other metrics than those asked for."""
    stage, points, metrics = stage_of(question), points_of(question), metrics_of(question.options)
    if points.empty:
        return question.nothing("learning_curves", Nothing.NOTHING_LOGGED, stage, metric=metrics[0], x=question.x)
    logged = list(map(str, points.drop(columns=FIXED, errors="ignore").dropna(axis=1, how="all")))
    for metric in metrics:
        option = "metric" if question.options.get("metric") == metric else "metrics"
        check_metric(metric, f"analysis.curves.{option}", question, logged)
    part = question.workload.chain.stages[question.workload.chain.names.index(stage)]
    until = part.until if part.points is not None else ""
    depends, idle = keys_of(question, question.x)
    keys = [name for name in depends if name != until]
    rows = question.rows[[*IDENTITY, "status", *keys]]
    curves = {metric: learned(rows, points, keys, metric, question) for metric in metrics}
    silent = sum(one.silent for some in curves.values() for one in some)
    explored: list[Callable[[], dict[str, Any]]] = [
        partial(explored_curves, some, keys, metric, question)
        for metric, some in curves.items()
        if any(len(one.x) for one in some)
    ]
    return question.finding(
        "learning_curves",
        [setting_row(one, metric) for metric in metrics for one in curves[metric]],
        [*keys, "metric"],
        metric=metrics[0],
        facts={"stage": stage, "until": until if until in depends else ""} | ({"silent": silent} if silent else {}),
        tables={f"{question.name}_{metric}": points_table(curves[metric], question.x) for metric in metrics},
        plots=lambda: [plot for metric in metrics for plot in plots_of(curves[metric], keys, metric, question)],
        explored=explored,
        idle=idle,
    )


def learned(rows: pd.DataFrame, points: pd.DataFrame, keys: list[str], metric: str, question: Question) -> list[Curve]:
    """The mean curve of each setting, in the order in which figures show them.

    Rows of one setting and one seed share the stage, and the longest of their curves is taken. It is ok if one of the
    rows that have it is ok: the others differ only in later stages.
    """
    lengths = points.groupby(IDENTITY, sort=False)[STEP].max().rename("_length").reset_index()
    order = rows.assign(_bad=rows["status"] != OK).merge(lengths, on=IDENTITY, how="left")
    order = order.sort_values(["_length", "_bad"], ascending=[False, True], kind="stable")
    chosen = order.drop_duplicates([*keys, "seed"]).drop(columns=["_bad", "_length"]).assign(_all=0.0)
    chosen = chosen.assign(_lost=among_lost(chosen, "_all", [*keys, "_all"]))
    logged = points[[*IDENTITY, STEP, metric]].rename(columns={metric: VALUE})  # it may have the name of a key
    table = logged.merge(chosen, on=IDENTITY, how="right")  # a setting without values is one too
    if question.x != STEP:
        table[STEP] = (table[STEP] / table.groupby(IDENTITY)[STEP].transform("max")).round(12)
    parts = groups(table, [*keys[1:], *keys[:1]])
    return [curve_of({key: where[key] for key in keys}, part, question.level) for where, part in parts]


def curve_of(where: Where, part: pd.DataFrame, level: float) -> Curve:
    """The curve of one setting. part: its points, with seed, status and `_lost`."""
    there = part[STEP].notna() & (part[VALUE].notna() | (part["status"] != OK))
    draws = {
        int(str(seed)): (str(draw["status"].iloc[0]), draw[STEP].to_numpy(float), draw[VALUE].to_numpy(float))
        for seed, draw in part[there].groupby("seed")
    }
    good = {seed: (x, values_of) for seed, (status, x, values_of) in draws.items() if status == OK}
    x, stacked = aligned(list(good.values()))
    mean, low, high = mean_band(stacked, level) if len(x) else (x, x, x)
    left_out = [draw for draw in draws.values() if draw[0] != OK]
    silent = not good and bool((part["status"] == OK).any())
    return Curve(where, x, mean, low, high, list(good), stacked, left_out, silent, bool(part["_lost"].iloc[0]))


def setting_row(one: Curve, metric: str) -> dict[str, Any]:
    """Where the curve of one setting ends; undecided without a value of an ok draw, and where most draws are lost."""
    there = bool(len(one.x))
    measured = there and not one.lost
    return {
        **one.where,
        "metric": metric,
        "outcome": Outcome.MEASURED if measured else Outcome.UNDECIDED,
        **({"estimate": one.mean[-1], "low": one.low[-1], "high": one.high[-1]} if there else {}),
        **({} if measured or one.silent else takes(Needed.OK_ROWS)),
        "first_mean": one.mean[0] if there else np.nan,
        "draws": len(one.seeds),
        "left_out": len(one.left_out),
    }


def points_table(curves: Sequence[Curve], x: str) -> pd.DataFrame:
    """One row per setting and x: the mean over ok draws, its band, the number of draws."""
    parts = []
    for one in curves:
        band = {x: one.x, "mean": one.mean, "low": one.low, "high": one.high}
        parts.append(pd.DataFrame({**one.where, **band, "draws": len(one.seeds), "draws_left_out": len(one.left_out)}))
    return pd.concat(parts, ignore_index=True)


def plots_of(curves: Sequence[Curve], keys: list[str], metric: str, question: Question) -> list[LearningPlot]:
    """The figure of a metric; empty if no setting has a point."""
    visible = [one for one in curves if len(one.x) or one.left_out]
    every = np.unique(np.concatenate([x for one in visible for x in (one.x, *(x for _, x, _ in one.left_out))]))
    if not len(every):
        return []
    scale = question.options.get("scale")
    log = log_axis(every[every > 0], True) if scale == "log" else log_axis(every, False if scale else None)
    parts = [(one.where, one) for one in visible]
    panels = laid_out(parts, keys[:1], keys[1:], lambda where, one: replace(one, where=where))
    steps, share = str(question.options.get("called") or ""), question.x != STEP
    name = f"{question.name}_{metric}"
    return [LearningPlot(name, panels, metric, stage_of(question), steps, share, log, len(visible))]


def explored_curves(curves: Sequence[Curve], keys: Sequence[str], metric: str, question: Question) -> dict[str, Any]:
    made = [one for one in curves if len(one.x)]
    numbers = [key for key in keys if not question.workload.by_name[key].categorical]
    steps = question.options.get("called") or ("step" if question.x == STEP else "share of the steps")
    settings = []
    for one in made:
        kept = np.array(spread(range(len(one.x)), POINTS))
        means = plain_means(*(each[kept] for each in (one.x, one.mean, one.low, one.high)))
        x, seeds = np.tile(means.x, len(one.seeds)), np.repeat(one.seeds, len(kept))
        drawn = curve(means, x, one.stacked[:, kept].ravel(), seeds, np.empty(0))
        settings.append({"values": list(one.where.values()), "row": None, **drawn, "theory": [0, []]})
    return {
        "metric": metric,
        "x": steps,
        "log": log_axis(np.unique(np.concatenate([one.x for one in made]))),
        "linear_width": asinh_width(np.concatenate([one.stacked.ravel() for one in made])),
        "categories": [],
        "keys": [{"name": key, "number": key in numbers, "log": False} for key in keys],
        "grids": [[]],
        "settings": settings,
    }


ANALYSIS = Analysis(
    kind="learning_curves",
    question="Which {metric} does training reach?",
    run=run,
    required={"x": allowed.training_x},
    optional={**OPTIONS, "scale": allowed.scale, "called": allowed.called},
    columns=("draws", "draws_left_out", "first_mean", "left_out", "mean", "metric", "share", "step"),
    logged=True,
    check=check_logged,
)
