"""The figure of learning curves: a mean over draws with its band, and the draws that are in no mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.learning_curves import Curve, LearningPlot
from raysweep.report.figures import drawing, scales
from raysweep.report.names import axis_label, called
from raysweep.workloads.declaration import DIVERGED, Workload


@drawing.draw.register(LearningPlot)
def draw_learning_curves(plot: LearningPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The figure of what a stage logged and its caption. On a logarithmic axis points at 0 are not shown."""
    percent, over = f"{100 * finding.level:g} %", plot.steps or ("share of the steps" if plot.share else "step")
    sheet = drawing.sheet(plot.panels, workload)
    curves = sheet.every
    heights = np.concatenate([end for one in curves for end in (one.mean, one.low, one.high)])
    heights = heights[np.isfinite(heights)]
    for panel, lines in sheet.panels:
        if plot.logarithmic:
            scales.set_log(panel.xaxis)
        elif lines:
            scales.set_scale(panel.xaxis, np.concatenate([line.data.x for line in lines]), False)
        if len(heights) and (width := scales.asinh_width(heights)):
            scales.set_asinh(panel.yaxis, heights, width)
        for line in lines:
            one = line.data
            look: dict[str, Any] = {"marker": line.marker, "markersize": line.size, "markevery": 0.15}
            at = one.x > 0 if plot.logarithmic else np.isfinite(one.x)
            band = one.x[at], one.low[at], one.high[at]
            panel.fill_between(*band, color=line.colour, alpha=0.18, linewidth=0, zorder=2)
            panel.plot(one.x[at], one.mean[at], color=line.colour, linewidth=1.4, zorder=3, **look)
    drawing.level(sheet.axes)  # before that: a draw on its way to infinity must not decide the scale
    for panel, lines in sheet.panels:
        limits = panel.get_ylim() if len(heights) else None
        for line in lines:
            draw_left_out(panel, line, plot.logarithmic, limits)
        panel.set_ylim(limits)
    sheet.label(over, axis_label(plot.metric, workload), lambda one: float(one.mean[-1]), markersize=5.5, linestyle="-")
    lost = {status for one in curves for status, _, _ in one.left_out}
    label = "diverged draw" if lost == {DIVERGED} else "draw that is not ok"
    entries = [
        drawing.mark("mean over ok draws", linestyle="-", linewidth=1.4),
        any(np.isfinite(one.low).any() for one in curves)
        and (
            drawing.mark(f"{percent} band", linestyle="-", linewidth=7, alpha=0.25),
            "The band holds at each point by itself.",
        ),
        lost
        and (
            drawing.mark(label, linestyle="--", linewidth=0.9, marker="x", markersize=5),
            "Crosses: the last finite value; beyond the scale of the means, lines run along its edge.",
        ),
        plot.logarithmic
        and any((one.x == 0).any() for one in curves)
        and (False, "The logarithmic axis leaves out 0."),
    ]
    caption = drawing.sentences(
        f"{called(plot.metric, workload)} of {plot.stage} against the {over}.",
        drawing.legend_below(sheet.figure, entries),
    )
    return sheet.figure, caption + drawing.left_out(len(sheet.every), plot.every)


def draw_left_out(
    panel: Axes, line: drawing.Drawn[Curve], logarithmic: bool, limits: tuple[float, float] | None
) -> None:
    """Draw the draws that are in no mean, each up to a cross at its last finite value, kept inside the limits."""
    look: dict[str, Any] = {"color": line.colour, "clip_on": False}
    for _, x, values in line.data.left_out:
        use = np.isfinite(values) & ((x > 0) if logarithmic else np.isfinite(x))
        if not use.any():
            continue
        at, heights = x[use], values[use] if limits is None else np.clip(values[use], *limits)
        panel.plot(at, heights, color=line.colour, linewidth=0.9, linestyle="--", alpha=0.8, zorder=2.5)
        panel.plot(at[-1:], heights[-1:], linestyle="none", marker="x", markersize=6, zorder=4, **look)
