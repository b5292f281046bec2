"""Where a curve given at grid points is lowest, and how sure that is: what makes the interval of an extremum.

Three parts, and the interval holds for all of them: the interpolations (and a broken power law where points are many),
the noise between draws, and what the grid leaves open between its points whatever the interpolation says.

Two noise models, chosen from the data (`smooth_within_draws`). Two-way ANOVA: the interval comes from resampling the
pooled noise, the draw effect removed (resampling whole draws covers 0.75 at three). Per draw: where what is left after
the draw effect runs smoothly along x, every draw has an extremum of its own, and the interval is Student's test on the
slope, inverted, with the draw as the unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from raysweep.fits.statistics import Anova, t_quantile

RESAMPLES, FEWER = 800, 200  # for an interval, and for a guess at what an interval would be
POWER = 1.5
FINE = 12  # samples per cell on which a minimum is sought
COARSE, BEYOND = 3.0, 2.0  # curvatures that differ by more, by so many standard errors, make a grid too coarse
POWERS, CORNER, UNEVEN = (1.5, 2.0), 1.0, 3.0
EDGE_POWERS, EDGE_UNEVEN = (1.0, 1.5, 2.0, 3.0), 4.0
LAW_POINTS = 20
REJECTED = 0.01  # below this probability of a worse fit, the data say that the curve is no broken power law
STARTS = ((1.0, 1.0, 0.3), (4.0, 0.5, 0.1), (0.5, 4.0, 0.1))  # fall and rise per grid length, softness


def interpolants(u: np.ndarray, curves: np.ndarray, order: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """A fine grid over u and the curves (..., points) on it by Akima and by cubic spline (or their derivatives)."""
    from scipy.interpolate import Akima1DInterpolator, CubicSpline

    fine = np.unique(np.concatenate([np.linspace(a, b, FINE + 1) for a, b in pairwise(u)]))
    akima = Akima1DInterpolator(u, curves, axis=-1, method="makima")
    cubic = CubicSpline(u, curves, axis=-1)
    return fine, [akima(fine, nu=order), cubic(fine, nu=order)]


def all_places(u: np.ndarray, curves: np.ndarray) -> list[np.ndarray]:
    """Where each curve (..., points) is lowest, one array per interpolation: Akima, cubic, and cubic of (height above
    the lowest point) ** POWER: a bent axis does not move a minimum, but a curve that is sharper than a parabola there
    is followed better."""
    from scipy.interpolate import CubicSpline

    fine, plain = interpolants(u, curves)
    bent = CubicSpline(u, (curves - curves.min(axis=-1, keepdims=True)) ** POWER, axis=-1)
    return [lowest(fine, each) for each in (*plain, bent(fine))]


def lowest(fine: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """Place of the minimum of each curve (..., samples), refined by the parabola through the three lowest samples."""
    index = np.argmin(curves, axis=-1)
    inner = np.clip(index, 1, len(fine) - 2)

    def take(k: np.ndarray) -> np.ndarray:
        return np.take_along_axis(curves, k[..., None], axis=-1)[..., 0]

    x0, x1, x2 = fine[inner - 1], fine[inner], fine[inner + 1]
    y0, y1, y2 = take(inner - 1), take(inner), take(inner + 1)
    top = (x1 - x0) ** 2 * (y1 - y2) - (x1 - x2) ** 2 * (y1 - y0)
    bottom = (x1 - x0) * (y1 - y2) - (x1 - x2) * (y1 - y0)
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = x1 - 0.5 * top / bottom
    usable = (index == inner) & np.isfinite(vertex)
    return np.where(usable, np.clip(vertex, x0, x2), fine[index])


def resampled_places(u: np.ndarray, fit: Anova, rng: np.random.Generator, times: float = 1.0) -> list[np.ndarray]:
    """Where resampled curves have their minimum, one array per interpolation, with `times` as many draws."""
    count = RESAMPLES if times == 1.0 else FEWER
    noise = rng.standard_normal((count, len(u))) / np.sqrt(times)
    degrees = fit.degrees * times
    scale = np.sqrt(degrees / rng.chisquare(degrees, count))[:, None]  # the variance is itself uncertain
    return all_places(u, fit.curve + scale * (noise @ fit.factor.T))


def slope_interval(
    u: np.ndarray, values: np.ndarray, place: float, level: float, times: float = 1.0
) -> tuple[float, float]:
    """(low, high) of the place of the mean curve's minimum: where the mean slope is not clearly above or below 0, by
    Student's t with the draw as the unit; with `times` as many draws."""
    complete = values[np.isfinite(values).all(axis=1)]
    draws = len(complete) * times
    fine, slopes = interpolants(u, complete, 1)
    lows, highs = [], []
    for slope in slopes:
        error = slope.std(axis=0, ddof=1) / np.sqrt(draws)
        doubtful = np.abs(slope.mean(axis=0)) <= t_quantile(level, int(draws) - 1) * error
        first = last = int(np.argmin(np.abs(fine - place)))
        while first > 0 and doubtful[first - 1]:
            first -= 1
        while last < len(fine) - 1 and doubtful[last + 1]:
            last += 1
        lows.append(float(fine[max(first - 1, 0)]))
        highs.append(float(fine[min(last + 1, len(fine) - 1)]))
    return min(lows), max(highs)


