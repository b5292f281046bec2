"""The extremum of one noisy curve: whether the curve falls and then rises, and where its minimum lies.

Every answer is read off joint sample paths of the posterior of the mean curve (`posterior`). A curve without noise is
interpolated (`between_points`). COVERAGE.md says how often the interval contains the true place (measured).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from raysweep.fits.between_points import possible_places
from raysweep.fits.draws import Axis, DrawCurves, even_in_log, log_axis, not_zero
from raysweep.fits.posterior.curve import curve_posterior
from raysweep.fits.posterior.places import at_edges, clarity, interval, minimum_places
from raysweep.fits.reasons import Reason, and_because, because
from raysweep.fits.result import EXACT, Status
from raysweep.fits.sample_size import NO_ADVICE, Advice, ExpectedWidth, expected_width, sample_size_advice
from raysweep.fits.statistics import (
    ROUNDING,
    clearly_positive,
    complete_draws,
    noiseless,
    normal_quantile,
    rising_chances,
    standard_error,
    two_way_anova,
)
from raysweep.fits.trend import every_step, slope_weights

# The cut-offs of the statuses, for a level of 95 %:
# - the curve clearly falls to its lowest place (rises from it) if some difference to an earlier (later) point is
#   positive with a probability of 1 - 0.05 / LOOKS = 0.994, which is 2.5 standard deviations, because the clearest of
#   all points is taken: 2.0 would find a turn in 3 of 100 curves that fall and stay level;
# - the place is at an edge of the grid, or too near to tell, if its probability to be there is above 0.025.
LOOKS = 8
FEWEST_POINTS = 5  # the lowest point needs two points on either side
FLATTENED = 0.5  # if the slope at an edge is below this share of the slope elsewhere, an extremum may lie beyond it
FAR_BELOW = 10.0  # standard errors below both neighbours, from which on the points matter and noise does not
OPEN = 0.5  # at 95 %: chosen with benchmarks/coverage.py, on known curves with noise up to 0.01 of their range
METHOD = "posterior of the mean curve: Gaussian process, draw effect removed"


@dataclass(frozen=True)
class Extremum:
    """The minimum of one curve. (A maximum is the minimum of minus the curve.)"""

    # status, estimate, low, high, method_spread, method: as of a `Fit`; estimate is NaN unless located, method_spread
    # also unless asked for advice.
    status: Status = Status.UNDETERMINED
    estimate: float = np.nan
    low: float = np.nan
    high: float = np.nan
    method_spread: float = np.nan
    method: str = "none"
    exact: bool = False  # whether the curve has no noise: the interval is then the spread of the interpolations
    reason: Reason = Reason.NONE  # reason, note: why there is no place, or what a reader must know of it, and its text
    note: str = ""
    falls: bool = False  # whether the curve clearly falls, before its lowest point or overall
    climbs: bool = False  # whether the curve clearly rises, after its lowest point or overall
    late_gain: bool = False  # whether the last point is clearly lower than the middle point
    throughout: bool = False  # whether every step between neighbouring points was shown to go the same way
    advice: Advice = NO_ADVICE  # what would halve the interval, if the caller asked for advice


def find_extremum(
    x: np.ndarray, values: np.ndarray, level: float, exact: bool = False, advise: bool = False, axis: Axis | None = None
) -> Extremum:
    """Estimate the place of the minimum of the mean over draws of a curve, with a confidence interval.

    x: (points,), sorted. values: (draws, points), NaN where a draw has no value.
    level, exact, advise: as in `fit_optimum`. axis: whether x is linear or logarithmic; None guesses.
    """
    axis = axis or Axis(even_in_log(x))
    return in_units_of_x(extremum_along(axis.coordinate(x), values, level, exact, advise), axis)


def in_units_of_x(answer: Extremum, axis: Axis, name: str = "x") -> Extremum:
    """Convert an extremum along the coordinate of an axis with this name to the units of x."""
    advice = answer.advice
    return replace(
        answer,
        method=answer.method + (f", in log {name}" if axis.logarithmic and answer.method != "none" else ""),
        advice=replace(advice, points_from=axis.place(advice.points_from), points_to=axis.place(advice.points_to)),
        **axis.in_units_of_x(answer, "low", "high"),
    )


def extremum_along(
    u: np.ndarray, values: np.ndarray, level: float, exact: bool, advise: bool = False, wall: float = np.inf
) -> Extremum:
    """Like `find_extremum`, but over the coordinate u (x or log x), and with the result in the units of u.

    wall: a coordinate above all u at which the values are higher than at any of u, however high; inf if none is known.
    """
    if len(u) < FEWEST_POINTS:
        return Extremum(**because(Reason.TOO_FEW_POINTS, points=len(u), least=FEWEST_POINTS))
    if len(values) < 2 and not exact:
        return Extremum(**because(Reason.TOO_FEW_DRAWS, draws=len(values), least=2))
    fit = two_way_anova(values)
    if fit.degrees < 1 and not exact:
        return Extremum(**because(Reason.NOISE_UNKNOWN))
    if exact or noiseless(values, fit):
        return replace(without_noise(u, fit.curve, wall), late_gain=gains_late(fit.curve[None], level, True))
    answer = with_noise(u, values, fit.curve, level, advise, wall)
    return replace(answer, late_gain=gains_late(values, level, False))


def without_noise(u: np.ndarray, curve: np.ndarray, wall: float) -> Extremum:
    """The extremum of a curve without noise. Its interval covers what the points leave open, and nothing else."""
    index = int(np.argmin(curve))
    answer = Extremum(method=f"{EXACT}; Akima and cubic interpolation", exact=True)
    if np.ptp(curve) <= ROUNDING * max(float(np.abs(curve).max()), 1e-300):
        return replace(answer, **because(Reason.FLAT))
    walled = index == len(u) - 1 and bool(np.isfinite(wall))
    answer = replace(answer, falls=index > 0, climbs=index < len(u) - 1 or walled)
    if index in (0, len(u) - 1) and not walled:
        steps = np.diff(curve) if index == 0 else -np.diff(curve)
        answer = replace(answer, throughout=bool((steps > 0).all()))
        return at_edge(answer, u, curve, index, u[index], (-np.inf, np.inf))
    estimate, low, high, coarse = (*u[[-1, -1, -1]].tolist(), False) if walled else possible_places(u, curve)
    answer = replace(answer, estimate=estimate, low=low, high=high, method_spread=high - low)
    answer = replace(answer, **because(Reason.COARSE if coarse else Reason.NONE))
    return turning(answer, u, wall, (low <= u[0], high >= u[-1]), (float(u[0]), float(u[-1])))


def with_noise(
    u: np.ndarray, values: np.ndarray, curve: np.ndarray, level: float, advise: bool, wall: float
) -> Extremum:
    """The extremum of a mean curve of values[draw, point] with noise, from its posterior."""
    posterior, index = curve_posterior(u, values), int(np.argmin(curve))
    places = minimum_places(posterior)
    shares = interval(places, level)
    least = normal_quantile(1 - 2 * (1 - level) / LOOKS)
    fall, climb = (clear >= least for clear in clarity(places, shares[1]))
    # Between two points many paths may have risen already at the median of the places: a point will do too.
    chances = rising_chances(values - values[:, [index]], float(np.nanmax(np.abs(values))))
    higher = chances <= (1 - level) / LOOKS / (len(u) - 1)
    if higher[:index].any() and higher[index + 1 :].any():
        fall = climb = True
    bounds = tuple(float(u[0] + share * (u[-1] - u[0])) for share in shares)
    wider = left_open(u, values, curve, bounds, level)
    if wider:
        fall = climb = True
    if not fall and not climb:
        return Extremum(method=METHOD, **not_clear(u, values))
    climb |= fall and bool(np.isfinite(wall))
    low, middle, high = wider or bounds
    one_way = fall != climb and every_step(values, -1.0 if fall else 1.0) <= 1 - level
    answer = Extremum(method=METHOD, falls=fall, climbs=climb, throughout=one_way)
    edges = edges_above(u, values, curve, level)
    if fall and climb:
        reason = Reason.COARSE if wider else Reason.NONE
        answer = replace(answer, estimate=middle, low=low, high=high, **because(reason))
        reaches = (low <= u[0], high >= u[-1]) if wider else at_edges(places, level)
        answer = turning(answer, u, wall, reaches, edges)
        if not advise or answer.status != Status.LOCATED:
            return answer
        by_points = wider is not None or answer.high == wall
        expected = ExpectedWidth(answer.high - answer.low, 0) if by_points else expected_width(posterior, places, level)
        tried = np.append(u, wall) if np.isfinite(wall) else u
        advice = sample_size_advice(expected, tried, int(np.argmin(np.abs(u - middle))), len(values))
        return replace(answer, method_spread=expected.grid, advice=advice)
    # A one-sided bound is moved outwards to the next grid point, because the grid shows no more.
    if fall:
        return at_edge(answer, u, curve, len(u) - 1, u[u <= max(low, u[0])].max(), edges)
    return at_edge(answer, u, curve, 0, u[u >= min(high, u[-1])].min(), edges)


def edges_above(u: np.ndarray, values: np.ndarray, curve: np.ndarray, level: float) -> tuple[float, float]:
    """The edges of the grid to which the mean `curve` of values[draw, point] clearly rises from its lowest point
    (Student's t, paired by draw), and an infinite bound instead of the others."""
    rises = rising_chances(values[:, [0, -1]] - values[:, [np.argmin(curve)]], float(np.nanmax(np.abs(values))))
    lower, upper = rises <= (1 - level) / 2  # each end of an interval misses the place so often
    return float(u[0]) if lower else -np.inf, float(u[-1]) if upper else np.inf


def left_open(
    u: np.ndarray, values: np.ndarray, curve: np.ndarray, bounds: tuple[float, ...], level: float
) -> tuple[float, float, float] | None:
    """(low, estimate, high) where the points leave more open than the posterior believes; None if they do not.

    Where the lowest point is far below both its neighbours, noise does not decide where the minimum lies, but what the
    curve does between these points. If they are too coarse for its shape (`possible_places`), the ends are those of the
    posterior (`bounds`: low, median, high), as far as they lie between the neighbours, moved by the share OPEN (less at
    lower levels, in proportion to the quantiles of a normal distribution) towards the ends of what the points allow.
    """
    index = int(np.argmin(curve))
    if index in (0, len(u) - 1):
        return None
    drop, error, count = standard_error(values[:, [index - 1, index + 1]] - values[:, [index]])
    if not ((count > 1) & (drop > FAR_BELOW * error)).all():
        return None
    estimate, first, last, coarse = possible_places(u, curve)
    if not coarse:
        return None
    low, middle, high = np.clip(bounds, u[index - 1], u[index + 1]).tolist()
    share = min(1.0, OPEN * normal_quantile(level) / normal_quantile(0.95))
    low, high = min(low, low + share * (first - low)), max(high, high + share * (last - high))
    return low, middle if middle == bounds[1] else float(np.clip(estimate, low, high)), high


def turning(
    answer: Extremum, u: np.ndarray, wall: float, reaches_edges: tuple[bool, bool], edges: tuple[float, float]
) -> Extremum:
    """The answer for a curve that turns: located, unless the place may be at an edge of the grid (lower, upper).

    wall: as in `extremum_along`. What the curve does between the last point but one and the wall is not known.
    edges: as of `edges_above`.
    """
    at_lower, at_upper = reaches_edges
    if at_upper and np.isfinite(wall):
        low = min(answer.low, float(u[-2]))
        answer, at_upper = replace(answer, low=low, high=wall, method_spread=wall - low), False
    if not at_lower and not at_upper:
        return replace(answer, status=Status.LOCATED)
    nothing = replace(answer, estimate=np.nan, method_spread=np.nan)
    if at_lower and at_upper:
        return replace(nothing, low=-np.inf, high=np.inf, **because(Reason.WHOLE_GRID))
    if at_lower:
        return replace(nothing, status=Status.CENSORED_LOW, low=edges[0], **because(Reason.REACHES_LOW))
    return replace(nothing, status=Status.CENSORED_HIGH, high=edges[1], **because(Reason.REACHES_HIGH))


def gains_late(values: np.ndarray, level: float, exact: bool) -> bool:
    """Whether values[draw, point] are clearly lower at the last point than at the middle one (Student's t)."""
    gain = (values[:, (values.shape[1] - 1) // 2] - values[:, -1])[:, None]
    if exact:
        return bool(np.nanmean(gain) > ROUNDING * np.nanmax(np.abs(values)))
    return bool(rising_chances(gain, float(np.nanmax(np.abs(values))))[0] <= 1 - level)


def not_clear(u: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    """Why no fall or rise was found, as `because`. (This does not prove that the curve is flat.)"""
    slopes = complete_draws(values) @ slope_weights(u)
    if len(slopes) > 1 and (slopes[0] * slopes > 0).all():
        each = Reason.EACH_DRAW_DEGRADES if slopes[0] > 0 else Reason.EACH_DRAW_IMPROVES
        return because(each, draws=len(slopes))
    return because(Reason.NO_CLEAR_CHANGE)


def at_edge(
    answer: Extremum, u: np.ndarray, curve: np.ndarray, edge: int, bound: float, edges: tuple[float, float]
) -> Extremum:
    """The answer for a curve that is best towards the point `edge`: censored if it flattens there, otherwise monotone.

    bound: the known bound of the place; the other one is that of `edges`, as in `turning`.
    """
    near, rest, far = edge_slopes(u, curve, upper=edge > 0)
    low, high = (float(bound), edges[1]) if edge else (edges[0], float(bound))
    at_rim = int(np.argmin(curve)) == edge
    hill = far * near < 0 and abs(far) > FLATTENED * abs(near)
    if at_rim and not hill and abs(near) > FLATTENED * abs(rest):
        reason = one_way(edge > 0, answer.throughout)
        return replace(answer, status=Status.MONOTONE, low=low, high=high, **because(reason))
    if at_rim:
        reason = Reason.TOWARDS_HIGH if edge else Reason.TOWARDS_LOW
    elif np.isfinite([low, high]).all():
        reason = Reason.INSIDE_UNCLEAR
    else:
        reason = Reason.HIGH_EDGE_ALIKE if edge else Reason.LOW_EDGE_ALIKE
    status = Status.CENSORED_HIGH if edge else Status.CENSORED_LOW
    return replace(answer, status=status, low=low, high=high, **because(reason))


def one_way(falls: bool, throughout: bool) -> Reason:
    """The reason of a curve that falls or rises: the metric improves or degrades as x grows, perhaps in every step."""
    if throughout:
        return Reason.IMPROVES_THROUGHOUT if falls else Reason.DEGRADES_THROUGHOUT
    return Reason.IMPROVES if falls else Reason.DEGRADES


def edge_slopes(u: np.ndarray, curve: np.ndarray, upper: bool) -> tuple[float, float, float]:
    """Mean slopes of a curve: in the third of its cells nearest one edge, in all other cells, and in the third nearest
    the opposite edge. A third has at least two cells."""
    third = max(2, len(u) // 3)
    slope = np.diff(curve) / np.diff(u)
    first, last = slope[:third].mean(), slope[-third:].mean()
    if upper:
        return float(last), float(slope[:-third].mean()), float(first)
    return float(first), float(slope[third:].mean()), float(last)


def on_scale(
    find: Callable[[DrawCurves, bool], Extremum], curves: DrawCurves, level: float, exact: bool, logarithmic: bool
) -> Extremum:
    """The minimum of curves along x, which is read in log or not. In log, x = 0 is compared with it (`beside_zero`).

    Where x is read linearly although its values are spread evenly over decades, most of the axis is empty, and where
    the minimum lies in it depends on the scale. Then the interval covers what either scale says. If these say different
    things, nothing is decided.

    find: finds the minimum of curves, in the units of x; its last argument says whether x is read in log.
    """

    def on(log: bool) -> Extremum:
        part = curves.without_zero() if log else curves
        answer = find(part, log)
        return beside_zero(answer, curves, level, exact) if len(part.x) < len(curves.x) else answer

    answer = on(logarithmic)
    if logarithmic or not log_axis(not_zero(curves.x)):
        return answer
    other = on(True)
    if other.status != answer.status:
        return Extremum(method=answer.method, exact=answer.exact, **because(Reason.SCALE_DECIDES))
    low, high = min(answer.low, other.low), max(answer.high, other.high)
    return replace(answer, low=low, high=high, **and_because(answer, Reason.EITHER_SCALE))


def beside_zero(answer: Extremum, curves: DrawCurves, level: float, exact: bool) -> Extremum:
    """The minimum of curves with a value at x = 0, of the minimum `answer` among the other x (in the units of x).

    The value at 0 is compared draw by draw (Student's t) with the lowest mean of the others. Where it is clearly
    higher, the answer stands. Where it is clearly lower than at every other x, the best place is 0 (monotone). Where
    neither is clear, any x from 0 to the upper end of the answer may be the best (censored_low).
    """
    if answer.status == Status.UNDETERMINED:
        return answer
    zero = curves.x == 0
    higher = curves.values[:, zero] - curves.values[:, ~zero]
    lowest = int(np.argmin(two_way_anova(curves.without_zero().values).curve))
    if clearly_positive(higher[:, [lowest]], level, exact)[0]:
        return answer
    nothing = replace(answer, estimate=np.nan, low=-np.inf, method_spread=np.nan, advice=NO_ADVICE)
    if clearly_positive(-higher, level, exact).all():
        first = float(curves.x[~zero][0])
        best = because(Reason.BEST_AT_ZERO)
        return replace(nothing, status=Status.MONOTONE, high=first, falls=False, climbs=True, **best)
    nothing = replace(nothing, **because(Reason.ZERO_ALIKE))
    if answer.high == np.inf:
        return replace(nothing, status=Status.UNDETERMINED, low=np.nan, high=np.nan)
    return replace(nothing, status=Status.CENSORED_LOW)
