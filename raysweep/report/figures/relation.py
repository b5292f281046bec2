"""The figure of one metric over another, with one point per cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.relation import Cloud, RelationPlot
from raysweep.analyses.rows import spread
from raysweep.fits.draws import decades
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.draw import draw
from raysweep.report.names import BARS, axis_label, called, settings
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@draw.register(RelationPlot)
def draw_relation(plot: RelationPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """One metric over another, and the caption."""
    medians = " (medians, open, if draws have no variance)" if any(one.median.any() for one in plot.clouds) else ""
    caption = f"Each point is a cell: {called(plot.y, workload)} against {called(plot.x, workload)}, means over draws, "
    caption += f"with their {BARS}s{medians}."
    caption += " Infinite values stand at the right." if any(np.isinf(one.x).any() for one in plot.clouds) else ""
    return relation_figure(plot.clouds, plot.x, plot.y, workload), caption


def relation_figure(clouds: Sequence[Cloud], x: str, y: str, workload: Workload) -> Figure:
    """Draw all groups in one panel, with one colour each. Infinite x has its own tick at the right."""
    figure, (panel,) = drawing.panels(1, width=6.4, height=4.2)
    labels = [settings(one.where, one.where.values(), workload) for one in clouds]
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
                ends = (one.y - one.y_error)[use], (one.y + one.y_error)[use]
                look: dict[str, Any] = {"fmt": marker, "markerfacecolor": "white" if median else shade}
                drawing.points(
                    panel, at[use], one.y[use], ends, shade, drawing.SIZES[marker], 0.7, xerr=x_error[use], **look
                )
    if np.isinf(every).any():
        scales.show_infinity(panel, finite, far, logarithmic)
    panel.set_xlabel(axis_label(x, workload))
    panel.set_ylabel(axis_label(y, workload))
    named = spread(list(zip(labels, shades, markers, strict=True)), 12)
    drawing.legend_right(
        [panel], [drawing.mark(label, color=shade, marker=own, markersize=5.5) for label, shade, own in named]
    )
    kinds = [
        any((~one.median).any() for one in clouds) and drawing.mark(f"cell: mean, {BARS}", marker="o", markersize=4.5),
        any(one.median.any() for one in clouds)
        and drawing.mark("median (draws have no variance)", marker="o", markersize=5, markerfacecolor="white"),
    ]
    drawing.legend_below(figure, kinds)
    return figure
