"""The figure of R² over an axis: one line of points with intervals per predictor."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.r_squared import RSquaredPlot
from raysweep.fits.draws import log_axis
from raysweep.phrases import counted
from raysweep.report.figures import drawing, scales
from raysweep.report.names import axis_label, called, plain, settings
from raysweep.workloads.declaration import Workload

APART = 0.012  # of the width of the axis, between the points of two predictors at the same place


@drawing.draw.register(RSquaredPlot)
def draw_r_squared(plot: RSquaredPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """R² from 0 to 1 over an axis, and the caption. Values at x = inf stand apart at the right."""
    panels, x = plot.panels, plot.x
    figure, axes = drawing.panels(len(panels), width=4.6, height=3.7)
    at = np.concatenate([line.means.x for panel in panels for line in panel.lines])
    finite = np.unique(at[np.isfinite(at)])
    logarithmic = bool(len(finite)) and log_axis(finite, workload.logarithmic(x))
    far = scales.beyond(finite, logarithmic)
    names = [called(line.where["predictor"], workload) for line in panels[0].lines]
    shade, marker = dict(zip(names, drawing.colours(names), strict=True)), drawing.marker_of(names)
    titles, shared = drawing.without_shared([settings(panel.where, workload) for panel in panels])
    width = (np.log(far / finite[0]) if logarithmic else far - finite[0]) if len(finite) else 1.0
    for panel, title, part in zip(axes, titles, panels, strict=True):
        scales.set_scale(panel.xaxis, finite, logarithmic)
        for place, (name, line) in enumerate(zip(names, part.lines, strict=True)):
            means, aside = line.means, APART * (place - (len(names) - 1) / 2) * width
            near = np.isfinite(means.x)
            there = scales.shifted(np.where(near, means.x, far), aside, logarithmic)
            panel.plot(there[near], means.centre[near], color=shade[name], linewidth=1.0, alpha=0.6)
            size = drawing.SIZES[marker[name]]
            drawing.points(panel, there, means.centre, means.bars, shade[name], size, 1.1, fmt=marker[name])
        if np.isinf(at).any():
            scales.show_infinity(panel, finite, far, logarithmic)
        panel.set_ylim(-0.03, 1.03)
        panel.set_title(drawing.in_lines(title) if len(axes) > 1 else title)
    drawing.label_panels(axes, axis_label(x, workload), f"R² of {axis_label(plot.metric, workload)}")
    marks = [drawing.mark(name, color=shade[name], marker=marker[name], markersize=5.5) for name in names]
    drawing.legend_right(axes, marks)
    what = f"mean over draws, {100 * finding.level:g} % interval over {counted(plot.units, plain(plot.unit))}"
    drawing.legend_below(figure, [drawing.mark(what, marker="o", markersize=4.5)])
    caption = f"R² of {called(plot.metric, workload)} by a line in each predictor: {what}."
    return figure, drawing.sentences(caption, shared and f"Everywhere: {shared}.")
