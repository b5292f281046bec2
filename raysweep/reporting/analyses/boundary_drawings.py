"""The figures of the boundary analysis: maps over two axes, the zero along an axis, and the slices themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.closed_form import smooth, zero_line
from raysweep.analyses.maps import Map
from raysweep.analyses.question import Question
from raysweep.analyses.rows import comparable, groups, is_number
from raysweep.analyses.series import series_panels
from raysweep.fits.result import Status
from raysweep.report.figures.fitted_places import PlaceLine
from raysweep.report.figures.lines import points_in_words
from raysweep.report.figures.phase_diagram import surface_figure
from raysweep.report.names import plain
from raysweep.reporting.analyses.fitted_places import Places
from raysweep.reporting.analyses.place_lines import line_figures
from raysweep.reporting.analyses.section import Drawing
from raysweep.reporting.analyses.series import curves_drawing

if TYPE_CHECKING:
    import pandas as pd

MOST_MAPS = 9


def maps_of(
    maps: Sequence[Map], of: Sequence[tuple[Any, ...]], asked: Question, lines: Mapping[str, float]
) -> list[Drawing]:
    """The drawing of the metric over x and y, one map per setting of the other axes.

    The list is empty if the cells lie on one line.

    of: the setting of each map.
    """
    x, y, rows = asked.x, str(asked.options["y"]), asked.rows
    if not is_number(rows, y) or rows[y].nunique() < 2 or rows[x].nunique() < 2:
        return []
    located = {place for place, one in enumerate(maps) if (one.table["status"] == Status.LOCATED).any()}
    shown = [maps[place] for place in comparable(of, MOST_MAPS, located)]
    figure, said = surface_figure(shown, x, y, asked.metric, asked.workload, asked.level, lines)
    caption = f"{asked.metric} (mean over draws) over {plain(x)} and {plain(y)}. {said}"
    caption += f" {len(shown)} of {len(maps)} maps." if len(shown) < len(maps) else ""
    return [Drawing(f"{asked.name}_surface", caption, figure)]


def line_of(
    places: Places, along: str, lines: Mapping[str, float], known: Mapping[tuple[Any, ...], Map]
) -> list[Drawing]:
    """The drawing of the zero over one axis, one line per combination of the other axes.

    known: the maps whose zeros of the closed form are those of a line, by the values of the other axes.
    """
    asked, x, metric, workload = places.asked, places.asked.x, places.asked.metric, places.asked.workload

    def theory(table: pd.DataFrame) -> tuple[np.ndarray, list[np.ndarray]]:
        own = {other: table[other].iloc[0] for other in places.keys if other != along}
        if one := known.get(tuple(own.values())):
            return one.fine, one.roots
        rows = asked.rows
        for other, value in own.items():
            rows = rows[rows[other] == value]
        fine = smooth(rows, along, workload)
        return fine, zero_line(rows, x, along, metric, workload, fine)

    def line(key: Any, label: str, table: pd.DataFrame) -> PlaceLine:
        fine, roots = theory(table)
        return PlaceLine(key, label, table, fine, np.array([root[0] if len(root) == 1 else np.nan for root in roots]))

    caption = f"Where {metric} changes sign: its zero in {plain(x)} against {plain(along)}."
    return line_figures(places, along, f"at the zero of {metric}", caption, line, lines)


def slices_of(
    parts: Sequence[tuple[tuple[Any, ...], pd.DataFrame]], keys: list[str], of_y: list[str], places: Places
) -> list[Drawing]:
    """The drawing of the metric over x, with up to six slices in each of up to six panels."""
    asked, x, metric = places.asked, places.asked.x, places.asked.metric
    slices = [((*label, *values), part) for values, rows in parts for label, part in groups(rows, of_y)]
    names = [*of_y, *keys]
    found = {
        tuple(row[key] for key in names): (row["estimate"], row["low"], row["high"], row["theory"])
        for row in places.found.to_dict("records")
    }
    marked = [found.get(tuple(values)) for values, _ in slices]
    panels = series_panels(slices, names, x, metric, asked.workload, marked, panels=6)
    shown = sum(len(panel.lines) for panel in panels)
    caption = f"{metric} against {plain(x)}: {points_in_words(panels)}."
    if shown < len(slices):
        caption += f" {shown} of {len(slices)} slices are shown; the table has all."
    return curves_drawing(asked, panels, caption, "slices", "zero")
