"""The draws of one curve, scaled for the posterior: x over [0, 1], values of order 1, levels of draws removed."""

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
    mean: (points,), the mean curve; its lowest point is 0.
    residual: (draws, points), value - mean - the level of the draw; NaN where missing.
    deviation: the standard deviation of the residuals.
    contrasts: (points - 1, points), orthonormal rows orthogonal to 1: all that values without a level say.
    """

    t: np.ndarray
    mean: np.ndarray
    residual: np.ndarray
    deviation: float
    contrasts: np.ndarray


def curve_data(x: np.ndarray, values: np.ndarray) -> CurveData:
    """Scale the draws of a curve.

    x: (points,), increasing, finite, at least two.
    values: (draws, points), finite or NaN (missing), each point in some draw. At least two draws share two points.
    """
    values = values[np.isfinite(values).any(axis=1)]
    present = np.isfinite(values)
    draws, points = values.shape
    t = (x - x[0]) / (x[-1] - x[0])
    curve = two_way_anova(values).curve
    offset, scale = float(curve.min()), float(np.ptp(curve)) or 1.0
    mean, scaled = (curve - offset) / scale, (values - offset) / scale
    residual = scaled - mean
    residual -= np.nanmean(residual, axis=1, keepdims=True)
    # What rounding leaves of a draw's level must not change the answer.
    mean, residual = np.round(mean, DIGITS), np.round(residual, DIGITS)
    degrees = max(present.sum() - points - (draws - 1), 1)
    deviation = float(np.sqrt(np.nansum(residual**2) / degrees))
    contrasts = np.linalg.svd(np.eye(points) - 1 / points)[2][: points - 1]
    return CurveData(t, mean, residual, max(deviation, LEAST_NOISE), contrasts)
