"""The place of the minimum of a curve that is known at grid points, and the confidence interval of this place.

The interval covers three kinds of uncertainty:

- the interpolation (`lowest_places`): Akima and cubic splines, and a broken power law if there are many points;
- the noise between draws (`ExtremumInterval.noise`), with one of two models, chosen from the data. Two-way ANOVA: the
  pooled noise is resampled after removing the draw effects. (Resampling whole draws instead covers only 0.75 with three
  draws.) Per draw: if the residuals are smooth along x, each draw has its own extremum. Then the interval inverts
  Student's t test of the slope, with the draw as the unit;
- the shape of the curve between grid points, which no interpolation can know (`ExtremumInterval.grid`).

COVERAGE.md says how often the interval contains the true place. `benchmarks/coverage.py` measured this; the constants
below without another source were chosen with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from raysweep.fits.statistics import Anova, complete_draws, t_quantile

RESAMPLES, FEWER = 800, 200  # resamples for an interval, and for predicting an interval with more draws
POWER = 1.5  # the third interpolation uses (height above the lowest point) ** POWER
FINE = 12  # samples per cell in the search for a minimum
# A grid is too coarse if curvatures differ by more than the factor COARSE, significantly (BEYOND standard errors).
COARSE, BEYOND = 3.0, 2.0
# Shapes around a minimum: powers of the distance, the power of a corner, the largest ratio between the two sides.
POWERS, CORNER, UNEVEN = (1.5, 2.0), 1.0, 3.0
EDGE_POWERS, EDGE_UNEVEN = (1.0, 1.5, 2.0, 3.0), 4.0  # powers and largest ratio next to an edge of the grid
LAW_POINTS = 20  # with fewer points, the six parameters of a broken power law are too uncertain
REJECTED = 0.01  # a goodness-of-fit p-value below this rejects the broken power law
LAW_STARTS = ((1.0, 1.0, 0.3), (4.0, 0.5, 0.1), (0.5, 4.0, 0.1))  # fall and rise per grid length, softness


@dataclass(frozen=True, eq=False)
class ExtremumInterval:
    """Computes the interval of the minimum of a mean curve.

    The argument `times` of the methods predicts the interval with `times` as many draws.

    u: (points,), the coordinate.
    values: (draws, points), NaN where a draw has no value.
    fit: the two-way ANOVA of the values.
    smooth: whether the draw is the unit, because draws differ by smooth curves.
    level: the confidence level of the interval.
    places: the minimum of the mean curve by each interpolation, Akima and cubic first.
    """

    u: np.ndarray
    values: np.ndarray
    fit: Anova
    smooth: bool
    level: float
    places: tuple[float, ...]

    @property
    def estimate(self) -> float:
        """The mean of the minima of the two splines."""
        return float(np.mean(self.places[:2]))

    @property
    def lowest(self) -> int:
        """The index of the lowest grid point."""
        return int(np.argmin(self.fit.curve))

    def noise(self, times: float = 1.0) -> tuple[float, float]:
        """(low, high) of the interval that covers the interpolations and the noise between draws."""
        if self.smooth:
            low, high = self.not_clearly_sloping(times)
            return low - (self.estimate - min(self.places)), high + (max(self.places) - self.estimate)
        tail, resampled = (1 - self.level) / 2, self.resampled(times)
        return (
            min(float(np.quantile(each, tail)) for each in resampled),
            max(float(np.quantile(each, 1 - tail)) for each in resampled),
        )

    def resampled(self, times: float) -> list[np.ndarray]:
        """The minima of resampled mean curves, one array per interpolation."""
        rng = np.random.default_rng(20240229)  # a fixed seed gives the same report every time
        count = RESAMPLES if times == 1.0 else FEWER
        noise = rng.standard_normal((count, len(self.u))) / np.sqrt(times)
        degrees = self.fit.degrees * times
        scale = np.sqrt(degrees / rng.chisquare(degrees, count))[:, None]  # the variance is itself uncertain
        return lowest_places(self.u, self.fit.curve + scale * (noise @ self.fit.factor.T))

    def not_clearly_sloping(self, times: float) -> tuple[float, float]:
        """(low, high) of the range around the estimate in which the mean slope may be 0, by Student's t test."""
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
        """(low, high, whether the grid is too coarse to interpolate): the uncertainty between grid points.

        The range covers all places where the minimum could be if the mean curve were known exactly at the grid points:
        the minimum of each interpolation; the minima of curves that are steeper on one side (`uneven_range`); and, if
        the grid is too coarse, the minima of all convex curves (`convex_range`).
        """
        curve, bends = self.fit.curve, curvatures(self.u, self.values, self.fit, self.lowest, self.smooth)
        # If curvatures differ by more than a factor of 3, and noise does not explain it, no interpolation is reliable.
        coarse = bends is not None and bends.excess(COARSE, times) > BEYOND
        ends = [*self.places, *uneven_range(self.u, curve, self.lowest, bends, times)]
        if coarse:
            ends += convex_range(self.u, curve, self.lowest)
        return min(ends), max(ends), coarse

    def ends(self, times: float = 1.0) -> tuple[float, float]:
        """(low, high) of the interval that covers the noise and the uncertainty between grid points."""
        noise_low, noise_high = self.noise(times)
        grid_low, grid_high, _ = self.grid(times)
        return min(noise_low, grid_low), max(noise_high, grid_high)


