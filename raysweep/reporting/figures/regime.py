"""Figures of the regime: the best rate against length (as O Fig. 34), and metrics at the tuned rate (as O Fig. 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import decades
from raysweep.fits.regime import Regime
from raysweep.fits.result import Status
from raysweep.reporting.figures.style import (
    BASE,
    columns_of_panels,
    label_panels,
    legend_below,
    legend_right,
    mark,
    panels,
    set_log,
    shades,
)
from raysweep.reporting.selection import CellMeans
from raysweep.reporting.words import axis_label, number
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Setting:
    """One setting of the other axes: a line. fixed: the metrics at fixed rates, by metric (rate, means over length).
    base: the metrics of the base model, by metric."""

    key: Any
    label: str
    regime: Regime
    fixed: dict[str, list[tuple[float, CellMeans]]]
    base: dict[str, CellMeans | None]


def rates_figure(
    parts: Sequence[tuple[str, list[Setting]]], lr: str, length: str, workload: Workload, level: float
) -> Figure:
    """Optimal rate against length, both logarithmic, one panel per part (title, settings), with the fitted power law.

    A censored optimum is a triangle at the bound that is known, pointing to where it lies.
    """
    figure, axes = panels(len(parts), width=4.4, height=3.6)
    shade = shades(parts)
    censored = fitted = False
    for panel, (title, lines) in zip(axes, parts, strict=True):
        set_log(panel.yaxis)
        for index, setting in enumerate(lines):
            colour, regime = shade[setting.key], setting.regime
            table = regime.optimum.table
            table = table[np.isfinite(table[length].to_numpy(float)) & (table[length].to_numpy(float) > 0)]
            shift = 1 + 0.02 * (index - (len(lines) - 1) / 2)  # error bars side by side
            found = table[table["status"] == Status.LOCATED]
            at, rate = found[length].to_numpy(float) * shift, found["estimate"].to_numpy(float)
            ends = [rate - found["low"].to_numpy(float), found["high"].to_numpy(float) - rate]
            panel.errorbar(
                at, rate, yerr=np.maximum(ends, 0), fmt="o", color=colour, markersize=4.5, elinewidth=1.4, capsize=2.2
            )
            for bound, marker in (("low", "^"), ("high", "v")):
                known = table[(table["status"] != Status.LOCATED) & np.isfinite(table[bound])]
                if len(known):
                    censored = True
                    spot = known[length].to_numpy(float) * shift
                    panel.plot(spot, known[bound], marker, color=colour, markerfacecolor="none", markersize=6)
            if np.isfinite(regime.slope):
                fitted = True
                ends_of_line = table[length].to_numpy(float)[[0, -1]]
                panel.plot(
                    ends_of_line,
                    np.exp(regime.intercept) * ends_of_line**regime.slope,
                    color=colour,
                    linestyle="--",
                    linewidth=1.2,
                )
        set_log(panel.xaxis)
        panel.set_title(title)
    label_panels(axes, axis_label(length, workload), f"best {axis_label(lr, workload)}")
    kinds = [mark(f"best rate, {100 * level:g} %", marker="o", markersize=5)]
    if fitted:
        kinds.append(mark("power law fitted", linestyle="--", linewidth=1.2))
    if censored:
        kinds.append(mark("beyond (censored)", marker="^", markerfacecolor="none"))
    finish(figure, axes, parts, shade, kinds)
    return figure


def tuned_figure(parts: Sequence[tuple[str, list[Setting]]], metric: str, length: str, workload: Workload) -> Figure:
    """A metric at the tuned rate against length (solid), at fixed rates (thin, as in O Fig. 7) and of the base model
    (dashed, as in O Fig. 6), a panel a part.

    Fixed rates are shown where a panel has one line.
    """
    figure, axes = panels(len(parts), width=4.4, height=3.6)
    shade = shades(parts)
    any_censored = any_fixed = any_base = False
    for panel, (title, lines) in zip(axes, parts, strict=True):
        heights: list[np.ndarray] = []
        lowest_base = np.inf
        line_ends: list[tuple[float, float, float]] = []
        for setting in lines:
            regime, colour = setting.regime, shade[setting.key]
            table = regime.beside.get(metric, regime.at_best_lr).table
            at = table[length].to_numpy(float)
            table = table[np.isfinite(at) & (at > 0)]
            at, mean = table[length].to_numpy(float), table["mean"].to_numpy(float)
            heights.append(mean)
            ends = [mean - table["low"].to_numpy(float), table["high"].to_numpy(float) - mean]
            panel.errorbar(at, mean, yerr=np.maximum(ends, 0), color=colour, marker="o", markersize=4.5, capsize=2.2)
            censored = table["censored"].to_numpy(bool)
            if censored.any():
                any_censored = True
                open_circle = {"color": colour, "markerfacecolor": "white", "markersize": 4.5, "zorder": 4}
                panel.plot(at[censored], mean[censored], "o", **open_circle)
            base = setting.base.get(metric)
            if base is not None:
                use = np.isfinite(base.x) & (base.x > 0)
                panel.plot(base.x[use], base.centre[use], **BASE, zorder=2)
                lowest_base = min([lowest_base, *base.centre[use]])
                any_base = True
            if len(lines) == 1:
                for rate, means in setting.fixed.get(metric, []):
                    use = np.isfinite(means.x) & (means.x > 0)
                    any_fixed = True
                    panel.plot(means.x[use], means.centre[use], ":", color="#888888", linewidth=1.1, zorder=1)
                    heights.append(means.centre[use])
                    if use.any():
                        line_ends.append((rate, float(means.x[use][-1]), float(means.centre[use][-1])))
        seen = np.concatenate(heights) if heights else np.zeros(1)
        for rate, right, height in apart(line_ends, float(np.nanmax(seen) - np.nanmin(seen))):
            panel.annotate(
                number(rate, 2),
                (right, height),
                xytext=(3, 0),
                textcoords="offset points",
                fontsize=6.5,
                color="#777777",
                va="center",
                annotation_clip=True,
            )
        set_log(panel.xaxis)
        every = np.concatenate(heights) if heights else np.empty(0)
        if decades(every := every[np.isfinite(every)]):
            set_log(panel.yaxis)
            # a base model that reaches zero would leave the lines that the figure is about no room
            panel.set_ylim(bottom=max(min(lowest_base, every.min()), every.min() / 30) / 1.3)
        panel.set_title(title)
    label_panels(axes, axis_label(length, workload), axis_label(metric, workload))
    kinds = [mark("at the tuned rate", linestyle="-", marker="o", markersize=4.5)]
    if any_censored:
        kinds.append(mark("best rate of the grid (optimum censored)", marker="o", markerfacecolor="white"))
    if any_fixed:
        kinds.append(mark("at a fixed rate", color="#888888", linestyle=":", linewidth=1.1))
    if any_base:
        kinds.append(mark("base model", **BASE))
    finish(figure, axes, parts, shade, kinds)
    return figure


def apart(ends: list[tuple[float, float, float]], span: float) -> list[tuple[float, float, float]]:
    """Of (rate, x, height) those whose labels do not run into an earlier one's, from the highest down."""
    kept: list[tuple[float, float, float]] = []
    for end in sorted(ends, key=lambda each: -each[2]):
        if all(abs(end[2] - other[2]) > 0.035 * span for other in kept):
            kept.append(end)
    return kept


def finish(
    figure: Figure, axes: list[Any], parts: Sequence[tuple[str, list[Setting]]], shade: dict[Any, Any], kinds: list[Any]
) -> None:
    """Both legends."""
    from matplotlib.lines import Line2D

    labels = {line.key: line.label for _, lines in parts for line in lines}
    if len(shade) > 1:
        handles = [Line2D([], [], color=shade[key], marker="o", markersize=4.5, label=labels[key]) for key in shade]
        legend_right(axes, handles)
    legend_below(figure, kinds, 2 * min(2, columns_of_panels(axes)))
