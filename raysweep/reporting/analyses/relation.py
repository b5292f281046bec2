"""The relation analysis: does one metric predict another?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.question import Question
from raysweep.analyses.rows import groups, heavy_rows, means_table, parameters_of
from raysweep.fits import rank
from raysweep.fits.statistics import LEVEL, half_width, t_quantile
from raysweep.phrases import counted
from raysweep.report.figures.relation import Cloud, relation_figure
from raysweep.report.names import BARS, plain, settings
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

NAMED = 2  # so few axes are named that tell groups apart
STRONG, WEAK = 0.9, 0.5  # |rank correlation| above which x predicts y, and below which x only weakly predicts y

OVER_DRAWS = (
    "Spearman's rank correlation over cells is found in each draw on its own, and the interval is Student's t over "
    "draws: it holds for the mean rank correlation of a draw on these cells. The cells are the design and no sample: a "
    "different grid would give a different number."
)
OVER_CELLS = (
    "Spearman's rank correlation over cells is that of their means over draws. The interval is for other cells drawn "
    "like these (Bonett and Wright's, with Student's t): cells are the sample, and more draws do not make it shorter. "
    "Noise of the draws that is left in the means brings the correlation nearer to 0."
)


@dataclass(frozen=True)
class Rank:
    """Spearman's rank correlation over the cells of a draw, its mean over draws; or that of the cells' means.

    low, high: an interval over draws, or over cells.
    cells: the largest number of cells in a draw.
    note: why there is no result.
    """

    rank_correlation: float
    low: float
    high: float
    draws: int
    cells: int
    note: str = ""


def relation_section(asked: Question) -> Section:
    """Figure and tables of one `relation` entry."""
    import pandas as pd

    x, y, frame, workload = asked.x, asked.options["y"], asked.rows, asked.workload
    by = asked.by + [name for name in asked.design.between() if name not in asked.by and frame[name].nunique() > 1]
    good = frame[frame["status"] == "ok"]
    missing = good[x].isna() | ~np.isfinite(good[y].astype(float))
    good = good[~missing]
    title = f"Relation: does {x} predict {y}?"
    if not len(good):
        return Section(title, f"no row has both {x} and {y}")
    keys = [key for key in parameters_of(good, workload) if good[key].nunique(dropna=False) > 1]
    good = good.assign(_cell=good.groupby(keys, dropna=False).ngroup() if keys else 0)
    by_cells = asked.options.get("sample") == "cells"
    estimate = rank_of_means if by_cells else rank_correlation
    overall = estimate(good, x, y)
    parts = [(values, settings(by, values, workload), rows) for values, rows in groups(good, by)]
    ranks = [(label, estimate(rows, x, y)) for _, label, rows in parts] if by else []
    clouds = [cloud(rows, x, y, values, label, workload) for values, label, rows in parts]
    medians = " (medians, open, where draws have no variance)" if any(one.median.any() for one in clouds) else ""
    caption = f"Each point is a cell: {y} against {x}, means over draws, with their {BARS}s{medians}."
    caption += " Infinite values stand apart at the right." if np.isinf(good[x]).any() else ""
    listed = [{"group": label, **vars(one)} for label, one in [("all", overall), *ranks]]
    tables = {f"{asked.name}_ranks": pd.DataFrame(listed)}
    if keys:
        x_means, y_means = (means_table(good, keys, metric, workload) for metric in (x, y))
        tables[f"{asked.name}_cells"] = y_means.merge(x_means, on=keys, how="left", suffixes=(f"_{y}", f"_{x}"))
    inside = sorted(one.rank_correlation for _, one in ranks if np.isfinite(one.rank_correlation))
    over = f"95 % over {counted(overall.cells, 'cell') if by_cells else counted(overall.draws, 'draw')}"
    shown = np.isfinite(overall.low)
    headline = f"{x} {verdict(overall)} {y}: rank correlation {written(overall)}"
    detail = [over] if shown else []
    if inside:
        span = " to ".join(dict.fromkeys(f"{end:+.2f}" for end in (inside[0], inside[-1])))
        within = f"each {' and '.join(map(plain, by))}" if len(by) <= NAMED else counted(len(inside), "group")
        detail = [", ".join(["over all cells", *detail]), f"{x} within {within} {span}"]
    return Section(
        title,
        headline,
        paragraphs(good, x, int(missing.sum()), bool(by), by_cells),
        [Drawing(asked.name, caption, relation_figure(clouds, x, y, workload))],
        [row_of(label, one) for label, one in [("all cells together", overall), *ranks]],
        tables,
        undecided=still_open(overall, x, y, by_cells),
        detail="; ".join(detail),
    )


def still_open(one: Rank, x: str, y: str, by_cells: bool) -> str:
    """What is open and what deciding it would take, in words; empty if the interval has one sign."""
    if not one.low <= 0 <= one.high:
        return ""
    more = counted(one.cells, "cell") if by_cells else counted(one.draws, "seed")
    return f"whether {y} rises or falls with {x} (deciding it takes more than {more})"


def rank_correlation(rows: pd.DataFrame, x: str, y: str) -> Rank:
    """Estimate Spearman's correlation between x and y over the cells of a draw, with a Student's t interval over draws.

    rows: one row per (_cell, seed). Infinite values get the highest (lowest) rank and are ties.

    The interval is for the expected rank correlation of one draw on these cells. It is cut at -1 and 1. A draw is not
    used if it has fewer than 3 cells, or fewer than two different values of x or of y.
    """
    from scipy.stats import spearmanr

    found, cells = [], 0
    for _, draw in rows.groupby("seed"):
        mean = draw.groupby("_cell")[[x, y]].mean()  # a repeated cell counts once
        cells = max(cells, len(mean))
        if len(mean) >= 3 and mean[x].nunique() > 1 and mean[y].nunique() > 1:
            found.append(float(spearmanr(mean[x], mean[y]).statistic))
    values = np.array(found)
    if not len(values):
        why = "fewer than 3 cells" if cells < 3 else f"{x if rows[x].nunique() < 2 else y} does not vary"
        return Rank(np.nan, np.nan, np.nan, 0, cells, why)
    mean = float(values.mean())
    if len(values) < 2:
        return Rank(mean, np.nan, np.nan, 1, cells, "a single draw has no interval")
    half = t_quantile(LEVEL, len(values) - 1) * float(values.std(ddof=1)) / np.sqrt(len(values))
    return Rank(mean, max(mean - half, -1.0), min(mean + half, 1.0), len(values), cells)


def rank_of_means(rows: pd.DataFrame, x: str, y: str) -> Rank:
    """Spearman's correlation between the means of x and y over draws, with an interval over cells (`fits.rank`).

    rows: one row per (_cell, seed).
    """
    means = rows.groupby("_cell")[[x, y]].mean()
    draws = int(rows["seed"].nunique())
    found, low, high = rank.over_units(means[x].to_numpy(float), means[y].to_numpy(float))
    if not np.isfinite(found):
        why = "fewer than 3 cells" if len(means) < 3 else f"{x if means[x].nunique() < 2 else y} does not vary"
        return Rank(np.nan, np.nan, np.nan, draws, len(means), why)
    few = "" if np.isfinite(low) else f"fewer than {rank.FEWEST} cells"
    return Rank(found, low, high, draws, len(means), few)


def cloud(rows: pd.DataFrame, x: str, y: str, values: tuple[Any, ...], label: str, workload: Workload) -> Cloud:
    """One group of cells as points with error bars."""
    rows = rows.assign(_heavy=heavy_rows(rows, y, workload))
    grouped = rows.groupby("_cell")
    heavy = grouped["_heavy"].any().to_numpy()
    middle, spread = [], []
    for metric in (x, y):
        mean, error = grouped[metric].mean().to_numpy(float), grouped[metric].sem().to_numpy(float)
        error = half_width(LEVEL, error, grouped[metric].count().to_numpy())
        if metric == y:
            mean = np.where(heavy, grouped[metric].median().to_numpy(float), mean)
            error = np.where(heavy, 0.0, error)
        middle.append(mean)
        spread.append(np.nan_to_num(error))
    return Cloud(values[0] if len(values) == 1 else label, label, middle[0], middle[1], spread[0], spread[1], heavy)


def written(found: Rank) -> str:
    """A rank correlation with its interval, as text."""
    if not np.isfinite(found.rank_correlation):
        return f"none ({found.note})"
    if not np.isfinite(found.low):
        return f"{found.rank_correlation:+.2f} ({'one draw' if found.draws == 1 else found.note})"
    return f"{found.rank_correlation:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"


def row_of(label: str, found: Rank) -> dict[str, str]:
    """One group as a row of formatted text."""
    return {
        "cells of": label,
        "rank correlation [95 %]": written(found),
        "draws": str(found.draws),
        "cells": str(found.cells),
    }


def verdict(found: Rank) -> str:
    """Whether x predicts y by the rank correlation and its interval, in words."""
    if not np.isfinite(found.rank_correlation):
        return "cannot be held against"
    if not np.isfinite(found.low):
        return "is, without an interval, beside" if found.note.startswith("fewer") else "is, in a single draw, beside"
    if found.low <= 0 <= found.high:
        return "is not shown to predict"
    if abs(found.rank_correlation) >= STRONG:
        return "predicts"
    return "partly predicts" if abs(found.rank_correlation) >= WEAK else "only weakly predicts"


def paragraphs(good: pd.DataFrame, x: str, missing: int, grouped: bool, by_cells: bool) -> list[str]:
    """The paragraphs on the method and on values that were left out or treated specially.

    by_cells: whether intervals are over cells.
    """
    text = [OVER_CELLS if by_cells else OVER_DRAWS]
    if grouped:
        text[0] += (
            " Within a group only the other axes vary; a metric that orders the cells of every group but not all cells "
            "together predicts only with the group known."
        )
    infinite = int(np.isinf(good[x].astype(float)).sum())
    if infinite:
        text.append(
            f"{x} is infinite in {infinite:,} of {counted(len(good), 'row')}: these rank beyond all others, tied."
        )
    if missing:
        text.append(f"{counted(missing, 'ok row')} without a value of both metrics left out.")
    return text
