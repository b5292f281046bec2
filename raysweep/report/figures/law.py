"""The figure of a law: the best value over the first of its axes, with the law and the interval of a new setting."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.kinds.law import LawPlot
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.style import QUALITATIVE
from raysweep.report.names import axis_label, called, settings
from raysweep.workloads.declaration import Workload


@drawing.draw.register(LawPlot)
def draw_law(plot: LawPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The figure of the law and its caption."""
    titles = [settings(one.where, workload) for one in plot.panels]
    figure, axes = drawing.panels(len(titles), 4.6, 3.7, titles)
    bounds = False
    for panel, lines in zip(axes, (one.lines for one in plot.panels), strict=True):
        scales.set_log(panel.xaxis)
        scales.set_log(panel.yaxis)
        for k, line in enumerate(lines):
            colour = QUALITATIVE[k % len(QUALITATIVE)]
            panel.plot(
                line.fine, line.centre, color=colour, linewidth=1.3, label=settings(line.where, workload) or None
            )
            panel.fill_between(
                line.fine, line.low, line.high, color=colour, alpha=0.05 if len(lines) > 2 else 0.15, lw=0
            )
            x, y, low, high = (line.table[name].to_numpy(float) for name in (plot.along, "estimate", "low", "high"))
            located = (line.table["outcome"] == Outcome.LOCATED).to_numpy()
            shown = x[located] * np.exp(0.02 * (k - (len(lines) - 1) / 2))
            interval = low[located], high[located]
            drawing.points(panel, shown, y[located], interval, colour, 4.2, 1.1, 1.8, zorder=3)
            for bound, marker in ((low, "^"), (high, "v")):
                bounded = ~located & np.isfinite(bound) & (bound > 0)
                bounds |= bool(bounded.any())
                panel.plot(x[bounded], bound[bounded], marker, color=colour, markerfacecolor="none", markersize=5.5)
        if lines and lines[0].where:
            panel.legend(fontsize=8)
    drawing.label_panels(axes, axis_label(plot.along, workload), f"best {axis_label(plot.lr, workload)}")
    percent = f"{100 * finding.level:g} %"
    marks = [
        drawing.mark(f"best value, {percent}", marker="o", markersize=5),
        drawing.mark("law, band of a new setting", linestyle="-", linewidth=1.3),
        bounds
        and (
            drawing.mark("beyond this value", marker="^", markerfacecolor="none"),
            "Open triangles: the best value lies beyond, in the direction in which the triangle points.",
        ),
    ]
    text = drawing.legend_below(figure, marks)
    names = (
        f"Best {called(plot.lr, workload)} for {called(plot.metric, workload)} against {called(plot.along, workload)}"
    )
    caption = f"{names}, both logarithmic. Lines: the law, with the {percent} band of a new setting. {text}".strip()
    return figure, caption + drawing.left_out_words(len(plot.panels), plot.every)
