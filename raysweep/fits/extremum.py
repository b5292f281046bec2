"""The extremum of one noisy curve: whether the curve falls and then rises, and where its minimum lies.

`find_extremum` decides the status; `extremum_interval` computes the place of the minimum and its interval.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from raysweep.fits.draws import Axis, even_in_log
from raysweep.fits.extremum_interval import REJECTED, ExtremumInterval, broken_power_law_place, lowest_places
from raysweep.fits.result import EXACT, Status
from raysweep.fits.sample_size import NO_ADVICE, Advice, sample_size_advice
from raysweep.fits.statistics import (
    ROUNDING,
    Anova,
    clearly_positive,
    complete_draws,
    independent_points,
    noiseless,
    rise,
    rises_by_chance,
    rising_chances,
    smooth_within_draws,
    two_sided,
    two_way_anova,
)
from raysweep.fits.trend import every_step, slope_of_mean, slope_weights

FEWEST_POINTS = 5  # the lowest point needs two points on either side
FLATTENED = 0.5  # if the slope at an edge is below this share of the slope elsewhere, an extremum may lie beyond it
PER_DRAW = "per draw: Student's t on the slope; Akima and cubic interpolation"
POOLED = "additive: pooled-variance resampling, draw effect removed; Akima and cubic interpolation"
COARSE_NOTE = "the grid is coarse for this curve: the interval allows for any shape between the points"


@dataclass(frozen=True)
class Extremum:
    """The minimum of one curve. (A maximum is the minimum of minus the curve.)

    status: see `Status`.
    estimate: the place of the minimum, in the units of x; NaN unless located.
    low, high: its interval, in the units of x; NaN if nothing is known.
    method_spread: the difference between the interpolations, in the units of x.
    method: how the interval was computed.
    note: what a reader must know.
    falls: whether the curve clearly falls, before its lowest point or overall.
    climbs: whether the curve clearly rises, after its lowest point or overall.
    late_gain: whether the last point is clearly lower than the middle point.
    throughout: whether every step between neighbouring points was shown to go the same way.
    advice: what would halve the interval, if the caller asked for advice.
    """

    status: Status = Status.UNDETERMINED
    estimate: float = np.nan
    low: float = np.nan
    high: float = np.nan
    method_spread: float = np.nan
    method: str = "none"
    note: str = ""
    falls: bool = False
    climbs: bool = False
    late_gain: bool = False
    throughout: bool = False
    advice: Advice = NO_ADVICE


def find_extremum(
    x: np.ndarray,
    values: np.ndarray,
    level: float,
    exact: bool = False,
    advise: bool = False,
    axis: Axis | None = None,
    name: str = "x",
) -> Extremum:
    """Estimate the place of the minimum of the mean over draws of a curve, with a confidence interval.

    x: (points,), sorted.
    values: (draws, points), NaN where a draw has no value.
    level: the confidence level of the interval.
    exact: the values have no noise, so one draw is enough.
    advise: also compute what would halve the interval.
    axis: whether x is linear or logarithmic; None guesses.
    name: the name of x in `method`.
    """
    axis = axis or Axis(even_in_log(x))
    return in_units_of_x(extremum_along(axis.coordinate(x), values, level, exact, advise), axis, name)


def in_units_of_x(found: Extremum, axis: Axis, name: str = "x") -> Extremum:
    """Convert an extremum found along the coordinate of an axis to the units of x."""
    advice = found.advice
    return replace(
        found,
        method=found.method + (f", in log {name}" if axis.logarithmic and found.method != "none" else ""),
        advice=replace(advice, points_from=axis.place(advice.points_from), points_to=axis.place(advice.points_to)),
        **axis.in_units_of_x(found, "low", "high"),
    )


def extremum_along(u: np.ndarray, values: np.ndarray, level: float, exact: bool, advise: bool = False) -> Extremum:
    """Like `find_extremum`, but over the coordinate u (x or log x), and with the result in the units of u."""
    if len(u) < FEWEST_POINTS:
        return Extremum(note=f"too few points: {len(u)}, at least {FEWEST_POINTS} are needed")
    if len(values) < 2 and not exact:
        return Extremum(note=f"too few draws: {len(values)}")
    fit = two_way_anova(values)
    if fit.degrees < 1 and not exact:
        return Extremum(note="no two draws share two values of x: nothing tells noise from curve")
    if exact or noiseless(values, fit):
        found = without_noise(u, fit, level)
        return replace(found, late_gain=gains_late(fit.curve[None], level, True))
    return replace(with_noise(u, values, fit, level, advise), late_gain=gains_late(values, level, False))


def without_noise(u: np.ndarray, fit: Anova, level: float) -> Extremum:
    """The extremum of a curve without noise. Its interval covers the uncertainty of the interpolation only."""
    curve, index = fit.curve, int(np.argmin(fit.curve))
    answer = Extremum(method=f"{EXACT}; Akima and cubic interpolation")
    if np.ptp(curve) <= ROUNDING * max(float(np.abs(curve).max()), 1e-300):
        return replace(answer, note="flat")
    answer = replace(answer, falls=index > 0, climbs=index < len(u) - 1)
    if index in (0, len(u) - 1):
        steps = np.diff(curve) if index == 0 else -np.diff(curve)
        return at_edge(replace(answer, throughout=bool((steps > 0).all())), u, curve, index, u[index])
    interval = ExtremumInterval(u, curve[None], fit, False, level, places_of(u, curve))
    return turning(answer, interval, exact=True)


def with_noise(u: np.ndarray, values: np.ndarray, fit: Anova, level: float, advise: bool) -> Extremum:
    """The extremum of a curve with noise: test for a fall and for a rise, then compute the place and its interval."""
    smooth = smooth_within_draws(fit) and len(complete_draws(values)) >= 2
    method = PER_DRAW if smooth else POOLED
    fall, climb = clear_changes(values, fit, level, smooth)
    if not fall and not climb:
        fall, climb = clear_slope(u, values, fit, level)
    if not fall and not climb:
        return Extremum(method=method, note=not_clear(u, values))
    places = places_of(u, fit.curve)
    if fall and climb:
        law = broken_power_law_place(u, fit.curve, fit.variance / np.isfinite(values).sum(axis=0), fit.degrees)
        if law and law[1] >= REJECTED:
            method += " and a broken power law"
            places += (law[0],)
    one_way = fall != climb and every_step(values, -1.0 if fall else 1.0) <= 1 - level
    answer = Extremum(method=method, falls=fall, climbs=climb, throughout=one_way)
    interval = ExtremumInterval(u, values, fit, smooth, level, places)
    if fall and climb:
        found = turning(answer, interval, exact=False)
        advised = advise and found.status == Status.LOCATED
        return replace(found, advice=sample_size_advice(interval, found.high - found.low)) if advised else found
    low, high = interval.ends()
    # A one-sided bound is moved outwards to the next grid point, because the grid shows no more.
    if fall:
        return at_edge(answer, u, fit.curve, len(u) - 1, u[u <= max(low, u[0])].max())
    return at_edge(answer, u, fit.curve, 0, u[u >= min(high, u[-1])].min())


def places_of(u: np.ndarray, curve: np.ndarray) -> tuple[float, ...]:
    """The place of the minimum of one curve, by each interpolation."""
    return tuple(float(place[0]) for place in lowest_places(u, curve[None]))


def turning(answer: Extremum, interval: ExtremumInterval, exact: bool) -> Extremum:
    """The answer for a curve that falls and then rises: located, unless the interval reaches an edge of the grid.

    The interval covers the uncertainty between grid points and, unless the values are exact, the noise.
    """
    u = interval.u
    grid_low, grid_high, coarse = interval.grid()
    low, high = (grid_low, grid_high) if exact else interval.ends()
    if low <= u[0] and high >= u[-1]:
        return replace(answer, low=-np.inf, high=np.inf, note="the interval covers the whole grid")
    if low <= u[0]:
        note = "the interval reaches the lower edge"
        return replace(answer, status=Status.CENSORED_LOW, low=-np.inf, high=high, note=note)
    if high >= u[-1]:
        note = "the interval reaches the upper edge"
        return replace(answer, status=Status.CENSORED_HIGH, low=low, high=np.inf, note=note)
    return replace(
        answer,
        status=Status.LOCATED,
        estimate=interval.estimate,
        low=low,
        high=high,
        method_spread=grid_high - grid_low if coarse or exact else max(interval.places) - min(interval.places),
        note=COARSE_NOTE if coarse else "",
    )


def clear_slope(u: np.ndarray, values: np.ndarray, fit: Anova, level: float) -> tuple[bool, bool]:
    """(whether the curve clearly falls overall, whether it clearly rises overall), by a test of its mean slope.

    The slope uses all points together, so it can show a trend that differences between single points do not. It is the
    second test of the same curve, so it may err only half as often as the level allows.
    """
    slope, error, degrees, _ = slope_of_mean(u, values, fit)
    clear = two_sided(slope, error, degrees) <= (1 - level) / 2
    return clear and slope < 0, clear and slope > 0


def gains_late(values: np.ndarray, level: float, exact: bool) -> bool:
    """Whether values[draw, point] are clearly lower at the last point than at the middle one (Student's t)."""
    gain = (values[:, (values.shape[1] - 1) // 2] - values[:, -1])[:, None]
    if exact:
        return bool(np.nanmean(gain) > ROUNDING * np.nanmax(np.abs(values)))
    return bool(rising_chances(gain, float(np.nanmax(np.abs(values))))[0] <= 1 - level)


def not_clear(u: np.ndarray, values: np.ndarray) -> str:
    """A note that says why no fall or rise was found. (This does not prove that the curve is flat.)"""
    own = complete_draws(values) @ slope_weights(u)
    if len(own) > 1 and (own[0] * own > 0).all():
        word = "degrades" if own[0] > 0 else "improves"
        return f"not clear: it {word} in each of {len(own)} draws, but by amounts too different to be sure of the mean"
    return "no clear fall or rise"


def clear_changes(values: np.ndarray, fit: Anova, level: float, smooth: bool) -> tuple[bool, bool]:
    """(whether the curve clearly falls before its lowest point, whether it clearly rises after it)."""
    index = int(np.argmin(fit.curve))
    if smooth:  # the draw is the unit: test the differences to the lowest point, corrected for the number of points
        complete = complete_draws(values)
        difference = complete - complete[:, index][:, None]
        looks = max(4.0, 2 * independent_points(np.delete(difference, index, axis=1)))
        clear = clearly_positive(difference, 1 - (1 - level) / looks)
        return bool(clear[:index].any()), bool(clear[index + 1 :].any())
    quantile = float(np.quantile(rises_by_chance(values.shape[1], fit.degrees), level))
    found = []
    for part in (np.arange(index, -1, -1), np.arange(index, values.shape[1])):
        count = np.isfinite(values[:, part]).sum(axis=0)
        share = fit.degrees * count.sum() / np.isfinite(values).sum()
        variance = max(fit.variance, float(np.nansum(fit.residual[:, part] ** 2) / share))  # noise may grow along x
        found.append(bool(rise(fit.curve[part] * np.sqrt(count / variance)) > quantile))
    return found[0], found[1]


def at_edge(answer: Extremum, u: np.ndarray, curve: np.ndarray, edge: int, bound: float) -> Extremum:
    """The answer for a curve that is best towards one edge: censored if it flattens there, otherwise monotone.

    edge: the index of the edge point.
    bound: the known bound of the place, in the units of u.
    """
    near, rest, far = edge_slopes(u, curve, upper=edge > 0)
    words = ("improves", "upper") if edge else ("degrades", "lower")  # how the metric changes as x grows
    low, high = (float(bound), np.inf) if edge else (-np.inf, float(bound))
    at_rim = int(np.argmin(curve)) == edge
    hill = far * near < 0 and abs(far) > FLATTENED * abs(near)
    if at_rim and not hill and abs(near) > FLATTENED * abs(rest):
        note = f"{words[0]} throughout" if answer.throughout else words[0]
        return replace(answer, status=Status.MONOTONE, note=note, low=low, high=high)
    note = f"best towards the {words[1]} edge, no clear turn inside"
    return replace(answer, status=Status.CENSORED_HIGH if edge else Status.CENSORED_LOW, note=note, low=low, high=high)


def edge_slopes(u: np.ndarray, curve: np.ndarray, upper: bool) -> tuple[float, float, float]:
    """Mean slopes of a curve: in the third of its cells nearest one edge, in all other cells, and in the third nearest
    the opposite edge. A third has at least two cells."""
    third = max(2, len(u) // 3)
    slope = np.diff(curve) / np.diff(u)
    first, last = slope[:third].mean(), slope[-third:].mean()
    if upper:
        return float(last), float(slope[:-third].mean()), float(first)
    return float(first), float(slope[third:].mean()), float(last)
