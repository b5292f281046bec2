"""The signs of a curve at the grid points, and what is known of its zero if they do not change."""

from __future__ import annotations

import numpy as np

from raysweep.fits.crossing import middle_and_margins
from raysweep.fits.result import Status
from raysweep.fits.statistics import ROUNDING, clearly_positive, independent_points, standard_error
from raysweep.fits.zero_posterior.mixture import Mixture

NO_CLEAR_SIGN = "no point has a clear sign"
NOT_CLEAR = "no clear sign at"  # in the note of a bound inside the grid: the zero may lie inside it too


def posterior_signs(curve: Mixture, values: np.ndarray, level: float) -> np.ndarray:
    """The sign of the curve at each grid point: +1 or -1 if its chance is high enough, otherwise 0.

    A sign is clear if the chance of the other one is at most (1 - level) / 2, or (1 - level) / n with n independent
    points (`independent_points`).
    """
    doubt = (1 - level) / max(2.0, independent_points(values))
    positive = curve.positive(curve.t)
    return (positive >= 1 - doubt).astype(int) - (positive <= doubt).astype(int)


def clear_signs(values: np.ndarray, level: float, scale: str, exact: bool) -> np.ndarray:
    """The sign of the curve at each grid point: +1 or -1 if it is significant, otherwise 0.

    The test is corrected for the number of independent points (`independent_points`). Points that move together between
    draws count as one.
    """
    point_level = max(level, 1 - 2 * (1 - level) / independent_points(values))
    middle, (margin,) = middle_and_margins(values, (point_level,), scale, exact)
    direction = np.nansum(np.sign(values), axis=0) if scale == "sign" else np.nan_to_num(middle)
    return np.where(margin < 0, np.sign(direction), 0).astype(int)


def clearness(mean: np.ndarray, labels: np.ndarray, node: int) -> float:
    """How clear the sign is on one side of a crossing.

    It is the largest |mean| at the grid point `node` and the points around it, up to the next point on each side whose
    sign is clearly the opposite.
    """
    other = np.flatnonzero(labels == -labels[node])
    first = other[other < node].max(initial=-1) + 1
    last = other[other > node].min(initial=len(labels))
    return float(np.nanmax(np.abs(mean[first:last])))


def without_crossing(
    x: np.ndarray, values: np.ndarray, labels: np.ndarray, level: float, exact: bool
) -> tuple[Status, float, float, str]:
    """(status, low, high, note) of a curve without a sign change.

    It is censored if the curve has one clear sign and comes nearer to zero towards one edge; otherwise undetermined.
    The zero lies beyond the last point with a clear sign: beyond the grid only if this point is the edge. The note says
    if it is not.
    """
    if not np.nanmax(np.abs(values)) > 0:
        return Status.UNDETERMINED, np.nan, np.nan, "zero everywhere"
    clear = np.flatnonzero(labels)
    if not len(clear):
        return Status.UNDETERMINED, np.nan, np.nan, NO_CLEAR_SIGN
    first, last, sign = clear[0], clear[-1], int(labels[clear[0]])
    present = np.nan_to_num(values).any(axis=0)
    if first > 0 and not present[:first].any():
        return (
            Status.UNDETERMINED,
            np.nan,
            np.nan,
            f"exactly zero up to {x[first - 1]:.6g}: meets zero without crossing",
        )
    if last < len(x) - 1 and not present[last + 1 :].any():
        return Status.UNDETERMINED, np.nan, np.nan, f"exactly zero from {x[last + 1]:.6g}: meets zero without crossing"
    mean = standard_error(values)[0]
    lower = bool(sign * mean[0] < sign * mean[-1])  # the edge that is nearer to zero
    nearer, farther = (labels[0], labels[-1]) if lower else (labels[-1], labels[0])
    word = "positive" if sign > 0 else "negative"
    partly = f"{word} at {len(clear)} of {len(x)} points, no clear sign at the others"
    if farther == 0 or (nearer == 0 and (np.diff(clear) > 1).any()):
        return Status.UNDETERMINED, np.nan, np.nan, partly
    if not falls_towards(lower, sign * values, level, exact):
        if len(clear) < len(x):
            return Status.UNDETERMINED, np.nan, np.nan, partly
        return Status.UNDETERMINED, np.nan, np.nan, f"{word} everywhere, towards neither edge"
    if lower:
        inside = f", {NOT_CLEAR} the lower edge" if nearer == 0 else ""
        return Status.CENSORED_LOW, -np.inf, float(x[first]), f"{word} above{inside}"
    inside = f", {NOT_CLEAR} the upper edge" if nearer == 0 else ""
    return Status.CENSORED_HIGH, float(x[last]), np.inf, f"{word} below{inside}"


def falls_towards(lower: bool, values: np.ndarray, level: float, exact: bool) -> bool:
    """Whether values[draw, point] are clearly lower near one edge than elsewhere, by Student's t test.

    It compares the third of the points nearest the lower edge (upper edge if `lower` is False) with all other points.
    """
    third = max(1, values.shape[1] // 3)
    near = np.arange(values.shape[1]) < third
    near = near if lower else near[::-1]
    complete = np.isfinite(values).all(axis=1)
    rows = values[complete] if complete.sum() >= 2 or exact else values
    difference = np.nanmean(rows[:, ~near], axis=1) - np.nanmean(rows[:, near], axis=1)
    return bool(clearly_positive(difference[:, None] - ROUNDING * np.nanmax(np.abs(values)), level, exact)[0])
