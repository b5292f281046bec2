"""Turn result rows into analyses, figures and a report. The fits can be imported from here too.

Importing this package loads nothing heavy; pandas, scipy and matplotlib are loaded by the first call that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raysweep import fits

if TYPE_CHECKING:
    from raysweep.fits import Fit, fit_boundary, fit_inflection, fit_optimum
    from raysweep.reporting.report import Report, write_report

__all__ = ["Fit", "Report", "fit_boundary", "fit_inflection", "fit_optimum", "write_report"]


def __getattr__(name: str) -> Any:
    if name in fits.__all__:
        return getattr(fits, name)
    if name in __all__:
        from raysweep.reporting import report

        return getattr(report, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
