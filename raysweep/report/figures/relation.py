"""The figure of one metric over another, with one point per cell."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.relation import RelationPlot
from raysweep.analyses.series import Panel
from raysweep.fits.draws import log_axis
from raysweep.report.figures import drawing, scales
from raysweep.report.names import BARS, axis_label, called
from raysweep.workloads.declaration import Workload


@drawing.draw.register(RelationPlot)
def draw_relation(plot: RelationPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """One metric over another in one panel, with a colour for each group, and the caption. Infinite x has a tick at the
    right."""
    clouds, sheet = plot.clouds, drawing.sheet([Panel({}, plot.clouds)], workload)
    ((panel, lines),) = sheet.panels
    every = np.concatenate([one.x for one in clouds])
    finite = np.unique(every[np.isfinite(every)])
    logarithmic = log_axis(finite)
    far = scales.beyond(finite, logarithmic)
    heights, spreads = (np.concatenate([getattr(one, name) for one in clouds]) for name in ("y", "y_error"))
    if logarithmic:
        scales.set_log(panel.xaxis)
    if width := scales.asinh_width(heights):
        scales.set_asinh(panel.yaxis, heights, width)
    if not (width and np.nanmin(heights) > 0):
        drawing.zero_rule(panel)
    for line in lines:
        one = line.data
        at = np.where(np.isfinite(one.x), one.x, far)
        x_error = np.where(np.isfinite(one.x_error), one.x_error, 0.0)
        line.points(panel, at, one.y, (one.y - one.y_error, one.y + one.y_error), 0.7, 0, one.median, xerr=x_error)
    if np.isinf(every).any():
        scales.show_infinity(panel, finite, far, logarithmic)
    sheet.label(axis_label(plot.x, workload), axis_label(plot.y, workload), markersize=5.5)
    small = drawing.hidden(panel.yaxis, heights - spreads, heights + spreads, 5.5)
    medians, means = any(one.median.any() for one in clouds), any((~one.median).any() for one in clouds)
    entries = [
        means and (drawing.mark("mean of a cell", marker="o", markersize=5), f"Bars: {BARS}s{drawing.BEHIND * small}."),
        medians and drawing.mark("median (draws have no variance)", marker="o", markersize=5, markerfacecolor="white"),
        np.isinf(every).any() and (False, "Infinite values stand at the right."),
    ]
    caption = f"{called(plot.y, workload)} against {called(plot.x, workload)}, a point for each cell."
    return sheet.figure, drawing.sentences(caption, drawing.legend_below(sheet.figure, entries))
