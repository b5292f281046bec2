"""Where curves given at grid points are lowest: interpolations, and the two intervals for noisy curves.

Two noise models, chosen from the data (`additive.smooth_within_draws`). Anova: the interval comes from resampling
the pooled noise, the draw effect removed (resampling whole draws covers 0.75 at three). Per draw: where what is left
after the draw effect runs smoothly along x, every draw has a turning point of its own, and the interval is Student's
test on the slope, inverted, with the draw as the unit.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from raysweep.fits.signs import t_quantile
from raysweep.fits.two_way_anova import Anova

RESAMPLES, FEWER = 800, 200  # for an interval, and for a guess at what an interval would be
POWER = 1.5
FINE = 12  # samples per cell on which a minimum is sought


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