@dataclass(frozen=True)
class Curvatures:
    """Curvature at the lowest grid point and at its inner neighbours: each as weights on the curve's values, and the
    standard error of a combination of them."""

    at: np.ndarray
    weights: np.ndarray
    error: Callable[[np.ndarray], float]

    def contrast(self, ratio: float) -> tuple[float, float]:
        """(largest - ratio times smallest curvature, its standard error)."""
        largest, smallest = int(np.argmax(self.at)), int(np.argmin(self.at))
        return float(self.at[largest] - ratio * self.at[smallest]), self.error(
            self.weights[largest] - ratio * self.weights[smallest]
        )


def curvatures(u: np.ndarray, values: np.ndarray, fit: Anova, index: int, smooth: bool) -> Curvatures | None:
    """Curvatures around the lowest grid point `index`; None where fewer than two can be had."""
    nodes = [k for k in (index - 1, index, index + 1) if 0 < k < len(u) - 1]
    if len(nodes) < 2:
        return None
    weights = np.zeros((len(nodes), len(u)))
    for row, k in enumerate(nodes):
        left, right = u[k] - u[k - 1], u[k + 1] - u[k]
        weights[row, k - 1 : k + 2] = [1 / left, -1 / left - 1 / right, 1 / right]
        weights[row] /= (left + right) / 2
    complete = values[np.isfinite(values).all(axis=1)]

    def error(contrast: np.ndarray) -> float:
        if smooth and len(complete) > 1:
            return float((complete @ contrast).std(ddof=1) / np.sqrt(len(complete)))
        return float(np.sqrt(np.sum((contrast @ fit.factor) ** 2)))

    return Curvatures(weights @ fit.curve, weights, error)


def unresolved(around: Curvatures | None, times: float = 1.0) -> bool:
    """Whether the curvatures differ more than threefold, beyond noise (that of `times` as many draws): the grid is then
    too coarse for any interpolation to be trusted."""
    if around is None:
        return False
    contrast, error = around.contrast(COARSE)
    return bool(contrast > BEYOND * error / np.sqrt(times))


def unevenness(around: Curvatures | None, times: float = 1.0) -> float:
    """The largest ratio of curvatures that the data do not speak against, at most UNEVEN; with `times` the draws."""
    if around is None:
        return UNEVEN
    for ratio in np.geomspace(1, UNEVEN, 9)[:-1]:
        contrast, error = around.contrast(float(ratio))
        if contrast < -error / np.sqrt(times):
            return float(ratio)
    return UNEVEN


def convex_range(u: np.ndarray, curve: np.ndarray, index: int) -> tuple[float, float]:
    """Where a curve that is convex around its lowest grid point can have its minimum, whatever else its shape.

    On either side the minimum lies no farther than where the line through the next two points comes down to that
    value; on a side where the curve is not convex, no farther than the next point.
    """
    ends = []
    for step in (-1, 1):
        near, far = index + step, index + 2 * step
        if not 0 <= near < len(u):
            ends.append(float(u[index]))
            continue
        end = float(u[near])
        if 0 <= far < len(u) and curve[far] > curve[near]:
            slope = (curve[far] - curve[near]) / (u[far] - u[near])
            inner = (curve[near] - curve[index]) / (u[near] - u[index])
            if abs(slope) >= abs(inner):
                end = float(u[near] - (curve[near] - curve[index]) / slope)
        ends.append(end)
    return ends[0], ends[1]


def uneven_range(
    u: np.ndarray, curve: np.ndarray, index: int, around: Curvatures | None, times: float = 1.0
) -> tuple[float, float]:
    """Where a curve through the lowest grid point and its two neighbours has its minimum, if around it the curve is a
    power (POWERS) of the distance, steeper on one side than on the other by as much as the curvatures around it allow;
    where they allow three times and more, it may as well have a corner. Next to an edge, where nothing is known of the
    curve on one side, more is allowed."""
    if not 0 < index < len(u) - 1:
        return float(u[index]), float(u[index])
    beside_edge = index in (1, len(u) - 2)
    ratio = EDGE_UNEVEN if beside_edge else unevenness(around, times)
    powers = EDGE_POWERS if beside_edge else POWERS if ratio < UNEVEN else (CORNER, *POWERS)
    drops = curve[index - 1] - curve[index], curve[index + 1] - curve[index]
    found = [
        power_place(u[index - 1 : index + 2], drops, power, each)
        for power in powers
        for each in (1 / ratio, 1.0, ratio)
    ]
    return min(found), max(found)


