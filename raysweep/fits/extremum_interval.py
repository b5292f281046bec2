"""Where a curve given at grid points is lowest, and how sure that is: what makes the interval of an extremum.

The interval holds for each of three things:

- the interpolations (`lowest_places`): Akima and cubic splines, and a broken power law where points are many;
- the noise between draws (`ExtremumInterval.noise`), by one of two models, chosen from the data. Two-way ANOVA: the
  pooled noise is resampled, the draw effect removed (resampling whole draws covers 0.75 at three draws). Per draw:
  where what is left after the draw effect runs smoothly along x, every draw has an extremum of its own, and the
  interval is Student's test on the slope, inverted, with the draw as the unit;
- what the grid leaves open between its points, whatever the interpolation says (`ExtremumInterval.grid`).

How often it holds the truth is measured in COVERAGE.md, by `benchmarks/coverage.py`, which also set the constants here
that have no other source.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from raysweep.fits.statistics import Anova, complete_draws, t_quantile

RESAMPLES, FEWER = 800, 200  # for an interval, and for a guess at what an interval would be
POWER = 1.5  # of the height above the lowest point, in the third interpolation
FINE = 12  # samples per cell on which a minimum is sought
COARSE, BEYOND = 3.0, 2.0  # curvatures that differ by more, by so many standard errors, make a grid too coarse
POWERS, CORNER, UNEVEN = (1.5, 2.0), 1.0, 3.0  # of the distance to the minimum; the most uneven that is allowed for
EDGE_POWERS, EDGE_UNEVEN = (1.0, 1.5, 2.0, 3.0), 4.0  # the same beside an edge
LAW_POINTS = 20  # fewer points say too little of the six parameters of a broken power law
REJECTED = 0.01  # below this probability of a worse fit, the data say that the curve is no broken power law
LAW_STARTS = ((1.0, 1.0, 0.3), (4.0, 0.5, 0.1), (0.5, 4.0, 0.1))  # fall and rise per grid length, softness


@dataclass(frozen=True, eq=False)
class ExtremumInterval:
    """The interval of the minimum of a mean curve, for the draws there are or for `times` as many.

    u: (points,), the coordinate.
    values: (draws, points), NaN where a draw lacks a value.
    fit: the two-way ANOVA of the values.
    smooth: whether the draw is the unit, because draws differ by smooth curves.
    level: of the interval.
    places: where the mean curve is lowest by each interpolation, Akima and cubic first.
    """

    u: np.ndarray
    values: np.ndarray
    fit: Anova
    smooth: bool
    level: float
    places: tuple[float, ...]

    @property
    def estimate(self) -> float:
        """The mean of the two splines' places."""
        return float(np.mean(self.places[:2]))

    @property
    def lowest(self) -> int:
        """The index of the lowest grid point."""
        return int(np.argmin(self.fit.curve))

    def noise(self, times: float = 1.0) -> tuple[float, float]:
        """(low, high) for noise alone."""
        if self.smooth:
            low, high = self.not_clearly_sloping(times)
            return low - (self.estimate - min(self.places)), high + (max(self.places) - self.estimate)
        tail, resampled = (1 - self.level) / 2, self.resampled(times)
        return (
            min(float(np.quantile(each, tail)) for each in resampled),
            max(float(np.quantile(each, 1 - tail)) for each in resampled),
        )

    def resampled(self, times: float) -> list[np.ndarray]:
        """Where resampled curves have their minimum, one array per interpolation."""
        rng = np.random.default_rng(20240229)  # fixed, so that a report is the same every time
        count = RESAMPLES if times == 1.0 else FEWER
        noise = rng.standard_normal((count, len(self.u))) / np.sqrt(times)
        degrees = self.fit.degrees * times
        scale = np.sqrt(degrees / rng.chisquare(degrees, count))[:, None]  # the variance is itself uncertain
        return lowest_places(self.u, self.fit.curve + scale * (noise @ self.fit.factor.T))

    def not_clearly_sloping(self, times: float) -> tuple[float, float]:
        """(low, high) of where the mean slope around the estimate is not clearly above or below 0, by Student's t."""
        complete = complete_draws(self.values)
        draws = len(complete) * times
        fine, slopes = interpolants(self.u, complete, 1)
        lows, highs = [], []
        for slope in slopes:
            error = slope.std(axis=0, ddof=1) / np.sqrt(draws)
            doubtful = np.abs(slope.mean(axis=0)) <= t_quantile(self.level, int(draws) - 1) * error
            start = int(np.argmin(np.abs(fine - self.estimate)))
            clear = np.flatnonzero(~doubtful)
            lows.append(float(fine[clear[clear < start].max(initial=0)]))
            highs.append(float(fine[clear[clear > start].min(initial=len(fine) - 1)]))
        return min(lows), max(highs)

    def grid(self, times: float = 1.0) -> tuple[float, float, bool]:
        """(low, high) of what would be open if the mean curve were known at the grid points, and whether the grid is
        too coarse to interpolate: the interpolations' places, what unevenness around the lowest point allows, and any
        convex shape if it is too coarse."""
        curve, bends = self.fit.curve, curvatures(self.u, self.values, self.fit, self.lowest, self.smooth)
        # curvatures that differ more than threefold, beyond noise, let no interpolation be trusted
        coarse = bends is not None and bends.excess(COARSE, times) > BEYOND
        ends = [*self.places, *uneven_range(self.u, curve, self.lowest, bends, times)]
        if coarse:
            ends += convex_range(self.u, curve, self.lowest)
        return min(ends), max(ends), coarse

    def ends(self, times: float = 1.0) -> tuple[float, float]:
        """(low, high) of the whole interval."""
        noise_low, noise_high = self.noise(times)
        grid_low, grid_high, _ = self.grid(times)
        return min(noise_low, grid_low), max(noise_high, grid_high)


