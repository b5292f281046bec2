"""The figure of learning curves: a mean over draws with its band, and the draws that are in no mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.learning_curves import Curve, LearningLine, LearningPlot
from raysweep.analyses.series import Panel
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.draw import draw
from raysweep.report.names import axis_label, called
from raysweep.workloads.declaration import DIVERGED, Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@draw.register(LearningPlot)
def draw_learning_curves(plot: LearningPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The figure of what a stage logged and its caption."""
    percent = f"{100 * finding.level:g} %"
    lines = [line.curve for panel in plot.panels for line in panel.lines]
    over = plot.steps or ("share of the steps" if plot.share else "step")
    lost = {status for one in lines for status, _, _ in one.left_out}
    label = "diverged draw" if lost == {DIVERGED} else "draw that is not ok"
    figure = learning_figure(plot.panels, over, plot.metric, plot.logarithmic, percent, label, workload)
    caption = (
        f"{called(plot.metric, workload)} of {plot.stage} against the {over}: mean over ok draws; band: {percent} "
    )
    caption += "at each point by itself."
    if lost:
        caption += (
            " Dashed: draws that are not ok, up to a cross at their last finite value; beyond the scale of the means "
            "they run along its edge."
        )
    if plot.logarithmic and any((one.x == 0).any() for one in lines):
        caption += " The logarithmic axis leaves out 0."
    return figure, caption + drawing.left_out_words(len(lines), plot.every)


def learning_figure(
    shown: Sequence[Panel[LearningLine]],
    x: str,
    metric: str,
    logarithmic: bool,
    percent: str,
    left_out: str,
    workload: Workload,
) -> Figure:
    """Draw the panels.

    x: the label of the axis.
    logarithmic: whether x is drawn in log; points at 0 are not shown then.
    percent: the level of the bands, as text.
    left_out: what the dashed lines are, for the legend.
    """
    parts = drawing.titled(shown, workload)
    figure, axes = drawing.panels(len(parts), 4.6, 3.7, [title for title, _ in parts])
    every = [line.data.curve for _, lines in parts for line in lines]
    colour = drawing.shades(parts)
    marker = drawing.marker_of(list(colour))
    ends = np.concatenate([end for line in every for end in (line.mean, line.low, line.high)])
    ends = ends[np.isfinite(ends)]
    for panel, (title, lines) in zip(axes, parts, strict=True):
        if logarithmic:
            scales.set_log(panel.xaxis)
        elif lines:
            scales.whole_ticks(panel.xaxis, np.concatenate([line.data.curve.x for line in lines]))
        if len(ends) and (width := scales.asinh_width(ends)):
            scales.set_asinh(panel.yaxis, ends, width)
        for line in lines:
            one = line.data.curve
            at = one.x > 0 if logarithmic else np.isfinite(one.x)
            panel.fill_between(
                one.x[at], one.low[at], one.high[at], color=colour[line.key], alpha=0.18, linewidth=0, zorder=2
            )
            look: dict[str, Any] = {
                "marker": marker[line.key],
                "markersize": drawing.SIZES[marker[line.key]],
                "markevery": 0.15,
            }
            panel.plot(one.x[at], one.mean[at], color=colour[line.key], linewidth=1.4, zorder=3, **look)
        panel.set_title(drawing.in_lines(title) if len(axes) > 1 else title)
    limits = axes[0].get_ylim() if len(ends) else None  # a draw on its way to infinity must not decide the scale
    for panel, (_, lines) in zip(axes, parts, strict=True):
        for line in lines:
            draw_left_out(panel, line.data.curve, colour[line.key], logarithmic, limits)
    if limits:
        axes[0].set_ylim(limits)
    drawing.label_panels(axes, x, axis_label(metric, workload))
    drawing.legend_of_lines(axes, parts, colour, marker, markersize=5.5, linestyle="-")
    drawing.legend_below(
        figure,
        [
            drawing.mark("mean over draws", linestyle="-", linewidth=1.4),
            any(np.isfinite(line.low).any() for line in every)
            and drawing.mark(f"{percent} band, at each point by itself", linestyle="-", linewidth=7, alpha=0.25),
            any(line.left_out for line in every)
            and drawing.mark(left_out, linestyle="--", linewidth=0.9, marker="x", markersize=5),
        ],
    )
    return figure


def draw_left_out(panel: Axes, line: Curve, shade: Any, logarithmic: bool, limits: tuple[float, float] | None) -> None:
    """Draw the draws that are in no mean, each up to a cross at its last finite value, kept inside the limits."""
    for _, x, values in line.left_out:
        use = np.isfinite(values) & ((x > 0) if logarithmic else np.isfinite(x))
        if not use.any():
            continue
        at, heights = x[use], values[use] if limits is None else np.clip(values[use], *limits)
        panel.plot(at, heights, color=shade, linewidth=0.9, linestyle="--", alpha=0.8, zorder=2.5)
        panel.plot(
            at[-1:], heights[-1:], color=shade, linestyle="none", marker="x", markersize=6, zorder=4, clip_on=False
        )