def power_place(x: np.ndarray, drops: tuple[float, float], power: float, ratio: float) -> float:
    """The minimum v of the curve that is (v - x)^power on its left and ratio (x - v)^power on its right, up to a
    factor, and lies higher by `drops` at the first and last of three points than at the middle one."""
    left_drop, right_drop = drops
    left, right = np.linspace(x[0], x[1], 65), np.linspace(x[1], x[2], 65)[1:]
    at = np.concatenate([left, right])
    # the mismatch between the two drops falls through 0 where their ratio is the one seen
    on_left = left_drop * ratio * ((x[2] - left) ** power - (x[1] - left) ** power) - right_drop * (
        (left - x[0]) ** power - ratio * (x[1] - left) ** power
    )
    on_right = left_drop * (ratio * (x[2] - right) ** power - (right - x[1]) ** power) - right_drop * (
        (right - x[0]) ** power - (right - x[1]) ** power
    )
    mismatch = np.concatenate([on_left, on_right])
    crossing = np.flatnonzero((mismatch[:-1] >= 0) & (mismatch[1:] <= 0))
    if not len(crossing):
        return float(x[1])
    k = int(crossing[0])
    step = mismatch[k] - mismatch[k + 1]
    return float(at[k] + (mismatch[k] / step if step > 0 else 0.5) * (at[k + 1] - at[k]))


@dataclass(frozen=True)
class BrokenPowerLaw:
    """place: where it turns, in u; p_value: how probable a worse fit is if the curve is one; curve: its values at u."""

    place: float
    p_value: float
    curve: np.ndarray


def fit_broken_power_law(u: np.ndarray, curve: np.ndarray, variance: np.ndarray, degrees: int) -> BrokenPowerLaw | None:
    """Least squares of y = a + b x^-p (1 + (x/x0)^(1/f))^((p+q)f) with b, p, q, f > 0, over u = log x.

    It falls like x^-p, rises like x^q beyond the break, and turns at log x = log x0 + f log(p/q). One break of the
    smoothly broken power law of Caballero et al., "Broken neural scaling laws" (2022), eq. 1, with the two exponents
    bounded such that it turns; a and b are solved linearly inside, the four others by bounded least squares.

    u, curve, variance: (points,), variance that of the curve's values, estimated with `degrees` degrees of freedom.
    None with fewer than 20 points, where the fit does not converge, or where its turn lies outside the grid.
    """
    from scipy.optimize import least_squares
    from scipy.special import fdtrc

    points = len(u)
    if points < LAW_POINTS or degrees < 1 or not (variance > 0).all():
        return None
    t = (u - u[0]) / (u[-1] - u[0])
    weight = 1 / np.sqrt(variance)
    lowest = float(t[np.argmin(curve)])

    def shape(theta: np.ndarray) -> np.ndarray:
        fall, rise, soft, turn = np.exp(theta[0]), np.exp(theta[1]), np.exp(theta[2]), theta[3]
        at = turn - soft * (theta[0] - theta[1])  # the break that puts the turn at `turn`
        exponent = -fall * t + (fall + rise) * soft * np.logaddexp(0, (t - at) / soft)
        return np.asarray(np.exp(np.clip(exponent - exponent.min(), 0, 50)))

    def fitted(theta: np.ndarray) -> np.ndarray:
        design = np.stack([np.ones(points), shape(theta)], axis=1) * weight[:, None]
        (level, size), *_ = np.linalg.lstsq(design, curve * weight, rcond=None)
        if size < 0:  # b > 0: else the best that is allowed is a constant
            level, size = float(np.average(curve, weights=weight**2)), 0.0
        return np.asarray(level + size * shape(theta))

    best = None
    bounds = [np.append(np.log([1e-3] * 3), 0.0), np.append(np.log([60.0, 60.0, 3.0]), 1.0)]
    for fall, rise, soft in STARTS:
        start = [*np.log([fall, rise, soft]), min(max(lowest, 1e-3), 1 - 1e-3)]
        found = least_squares(
            lambda theta: (fitted(theta) - curve) * weight, start, bounds=bounds, max_nfev=60, diff_step=1e-5
        )
        if best is None or found.cost < best.cost:
            best = found
    if best is None or not 0 < best.x[3] < 1:
        return None
    left = points - 6
    return BrokenPowerLaw(
        place=float(u[0] + best.x[3] * (u[-1] - u[0])),
        p_value=float(fdtrc(left, degrees, 2 * best.cost / left)),
        curve=fitted(best.x),
    )
