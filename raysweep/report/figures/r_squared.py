"""The figure of R² over an axis: one line of points with intervals per predictor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.r_squared import Line, RSquaredPlot
from raysweep.analyses.series import Panel
from raysweep.fits.draws import log_axis
from raysweep.phrases import counted
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.draw import draw
from raysweep.report.names import axis_label, called, plain, settings
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

APART = 0.012  # of the width of the axis, between the points of two predictors at the same place


@draw.register(RSquaredPlot)
def draw_r_squared(plot: RSquaredPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """R² over an axis, and the caption."""
    over = f"{100 * finding.level:g} % interval over {counted(plot.units, plain(plot.unit))}"
    figure, told = r_squared_figure(plot.panels, plot.x, plot.metric, workload, f"mean over draws, {over}")
    caption = f"R² of {called(plot.metric, workload)} by a line in each predictor: mean over draws, {over}."
    return figure, f"{caption} {told}".strip()


def r_squared_figure(
    panels: Sequence[Panel[Line]], x: str, metric: str, workload: Workload, marks: str
) -> tuple[Figure, str]:
    """Draw the panels, with R² from 0 to 1. Values at x = inf stand apart at the right.

    marks: what points and bars show, for the legend.

    Returns the figure and the sentences on what is drawn in it.
    """
    figure, axes = drawing.panels(len(panels), width=4.6, height=3.7)
    at = np.concatenate([line.x for panel in panels for line in panel.lines])
    finite = np.unique(at[np.isfinite(at)])
    logarithmic = bool(len(finite)) and log_axis(finite, workload.logarithmic(x))
    far = scales.beyond(finite, logarithmic)
    names = [called(line.where["predictor"], workload) for line in panels[0].lines]
    shade = dict(zip(names, drawing.colours(names), strict=True))
    marker = drawing.marker_of(names)
    titles, shared = drawing.without_shared([settings(panel.where, panel.where.values(), workload) for panel in panels])
    width = (np.log(far / finite[0]) if logarithmic else far - finite[0]) if len(finite) else 1.0
    for panel, title, part in zip(axes, titles, panels, strict=True):
        scales.set_scale(panel.xaxis, finite, logarithmic)
        for place, (name, line) in enumerate(zip(names, part.lines, strict=True)):
            aside = APART * (place - (len(names) - 1) / 2) * width
            there = np.where(np.isfinite(line.x), line.x, far)
            there = there * np.exp(aside) if logarithmic else there + aside
            near = np.isfinite(line.x)
            panel.plot(there[near], line.centre[near], color=shade[name], linewidth=1.0, alpha=0.6)
            own = marker[name]
            ends = line.low, line.high
            drawing.points(panel, there, line.centre, ends, shade[name], drawing.SIZES[own], 1.1, fmt=own)
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
