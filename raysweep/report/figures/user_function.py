"""The figure that a function of the user drew, as it is."""

from __future__ import annotations

from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding
from raysweep.analyses.user_function import UserPlot
from raysweep.report.figures import drawing
from raysweep.workloads.declaration import Workload


@drawing.draw.register(UserPlot)
def user_figure(plot: UserPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    return plot.figure, plot.caption or f"What {finding.kind} draws."
