"""The figure of one metric over another, with one point per cell."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.relation import RelationPlot
from raysweep.analyses.rows import spread
from raysweep.fits.draws import decades
from raysweep.report.figures import drawing, scales
from raysweep.report.names import BARS, axis_label, called, settings
from raysweep.workloads.declaration import Workload


@drawing.draw.register(RelationPlot)
def draw_relation(plot: RelationPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """One metric over another in one panel, with a colour for each group, and the caption. Infinite x has a tick at the
    right."""
    clouds = plot.clouds
    figure, (panel,) = drawing.panels(1, width=6.4, height=4.2)
    labels = [settings(one.where, workload) for one in clouds]
    single = all(len(one.where) == 1 for one in clouds)
    shades = drawing.colours([next(iter(one.where.values())) for one in clouds] if single else labels)
    markers = [drawing.MARKERS[k % len(drawing.MARKERS)] for k in range(len(clouds))]
    every = np.concatenate([one.x for one in clouds])
    finite = np.unique(every[np.isfinite(every)])
    logarithmic = decades(finite)
    far = scales.beyond(finite, logarithmic)
    heights = np.concatenate([one.y for one in clouds])
    if logarithmic:
        scales.set_log(panel.xaxis)
    if width := scales.asinh_width(heights):
        scales.set_asinh(panel.yaxis, heights, width)
    if not (width and np.nanmin(heights) > 0):
        drawing.zero_rule(panel)
    for one, shade, marker in zip(clouds, shades, markers, strict=True):
        at = np.where(np.isfinite(one.x), one.x, far)
        x_error = np.where(np.isfinite(one.x_error), one.x_error, 0.0)
        for median in (False, True):
            use = one.median == median
            if use.any():
                interval = (one.y - one.y_error)[use], (one.y + one.y_error)[use]
                look: dict[str, Any] = {"fmt": marker, "markerfacecolor": "white" if median else shade}
                drawing.points(
                    panel, at[use], one.y[use], interval, shade, drawing.SIZES[marker], 0.7, xerr=x_error[use], **look
                )
    if np.isinf(every).any():
        scales.show_infinity(panel, finite, far, logarithmic)
    panel.set_xlabel(axis_label(plot.x, workload))
    panel.set_ylabel(axis_label(plot.y, workload))
    named = spread(list(zip(labels, shades, markers, strict=True)), 12)
    marks = [drawing.mark(label, color=shade, marker=marker, markersize=5.5) for label, shade, marker in named]
    drawing.legend_right([panel], marks)
    medians, means = any(one.median.any() for one in clouds), any((~one.median).any() for one in clouds)
    kinds = [
        means and drawing.mark(f"cell: mean, {BARS}", marker="o", markersize=4.5),
        medians and drawing.mark("median (draws have no variance)", marker="o", markersize=5, markerfacecolor="white"),
    ]
    drawing.legend_below(figure, kinds)
    caption = f"Each point is a cell: {called(plot.y, workload)} against {called(plot.x, workload)}, means over draws, "
    caption += f"with their {BARS}s{' (medians, open, if draws have no variance)' if medians else ''}."
    return figure, caption + (" Infinite values stand at the right." if np.isinf(every).any() else "")
