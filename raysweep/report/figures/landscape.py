"""The figure of surfaces: one row of panels for each setting, one column for each metric, all on one scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.landscape import LandscapePlot
from raysweep.fits.draws import decades
from raysweep.report.figures import drawing
from raysweep.report.names import axis_label, called, settings
from raysweep.workloads.declaration import Workload

LEVELS = 16


@drawing.draw.register(LandscapePlot)
def draw_landscapes(plot: LandscapePlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """Filled contours of one draw, with the same levels in all panels, and the caption. Each metric has a column."""
    surfaces, metrics, seed = plot.surfaces, plot.metrics, plot.seed
    names = [
        settings({**one.where, **({"metric": one.metric} if len(metrics) > 1 else {})}, workload) for one in surfaces
    ]
    figure, axes = drawing.panels(len(surfaces), 3.8, names)
    levels = common_levels(np.concatenate([one.draws[seed].ravel() for one in surfaces]))
    norm = BoundaryNorm(levels, 256)
    marks: dict[str, Any] = {"linestyle": "none", "markersize": 8, "markeredgewidth": 1.8}
    for panel, one in zip(axes, surfaces, strict=True):
        values = one.draws[seed]
        panel.grid(False)
        panel.contourf(one.x, one.y, values, levels=levels, cmap="viridis", norm=norm)
        panel.contour(one.x, one.y, values, levels=levels, colors="white", linewidths=0.4, alpha=0.6)
        lowest = np.unravel_index(int(values.argmin()), values.shape)
        panel.plot(0, 0, marker="+", color="white", clip_on=False, **marks)
        panel.plot(one.x[lowest[1]], one.y[lowest[0]], marker="x", color="#D81B60", clip_on=False, **marks)
        panel.set_aspect("equal")
    drawing.label_panels(axes, axis_label(plot.x, workload), axis_label(plot.y, workload))
    label = axis_label(metrics[0], workload) if len(metrics) == 1 else "value"
    look: dict[str, Any] = {"pad": 0.015, "aspect": 28, "spacing": "uniform", "format": "%.3g", "ticks": levels[::2]}
    figure.colorbar(ScalarMappable(norm, "viridis"), ax=axes, label=label, **look)
    shown = " and ".join(called(name, workload) for name in metrics)
    caption = f"{shown} of {plot.stage} in draw {seed}, on one scale: + is the middle of the plane, × the lowest point."
    return figure, caption + drawing.left_out(len(surfaces) // len(metrics), plot.every)


def common_levels(values: np.ndarray) -> np.ndarray:
    """Edges of the colours: equal steps, or equal factors if all values are positive and span more than a decade."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.array([low - 0.5, low + 0.5])
    return (np.geomspace if decades(np.array([low, high])) else np.linspace)(low, high, LEVELS + 1)
