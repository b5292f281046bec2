"""The figures of fitted places over another axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from raysweep.analyses.series import by_panel
from raysweep.fits.result import Status
from raysweep.report.figures.fitted_places import PlaceLine, places_figure
from raysweep.report.figures.missing_places import NOT_FOUND
from raysweep.report.names import labelled
from raysweep.reporting.analyses.fitted_places import Places
from raysweep.reporting.analyses.section import Drawing
from raysweep.reporting.analyses.series import laid_out

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 2  # places or bounds in a figure of places


def line_drawing(places: Places, along: str | None, place: str, caption: str) -> list[Drawing]:
    """The drawing of the place over one of the keys (see `line_figures`).

    The list is empty if there is no place to show.
    """
    if not along or places.table["status"].isin([Status.UNDETERMINED, Status.MONOTONE]).all():
        return []

    def line(key: Any, label: str, table: pd.DataFrame) -> PlaceLine:
        return PlaceLine(key, label, table, table[along].to_numpy(float), table["theory"].to_numpy(float))

    return line_figures(places, along, place, caption, line, {})


def line_figures(
    places: Places,
    along: str,
    place: str,
    caption: str,
    line: Callable[[Any, str, pd.DataFrame], PlaceLine],
    lines: Mapping[str, float],
) -> list[Drawing]:
    """The drawing of the places over one of the keys: a line for each value of the key that has most values among
    the others, a panel for each setting of the rest. A setting with a single value of the key is no line.

    The list is empty if fewer than two places or bounds are known on these lines.

    line: makes the line of one setting of the other keys.
    """
    asked, others = places.asked, [key for key in places.keys if key != along]
    others.sort(key=lambda key: -places.table[key].nunique())  # stable: of equals, the first
    of_line, of_panel = others[:1], [key for key in places.keys if key in others[1:]]

    def located(table: pd.DataFrame) -> bool:
        return bool((table["status"] == Status.LOCATED).any())

    every = by_panel(places.table, [*of_line, *of_panel]) if others else [((), places.table)]
    tables = [(values, table) for values, table in every if table[along].nunique() > 1]
    known = sum(int((~table["status"].isin(NOT_FOUND)).sum()) for _, table in tables)
    if known < FEWEST:
        return []
    parts = laid_out(tables, of_line, of_panel, line, asked.workload, located=located)
    shown = sum(len(inside) for _, inside in parts)
    place = labelled(place, asked.workload)
    figure, said = places_figure(parts, asked.x, along, asked.workload, asked.level, place, lines)
    left_out = f" {shown} of {len(every)} lines are shown; the table has all." if shown < len(every) else ""
    return [Drawing(f"{asked.name}_line", f"{caption} {said}{left_out}", figure)]