def interpolants(u: np.ndarray, curves: np.ndarray, order: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """Interpolate curves (..., points) on a fine grid over u.

    Returns the fine grid and the curves on it by Akima and by cubic splines; with `order` their derivatives.
    """
    from scipy.interpolate import Akima1DInterpolator, CubicSpline

    fine = np.unique(np.concatenate([np.linspace(a, b, FINE + 1) for a, b in pairwise(u)]))
    akima = Akima1DInterpolator(u, curves, axis=-1, method="makima")
    cubic = CubicSpline(u, curves, axis=-1)
    return fine, [akima(fine, nu=order), cubic(fine, nu=order)]


def lowest_places(u: np.ndarray, curves: np.ndarray) -> list[np.ndarray]:
    """The place of the minimum of each curve (..., points), one array per interpolation.

    The interpolations are an Akima spline, a cubic spline, and a cubic spline of (height above the lowest point) **
    POWER. The power does not move the minimum; it fits curves better whose minimum is sharper than a parabola.
    """
    from scipy.interpolate import CubicSpline

    fine, plain = interpolants(u, curves)
    powered = CubicSpline(u, (curves - curves.min(axis=-1, keepdims=True)) ** POWER, axis=-1)
    return [lowest_on(fine, each) for each in (*plain, powered(fine))]


def lowest_on(fine: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """The place of the minimum of each curve (..., samples).

    The parabola through the lowest sample and its two neighbours refines it.
    """
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
    """Curvatures of the mean curve at neighbouring grid points (nodes), with their errors.

    at: (nodes,), the curvatures.
    deviations: (any, nodes). The norm of deviations @ weights is the standard error of at @ weights.
    """

    at: np.ndarray
    deviations: np.ndarray

    def excess(self, ratio: float, times: float = 1.0) -> float:
        """(largest curvature - `ratio` * smallest curvature) in units of its standard error with `times` as many draws.

        A positive result means that the curvatures differ by more than this ratio.
        """
        largest, smallest = int(np.argmax(self.at)), int(np.argmin(self.at))
        contrast = float(self.at[largest] - ratio * self.at[smallest])
        error = np.linalg.norm(self.deviations[:, largest] - ratio * self.deviations[:, smallest]) / np.sqrt(times)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.divide(contrast, error))

    def unevenness(self, times: float = 1.0) -> float:
        """The largest ratio of curvatures that the data do not exclude, at most UNEVEN."""
        ratios = np.geomspace(1, UNEVEN, 9)[:-1]
        return next((float(ratio) for ratio in ratios if self.excess(float(ratio), times) < -1), UNEVEN)


def curvatures(u: np.ndarray, values: np.ndarray, fit: Anova, index: int, smooth: bool) -> Curvatures | None:
    """The curvatures at the lowest grid point `index` and its neighbours; None if fewer than two can be computed.

    u, values, fit, smooth: as in `ExtremumInterval`.
    """
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
    """(low, high) of the possible minima of all curves that are convex around their lowest grid point `index`.

    On each side, the line through the next two grid points is continued down to the lowest value. The minimum lies no
    farther away than the place where this line reaches it. If the curve is not convex on a side, the next grid point is
    the end.
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
    """(low, high) of the possible minima of curves that may be steeper on one side of the minimum than on the other.

    The curve goes through the lowest grid point `index` and its two neighbours. Around the minimum it is a power
    (POWERS) of the distance. One side may be steeper by the ratio that the curvatures allow (`Curvatures.unevenness`);
    if they allow UNEVEN, the minimum may also be a corner. Next to an edge of the grid more shapes are allowed
    (EDGE_POWERS, EDGE_UNEVEN), because the curve is unknown beyond the edge.
    """
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
    """The place v of the minimum of a curve with known shape, from its values at three points.

    Up to a common factor the curve is (v - x)^power to the left of v and ratio * (x - v)^power to the right.

    x: (3,), the points; the minimum lies between the first and the last.
    drops: how much higher the curve is at the first and at the last point than at the middle one.
    """
    left_drop, right_drop = drops
    left, right = np.linspace(x[0], x[1], 65), np.linspace(x[1], x[2], 65)[1:]
    at = np.concatenate([left, right])
    # At the right v the two drops have the observed ratio; there the mismatch changes from positive to negative.
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
    """Estimate the minimum of a curve with a smoothly broken power law, the parametric alternative to interpolation.

    The model is y = a + b x^-p (1 + (x/x0)^(1/f))^((p+q)f) with b, p, q, f > 0, over u = log x. It falls like x^-p,
    rises like x^q beyond the break, and has its minimum at log x = log x0 + f log(p/q). Source: Caballero et al.,
    "Broken neural scaling laws" (2022), eq. 1 with one break; here the bounds of the exponents make the curve fall and
    then rise. a and b are solved by linear least squares, the other four parameters by bounded least squares.

    u: (points,), the logarithm of x.
    curve: (points,), the values.
    variance: (points,), the variance of each value.
    degrees: the degrees of freedom of the variance.

    Returns (minimum in units of u, goodness-of-fit p-value), or None with fewer than 20 points, if a variance is not
    known, or if the minimum lies outside the grid.
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
        at = place - soft * (theta[0] - theta[1])  # the break for which the minimum lies at `place`
        exponent = -fall * t + (fall + rise) * soft * np.logaddexp(0, (t - at) / soft)
        shape = np.exp(np.clip(exponent - exponent.min(), 0, 50))
        design = np.stack([np.ones(points), shape], axis=1) * weight[:, None]
        (level, size), *_ = np.linalg.lstsq(design, curve * weight, rcond=None)
        if size < 0:  # b must be positive; the best fit without a negative b is a constant
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
