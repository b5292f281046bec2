"""The figure of R² over an axis: one line of points with intervals per predictor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.draws import log_axis
from raysweep.report.figures import drawing, scales
from raysweep.report.names import axis_label
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

APART = 0.012  # of the width of the axis, between the points of two predictors at the same place


@dataclass(frozen=True)
class Line:
    """R² by one predictor over the axis, with the ends of its intervals, (values,) each."""

    label: str
    x: np.ndarray
    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray


def r_squared_figure(
    panels: Sequence[tuple[str, Sequence[Line]]], x: str, metric: str, workload: Workload, marks: str
) -> tuple[Figure, str]:
    """Draw one panel per (title, lines), with R² from 0 to 1. Values at x = inf stand apart at the right.

    marks: what points and bars show, for the legend.

    Returns the figure and the sentences on what is drawn in it.
    """
    figure, axes = drawing.panels(len(panels), width=4.6, height=3.7)
    at = np.concatenate([line.x for _, lines in panels for line in lines])
    finite = np.unique(at[np.isfinite(at)])
    logarithmic = bool(len(finite)) and log_axis(finite, workload.logarithmic(x))
    far = scales.beyond(finite, logarithmic)
    names = [line.label for line in panels[0][1]]
    shade = dict(zip(names, drawing.colours(names), strict=True))
    marker = drawing.marker_of(names)
    titles, shared = drawing.without_shared([title for title, _ in panels])
    width = (np.log(far / finite[0]) if logarithmic else far - finite[0]) if len(finite) else 1.0
    for panel, title, (_, lines) in zip(axes, titles, panels, strict=True):
        scales.set_scale(panel.xaxis, finite, logarithmic)
        for place, line in enumerate(lines):
            aside = APART * (place - (len(lines) - 1) / 2) * width
            there = np.where(np.isfinite(line.x), line.x, far)
            there = there * np.exp(aside) if logarithmic else there + aside
            near = np.isfinite(line.x)
            panel.plot(there[near], line.centre[near], color=shade[line.label], linewidth=1.0, alpha=0.6)
            own = marker[line.label]
            ends = line.low, line.high
            drawing.points(panel, there, line.centre, ends, shade[line.label], drawing.SIZES[own], 1.1, fmt=own)
        if np.isinf(at).any():
            scales.show_infinity(panel, finite, far, logarithmic)
        panel.set_ylim(-0.03, 1.03)
        panel.set_title(drawing.in_lines(title) if len(axes) > 1 else title)
    drawing.label_panels(axes, axis_label(x, workload), f"R² of {axis_label(metric, workload)}")
    drawing.legend_right(
        axes, [drawing.mark(name, color=shade[name], marker=marker[name], markersize=5.5) for name in names]
    )
    drawing.legend_below(figure, [drawing.mark(marks, marker="o", markersize=4.5)])
    return figure, f"Everywhere: {shared}." if shared else ""
