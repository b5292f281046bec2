"""The figure of power laws: geometric means with their intervals over one axis, and the fitted lines, on log scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.report.figures import drawing, scales
from raysweep.report.names import axis_label
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Law:
    """One line of a panel: the geometric means with their intervals over x, (points,) each, and the fitted line there.

    theory_x, theory: the closed form; empty without one.
    """

    key: Any
    label: str
    x: np.ndarray
    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray
    fitted: np.ndarray
    theory_x: np.ndarray
    theory: np.ndarray


def power_law_figure(
    parts: Sequence[tuple[str, list[Law]]], x: str, metric: str, workload: Workload, percent: str
) -> tuple[Figure, str]:
    """Draw one panel per part, with one colour and marker per line. percent: the level of the intervals as text.

    Returns the figure and the sentences on what is drawn in it.
    """
    figure, axes = drawing.panels(len(parts), 4.6, 3.7, [title for title, _ in parts])
    colour = drawing.shades(parts)
    marker = drawing.marker_of(list(colour))
    titles, shared = drawing.without_shared([title for title, _ in parts])
    for panel, title, (_, lines) in zip(axes, titles, parts, strict=True):
        scales.set_log(panel.xaxis)
        scales.set_log(panel.yaxis)
        for line in lines:
            shade = colour[line.key]
            panel.plot(line.x, line.fitted, color=shade, linewidth=1.2, zorder=2)
            panel.plot(line.theory_x, line.theory, color=shade, linewidth=1.4, linestyle=":", zorder=2)
            own = marker[line.key]
            ends = line.low, line.high
            drawing.points(panel, line.x, line.centre, ends, shade, drawing.SIZES[own], 1.1, 1.8, zorder=3, fmt=own)
        panel.set_title(drawing.in_lines(title) if len(axes) > 1 else title)
    drawing.label_panels(axes, axis_label(x, workload), axis_label(metric, workload))
    drawing.legend_of_lines(axes, parts, colour, marker, markersize=5.5)
    said = drawing.legend_below(
        figure,
        [
            drawing.mark(f"geometric mean, {percent} interval", marker="o", markersize=4),
            drawing.mark("fitted power law", linestyle="-", linewidth=1.2),
            any(len(line.theory) for _, lines in parts for line in lines)
            and (drawing.mark("closed form", linestyle=":", linewidth=1.4), "Dotted: the closed form."),
        ],
    )
    return figure, f"{said} Everywhere: {shared}.".strip() if shared else said
