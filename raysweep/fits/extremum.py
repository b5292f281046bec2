"""Where one noisy curve turns: whether it falls and then rises, where between the two, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from raysweep.fits.draws import even_in_log
from raysweep.fits.extremum_interval import (
    REJECTED,
    all_places,
    convex_range,
    curvatures,
    fit_broken_power_law,
    resampled_places,
    slope_interval,
    uneven_range,
    unresolved,
)
from raysweep.fits.result import EXACT, Status
from raysweep.fits.sample_size import More, more_for_half
from raysweep.fits.statistics import (
    ROUNDING,
    Anova,
    independent_points,
    rise,
    rises_by_chance,
    rising_chances,
    smooth_within_draws,
    t_quantile,
    two_sided,
    two_way_anova,
)
from raysweep.fits.trend import every_step, slope_of_mean, slope_weights

FEWEST_POINTS = 5
FLATTENED = 0.5  # an edge slope below this share of the slope elsewhere heads for a turn


@dataclass(frozen=True)
class Extremum:
    """The answer for one curve, in the units of x. falls, climbs: whether it clearly falls before its lowest point or
    over all, and clearly rises after it or over all. late_gain: whether the last point is clearly lower than the
    middle one. throughout: whether every step between neighbouring points was shown to go one way."""

    status: str = Status.UNDETERMINED
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
    more: More | None = None  # what would halve the interval, if asked for


def find_extremum(
    x: np.ndarray,
    values: np.ndarray,
    level: float,
    exact: bool = False,
    advise: bool = False,
    logarithmic: bool | None = None,
) -> Extremum:
    """The minimum of the mean of values[draw, point] over x. advise: also say what would halve the interval;
    logarithmic: whether to read x in log, None to guess."""
    answer = Extremum()
    draws = len(values)
    if len(x) < FEWEST_POINTS:
        return replace(answer, note=f"too few points: {len(x)}, at least {FEWEST_POINTS} are needed")
    if draws < 2 and not exact:
        return replace(answer, note=f"too few draws: {draws}")
    logarithmic = even_in_log(x, logarithmic)
    u = np.log(x) if logarithmic else x
    fit = two_way_anova(values)
    if fit.degrees < 1 and not exact:
        return replace(answer, note="no two draws share two values of x: nothing tells noise from curve")
    quiet = exact or not fit.variance > 1e-24 * float(np.nanmax(np.abs(values))) ** 2
    found = without_noise(u, fit) if quiet else with_noise(u, values, fit, level, advise)
    method = found.method + (", in log x" if logarithmic else "")
    found = replace(found, late_gain=gains_late(fit.curve[None] if quiet else values, level, quiet), method=method)
    return in_units_of_x(found) if logarithmic else found


def in_units_of_x(found: Extremum, unit: float = 1.0) -> Extremum:
    """A turn found in log(x / unit), in x."""

    def back(place: float) -> float:
        return unit * float(np.exp(place)) if np.isfinite(place) else float(place)

    more = found.more
    return replace(
        found,
        estimate=back(found.estimate),
        low=back(found.low),
        high=back(found.high),
        method_spread=back(found.estimate) * float(np.expm1(found.method_spread)),
        more=more and replace(more, low=back(more.low), high=back(more.high)),
    )


def without_noise(u: np.ndarray, fit: Anova) -> Extremum:
    """Curves that carry no noise: only the interpolation is uncertain."""
    curve = fit.curve
    answer = Extremum(method=f"{EXACT}; Akima and cubic interpolation")
    if np.ptp(curve) <= 1e-12 * max(float(np.abs(curve).max()), 1e-300):
        return replace(answer, note="flat")
    index = int(np.argmin(curve))
    answer = replace(answer, falls=index > 0, climbs=index < len(u) - 1)
    if index in (0, len(u) - 1):
        steps = np.diff(curve) if index == 0 else -np.diff(curve)
        answer = replace(answer, throughout=bool((steps > 0).all()))
        return at_edge(answer, u, curve, index, u[index])
    where = [float(place[0]) for place in all_places(u, curve[None])]
    low, high, coarse = grid_ends(u, curve[None], fit, index, False, where)
    if low <= u[0] or high >= u[-1]:
        return reaches_edge(answer, u, low, high)
    return replace(
        answer,
        status=Status.LOCATED,
        estimate=float(np.mean(where[:2])),
        low=low,
        high=high,
        method_spread=high - low,
        note=COARSE_NOTE if coarse else "",
    )


COARSE_NOTE = "the grid is coarse for this curve: the interval allows for any shape between the points"


def grid_ends(
    u: np.ndarray, values: np.ndarray, fit: Anova, index: int, smooth: bool, where: list[float], times: float = 1.0
) -> tuple[float, float, bool]:
    """(low, high) of what would be open if the mean curve were known at the grid points, and whether the grid is too
    coarse to interpolate: the places `where` of the interpolations, what unevenness around the lowest point allows, any
    convex shape if coarse. times: what `times` as many draws would tell of the shape."""
    around = curvatures(u, values, fit, index, smooth)
    coarse = unresolved(around, times)
    ends = [*where, *uneven_range(u, fit.curve, index, around, times)]
    if coarse:
        ends += convex_range(u, fit.curve, index)
    return min(ends), max(ends), coarse


def with_noise(u: np.ndarray, values: np.ndarray, fit: Anova, level: float, advise: bool) -> Extremum:
    """The general case: is there a fall and then a rise, and where between them is the turn?"""
    smooth = smooth_within_draws(fit) and np.isfinite(values).all(axis=1).sum() >= 2
    method = (
        "per draw: Student's t on the slope" if smooth else "additive: pooled-variance resampling, draw effect removed"
    ) + "; Akima and cubic interpolation"
    answer = Extremum(method=method)
    index = int(np.argmin(fit.curve))
    fall, climb = clear_changes(values, fit, index, level, smooth)
    if not fall and not climb:
        fall, climb = clear_slope(u, values, fit, level)
    if not fall and not climb:
        return replace(answer, note=not_clear(u, values))
    one_way = fall != climb and every_step(values, -1.0 if fall else 1.0) <= 1 - level
    answer = replace(answer, falls=fall, climbs=climb, throughout=one_way)
    where = [float(place[0]) for place in all_places(u, fit.curve[None])]
    estimate = float(np.mean(where[:2]))
    if fall and climb:
        count = np.isfinite(values).sum(axis=0)
        law = fit_broken_power_law(u, fit.curve, fit.variance / count, fit.degrees)
        if law is not None:
            fits = law.p_value >= REJECTED
            answer = replace(answer, method=method + (" and a broken power law" if fits else ""))
            where += [law.place] if fits else []

    def noise_ends(times: float) -> tuple[float, float]:
        """The interval for noise alone, with `times` as many draws."""
        if smooth:
            low, high = slope_interval(u, values, estimate, level, times)
            return low - (estimate - min(where)), high + (max(where) - estimate)
        resampled = resampled_places(u, fit, np.random.default_rng(20240229), times)
        tail = (1 - level) / 2
        return (
            min(float(np.quantile(each, tail)) for each in resampled),
            max(float(np.quantile(each, 1 - tail)) for each in resampled),
        )

    def ends(times: float) -> tuple[float, float]:
        """The interval with `times` as many draws."""
        open_low, open_high, _ = grid_ends(u, values, fit, index, smooth, where, times)
        noise_low, noise_high = noise_ends(times)
        return min(noise_low, open_low), max(noise_high, open_high)

    open_low, open_high, coarse = grid_ends(u, values, fit, index, smooth, where)
    noise_low, noise_high = noise_ends(1.0)
    low, high = max(min(noise_low, open_low), u[0]), min(max(noise_high, open_high), u[-1])
    if fall and climb and u[0] < low and high < u[-1]:
        return replace(
            answer,
            status=Status.LOCATED,
            estimate=estimate,
            low=low,
            high=high,
            method_spread=max(where) - min(where) if not coarse else open_high - open_low,
            note=COARSE_NOTE if coarse else "",
            more=more_for_half(
                u, index, len(values), high - low, (open_low, open_high), ends, noise_ends, 1.0 if smooth else 4.0
            )
            if advise
            else None,
        )
    if fall and climb:
        return reaches_edge(answer, u, low, high)
    # A one-sided answer claims no more than the grid shows: the bound is the grid point outside the interval's end.
    if fall:
        return at_edge(answer, u, fit.curve, len(u) - 1, u[u <= low].max())
    return at_edge(answer, u, fit.curve, 0, u[u >= high].min())


def clear_slope(u: np.ndarray, values: np.ndarray, fit: Anova, level: float) -> tuple[bool, bool]:
    """(whether the curve clearly falls over all, whether it clearly rises): one look at all points together sees what
    the steps between single points do not show. A second look at the same curve, it is given half the chance."""
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
    """Why nothing is said of a curve: that no change was shown does not show that it is flat."""
    own = values[np.isfinite(values).all(axis=1)] @ slope_weights(u)
    if len(own) > 1 and (own[0] * own > 0).all():
        word = "degrades" if own[0] > 0 else "improves"
        return f"not clear: it {word} in each of {len(own)} draws, but by amounts too different to be sure of the mean"
    return "no clear fall or rise"


def reaches_edge(answer: Extremum, u: np.ndarray, low: float, high: float) -> Extremum:
    """The curve turns, but the interval reaches an edge."""
    if low <= u[0] and high >= u[-1]:
        return replace(answer, low=-np.inf, high=np.inf, note="the interval covers the whole grid")
    if low <= u[0]:
        return replace(
            answer, status=Status.CENSORED_LOW, low=-np.inf, high=high, note="the interval reaches the lower edge"
        )
    return replace(
        answer, status=Status.CENSORED_HIGH, low=low, high=np.inf, note="the interval reaches the upper edge"
    )


def clear_changes(values: np.ndarray, fit: Anova, index: int, level: float, smooth: bool) -> tuple[bool, bool]:
    """(whether the curve clearly falls up to its lowest point, whether it clearly rises from there on)."""
    if smooth:  # the draw is the unit: differences to the lowest point, for all points looked at
        complete = values[np.isfinite(values).all(axis=1)]
        difference = complete - complete[:, index][:, None]
        error = difference.std(axis=0, ddof=1) / np.sqrt(len(complete))
        looks = max(4.0, 2 * independent_points(np.delete(difference, index, axis=1)))
        quantile = t_quantile(1 - 2 * (1 - level) / looks, len(complete) - 1)
        clear = difference.mean(axis=0) > quantile * error
        return bool(clear[:index].any()), bool(clear[index + 1 :].any())
    quantile = float(np.quantile(rises_by_chance(values.shape[1], fit.degrees), level))
    clear = []
    for part in (np.arange(index, -1, -1), np.arange(index, values.shape[1])):
        count = np.isfinite(values[:, part]).sum(axis=0)
        share = fit.degrees * count.sum() / np.isfinite(values).sum()
        variance = max(fit.variance, float(np.nansum(fit.residual[:, part] ** 2) / share))  # noise may grow along x
        clear.append(bool(rise(fit.curve[part] * np.sqrt(count / variance)) > quantile))
    return clear[0], clear[1]


def at_edge(answer: Extremum, u: np.ndarray, curve: np.ndarray, edge: int, bound: float) -> Extremum:
    """The curve is best towards one edge: monotone if it is not flattening there, else censored."""
    near, rest, far = edge_slopes(u, curve, upper=edge > 0)
    words = ("improves", "upper") if edge else ("degrades", "lower")  # towards longer x, of a minimum or maximum
    low, high = (float(bound), np.inf) if edge else (-np.inf, float(bound))
    at_rim = int(np.argmin(curve)) == edge
    hill = far * near < 0 and abs(far) > FLATTENED * abs(near)
    if at_rim and not hill and abs(near) > FLATTENED * abs(rest):
        note = f"{words[0]} throughout" if answer.throughout else words[0]
        return replace(answer, status=Status.MONOTONE, note=note, low=low, high=high)
    status = Status.CENSORED_HIGH if edge else Status.CENSORED_LOW
    return replace(
        answer, status=status, note=f"best towards the {words[1]} edge, no clear turn inside", low=low, high=high
    )


def edge_slopes(u: np.ndarray, curve: np.ndarray, upper: bool) -> tuple[float, float, float]:
    """Mean slope of a curve in the third of its cells (two at least) nearest one edge, in the rest of them, and in the
    third nearest the other edge."""
    third = max(2, len(u) // 3)
    slope = np.diff(curve) / np.diff(u)
    near, rest, far = (
        (slope[-third:], slope[:-third], slope[:third]) if upper else (slope[:third], slope[third:], slope[-third:])
    )
    return float(near.mean()), float(rest.mean()), float(far.mean())
