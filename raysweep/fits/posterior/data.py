"""The draws of one curve, scaled for the posterior: x over [0, 1], values of order 1, levels removed or kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raysweep.fits.statistics import two_way_anova

DIGITS = 10  # of the range of the mean curve
LEAST_NOISE = 1e-6  # of the range of the mean curve: less is lost in rounding


@dataclass(frozen=True, eq=False)
class CurveData:
    """The draws of one curve in units without dimension.

    t: (points,), from 0 to 1, increasing.
    mean: (points,), the mean curve; with levels removed its lowest point is 0.
    residual: (draws, points), value - mean (and - the level of the draw, if levels are removed); NaN where missing.
    keep_level: whether the level of a draw is part of the value (a zero is asked for), or says nothing (an extremum).
    deviation: the standard deviation of the residuals.
    contrasts: (contrasts, points), orthonormal rows; all that the values say. Without levels: those orthogonal to 1.
    scale, offset: value = offset + scale * (scaled value).
    """

    t: np.ndarray
    mean: np.ndarray
    residual: np.ndarray
    keep_level: bool
    deviation: float
    contrasts: np.ndarray
    scale: float
    offset: float

    @property
    def complete(self) -> bool:
        """Whether no value is missing."""
        return bool(np.isfinite(self.residual).all())


def curve_data(x: np.ndarray, values: np.ndarray, keep_level: bool) -> CurveData:
    """Scale the draws of a curve.

    x: (points,), increasing, finite, at least two.
    values: (draws, points), finite or NaN (missing), each point in some draw. At least two draws share two points.
    keep_level: see `CurveData`.
    """
    values = values[np.isfinite(values).any(axis=1)]
    known = np.isfinite(values)
    draws, points = values.shape
    t = (x - x[0]) / (x[-1] - x[0])
    curve = np.nanmean(values, axis=0) if keep_level else two_way_anova(values).curve
    offset = 0.0 if keep_level else float(curve.min())
    scale = float(np.abs(curve).max() if keep_level else np.ptp(curve)) or 1.0
    mean, scaled = (curve - offset) / scale, (values - offset) / scale
    residual = scaled - mean
    if not keep_level:
        residual -= np.nanmean(residual, axis=1, keepdims=True)
    # What rounding leaves of a draw's level must not change the answer.
    mean, residual = np.round(mean, DIGITS), np.round(residual, DIGITS)
    degrees = max(known.sum() - points - (0 if keep_level else draws - 1), 1)
    deviation = float(np.sqrt(np.nansum(residual**2) / degrees))
    centre = np.eye(points) if keep_level else np.linalg.svd(np.eye(points) - 1 / points)[2][: points - 1]
    return CurveData(t, mean, residual, keep_level, max(deviation, LEAST_NOISE), centre, scale, offset)