def interpolants(u: np.ndarray, curves: np.ndarray, order: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """A fine grid over u and the curves (..., points) on it by Akima and by cubic spline (or their derivatives)."""
    from scipy.interpolate import Akima1DInterpolator, CubicSpline

    fine = np.unique(np.concatenate([np.linspace(a, b, FINE + 1) for a, b in pairwise(u)]))
    akima = Akima1DInterpolator(u, curves, axis=-1, method="makima")
    cubic = CubicSpline(u, curves, axis=-1)
    return fine, [akima(fine, nu=order), cubic(fine, nu=order)]


def lowest_places(u: np.ndarray, curves: np.ndarray) -> list[np.ndarray]:
    """Where each curve (..., points) is lowest, one array per interpolation: Akima, cubic, and cubic of (height above
    the lowest point) ** POWER, which moves no minimum, but follows a curve better that is sharper than a parabola
    there."""
    from scipy.interpolate import CubicSpline

    fine, plain = interpolants(u, curves)
    powered = CubicSpline(u, (curves - curves.min(axis=-1, keepdims=True)) ** POWER, axis=-1)
    return [lowest_on(fine, each) for each in (*plain, powered(fine))]


def lowest_on(fine: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """Place of the minimum of each curve (..., samples), refined by the parabola through the three lowest samples."""
    index = np.argmin(curves, axis=-1)
    inner = np.clip(index, 1, len(fine) - 2)
    x0, x1, x2 = (fine[inner + step] for step in (-1, 0, 1))
    y0, y1, y2 = (np.take_along_axis(curves, (inner + step)[..., None], axis=-1)[..., 0] for step in (-1, 0, 1))
    top = (x1 - x0) ** 2 * (y1 - y2) - (x1 - x2) ** 2 * (y1 - y0)
    bottom = (x1 - x0) * (y1 - y2) - (x1 - x2) * (y1 - y0)
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = x1 - 0.5 * top / bottom
    usable = (index == inner) & np.isfinite(vertex)
    return np.where(usable, np.clip(vertex, x0, x2), fine[index])


@dataclass(frozen=True, eq=False)
class Curvatures:
    """Curvatures of the mean curve at neighbouring grid points.

    at: (nodes,).
    deviations: (any, nodes); the root of the sum of squares of a combination of its columns is the standard error of
        the same combination of curvatures.
    """

    at: np.ndarray
    deviations: np.ndarray

    def excess(self, ratio: float, times: float = 1.0) -> float:
        """By how many standard errors (those of `times` as many draws) the largest curvature is more than `ratio` times
        the smallest."""
        largest, smallest = int(np.argmax(self.at)), int(np.argmin(self.at))
        contrast = float(self.at[largest] - ratio * self.at[smallest])
        error = np.linalg.norm(self.deviations[:, largest] - ratio * self.deviations[:, smallest]) / np.sqrt(times)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.divide(contrast, error))

    def unevenness(self, times: float = 1.0) -> float:
        """The largest ratio of curvatures, at most UNEVEN, that the data do not speak against."""
        ratios = np.geomspace(1, UNEVEN, 9)[:-1]
        return next((float(ratio) for ratio in ratios if self.excess(float(ratio), times) < -1), UNEVEN)


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
    complete = complete_draws(values)
    deviations = fit.factor.T
    if smooth and len(complete) > 1:
        deviations = (complete - complete.mean(axis=0)) / np.sqrt(len(complete) * (len(complete) - 1))
    return Curvatures(weights @ fit.curve, deviations @ weights.T)


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
    u: np.ndarray, curve: np.ndarray, index: int, bends: Curvatures | None, times: float = 1.0
) -> tuple[float, float]:
    """Where a curve through the lowest grid point and its two neighbours has its minimum, if around it the curve is a
    power (POWERS) of the distance, steeper on one side than on the other by as much as the curvatures around it allow;
    where they allow UNEVEN, it may as well have a corner. Next to an edge, where
    nothing is known of the curve on one side, more is allowed."""
    if not 0 < index < len(u) - 1:
        return float(u[index]), float(u[index])
    beside_edge = index in (1, len(u) - 2)
    ratio = EDGE_UNEVEN if beside_edge else bends.unevenness(times) if bends else UNEVEN
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


