"""The lines in the figures of sections: means over one axis, with the closed form and the base model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from raysweep.analyses.question import Question
from raysweep.analyses.rows import CellMeans, cell_means, comparable, groups, in_order, spread
from raysweep.fits.result import Status
from raysweep.report.figures.lines import Panel, Place, Series, curves_figure
from raysweep.report.names import settings
from raysweep.reporting.analyses.closed_form import closed_form, smooth
from raysweep.reporting.analyses.section import Drawing
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

LINES = 8  # the most settings that share a panel although they differ in several keys
Rows = TypeVar("Rows")
Line = TypeVar("Line")
Part = tuple[tuple[Any, ...], "pd.DataFrame"]
"""(values of the keys, rows with these values)."""


def by_panel(frame: pd.DataFrame, keys: Sequence[str]) -> list[Part]:
    """(values of the keys, rows) of each setting, in the order in which figures show them.

    They are sorted by all keys except the first (panels), then by the first key (lines).
    """
    return [((*values[-1:], *values[:-1]), rows) for values, rows in groups(frame, [*keys[1:], *keys[:1]])]


def laid_out(
    parts: Iterable[tuple[tuple[Any, ...], Rows]],
    line_keys: Sequence[str],
    panel_keys: Sequence[str],
    make: Callable[[Any, str, Rows], Line],
    workload: Workload,
    panels: int = 9,
    lines: int = 7,
    located: Callable[[Rows], bool] = lambda rows: True,
) -> list[tuple[str, list[Line]]]:
    """Arrange lines in panels: one panel per setting of the panel keys, with one line per setting of the line keys.

    Returns (title, lines) for each panel. Of too many panels, those are shown that can be compared (see `comparable`);
    of too many lines, an evenly spaced selection, the same settings of the line keys in every panel. A few settings
    that are no grid share one panel (see `in_one_panel`).

    parts: one (values of the line keys and then of the panel keys, rows) for each line.
    make: makes a line from (key, label, rows).
    panels, lines: how many to show at most.
    located: whether something was located in the rows: of too many, those are shown in which something was.
    """
    split = len(line_keys)
    found: dict[tuple[Any, ...], dict[tuple[Any, ...], Rows]] = {}
    for values, rows in parts:
        found.setdefault(tuple(values[split:]), {})[tuple(values[:split])] = rows
    found = dict(sorted(found.items(), key=lambda item: [*map(in_order, item[0])]))
    hits = [{own for own, rows in inside.items() if located(rows)} for inside in found.values()]
    levels = sorted({own for inside in found.values() for own in inside}, key=lambda own: [*map(in_order, own)])
    if len(levels) > lines:
        levels = spread([own for own in levels if any(own in hit for hit in hits)] or levels, lines)
    if few := in_one_panel(found, [*line_keys, *panel_keys], workload):
        return [("", [make(label, label, rows) for label, rows in few])]
    out = []
    chosen = comparable(list(found), panels, {place for place, hit in enumerate(hits) if hit & set(levels)})
    for rest, inside in (item for place, item in enumerate(found.items()) if place in chosen):
        made = []
        for own in (own for own in levels if own in inside):
            label = settings(line_keys, own, workload)
            made.append(make(own[0] if len(own) == 1 else label, label, inside[own]))
        out.append((settings(panel_keys, rest, workload), made))
    return [panel for panel in out if panel[1]]


def in_one_panel(
    found: Mapping[tuple[Any, ...], Mapping[tuple[Any, ...], Rows]], keys: Sequence[str], workload: Workload
) -> list[tuple[str, Rows]]:
    """(label, rows) of each setting if there are few, and far from all combinations of their values: they are easier to
    compare in one panel. Else an empty list.

    If all differ from one setting in a single key, the labels only say in what.

    found: the rows by the values of the panel keys, and then of the line keys. keys: all keys, the line keys first.
    """
    every = {(*own, *rest): rows for rest, inside in found.items() for own, rows in inside.items()}
    counts = [len({values[k] for values in every}) for k in range(len(keys))]
    if len(found) < 2 or len(every) > LINES or 2 * len(every) > math.prod(counts):
        return []
    base = next((one for one in every if all(differing(one, other) < 2 for other in every)), None)
    labels = []
    for values in every:
        own = [k for k in range(len(keys)) if base is None or values == base or values[k] != base[k]]
        labels.append(settings([keys[k] for k in own], [values[k] for k in own], workload))
    return list(zip(labels, every.values(), strict=True))


def differing(one: Sequence[Any], other: Sequence[Any]) -> int:
    """In how many values two settings differ."""
    return sum(mine != its for mine, its in zip(one, other, strict=True))


def series_panels(
    parts: Sequence[Part],
    line_keys: Sequence[str],
    panel_keys: Sequence[str],
    x: str,
    metric: str,
    workload: Workload,
    places: Sequence[Place | None] | None = None,
    beside: str = "",
    **most: int,
) -> list[Panel]:
    """The metric over x as panels of lines (see `laid_out`). Parts without a usable row are left out.

    places: the fitted place of each part, or None.
    beside: another metric that every line shows too; empty for none.
    """

    def line(key: Any, label: str, part: tuple[pd.DataFrame, Place | None]) -> Series:
        found = series(part[0], x, metric, workload, key, label, part[1])
        return replace(found, beside=cell_means(part[0], x, beside, workload)) if beside else found

    def located(part: tuple[pd.DataFrame, Place | None]) -> bool:
        return places is None or part[1] is not None

    usable = [
        (values, (rows, place))
        for (values, rows), place in zip(parts, places or [None] * len(parts), strict=True)
        if ((rows["status"] == "ok") & np.isfinite(rows[metric].astype(float))).any()
    ]
    return laid_out(usable, line_keys, panel_keys, line, workload, located=located, **most)


def marked_panels(parts: Sequence[Part], keys: Sequence[str], table: pd.DataFrame, asked: Question) -> list[Panel]:
    """The metric of the question over x, with the fitted places marked.

    There is one line per value of the first key and one panel per setting of the other keys.

    table: the fitted places, one row for each part.
    """
    places = [
        (row["estimate"], row["low"], row["high"], row["theory"]) if row["status"] == Status.LOCATED else None
        for row in table.to_dict("records")
    ]
    return series_panels(parts, keys[:1], keys[1:], asked.x, asked.metric, asked.workload, places)


def series(
    part: pd.DataFrame, x: str, metric: str, workload: Workload, key: Any, label: str, place: Place | None = None
) -> Series:
    """Make one line from its rows, with the closed form on a fine grid."""
    means = cell_means(part, x, metric, workload)
    base = base_means(part, x, metric, workload)
    curve = closed_form(part, metric, workload, x)
    if curve is None:  # along zipped axes, only the grid points have a closed form
        return Series(key, label, means, *grid_theory(part, x, metric), base=base, place=place)
    at = smooth(part, x, workload, 241)
    known = curve(at)
    if not np.isfinite(known).any():  # the formula has no value for this line
        at = known = np.empty(0)
    at_infinity = float(curve(np.array([np.inf]))[0]) if np.isinf(means.x).any() else np.nan
    return Series(key, label, means, at, known, at_infinity, base, place)


def curves_drawing(
    asked: Question,
    panels: Sequence[Panel],
    caption: str,
    ending: str = "curves",
    placed: str = "",
    zeros: bool = False,
) -> list[Drawing]:
    """The figure of the panels; an empty list if there are no panels.

    placed: what the fitted places are, in words.
    zeros: whether they are places at which the metric is 0.
    """
    if not panels:
        return []
    placed = f"{placed}, {asked.percent}" if placed else ""
    figure, said = curves_figure(panels, asked.x, asked.metric, asked.workload, placed=placed, zeros=zeros)
    return [Drawing(f"{asked.name}_{ending}", f"{caption} {said}".strip(), figure)]


def base_metric(metric: str, workload: Workload) -> str:
    """The metric of the base model that belongs to METRIC_after, namely METRIC; empty if there is none."""
    before = metric.removesuffix("_after")
    return before if before != metric and any(before == known.name for known in workload.metrics) else ""


def base_means(part: pd.DataFrame, x: str, metric: str, workload: Workload) -> CellMeans | None:
    """The metric of the base model over x."""
    before = base_metric(metric, workload)
    if not before or before not in part.columns:
        return None
    means = cell_means(part, x, before, workload)
    return means if len(means.x) else None


def grid_theory(part: pd.DataFrame, x: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """The closed form in the rows at each finite x; empty if there is none or if it is not unique at some x."""
    theory = f"{metric}_theory"
    if theory not in part.columns:
        return np.empty(0), np.empty(0)
    known = part[np.isfinite(part[x].astype(float)) & np.isfinite(part[theory].astype(float))]
    by_x = known.groupby(x)[theory]
    if not len(known) or (by_x.nunique() > 1).any():
        return np.empty(0), np.empty(0)
    return by_x.first().index.to_numpy(float), by_x.first().to_numpy(float)
