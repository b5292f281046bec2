"""The figure of two axes: how much worse than the best the metric is expected to be, and what is like the best."""

from __future__ import annotations

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.joint_optimum import PairPlot
from raysweep.report.figures import drawing, scales
from raysweep.report.names import axis_label, called, settings
from raysweep.workloads.declaration import Workload

SHOWN = 0.9
"""The colours end at this quantile of the regrets: beyond it lie cliffs."""


@drawing.draw.register(PairPlot)
def draw_pairs(plot: PairPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    titles = [settings(one.where, workload) for one in plot.panels]
    figure, axes = drawing.panels(len(titles), 3.8, titles)
    top = max(float(np.quantile(np.concatenate([one.regret.ravel() for one in plot.panels]), SHOWN)), 1e-300)
    norm, diverged = PowerNorm(0.5, 0.0, top, clip=True), False
    for panel, one in zip(axes, plot.panels, strict=True):
        for axis, log in zip((panel.xaxis, panel.yaxis), plot.logarithmic, strict=True):
            if log:
                scales.set_log(axis)
        panel.grid(False)
        if len(axes) > 1:
            panel.tick_params(axis="x", labelrotation=45)
        panel.pcolormesh(one.x, one.y, one.regret.T, cmap="viridis_r", norm=norm, shading="gouraud")
        panel.contour(one.x, one.y, one.alike.T.astype(float), levels=[0.5], colors="black", linewidths=1.3)
        panel.plot(*one.runs.T, ".", color="0.35", markersize=2.5)
        panel.plot(*one.diverged.T, "x", color="crimson", markersize=4.5)
        diverged |= bool(len(one.diverged))
        panel.plot(*one.choice, "*", color="white", markeredgecolor="black", markersize=11)
    drawing.label_panels(axes, axis_label(plot.x, workload), axis_label(plot.y, workload))
    metric = called(plot.metric, workload)
    shades = ScalarMappable(norm, "viridis_r")
    figure.colorbar(shades, ax=axes, label=f"expected distance from the best {metric}", ticks=MaxNLocator(4))
    marks = [
        drawing.mark("runs", marker=".", color="0.35"),
        diverged and drawing.mark("diverged", marker="x", color="crimson"),
        drawing.mark("not told from the best", linestyle="-", color="black"),
        drawing.mark("least expected distance", marker="*", markersize=11, markerfacecolor="white"),
    ]
    text = drawing.legend_below(figure, marks)
    caption = (
        f"How far {metric} is expected to lie from its best value, over {called(plot.x, workload)} and "
        f"{called(plot.y, workload)}. Outlined: what is not told from the best ({100 * finding.level:g} %). {text}"
    )
    return figure, caption.strip() + drawing.left_out(len(plot.panels), plot.every)
