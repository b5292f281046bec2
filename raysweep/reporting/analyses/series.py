"""The lines in the figures of sections, with their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from raysweep.analyses.question import Question
from raysweep.analyses.series import Panel, Series, Where
from raysweep.analyses.series import laid_out as arranged
from raysweep.report.figures.drawing import titled
from raysweep.report.figures.lines import curves_figure
from raysweep.reporting.analyses.section import Drawing
from raysweep.workloads.declaration import Workload

Rows = TypeVar("Rows")
Line = TypeVar("Line")


@dataclass(frozen=True)
class _Rows(Generic[Rows]):
    where: Where
    rows: Rows


def laid_out(
    parts: Iterable[tuple[tuple[Any, ...], Rows]],
    line_keys: Sequence[str],
    panel_keys: Sequence[str],
    make: Callable[[Any, str, Rows], Line],
    workload: Workload,
    located: Callable[[Rows], bool] = lambda rows: True,
) -> list[tuple[str, list[Line]]]:
    """(title, lines) of each panel (see `analyses.series.laid_out`). make: makes a line from (key, label, rows)."""
    panels: list[Panel[_Rows[Rows]]] = arranged(parts, line_keys, panel_keys, _Rows, located=located)
    return [
        (title, [make(line.key, line.label, line.data.rows) for line in lines])
        for title, lines in titled(panels, workload)
    ]


def curves_drawing(
    asked: Question, panels: Sequence[Panel[Series]], caption: str, ending: str = "curves", placed: str = ""
) -> list[Drawing]:
    """The figure of the panels; an empty list if there are no panels. placed: as in `CurvesPlot`."""
    if not panels:
        return []
    figure, said = curves_figure(panels, asked.x, asked.metric, asked.workload, placed=placed, level=asked.level)
    return [Drawing(f"{asked.name}_{ending}", f"{caption} {said}".strip(), figure)]
