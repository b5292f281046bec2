"""The analysis `relation`: does one metric predict another? Spearman's rank correlation over cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.analyses.counts import Way
from raysweep.analyses.finding import Finding, Needed, Nothing, Outcome, Plot
from raysweep.analyses.outcomes import side, takes
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import MEANS, Where, groups, heavy_rows, means_table, parameters_of, varying
from raysweep.fits import correlation
from raysweep.fits.reasons import Reason, because
from raysweep.fits.statistics import LEVEL, half_width, t_quantile
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.space import checks
from raysweep.workloads.declaration import Workload

FEWEST = 3
"""Cells of a draw below which it has no rank correlation; those of a third of them below which none has a turn."""
ORDERED = 0.5
"""The size of a rank correlation from which on a turn is no matter."""
Rank = dict[str, Any]
"""A rank correlation as a row of the table, see `ranked`."""


@dataclass(frozen=True, eq=False)
class Cloud:
    """The cells of one group: centres, half the widths of their intervals, and whether a centre is a median, which it
    is if draws have no variance. where: the values that all have in common."""

    where: Where
    x: np.ndarray
    y: np.ndarray
    x_error: np.ndarray
    y_error: np.ndarray
    median: np.ndarray


@dataclass(frozen=True, eq=False)
class RelationPlot(Plot):
    """One metric over another, a cloud per group."""

    x: str
    y: str
    clouds: list[Cloud]


def run(question: Question) -> Finding:
    """One setting per group of cells (option `by`); of several, the correlation over all cells is a fact."""
    x, y, frame, workload = question.x, str(question.options["y"]), question.rows, question.workload
    by = question.by + [key for key in question.design.between() if key not in question.by and frame[key].nunique() > 1]
    ok = frame[frame["status"] == "ok"]
    good = ok[ok[x].notna() & np.isfinite(ok[y].astype(float))]
    if not len(good):
        return question.nothing("relation", Nothing.NO_PAIR, f"{x}, {y}")
    keys = varying(parameters_of(good, workload), good)
    good = good.assign(_cell=good.groupby(keys, dropna=False).ngroup() if keys else 0)
    by_cells = question.options.get("sample") == "cells"
    estimate = rank_of_means if by_cells else rank_correlation
    parts = list(groups(good, by))
    overall, ranks = estimate(good, x, y), [(where, estimate(rows, x, y)) for where, rows in parts]
    turns = ["" if by_cells else turn(rows, x, y) for _, rows in parts]
    every: list[tuple[Where, Rank]] = [(dict.fromkeys(by), overall), *(ranks if by else ())]
    tables = {f"{question.name}_ranks": pd.DataFrame([{**where, **one} for where, one in every])}
    if keys:
        x_means, y_means = (means_table(good, keys, metric, workload) for metric in (x, y))
        tables[f"{question.name}_cells"] = y_means.merge(x_means, on=keys, how="left", suffixes=(f"_{y}", f"_{x}"))
    facts: dict[str, Any] = {"y": y, "sample": "cells" if by_cells else "draws"}
    facts |= {"rows": len(good), "without_value": len(ok) - len(good), "infinite": int(np.isinf(good[x]).sum())}
    return question.finding(
        "relation",
        [{**where, **setting(one, by_cells, way)} for (where, one), way in zip(ranks, turns, strict=True)],
        by,
        metric=y,
        facts={**facts, **({"overall": overall} if by else {})},
        tables=tables,
        plots=lambda: [RelationPlot(question.name, x, y, [cloud(rows, x, y, w, workload) for w, rows in parts])],
    )


def setting(one: Rank, by_cells: bool, way: str) -> dict[str, Any]:
    """The row of one group. by_cells: whether intervals are over cells. way: that of `turn`."""
    row = {name: one[name] for name in ("low", "high", "reason", "draws", "cells")}
    row["estimate"] = one["rank_correlation"]
    outcome = side(row["low"], row["high"])
    if outcome == Outcome.UNDECIDED and np.isfinite(row["estimate"]):
        outcome = Outcome.MEASURED
    if way and abs(row["estimate"]) < ORDERED:
        return {**row, "outcome": Outcome.TURNS, "way": way}
    if outcome not in (Outcome.RISES, Outcome.FALLS) and row["reason"] != Reason.NO_VARIATION:
        of_cells = by_cells or row["reason"] == Reason.TOO_FEW_CELLS
        row |= takes(Needed.MORE_UNITS, row["cells"]) if of_cells else takes(Needed.MORE_DRAWS, row["draws"])
    return {**row, "outcome": outcome}


def turn(rows: pd.DataFrame, x: str, y: str) -> Way | str:
    """Whether y is lower, or higher, in the middle third of the cells along x than in both others, each difference told
    from 0 by Student's t over draws; empty if not."""
    cells = rows.groupby("_cell")[x].mean().sort_values()
    third = pd.Series(3 * np.arange(len(cells)) // len(cells), index=cells.index)
    means = rows.groupby(["seed", rows["_cell"].map(third)])[y].mean().unstack().dropna()
    if len(cells) < 3 * FEWEST or len(means) < 2:
        return ""
    higher = means[[0, 2]].sub(means[1], axis=0)
    half = t_quantile(LEVEL, len(means) - 1) * higher.sem()
    above, below = (higher.mean() > half).all(), (higher.mean() < -half).all()
    return Way.LOWEST if above else Way.HIGHEST if below else ""


def ranked(value: float, low: float, high: float, draws: int, cells: int, why: Reason = Reason.NONE, **n: int) -> Rank:
    """A rank correlation with its interval. cells: the most of a draw. why: there is no result, or no interval."""
    row = {"rank_correlation": value, "low": low, "high": high, "draws": draws, "cells": cells}
    return {**row, **because(why, **n)}


def rank_correlation(rows: pd.DataFrame, x: str, y: str) -> Rank:
    """Spearman's correlation between x and y over the cells of a draw, with a Student's t interval over draws.

    The interval is for the expected rank correlation of one draw on these cells. It is cut at -1 and 1. A draw is not
    used if it has fewer than 3 cells, or fewer than two different values of x or of y. Infinite values are ties.
    """
    from scipy.stats import spearmanr

    each, cells = [], 0
    for _, draw in rows.groupby("seed"):
        mean = draw.groupby("_cell")[[x, y]].mean()  # a repeated cell counts once
        cells = max(cells, len(mean))
        if len(mean) >= FEWEST and mean[x].nunique() > 1 and mean[y].nunique() > 1:
            each.append(float(spearmanr(mean[x], mean[y]).statistic))
    if len(each) < 2:
        return ranked(each[0], np.nan, np.nan, 1, cells, Reason.SINGLE_DRAW) if each else without_result(0, cells)
    mean = float(np.mean(each))
    half = t_quantile(LEVEL, len(each) - 1) * float(np.std(each, ddof=1)) / np.sqrt(len(each))
    return ranked(mean, max(mean - half, -1.0), min(mean + half, 1.0), len(each), cells)


def rank_of_means(rows: pd.DataFrame, x: str, y: str) -> Rank:
    """Spearman's correlation between the means of x and y over draws, with an interval over cells (`of_ranks`)."""
    means = rows.groupby("_cell")[[x, y]].mean()
    draws = int(rows["seed"].nunique())
    estimate, low, high = correlation.of_ranks(means[x].to_numpy(float), means[y].to_numpy(float))
    if not np.isfinite(estimate):
        return without_result(draws, len(means))
    why = Reason.NONE if np.isfinite(low) else Reason.TOO_FEW_CELLS
    return ranked(estimate, low, high, draws, len(means), why, least=correlation.FEWEST_RANKED)


def without_result(draws: int, cells: int) -> Rank:
    """A group whose cells are too few, or of which one metric does not vary."""
    reason = Reason.TOO_FEW_CELLS if cells < FEWEST else Reason.NO_VARIATION
    return ranked(np.nan, np.nan, np.nan, draws, cells, reason, least=FEWEST)


def cloud(rows: pd.DataFrame, x: str, y: str, where: Where, workload: Workload) -> Cloud:
    """The cells of one group as points with error bars."""
    grouped = rows.assign(_heavy=heavy_rows(rows, y, workload)).groupby("_cell")
    heavy, means, sizes = grouped["_heavy"].any().to_numpy(), grouped[[x, y]].mean(), grouped[[x, y]].count()
    errors = [np.nan_to_num(half_width(LEVEL, grouped[one].sem().to_numpy(float), sizes[one])) for one in (x, y)]
    middle = np.where(heavy, grouped[y].median(), means[y])
    return Cloud(where, means[x].to_numpy(float), middle, errors[0], np.where(heavy, 0.0, errors[1]), heavy)


ANALYSIS = Analysis(
    kind="relation",
    question="Does {x} predict {y}?",
    run=run,
    required={"x": checks.metric, "y": checks.metric},
    optional={"by": allowed.axes, "sample": allowed.sample},
    columns=(*MEANS, "cells", "note", "rank_correlation"),
)
