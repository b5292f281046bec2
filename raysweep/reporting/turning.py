"""Where one noisy curve turns: the place of its minimum, from a few draws of it.

Two noise models, chosen from the data. Additive: value = draw effect + curve + independent noise of one variance; the
interval comes from resampling that noise (pooled over all points, so that three draws are enough; resampling whole
draws covers 0.75 at three). Per draw: where what is left after the draw effect runs smoothly along x, every draw has
a turning point of its own, and the interval is Student's test on the slope, inverted, with the draw as the unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from raysweep.reporting.signs import t_quantile

RESAMPLES = 800
POWER = 1.5
FINE = 24  # samples per cell on which a minimum is sought


@dataclass(frozen=True)
class Additive:
    """Least-squares fit of value = draw effect + curve: curve (points,), its factor (points, points) such that
    curve + factor @ standard normal is one resample of it, residuals (draws, points), variance and its degrees of
    freedom."""

    curve: np.ndarray
    factor: np.ndarray
    residual: np.ndarray
    variance: float
    degrees: int


def additive_fit(values: np.ndarray) -> Additive:
    """The two-way fit of values[draw, point] with values missing anywhere (each point must be linked through draws)."""
    draws, points = values.shape
    at_draw, at_point = np.nonzero(np.isfinite(values))
    rows = np.arange(len(at_draw))
    design = np.zeros((len(rows), points + draws - 1))
    design[rows, at_point] = 1
    later = at_draw > 0  # draw effects are contrasts to the first draw, then centred
    design[rows[later], points + at_draw[later] - 1] = 1
    inverse = np.linalg.pinv(design.T @ design)
    solution = inverse @ (design.T @ values[at_draw, at_point])
    effect = np.concatenate([[0.0], solution[points:]])
    residual = np.full(values.shape, np.nan)
    residual[at_draw, at_point] = values[at_draw, at_point] - design @ solution
    degrees = len(rows) - points - draws + 1
    variance = float(np.nansum(residual**2) / degrees) if degrees > 0 else np.nan
    # The curve is needed up to a constant only: its covariance without the common level.
    centre = np.eye(points) - 1 / points
    covariance = centre @ inverse[:points, :points] @ centre
    eigenvalues, vectors = np.linalg.eigh(covariance)
    factor = vectors * np.sqrt(np.clip(eigenvalues, 0, None) * (variance if degrees > 0 else 0.0))
    return Additive(solution[:points] + effect.mean(), factor, residual, variance, degrees)


def smooth_within_draws(fit: Additive) -> bool:
    """Whether residuals of neighbouring points of one draw go together far more than independent noise would."""
    residual = fit.residual
    if fit.degrees < 4 or not fit.variance > 0:
        return False
    pairs = residual[:, :-1] * residual[:, 1:]
    known = np.isfinite(pairs)
    draws, points = residual.shape
    both = np.sqrt(np.nanmean(residual[:, :-1] ** 2) * np.nanmean(residual[:, 1:] ** 2))
    correlation = float(np.nansum(pairs) / known.sum() / both) if both > 0 else 0.0
    chance = -1 / points
    return correlation > chance + 2.5 / np.sqrt(max((draws - 1) * (points - 1), 1))


def interpolants(u: np.ndarray, curves: np.ndarray, order: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """A fine grid over u and the curves (..., points) on it by Akima and by cubic spline (or their derivatives)."""
    from scipy.interpolate import Akima1DInterpolator, CubicSpline

    fine = np.unique(np.concatenate([np.linspace(a, b, FINE + 1) for a, b in pairwise(u)]))
    akima = Akima1DInterpolator(u, curves, axis=-1, method="makima")
    cubic = CubicSpline(u, curves, axis=-1)
    return fine, [akima(fine, nu=order), cubic(fine, nu=order)]


def bent(u: np.ndarray, curves: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """Cubic interpolation of (height above the lowest point) ** power: a bent axis does not move a minimum, but a curve
    that is sharper than a parabola there is followed better."""
    fine, both = interpolants(u, (curves - curves.min(axis=-1, keepdims=True)) ** power)
    return fine, both[1]


def all_places(u: np.ndarray, curves: np.ndarray) -> list[np.ndarray]:
    """Where each curve (..., points) is lowest, one array per interpolation."""
    fine, plain = interpolants(u, curves)
    return [lowest(fine, each) for each in [*plain, bent(u, curves, POWER)[1]]]


def unresolved(u: np.ndarray, values: np.ndarray, fit: Additive, index: int, smooth: bool) -> bool:
    """Whether the curvature at the lowest grid point and at its neighbours differs more than threefold, beyond noise:
    the grid is then too coarse for any interpolation to be trusted."""
    nodes = [k for k in (index - 1, index, index + 1) if 0 < k < len(u) - 1]
    if len(nodes) < 2:
        return False
    weights = np.zeros((len(nodes), len(u)))
    for row, k in enumerate(nodes):
        left, right = u[k] - u[k - 1], u[k + 1] - u[k]
        weights[row, k - 1 : k + 2] = [1 / left, -1 / left - 1 / right, 1 / right]
        weights[row] /= (left + right) / 2
    curvature = weights @ fit.curve
    contrast = weights[np.argmax(curvature)] - 3 * weights[np.argmin(curvature)]
    complete = values[np.isfinite(values).all(axis=1)]
    if smooth and len(complete) > 1:
        error = float((complete @ contrast).std(ddof=1) / np.sqrt(len(complete)))
    else:
        error = float(np.sqrt(np.sum((contrast @ fit.factor) ** 2)))
    return bool(contrast @ fit.curve > 3 * error)


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


@lru_cache(maxsize=256)
def rise_quantile(points: int, degrees: int, level: float) -> float:
    """The rise statistic that `points` equal means exceed by chance with probability 1 - level (simulated, fixed seed).

    Equal means are the hardest falling curve: any other falls, and so rises less by chance.
    """
    rng = np.random.default_rng([points, min(degrees, 200)])
    z = rng.standard_normal((4000, points))
    scale = np.sqrt(rng.chisquare(degrees, 4000) / degrees) if degrees < 200 else np.ones(4000)
    return float(np.quantile(rise(z) / scale, level))


def rise(z: np.ndarray) -> np.ndarray:
    """Largest climb of a sequence (..., points) of unit-variance means: over windows of 1, 2 and 3 points, the largest
    (later mean - earlier mean), in units of its standard error."""
    best = np.zeros(z.shape[:-1])
    total = np.concatenate([np.zeros((*z.shape[:-1], 1)), np.cumsum(z, axis=-1)], axis=-1)
    for window in (1, 2, 3):
        if z.shape[-1] < 2 * window:
            break
        mean = (total[..., window:] - total[..., :-window]) / window
        earlier = np.minimum.accumulate(mean, axis=-1)[..., :-window]
        climb = (mean[..., window:] - earlier).max(axis=-1) * np.sqrt(window / 2)
        best = np.maximum(best, climb)
    return best


def resampled_places(u: np.ndarray, fit: Additive, rng: np.random.Generator) -> list[np.ndarray]:
    """Where resampled curves have their minimum, one array per interpolation."""
    noise = rng.standard_normal((RESAMPLES, len(u)))
    scale = np.sqrt(fit.degrees / rng.chisquare(fit.degrees, RESAMPLES))[:, None]  # the variance is itself uncertain
    return all_places(u, fit.curve + scale * (noise @ fit.factor.T))


def slope_interval(u: np.ndarray, values: np.ndarray, place: float, level: float) -> tuple[float, float, float]:
    """(low, high, standard error) of the place of the mean curve's minimum, the draw as the unit.

    Every draw pulls the place by -slope_i(place)/curvature(place); Student's t on those pulls.
    """
    slopes, curvatures = [], []
    complete = values[np.isfinite(values).all(axis=1)]
    for which in (0, 1):
        fine, first = interpolants(u, complete, 1)
        middle = first[which].mean(axis=0)
        error = first[which].std(axis=0, ddof=1) / np.sqrt(len(complete))
        doubtful = np.abs(middle) <= t_quantile(level, len(complete) - 1) * error
        slopes.append((fine, doubtful))
        curvatures.append(np.interp(place, fine, error))
    lows, highs = [], []
    for fine, doubtful in slopes:
        at = int(np.argmin(np.abs(fine - place)))
        first_index, last_index = at, at
        while first_index > 0 and doubtful[first_index - 1]:
            first_index -= 1
        while last_index < len(fine) - 1 and doubtful[last_index + 1]:
            last_index += 1
        lows.append(fine[max(first_index - 1, 0)])
        highs.append(fine[min(last_index + 1, len(fine) - 1)])
    return min(lows), max(highs), max(curvatures)