def broken_power_law_place(
    u: np.ndarray, curve: np.ndarray, variance: np.ndarray, degrees: int
) -> tuple[float, float] | None:
    """Where a smoothly broken power law through the curve is lowest, the parametric alternative to interpolation.

    Least squares of y = a + b x^-p (1 + (x/x0)^(1/f))^((p+q)f) with b, p, q, f > 0, over u = log x. It falls like x^-p,
    rises like x^q beyond the break, and is lowest at log x = log x0 + f log(p/q). One break of the smoothly broken
    power law of Caballero et al., "Broken neural scaling laws" (2022), eq. 1, with the two exponents bounded such that
    it turns; a and b are solved linearly inside, the four others by bounded least squares.

    u: (points,), the logarithm of x.
    curve, variance: (points,), the values and their variance, the latter known with `degrees` degrees of freedom.

    (place in u, probability of a worse fit if the curve is one). None with fewer than 20 points, where the fit does not
    converge, or where its minimum lies outside the grid.
    """
    from scipy.optimize import least_squares
    from scipy.special import fdtrc

    points = len(u)
    if points < LAW_POINTS or degrees < 1 or not (variance > 0).all():
        return None
    t = (u - u[0]) / (u[-1] - u[0])
    weight = 1 / np.sqrt(variance)
    lowest = float(t[np.argmin(curve)])

    def residuals(theta: np.ndarray) -> np.ndarray:
        fall, rise, soft, place = np.exp(theta[0]), np.exp(theta[1]), np.exp(theta[2]), theta[3]
        at = place - soft * (theta[0] - theta[1])  # the break that puts the minimum at `place`
        exponent = -fall * t + (fall + rise) * soft * np.logaddexp(0, (t - at) / soft)
        shape = np.exp(np.clip(exponent - exponent.min(), 0, 50))
        design = np.stack([np.ones(points), shape], axis=1) * weight[:, None]
        (level, size), *_ = np.linalg.lstsq(design, curve * weight, rcond=None)
        if size < 0:  # b > 0: else the best that is allowed is a constant
            level, size = float(np.average(curve, weights=weight**2)), 0.0
        return np.asarray((level + size * shape - curve) * weight)

    bounds = [np.append(np.log([1e-3] * 3), 0.0), np.append(np.log([60.0, 60.0, 3.0]), 1.0)]
    starts = [[*np.log(start), min(max(lowest, 1e-3), 1 - 1e-3)] for start in LAW_STARTS]
    every = [least_squares(residuals, start, bounds=bounds, max_nfev=60, diff_step=1e-5) for start in starts]
    best = min(every, key=lambda found: found.cost)
    if not 0 < best.x[3] < 1:
        return None
    left = points - 6
    return float(u[0] + best.x[3] * (u[-1] - u[0])), float(fdtrc(left, degrees, 2 * best.cost / left))
