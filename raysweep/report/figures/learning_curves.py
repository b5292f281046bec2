"""The figure of learning curves: a mean over draws with its band, and the draws that are in no mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.report.figures import drawing, scales
from raysweep.report.names import axis_label
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Learning:
    """One line of a panel.

    x, mean, low, high: the mean curve and its band (NaN without one).
    left_out: (x, values) of each draw that is in no mean.
    """

    key: Any
    label: str
    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    left_out: Sequence[tuple[np.ndarray, np.ndarray]]


def learning_figure(
    parts: Sequence[tuple[str, Sequence[Learning]]],
    x: str,
    metric: str,
    logarithmic: bool,
    percent: str,
    left_out: str,
    workload: Workload,
) -> Figure:
    """Draw one panel per part (title, lines).

    x: the label of the axis.
    logarithmic: whether x is drawn in log; points at 0 are not shown then.
    percent: the level of the bands, as text.
    left_out: what the dashed lines are, for the legend.
    """
    figure, axes = drawing.panels(len(parts), 4.6, 3.7, [title for title, _ in parts])
    every = [line for _, lines in parts for line in lines]
    colour = drawing.shades(parts)
    marker = drawing.marker_of(list(colour))
    ends = np.concatenate([end for line in every for end in (line.mean, line.low, line.high)])
    ends = ends[np.isfinite(ends)]
    for panel, (title, lines) in zip(axes, parts, strict=True):
        if logarithmic:
            scales.set_log(panel.xaxis)
        elif lines:
            scales.whole_ticks(panel.xaxis, np.concatenate([line.x for line in lines]))
        if len(ends) and (width := scales.asinh_width(ends)):
            scales.set_asinh(panel.yaxis, ends, width)
        for line in lines:
            at = line.x > 0 if logarithmic else np.isfinite(line.x)
            panel.fill_between(
                line.x[at], line.low[at], line.high[at], color=colour[line.key], alpha=0.18, linewidth=0, zorder=2
            )
            look: dict[str, Any] = {
                "marker": marker[line.key],
                "markersize": drawing.SIZES[marker[line.key]],
                "markevery": 0.15,
            }
            panel.plot(line.x[at], line.mean[at], color=colour[line.key], linewidth=1.4, zorder=3, **look)
        panel.set_title(drawing.in_lines(title) if len(axes) > 1 else title)
    limits = axes[0].get_ylim() if len(ends) else None  # a draw on its way to infinity must not decide the scale
    for panel, (_, lines) in zip(axes, parts, strict=True):
        for line in lines:
            draw_left_out(panel, line, colour[line.key], logarithmic, limits)
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


def draw_left_out(
    panel: Axes, line: Learning, shade: Any, logarithmic: bool, limits: tuple[float, float] | None
) -> None:
    """Draw the draws that are in no mean, each up to a cross at its last finite value, kept inside the limits."""
    for x, values in line.left_out:
        use = np.isfinite(values) & ((x > 0) if logarithmic else np.isfinite(x))
        if not use.any():
            continue
        at, heights = x[use], values[use] if limits is None else np.clip(values[use], *limits)
        panel.plot(at, heights, color=shade, linewidth=0.9, linestyle="--", alpha=0.8, zorder=2.5)
        panel.plot(
            at[-1:], heights[-1:], color=shade, linestyle="none", marker="x", markersize=6, zorder=4, clip_on=False
        )
