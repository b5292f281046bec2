"""Draw the figures of a finding: one function for each type of plot, registered where it is defined.

Register with the type, `@draw.register(CurvesPlot)`: annotations are not read, because matplotlib is imported late.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from raysweep.analyses.finding import Finding, Plot
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@singledispatch
def draw(plot: Plot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The figure of a plot and its caption. Raises TypeError for a type of plot without a drawing function."""
    raise TypeError(f"no function draws {type(plot).__name__}")
