"""One module for each kind of figure, in one style."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from raysweep.analyses.finding import Finding
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def drawn(finding: Finding, workload: Workload) -> list[tuple[str, Figure, str]]:
    """(name, figure, caption) of each plot of a finding, in our style."""
    from raysweep.report.figures.drawing import draw
    from raysweep.report.figures.style import styled
    from raysweep.report.names import as_called

    _register_all()
    workload = as_called(finding, workload)
    with styled():
        return [(plot.name, *draw(plot, finding, workload)) for plot in finding.plots()]


@cache
def _register_all() -> None:
    """Import every module here, since each registers with `draw` what it draws."""
    for module in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
