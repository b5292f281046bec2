"""Fits of noisy curves: zero lines, extrema, best learning rates and slopes, each with a confidence interval.

COVERAGE.md says how often each interval contains the true value (measured).

Importing this package loads nothing heavy; pandas and scipy are loaded by the first call that needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raysweep.fits.boundary import fit_boundary
    from raysweep.fits.optimum import fit_inflection, fit_optimum
    from raysweep.fits.result import Fit

__all__ = ["Fit", "fit_boundary", "fit_inflection", "fit_optimum"]

_HOMES = {"Fit": "result", "fit_boundary": "boundary", "fit_inflection": "optimum", "fit_optimum": "optimum"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
