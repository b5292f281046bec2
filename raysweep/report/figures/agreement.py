"""The figure of the experiment against the closed form: all cells, and the averages of the draws."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.agreement import AgreementPlot
from raysweep.fits.statistics import LEVEL, half_width, t_quantile
from raysweep.phrases import counted
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.style import QUALITATIVE, THEORY
from raysweep.report.names import BARS, axis_label
from raysweep.workloads.declaration import Workload

DASHES = (0, (5, 2))  # of the closed form, which so differs from the mean in more than its colour


@drawing.draw.register(AgreementPlot)
def draw_agreement(plot: AgreementPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    table, test = plot.table, plot.test
    figure = Figure(figsize=(drawing.WIDE, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    theory, mean = table["theory"].to_numpy(float), table["mean"].to_numpy(float)
    error = table["standard_error"].fillna(0).to_numpy(float)
    wide = half_width(LEVEL, error, table["draws"].to_numpy())
    look = {"alpha": 0.65, "label": "cells", "rasterized": len(table) > 2000}
    drawing.points(left, theory, mean, (mean - wide, mean + wide), QUALITATIVE[0], 3, 0.8, None, **look)
    both = np.concatenate([theory, mean])
    sizes = np.abs(both[both != 0])
    if len(sizes) and sizes.max() > 50 * np.median(sizes):
        for axis in (left.xaxis, left.yaxis):
            scales.set_asinh(axis, both, float(np.median(sizes)))
    low, high = float(both.min()), float(both.max()) + 1e-12
    left.axline((low, low), (high, high), color=THEORY, linewidth=1.3, linestyle=DASHES, label="equal", zorder=3)
    left.set_xlabel("theory")
    left.set_ylabel(f"mean over draws, {BARS}")
    left.set_title(axis_label(plot.metric, workload))
    left.legend(loc="upper left")
    order = np.arange(1, test.draws + 1)
    half = t_quantile(LEVEL, test.draws - 1) * test.error
    right.axhline(0, color=THEORY, linewidth=1.3, linestyle=DASHES, label="theory")
    right.plot(order, np.sort(test.averages), "o", color=QUALITATIVE[0], markersize=4, label="draws, in order")
    label = f"mean, {100 * LEVEL:g} %"
    right.axhspan(test.mean - half, test.mean + half, color=QUALITATIVE[4], alpha=0.3, linewidth=0, label=label)
    right.axhline(test.mean, color=QUALITATIVE[0], linewidth=1.1)
    right.set_xticks([])
    right.set_xlabel(counted(test.draws, "draw"))
    right.set_ylabel("distance from theory (SD of a draw)")
    reach = 1.35 * max(float(np.abs(test.averages).max()), half)
    right.set_ylim(-reach, reach)  # room for the legend above the data
    right.legend(loc="upper left", ncols=3)
    caption = (
        f"Left: mean over draws of each cell with its {BARS}, against theory. Right: each draw's distance from theory, "
        f"averaged over cells, with their mean and its {BARS}. Cells of one draw are not independent, draws are."
    )
    return figure, caption
