"""The signs of a curve at the grid points, and what is known of its zero if they do not change."""

from __future__ import annotations

from typing import Any

import numpy as np

from raysweep.fits.crossing import middle_and_margins
from raysweep.fits.reasons import Reason, because
from raysweep.fits.result import Status
from raysweep.fits.statistics import ROUNDING, clearly_positive, independent_points, normal_quantile, standard_error
from raysweep.fits.zero_posterior.mixture import Mixture


def posterior_signs(curve: Mixture, values: np.ndarray, level: float) -> np.ndarray:
    """The sign of the curve at each grid point: +1 or -1 if the chance of the other one is at most (1 - level) / 2, or
    (1 - level) / n with n `independent_points` of the values; otherwise 0."""
    doubt = (1 - level) / max(2.0, independent_points(values))
    positive = curve.positive(curve.t)
    return (positive >= 1 - doubt).astype(int) - (positive <= doubt).astype(int)


def clear_signs(values: np.ndarray, level: float, scale: str, exact: bool) -> np.ndarray:
    """The sign of the curve at each grid point: +1 or -1 if it is significant, otherwise 0. The test is corrected for
    the number of `independent_points`: those that move together between draws count as one."""
    return point_signs(values, max(level, 1 - 2 * (1 - level) / independent_points(values)), scale, exact)


def point_signs(values: np.ndarray, level: float, scale: str, exact: bool) -> np.ndarray:
    """The sign of the curve at each grid point as `clear_signs`, each by a test of its own at this level."""
    middle, (margin,) = middle_and_margins(values, (level,), scale, exact)
    direction = np.nansum(np.sign(values), axis=0) if scale == "sign" else np.nan_to_num(middle)
    return np.where(margin < 0, np.sign(direction), 0).astype(int)


def clearness(mean: np.ndarray, labels: np.ndarray, node: int) -> float:
    """How clear the sign is on one side of a crossing: the largest |mean| at the grid point `node` and around it, up to
    the next point on each side whose sign is clearly the opposite."""
    other = np.flatnonzero(labels == -labels[node])
    first = other[other < node].max(initial=-1) + 1
    last = other[other > node].min(initial=len(labels))
    return float(np.nanmax(np.abs(mean[first:last])))


def without_crossing(
    x: np.ndarray, values: np.ndarray, labels: np.ndarray, level: float, exact: bool, errors: np.ndarray | None = None
) -> dict[str, Any]:
    """The fields status, low, high, sign, zero_end, reason and note of the `Zero` of a curve without a sign change.

    It is censored if the curve has one clear sign and comes nearer to zero towards one edge; otherwise undetermined.
    The zero lies beyond the last point with a clear sign: beyond the grid only if this point is the edge. The reason
    says if it is not.
    """
    if not np.nanmax(np.abs(values)) > 0:
        return because(Reason.ZERO_EVERYWHERE)
    clear = np.flatnonzero(labels)
    if not len(clear):
        return because(Reason.NO_CLEAR_SIGN)
    first, last, sign = clear[0], clear[-1], int(labels[clear[0]])
    present = np.nan_to_num(values).any(axis=0)
    for outside, end, reason in (
        (present[:first], first - 1, Reason.ZERO_UP_TO),
        (present[last + 1 :], last + 1, Reason.ZERO_FROM),
    ):
        if len(outside) and not outside.any():
            return {"sign": sign, "zero_end": float(x[end]), **because(reason, zero_end=x[end])}
    mean = standard_error(values)[0]
    lower = bool(sign * mean[0] < sign * mean[-1])  # the edge that is nearer to zero
    nearer, farther = (labels[0], labels[-1]) if lower else (labels[-1], labels[0])
    gaps = nearer == 0 and (np.diff(clear) > 1).any()
    if farther == 0 or gaps or not falls_towards(lower, sign * values, level, exact, errors):
        everywhere = Reason.POSITIVE_EVERYWHERE if sign > 0 else Reason.NEGATIVE_EVERYWHERE
        reason = Reason.PARTLY_CLEAR if len(clear) < len(x) else everywhere
        return {"sign": sign, **because(reason, sign=sign, clear_points=len(clear), points=len(x))}
    if lower:
        reason = Reason.LOW_SIGN_UNCLEAR if nearer == 0 else Reason.BEYOND_LOW
        place = {"status": Status.CENSORED_LOW, "low": -np.inf, "high": float(x[first])}
    else:
        reason = Reason.HIGH_SIGN_UNCLEAR if nearer == 0 else Reason.BEYOND_HIGH
        place = {"status": Status.CENSORED_HIGH, "low": float(x[last]), "high": np.inf}
    return {**place, "sign": sign, **because(reason, sign=sign)}


def falls_towards(lower: bool, values: np.ndarray, level: float, exact: bool, errors: np.ndarray | None = None) -> bool:
    """Whether values[draw, point] are clearly lower in the third nearest one edge (`lower`: the lower one) than at all
    other points, by Student's t test, or by the given errors of the means."""
    third = max(1, values.shape[1] // 3)
    near = np.arange(values.shape[1]) < third
    near = near if lower else near[::-1]
    if errors is not None:
        share = np.where(near, -1 / near.sum(), 1 / (~near).sum())
        error = float(np.linalg.norm(share * errors))
        return bool(share @ np.nanmean(values, axis=0) > normal_quantile(2 * level - 1) * error)
    complete = np.isfinite(values).all(axis=1)
    both = np.isfinite(values[:, near]).any(axis=1) & np.isfinite(values[:, ~near]).any(axis=1)
    rows = values[complete if complete.sum() >= 2 or exact else both]
    difference = np.nanmean(rows[:, ~near], axis=1) - np.nanmean(rows[:, near], axis=1)
    return bool(clearly_positive(difference[:, None] - ROUNDING * np.nanmax(np.abs(values)), level, exact)[0])
