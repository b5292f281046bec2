"""The figure of a metric at the best rate over the length, as in O Fig. 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.regime import AtBestPlot, RegimeLine
from raysweep.analyses.rows import CellMeans
from raysweep.fits.draws import decades
from raysweep.numbers import number
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.style import BASE, FAINT
from raysweep.report.names import axis_label, called
from raysweep.workloads.declaration import Workload

FIXED: dict[str, Any] = {"color": FAINT, "linestyle": ":", "linewidth": 1.1}  # the metric at a fixed rate


@drawing.draw.register(AtBestPlot)
def draw_at_best(plot: AtBestPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """A metric over the length, and the caption.

    The lines are the metric at the best rate (solid), at fixed rates (thin, as in O Fig. 7) and of the base model
    (dashed, as in O Fig. 6). Fixed rates are shown only in panels with one line.
    """
    metric, length = plot.shown, plot.length
    sheet = drawing.sheet(plot.panels, workload, 4.4, 3.6)
    any_censored = any_fixed = any_base = False
    lowest = np.inf
    for panel, lines in sheet.panels:
        heights: list[np.ndarray] = []
        lowest_base = np.inf
        for line, shift in zip(lines, aside(lines, length), strict=True):  # error bars side by side
            regime = line.data.regime
            table = positive(regime.beside.get(metric, regime.at_best_lr).table, length)
            at, mean, low, high = (table[name].to_numpy(float) for name in (length, "mean", "low", "high"))
            heights.append(mean)
            at = at * shift
            line.points(panel, at, mean, (low, high), 1.1, 2.0, fmt=f"{line.marker}-", linewidth=1.3)
            censored = table["censored"].to_numpy(bool)
            if censored.any():
                any_censored = True
                look = {"color": line.colour, "markerfacecolor": "white", "markersize": line.size, "zorder": 4}
                panel.plot(at[censored], mean[censored], line.marker, **look)
            base = line.data.base.get(metric)
            if base is not None:
                any_base = True
                use = np.isfinite(base.x) & (base.x > 0)
                panel.plot(base.x[use], base.centre[use], **BASE, zorder=2)
                lowest_base = min([lowest_base, *base.centre[use]])
        if len(lines) == 1 and (fixed := lines[0].data.fixed.get(metric)):
            any_fixed = True
            heights += draw_fixed_rates(panel, fixed, heights[0])
        scales.set_log(panel.xaxis)
        every = np.concatenate(heights) if heights else np.empty(0)
        if decades(every := every[np.isfinite(every)]):
            scales.set_log(panel.yaxis)
            # A base model close to zero must not stretch the logarithmic axis, so its line may be cut.
            lowest = min(lowest, max(min(lowest_base, every.min()), every.min() / 30))
    top = sheet.axes[0]
    if np.isfinite(lowest):  # when everything is drawn: setting one end of an axis fixes the other one where it is
        top.set_ylim(bottom=lowest / 1.3)
    if any_fixed:  # room for the rates at the ends of their lines, next to the legend
        left, right = top.get_xlim()
        top.set_xlim(left, right * (right / left) ** 0.14)
    sheet.label(axis_label(length, workload), axis_label(metric, workload), linestyle="-", markersize=5.5)
    entries = [
        drawing.mark("at the tuned rate", linestyle="-", marker="o", markersize=4.5),
        any_censored
        and (
            drawing.mark("at the best rate of the grid", marker="o", markerfacecolor="white"),
            "Open markers: the optimum lies beyond the rates, so the best of them is taken.",
        ),
        any_fixed and (drawing.mark("at a fixed rate", **FIXED), "Dotted: at a fixed rate, which stands at its end."),
        any_base and (drawing.mark("base model", **BASE), "Dashed: the base model."),
    ]
    lr, length, metric, shown = (called(name, workload) for name in (plot.lr, plot.length, plot.metric, plot.shown))
    caption = (
        f"{shown} at the {lr} that is best for {metric}, against {length} (as O Fig. 6), with "
        f"{100 * finding.level:g} % intervals between draws."
    )
    columns = 2 * min(2, drawing.columns_of_panels(sheet.axes))
    text = drawing.sentences(caption, drawing.legend_below(sheet.figure, entries, columns))
    return sheet.figure, text + sheet.left_out(plot.every)


def aside(lines: Sequence[drawing.Drawn[RegimeLine]], length: str) -> np.ndarray:
    """The factor by which the points of each line are moved along the axis of lengths."""
    lengths = np.unique(np.concatenate([positive(one.data.regime.optimum.table, length)[length] for one in lines]))
    return np.exp(1.6 * drawing.dodge(lengths, len(lines), True))


def positive(table: pd.DataFrame, length: str) -> pd.DataFrame:
    """The rows whose length is finite and above 0."""
    at = table[length].to_numpy(float)
    return table[np.isfinite(at) & (at > 0)]


def draw_fixed_rates(panel: Any, fixed: Sequence[tuple[float, CellMeans]], at_best: np.ndarray) -> list[np.ndarray]:
    """Draw a thin line for each fixed rate, and the rate at its end if this label does not overlap another one.

    at_best: the metric at the best rate. The minimum distance between labels is a share of the range of all curves.

    Returns the heights of the lines.
    """
    heights, labels = [], []
    for rate, means in fixed:
        use = np.isfinite(means.x) & (means.x > 0)
        panel.plot(means.x[use], means.centre[use], **FIXED, zorder=1)
        heights.append(means.centre[use])
        if use.any():
            labels.append((rate, (float(means.x[use][-1]), float(means.centre[use][-1]))))
    seen = np.concatenate([at_best, *heights])
    shown: list[float] = []
    for rate, place in sorted(labels, key=lambda each: -each[1][1]):
        if all(abs(place[1] - other) > 0.045 * float(np.nanmax(seen) - np.nanmin(seen)) for other in shown):
            shown.append(place[1])
            look = {"fontsize": 8, "color": "#666666", "va": "center", "annotation_clip": True}
            panel.annotate(number(rate, 2), place, xytext=(3, 0), textcoords="offset points", **look)
    return heights
