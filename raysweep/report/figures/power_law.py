"""The figure of power laws: geometric means with their intervals over one axis, and the fitted lines, on log scales."""

from __future__ import annotations

from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.power_law import PowerLawPlot
from raysweep.report.figures import drawing, scales
from raysweep.report.names import axis_label, called, settings
from raysweep.workloads.declaration import Workload


@drawing.draw.register(PowerLawPlot)
def draw_power_laws(plot: PowerLawPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The figure of power laws and its caption."""
    percent, sheet = f"{100 * finding.level:g} %", drawing.sheet(plot.panels, workload, 4.6, 3.7)
    titles, shared = drawing.without_shared([settings(panel.where, workload) for panel in plot.panels])
    for (panel, lines), title in zip(sheet.panels, titles, strict=True):
        scales.set_log(panel.xaxis)
        scales.set_log(panel.yaxis)
        for line in lines:
            law = line.data
            panel.plot(law.means.x, law.fitted, color=line.colour, linewidth=1.2, zorder=2)
            panel.plot(law.theory_x, law.theory, color=line.colour, linewidth=1.4, linestyle=":", zorder=2)
            line.points(panel, law.means.x, law.means.centre, law.means.bars, 1.1, 1.8, zorder=3)
        panel.set_title(drawing.in_lines(title) if len(titles) > 1 else title)
    sheet.label(axis_label(plot.x, workload), axis_label(plot.metric, workload), markersize=5.5)
    entries = [
        drawing.mark(f"geometric mean, {percent} interval", marker="o", markersize=4),
        drawing.mark("fitted power law", linestyle="-", linewidth=1.2),
        any(len(law.theory) for law in sheet.every)
        and (drawing.mark("closed form", linestyle=":", linewidth=1.4), "Dotted: the closed form."),
    ]
    several = (finding.table["draws"] > 1).any()
    points = f"geometric mean over draws, pointwise {percent} interval" if several else "the value of the only draw"
    names = f"{called(plot.metric, workload)} against {called(plot.x, workload)}"
    caption = f"{names}, both logarithmic: {points}, and the fitted power law."
    text = drawing.sentences(caption, drawing.legend_below(sheet.figure, entries), shared and f"Everywhere: {shared}.")
    return sheet.figure, text + sheet.left_out(plot.every)
