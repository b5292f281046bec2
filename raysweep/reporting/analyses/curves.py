"""The curves analysis: means with error bars over an axis, and the closed form as a line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from raysweep.analyses.question import Question
from raysweep.analyses.rows import bounds_of, means_table, places_on, signs_of
from raysweep.analyses.series import by_panel, series_panels
from raysweep.fits.statistics import LEVEL
from raysweep.numbers import number
from raysweep.phrases import counted, some_of
from raysweep.report.figures.lines import curves_figure, points_in_words
from raysweep.report.names import amount, mean_of, plain, setting, settings, unit_of
from raysweep.reporting.analyses.beside import Held, held_against, held_against_zero
from raysweep.reporting.analyses.explored import explored
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

EACH, FEW = 6, 4  # of so few curves each is said, and of so few groups of them before all else


def curves_section(asked: Question) -> Section:
    """Figures and tables of one `curves` entry."""
    beside = str(asked.options.get("beside") or "")
    asked = asked if beside or asked.lines else asked.with_signs_in_words()
    x, metrics, workload, frame = asked.x, metrics_of(asked.options), asked.workload, asked.rows
    keys = asked.keys(x)
    places, at, categories = places_on(frame, x, workload, asked.design)
    parts = by_panel(places, keys)
    varied = [key for key in [*keys, x] if frame[key].nunique(dropna=False) > 1] or [x]
    drawings, tables = [], {}
    found: list[tuple[str, str]] = []
    notes: list[str] = []
    for metric in metrics:
        name = f"{asked.name}_{metric}"
        tables[name] = means_table(frame, [*keys, x], metric, workload)
        panels = series_panels(parts, keys, at, metric, workload, beside=beside)
        if panels:
            caption = f"{metric} against {plain(x)}: {points_in_words(panels)}."
            shown, every = sum(len(panel.lines) for panel in panels), len(parts)
            caption += f" {shown} of {every} lines are shown; the table has all." if shown < every else ""
            figure, said = curves_figure(panels, x, metric, workload, categories, beside=beside, constants=asked.lines)
            drawings.append(Drawing(name, f"{caption} {said}".strip(), figure))
        span, where, left_out = ends(tables[name], varied, metric, workload, "" if categories else x)
        found += [(span, where)] if span else []
        if left_out:
            notes.append(
                f"Draws of {metric} have no variance in {counted(left_out, 'cell')}: means there mean nothing, the "
                "figure shows medians, and none of them can be the best."
            )
    if beside:
        tables[f"{asked.name}_{beside}"] = means_table(frame, [*keys, x], beside, workload)
    if frame[x].nunique() > 1 and keys and not frame.groupby(keys, dropna=False)[x].nunique().gt(1).any():
        notes.append(
            f"No two cells differ in {plain(x)} alone, so no points are joined: rows differ in "
            f"{', '.join(map(plain, keys))} too."
        )
    whole = ["; ".join(filter(None, both)) for both in found]
    level = [f"{100 * LEVEL:g} %"] * any("[" in text for text in whole)
    held = compared(asked, metrics, varied, beside)
    if held:
        further = [f"{one.words}; {one.detail}." for one in held[1:]]
        notes = [*further, *([f"{'; '.join([*whole, *level])}."] if whole else []), *notes]
    headline = found[0][0] if found else f"no usable rows for {', '.join(metrics)}"
    detail = "; ".join(filter(None, [found[0][1], *whole[1:], *level])) if found else ""
    if held:
        headline, detail = held[0].words, held[0].detail
    return Section(
        f"Curves: {', '.join(metrics)} over {plain(x)}",
        headline,
        notes,
        drawings,
        [],
        tables,
        detail=detail,
        undecided=held[0].undecided if held else "",
        means_only=not held,
        explored=[partial(explored, asked, frame, metric, keys) for metric in metrics],
    )


def compared(asked: Question, metrics: list[str], keys: list[str], beside: str) -> list[Held]:
    """What the cells say of each metric against what is drawn beside it, another metric or else named constants, or
    against 0 if its signs mean something; empty if nothing can be tested."""
    known = []
    against = partial(held_against, asked.rows, keys, workload=asked.workload, level=asked.level, words=asked.words)
    for metric in metrics:
        if beside:
            known.append(against(metric, beside))
        elif asked.lines:
            for name, value in asked.lines.items():
                known.append(against(metric, f"{name} ({number(value)})", constant=value))
        elif all(signs := signs_of(metric, asked.workload)):
            known.append(held_against_zero(asked.rows, keys, metric, signs, asked.workload, asked.level))
    return [held for held in known if held]


def ends(table: pd.DataFrame, keys: list[str], metric: str, workload: Workload, x: str = "") -> tuple[str, str, int]:
    """(the smallest and the largest mean in words, where they are, how many cells were left out because their draws
    have no variance).

    Of several but few curves over x (one of the keys) the means at its last value are said, each with its setting,
    beside the range of all; first if they are very few.
    """
    if not len(table) or not table["mean"].notna().any():
        return "", "", 0
    heavy = table["no_variance"].to_numpy(bool)
    usable, left_out = table[~heavy & table["mean"].notna()], int(heavy.sum())
    if not len(usable):
        return f"no cell has draws of {metric} with a variance", "", left_out
    mean, bounds = usable["mean"], bounds_of(metric, workload)
    if mean.min() == mean.max():
        cells = some_of(len(usable), len(usable), "cell")
        return f"{metric} is {mean_of(usable.iloc[0], bounds)} in {cells}", "", left_out
    last = at_the_end(usable, keys, workload, x, bounds)
    ends = []
    for word, end in (("lowest", mean.min()), ("highest", mean.max())):
        row, tied = usable[mean == end].iloc[0], int((mean == end).sum()) - 1
        where = ", ".join(setting(key, row[key], workload) for key in keys)
        more = f" and {counted(tied, 'more cell')}" if tied else ""
        if not last or not last.low <= end <= last.high:
            ends.append(f"{word} {mean_of(row, bounds)} at {where}{more}")
    span = f"{metric} is {' to '.join(dict.fromkeys((number(mean.min(), 3), number(mean.max(), 3))))}"
    if last and len(last.each) <= FEW:
        return f"{metric} at {last.at} is {', '.join(last.each)}", "; ".join(ends), left_out
    return span, "; ".join([*([f"at {last.at} {', '.join(last.each)}"] if last else []), *ends]), left_out


@dataclass(frozen=True)
class Last:
    """The means of curves at the last x.

    at: this x, in words; low, high: their range; each: each with its setting, and those that are alike as one.
    """

    at: str
    low: float
    high: float
    each: list[str]


def at_the_end(
    table: pd.DataFrame, keys: list[str], workload: Workload, x: str, bounds: tuple[float, float]
) -> Last | None:
    """The means at the last x of a few curves that all have this x; None of one or of many curves, and without an x of
    numbers. bounds: between which values a mean lies."""
    others = [key for key in keys if key != x]
    lines = len(table[others].drop_duplicates()) if others else 1
    varied = [key for key in others if table[key].nunique(dropna=False) > 1]
    if x not in keys or table[x].nunique() < 2 or not 1 < lines <= EACH:
        return None
    last = table[table[x] == table[x].max()]
    if len(last) < lines:
        return None
    at = f"{plain(x)} {amount(last[x].iloc[0], unit_of(x, workload))}"
    each = [
        (mean_of(row, bounds), settings(varied, row[varied], workload))
        for _, row in last.sort_values(varied).iterrows()
    ]
    (most, count), *_ = Counter(mean for mean, _ in each).most_common(1)
    shared = count if count > 1 else 0
    said = [f"{mean} ({where})" for mean, where in each if not shared or mean != most]
    said += [f"{most} in {f'the other {shared}' if said else f'all {shared} settings'}"] if shared else []
    return Last(at, float(last["mean"].min()), float(last["mean"].max()), said)
