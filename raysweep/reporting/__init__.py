"""From rows to answers: fits with honest error bars, figures, and the report.

Importing this package loads nothing heavy; pandas, scipy and matplotlib are loaded by the first call that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raysweep.reporting.boundary import fit_boundary
    from raysweep.reporting.inflection import fit_inflection
    from raysweep.reporting.optimum import fit_optimum
    from raysweep.reporting.report import Report, write_report
    from raysweep.reporting.result import Fit

__all__ = ["Fit", "Report", "fit_boundary", "fit_inflection", "fit_optimum", "write_report"]

_HOMES = {
    "Fit": "result",
    "fit_boundary": "boundary",
    "fit_inflection": "inflection",
    "fit_optimum": "optimum",
    "Report": "report",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
