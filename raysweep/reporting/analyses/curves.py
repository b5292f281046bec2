"""The curves analysis: means with error bars over an axis, and the closed form as a line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from raysweep.fits.statistics import LEVEL
from raysweep.phrases import counted, some_of
from raysweep.reporting.analyses.beside import Held, held_against, held_against_zero
from raysweep.reporting.analyses.explored import explored
from raysweep.reporting.analyses.section import Drawing, Question, Section
from raysweep.reporting.analyses.series import by_panel, series_panels
from raysweep.reporting.figures.lines import curves_figure, points_in_words
from raysweep.reporting.selection import means_table, places_on, signs_of
from raysweep.reporting.words import amount, mean_of, number, plain, setting, settings, unit_of
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

EACH = 6  # of so few curves each is said


def curves_section(asked: Question) -> Section:
    """Figures and tables of one `curves` entry."""
    x, metrics, workload, frame = asked.x, metrics_of(asked.options), asked.workload, asked.rows
    keys, beside = asked.keys(x), str(asked.options.get("beside") or "")
    places, at, categories = places_on(frame, x, workload, asked.design)
    parts = by_panel(places, keys)
    varied = [key for key in [*keys, x] if frame[key].nunique(dropna=False) > 1] or [x]
    drawings, tables = [], {}
    found: list[tuple[str, str]] = []
    notes: list[str] = []
    for metric in metrics:
        name = f"{asked.name}_{metric}"
        tables[name] = means_table(frame, [*keys, x], metric, workload)
        panels = series_panels(parts, keys[:1], keys[1:], at, metric, workload, beside=beside)
        if panels:
            caption = f"{metric} against {plain(x)}: {points_in_words(panels)}."
            shown, every = sum(len(lines) for _, lines in panels), len(parts)
            caption += f" {shown} of {every} lines are shown; the table has all." if shown < every else ""
            figure, said = curves_figure(panels, x, metric, workload, categories, beside=beside)
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
    """What the cells say of each metric against the one that is drawn beside it, or against 0 if its signs mean
    something; empty if nothing can be tested."""
    known = []
    for metric in metrics:
        if beside:
            known.append(held_against(asked.rows, keys, metric, beside, asked.workload, asked.level))
        elif all(signs := signs_of(metric, asked.workload)):
            known.append(held_against_zero(asked.rows, keys, metric, signs, asked.workload, asked.level))
    return [held for held in known if held]


def ends(table: pd.DataFrame, keys: list[str], metric: str, workload: Workload, x: str = "") -> tuple[str, str, int]:
    """(the smallest and the largest mean in words, where they are, how many cells were left out because their draws
    have no variance).

    Of several but few curves over x (one of the keys) the means at its last value are said, each with its setting,
    before a mean that is lower or higher than all of these.
    """
    if not len(table) or not table["mean"].notna().any():
        return "", "", 0
    heavy = table["no_variance"].to_numpy(bool)
    usable, left_out = table[~heavy & table["mean"].notna()], int(heavy.sum())
    if not len(usable):
        return f"{metric}: no cell whose draws have a variance", "", left_out
    mean = usable["mean"]
    if mean.min() == mean.max():
        cells = some_of(len(usable), len(usable), "cell")
        return f"{metric} is {mean_of(usable.iloc[0])} in {cells}", "", left_out
    last = at_the_end(usable, keys, workload, x)
    said = [last.each] if last else []
    for word, end in (("lowest", mean.min()), ("highest", mean.max())):
        if last and last.low <= end <= last.high:
            continue
        row, tied = usable[mean == end].iloc[0], int((mean == end).sum()) - 1
        where = ", ".join(setting(key, row[key], workload) for key in keys)
        more = f" and {counted(tied, 'more cell')}" if tied else ""
        said.append(f"{word} {mean_of(row)} at {where}{more}")
    low, high, at = (last.low, last.high, f" at {last.at}") if last else (mean.min(), mean.max(), "")
    span = " to ".join(dict.fromkeys((number(low, 3), number(high, 3))))
    return f"{metric} is {span}{at}", "; ".join(said), left_out


@dataclass(frozen=True)
class Last:
    """The means of curves at the last x. at: this x, in words; low, high: their range; each: each with its setting."""

    at: str
    low: float
    high: float
    each: str


def at_the_end(table: pd.DataFrame, keys: list[str], workload: Workload, x: str) -> Last | None:
    """The means at the last x of a few curves that all have this x; None of one or of many curves, and without an x of
    numbers."""
    others = [key for key in keys if key != x]
    lines = len(table[others].drop_duplicates()) if others else 1
    varied = [key for key in others if table[key].nunique(dropna=False) > 1]
    if x not in keys or table[x].nunique() < 2 or not 1 < lines <= EACH:
        return None
    last = table[table[x] == table[x].max()]
    if len(last) < lines:
        return None
    at = f"{plain(x)} {amount(last[x].iloc[0], unit_of(x, workload))}"
    each = [(mean_of(row), settings(varied, row[varied], workload)) for _, row in last.sort_values(varied).iterrows()]
    (most, count), *_ = Counter(mean for mean, _ in each).most_common(1)
    shared = count if 1 < count < lines else 0
    said = [f"{mean} ({where})" for mean, where in each if not shared or mean != most]
    said += [f"{most} in the other {shared}"] if shared else []
    return Last(at, float(last["mean"].min()), float(last["mean"].max()), ", ".join(said))
