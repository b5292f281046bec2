"""The zero of one noisy curve: its sign changes, or what is known of the zero if the sign does not change.

`zero_posterior` computes the root of each sign change and its interval; `crossing` does so for exact values and for
draws without a variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from raysweep.fits.crossing import Bracket, Crossing, interpolated_crossing, joined, middle_and_margins
from raysweep.fits.draws import Axis, log_axis
from raysweep.fits.reasons import Reason, because
from raysweep.fits.result import Status
from raysweep.fits.statistics import ROUNDING, clearly_positive, independent_points, normal_quantile, standard_error
from raysweep.fits.zero_posterior.mixture import Mixture, mixture
from raysweep.fits.zero_posterior.root import Root, in_posterior

# In robust standard deviations. The farthest of 8 normal draws exceeds it in 0.5 % of cells; of 20 draws, in none.
OUTLYING = 10.0
SIGN_DRAWS = 6  # with fewer draws a two-sided sign test can never reject at 95 %
PAIR = 2  # draws: too few to see how they move together


@dataclass(frozen=True)
class Zero:
    """The sign changes of one curve."""

    status: Status
    crossings: tuple[Crossing, ...]  # all sign changes, the clearest first
    # low, high: the interval of the clearest sign change. If the zero is censored, one end is the known bound and the
    # other is infinite.
    low: float
    high: float
    scale: str  # linear, asinh or sign
    points: int  # points, draws: how many were used
    draws: int
    sign: int = 0  # 1 or -1 if every clear sign is this one; otherwise 0
    clear_points: int = 0  # at how many points the sign is clear
    # the last (first) x at which all values are exactly 0, where the curve meets zero without crossing; NaN otherwise.
    zero_end: float = np.nan
    # reason, note: why there is no zero, or what a reader must know of it, and its text (see `Reason`).
    reason: Reason = Reason.NONE
    note: str = ""
    # the root of the clearest sign change in the posterior, with its interval at any level; None if not located, for
    # exact values and on the sign scale.
    located: Root | None = None


def find_zero(
    x: np.ndarray,
    values: np.ndarray,
    level: float,
    strict_level: float | None = None,
    scale: str | None = None,
    exact: bool = False,
    logarithmic: bool | None = None,
    errors: np.ndarray | None = None,
) -> Zero:
    """Estimate where the mean over draws of one curve crosses zero (the median on the sign scale), with intervals.

    x: (points,), sorted. values: (draws, points), NaN where a draw has no value.
    strict_level: that of the simultaneous interval; None for the same level.
    errors: (points,), the standard errors of the means, if they are known otherwise than from the draws.
    level, scale, exact, logarithmic: as in `fit_boundary`.
    """
    points = np.isfinite(values).any(axis=0)
    x, values, errors = x[points], values[:, points], None if errors is None else errors[points]
    if len(x) > 2 and x[0] == 0 and log_axis(x[1:], logarithmic) and np.prod(np.nanmean(values[:, :2], axis=0)) > 0:
        rest = None if errors is None else errors[1:]
        above = find_zero(x[1:], values[:, 1:], level, strict_level, scale, exact, logarithmic, rest)
        if above.status == Status.LOCATED:  # the 0 has no place in log, and the sign of the values above it
            return replace(above, points=len(x))
    draws = int(np.isfinite(values).any(axis=1).sum())
    scale = "linear" if errors is not None else scale or choose_scale(values)
    answer = Zero(Status.UNDETERMINED, (), np.nan, np.nan, scale, len(x), draws)
    needed = 1 if exact or errors is not None else SIGN_DRAWS if scale == "sign" else 2
    if len(x) < 2 or draws < needed:
        if not draws:
            return replace(answer, **because(Reason.NO_ROWS))
        few, least = (Reason.TOO_FEW_POINTS, 2) if len(x) < 2 else (Reason.TOO_FEW_DRAWS, needed)
        return replace(answer, **because(few, points=len(x), draws=draws, least=least))
    if exact and scale == "sign":
        scale = "linear"
    axis, levels = Axis(log_axis(x, logarithmic)), (level, strict_level or level)
    u, transformed = axis.coordinate(x), rescaled(values, scale)
    # Student's t interval, which does not ask how draws move together, is right and wide
    pairs = int(np.isfinite(values).sum(axis=0).max()) <= PAIR
    mean, error, count = standard_error(values)
    scatters = (error * np.sqrt(count) > ROUNDING * np.nanmax(np.abs(mean))).any()
    noisy = errors is not None or bool(not exact and scale != "sign" and not pairs and scatters)
    t = (u - u[0]) / (u[-1] - u[0])
    curve = mixture(t, transformed, errors=errors) if noisy else None
    if curve:
        labels = posterior_signs(curve, values, level)
    else:  # points that move together between draws count as one
        strict = max(level, 1 - 2 * (1 - level) / independent_points(values))
        labels = point_signs(values, strict, scale, exact)
    clear = np.flatnonzero(labels)
    answer = replace(answer, clear_points=len(clear))
    brackets = [(int(j), int(k)) for j, k in pairwise(clear) if labels[j] * labels[k] < 0]
    if not brackets:
        return replace(answer, **without_crossing(x, values, labels, level, exact, errors))
    if curve is None:
        middle = np.nanmedian(transformed, axis=0) if scale == "sign" else standard_error(transformed)[0]
        curve = mixture(t, middle[None], exact=True)
    crossings = []
    for j, k in brackets:
        bracket = Bracket(u, transformed, j, k, bool(labels[k] > 0), levels, scale, exact)
        crossing, located = in_posterior(curve, bracket, axis) or (None, None)
        if not noisy:
            drawn = interpolated_crossing(bracket)
            if drawn is not None and np.isfinite(drawn.estimate):
                converted = axis.in_units_of_x(drawn, "low", "high", "low_simultaneous", "high_simultaneous")
                drawn = replace(drawn, **converted)
                drawn = joined(drawn, crossing) if crossing else drawn
            crossing, located = drawn, None
        if crossing is None or not np.isfinite(crossing.estimate):
            continue
        crossings.append((min(clearness(mean, labels, j), clearness(mean, labels, k)), crossing, located))
    if not crossings:
        # The mean at a point is over all draws there, an interpolation over those at both ends: it may not change sign.
        return replace(answer, **because(Reason.DIFFERENT_DRAWS))
    crossings.sort(key=lambda each: -each[0])
    best = crossings[0][1]
    every = tuple(crossing for _, crossing, _ in crossings)
    answer = replace(answer, status=Status.LOCATED, crossings=every, located=crossings[0][2])
    return replace(answer, low=best.low, high=best.high, reason=best.reason, note=best.note)


def posterior_signs(curve: Mixture, values: np.ndarray, level: float) -> np.ndarray:
    """The sign of the curve at each grid point: +1 or -1 if the chance of the other one is at most (1 - level) / 2, or
    (1 - level) / n with n `independent_points` of the values; otherwise 0."""
    doubt = (1 - level) / max(2.0, independent_points(values))
    positive = curve.positive(curve.t)
    return (positive >= 1 - doubt).astype(int) - (positive <= doubt).astype(int)


def point_signs(values: np.ndarray, level: float, scale: str, exact: bool) -> np.ndarray:
    """The sign of the curve at each grid point, +1 or -1 if it is significant by a test of its own, otherwise 0."""
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
    """Whether values[draw, point] fall towards one edge (`lower`: the lower one): they are clearly lower in the third
    nearest to it than at all other points, and do not rise from the third beside it, nor clearly from the lowest point
    to the edge, as a curve does that turns before. errors: given ones of the means."""
    values, errors = (values, errors) if lower else (values[:, ::-1], None if errors is None else errors[::-1])
    mean, points = np.nanmean(values, axis=0), np.arange(values.shape[1])
    third, lowest = max(1, len(points) // 3), points == np.nanargmin(mean)
    near, beside = points < third, (points >= third) & (points < 2 * third)
    if mean[near].mean() > mean[beside].mean() or not _above(values, ~near, near, level, exact, errors):
        return False
    of_all = 1 - (1 - level) / len(points)  # each point may be the lowest one by chance
    return bool(lowest[0]) or not _above(values, points == 0, lowest, of_all, exact, errors)


def _above(
    values: np.ndarray, some: np.ndarray, others: np.ndarray, level: float, exact: bool, errors: np.ndarray | None
) -> bool:
    """Whether values[draw, point] are clearly higher at some points than at others, by Student's t test, or by given
    errors of the means."""
    if errors is not None:
        share = some / some.sum() - others / others.sum()
        error = float(np.linalg.norm(share * errors))
        return bool(share @ np.nanmean(values, axis=0) > normal_quantile(2 * level - 1) * error)
    complete = np.isfinite(values).all(axis=1)
    both = np.isfinite(values[:, some]).any(axis=1) & np.isfinite(values[:, others]).any(axis=1)
    rows = values[complete if complete.sum() >= 2 or exact else both]
    if not len(rows):
        return False
    difference = np.nanmean(rows[:, some], axis=1) - np.nanmean(rows[:, others], axis=1)
    return bool(clearly_positive(difference[:, None] - ROUNDING * np.nanmax(np.abs(values)), level, exact)[0])


def choose_scale(values: np.ndarray) -> str:
    """Choose the scale of values[draw, point].

    sign if draws have outliers as if they had no variance; asinh if the mean spans decades; otherwise linear.
    """
    draws = np.isfinite(values).sum(axis=0)
    full = draws >= 8  # with fewer draws, one outlier proves nothing
    if full.any():
        columns = values[:, full]
        deviation = np.abs(columns - np.nanmedian(columns, axis=0))
        typical = 1.4826 * np.nanmedian(deviation, axis=0)
        farthest = np.nanmax(deviation, axis=0)
        varying = typical > 0
        if varying.any() and np.median(farthest[varying] / typical[varying]) > OUTLYING:
            return "sign"
    mean = np.abs(standard_error(values)[0])
    mean = mean[np.isfinite(mean) & (mean > 0)]
    return "asinh" if len(mean) > 2 and mean.max() > 30 * np.median(mean) else "linear"


def rescaled(values: np.ndarray, scale: str) -> np.ndarray:
    """Transform values[draw, point] to the scale on which they are interpolated.

    On the asinh scale the mean is transformed exactly and the deviation of each draw to first order. So the transformed
    mean is zero where the mean is zero. (The mean of asinh(value) is zero elsewhere.)
    """
    if scale == "linear":
        return values
    size = np.nanmedian(np.abs(values)) or np.nanmax(np.abs(values)) or 1.0
    if scale == "sign":
        return np.arcsinh(values / size)
    mean = standard_error(values)[0]
    return np.arcsinh(mean / size) + (values - mean) / (size * np.sqrt(1 + (mean / size) ** 2))
