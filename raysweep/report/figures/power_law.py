"""The figure of power laws: geometric means with their intervals over one axis, and the fitted lines, on log scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.power_law import Law, PowerLawPlot
from raysweep.analyses.series import Panel
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.draw import draw
from raysweep.report.names import axis_label, called
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@draw.register(PowerLawPlot)
def draw_power_laws(plot: PowerLawPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The figure of power laws and its caption."""
    percent = f"{100 * finding.level:g} %"
    figure, said = power_law_figure(plot.panels, plot.x, plot.metric, workload, percent)
    several = (finding.table["draws"] > 1).any()
    points = f"geometric mean over draws, pointwise {percent} interval" if several else "the value of the only draw"
    names = f"{called(plot.metric, workload)} against {called(plot.x, workload)}"
    caption = f"{names}, both logarithmic: {points}, and the fitted power law. {said}"
    shown = sum(len(panel.lines) for panel in plot.panels)
    return figure, caption.strip() + drawing.left_out_words(shown, plot.every)


def power_law_figure(
    laws: Sequence[Panel[Law]], x: str, metric: str, workload: Workload, percent: str
) -> tuple[Figure, str]:
    """Draw the panels, with one colour and marker per line. percent: the level of the intervals as text.

    Returns the figure and the sentences on what is drawn in it.
    """
    parts = drawing.titled(laws, workload)
    figure, axes = drawing.panels(len(parts), 4.6, 3.7, [title for title, _ in parts])
    colour = drawing.shades(parts)
    marker = drawing.marker_of(list(colour))
    titles, shared = drawing.without_shared([title for title, _ in parts])
    for panel, title, (_, lines) in zip(axes, titles, parts, strict=True):
        scales.set_log(panel.xaxis)
        scales.set_log(panel.yaxis)
        for line in lines:
            shade = colour[line.key]
            panel.plot(line.data.x, line.data.fitted, color=shade, linewidth=1.2, zorder=2)
            panel.plot(line.data.theory_x, line.data.theory, color=shade, linewidth=1.4, linestyle=":", zorder=2)
            own = marker[line.key]
            ends = line.data.low, line.data.high
            drawing.points(
                panel, line.data.x, line.data.centre, ends, shade, drawing.SIZES[own], 1.1, 1.8, zorder=3, fmt=own
            )
        panel.set_title(drawing.in_lines(title) if len(axes) > 1 else title)
    drawing.label_panels(axes, axis_label(x, workload), axis_label(metric, workload))
    drawing.legend_of_lines(axes, parts, colour, marker, markersize=5.5)
    said = drawing.legend_below(
        figure,
        [
            drawing.mark(f"geometric mean, {percent} interval", marker="o", markersize=4),
            drawing.mark("fitted power law", linestyle="-", linewidth=1.2),
            any(len(line.data.theory) for _, lines in parts for line in lines)
            and (drawing.mark("closed form", linestyle=":", linewidth=1.4), "Dotted: the closed form."),
        ],
    )
    return figure, f"{said} Everywhere: {shared}.".strip() if shared else said
