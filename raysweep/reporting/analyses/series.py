"""The lines that sections draw: the means over one axis with the closed form and the base model beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from raysweep.fits.result import Status
from raysweep.reporting.analyses.closed_form import closed_form, smooth
from raysweep.reporting.analyses.section import Drawing, Question
from raysweep.reporting.figures.lines import Panel, Place, Series, curves_figure
from raysweep.reporting.selection import CellMeans, cell_means, groups, spread
from raysweep.reporting.words import settings
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

Rows = TypeVar("Rows")
Line = TypeVar("Line")
Part = tuple[tuple[Any, ...], "pd.DataFrame"]
"""The values of some keys, and the rows that have them."""


def by_panel(frame: pd.DataFrame, keys: Sequence[str]) -> list[Part]:
    """(values of the keys, rows) of each setting, in the order of panels by all keys but the first, then of lines by
    the first."""
    return [((*values[-1:], *values[:-1]), rows) for values, rows in groups(frame, [*keys[1:], *keys[:1]])]


def laid_out(
    parts: Iterable[tuple[tuple[Any, ...], Rows]],
    line_keys: Sequence[str],
    panel_keys: Sequence[str],
    make: Callable[[Any, str, Rows], Line],
    workload: Workload,
    panels: int = 9,
    lines: int = 8,
) -> list[tuple[str, list[Line]]]:
    """Panels (title, lines), a panel for every setting of the panel keys and in it a line for every one of the line
    keys; where there are too many, some of them, spread evenly.

    parts: (values of the line keys and of the panel keys, rows), one for each line.
    make: the line of (key, label, rows).
    panels, lines: the most to show.
    """
    split = len(line_keys)
    found: dict[tuple[Any, ...], list[tuple[tuple[Any, ...], Rows]]] = {}
    for values, rows in parts:
        found.setdefault(tuple(values[split:]), []).append((tuple(values[:split]), rows))
    out = []
    for rest, inside in spread(list(found.items()), panels):
        made = []
        for own, rows in spread(inside, lines):
            label = settings(line_keys, own, workload)
            made.append(make(own[0] if len(own) == 1 else label, label, rows))
        out.append((settings(panel_keys, rest, workload), made))
    return out


def series_panels(
    parts: Sequence[Part],
    line_keys: Sequence[str],
    panel_keys: Sequence[str],
    x: str,
    metric: str,
    workload: Workload,
    places: Sequence[Place | None] | None = None,
    **most: int,
) -> list[Panel]:
    """The metric over x as panels of lines, laid out as `laid_out` says; what has no usable row is left out.

    places: a fitted place for each of the parts, or None where there is none.
    """

    def line(key: Any, label: str, part: tuple[pd.DataFrame, Place | None]) -> Series:
        return series(part[0], x, metric, workload, key, label, part[1])

    usable = [
        (values, (rows, place))
        for (values, rows), place in zip(parts, places or [None] * len(parts), strict=True)
        if ((rows["status"] == "ok") & np.isfinite(rows[metric].astype(float))).any()
    ]
    return laid_out(usable, line_keys, panel_keys, line, workload, **most)


def marked_panels(parts: Sequence[Part], keys: Sequence[str], table: pd.DataFrame, asked: Question) -> list[Panel]:
    """The metric that is asked about over x, lines by the first key and panels by the rest, with the fitted places
    marked. table: one row for each of the parts."""
    places = [
        (row["estimate"], row["low"], row["high"], row["theory"]) if row["status"] == Status.LOCATED else None
        for row in table.to_dict("records")
    ]
    return series_panels(parts, keys[:1], keys[1:], asked.x, asked.metric, asked.workload, places)


def series(
    part: pd.DataFrame, x: str, metric: str, workload: Workload, key: Any, label: str, place: Place | None = None
) -> Series:
    """The rows of one line, with the closed form on a fine grid."""
    means = cell_means(part, x, metric, workload)
    base = base_means(part, x, metric, workload)
    curve = closed_form(part, metric, workload, x)
    if curve is None:  # along zipped axes only the grid itself has a closed form
        return Series(key, label, means, *grid_theory(part, x, metric), base=base, place=place)
    at = smooth(part, x, workload, 241)
    known = curve(at)
    if not np.isfinite(known).any():  # a formula without a value here is no closed form of this line
        at = known = np.empty(0)
    at_infinity = float(curve(np.array([np.inf]))[0]) if np.isinf(means.x).any() else np.nan
    return Series(key, label, means, at, known, at_infinity, base, place)


def curves_drawing(asked: Question, panels: Sequence[Panel], caption: str, ending: str = "curves") -> list[Drawing]:
    """The panels as a figure; none where there are none."""
    if not panels:
        return []
    figure = curves_figure(panels, asked.x, asked.metric, asked.workload)
    return [Drawing(f"{asked.name}_{ending}", caption, figure)]


def with_theory(panels: Iterable[Panel]) -> bool:
    """Whether a closed form is drawn in some panel, so that words about it have something to be about."""
    return any(line.has_theory for _, lines in panels for line in lines)


def base_metric(metric: str, workload: Workload) -> str:
    """What METRIC_after was for the base model, before anything was done to it: METRIC; empty if there is none."""
    before = metric.removesuffix("_after")
    return before if before != metric and any(before == known.name for known in workload.metrics) else ""


def base_means(part: pd.DataFrame, x: str, metric: str, workload: Workload) -> CellMeans | None:
    """The base model's own metric over x."""
    before = base_metric(metric, workload)
    if not before or before not in part.columns:
        return None
    means = cell_means(part, x, before, workload)
    return means if len(means.x) else None


def grid_theory(part: pd.DataFrame, x: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows' own closed form at each finite x; empty without one, or if it is not one number there."""
    theory = f"{metric}_theory"
    if theory not in part.columns:
        return np.empty(0), np.empty(0)
    known = part[np.isfinite(part[x].astype(float)) & np.isfinite(part[theory].astype(float))]
    by_x = known.groupby(x)[theory]
    if not len(known) or (by_x.nunique() > 1).any():
        return np.empty(0), np.empty(0)
    return by_x.first().index.to_numpy(float), by_x.first().to_numpy(float)
