"""The relation analysis: does one metric predict another?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from raysweep.analyses.kinds.relation import Rank, cloud, rank_correlation, rank_of_means
from raysweep.analyses.question import Question
from raysweep.analyses.rows import groups, means_table, parameters_of
from raysweep.phrases import counted
from raysweep.report.figures.relation import relation_figure
from raysweep.report.names import BARS, plain, settings
from raysweep.reporting.analyses.section import Drawing, Section

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
    clouds = [cloud(rows, x, y, dict(zip(by, values, strict=True)), workload) for values, _, rows in parts]
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
