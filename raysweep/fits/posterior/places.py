"""The place of the minimum of each sample path, and what the paths say of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from raysweep.fits.between_points import lowest_on
from raysweep.fits.posterior.curve import CurvePosterior
from raysweep.fits.statistics import normal_quantile

COARSE, DENSE = 45, 41  # points over the whole grid, and more where the places are
STAGES = 4  # the region of the places is looked at more closely at most so often
NARROW = 0.2  # share of the grid below which the region is looked at more closely
OUTSIDE = 0.002  # share of the places that a closer look may leave at the coarse points, on each side
TAIL = 0.0125  # the share of the paths on one side, 18 of 2 or 3 particles, below which paths tell no quantile
SHARP = 1.5  # a bend with a smaller power on one side has its lowest place where it bends, whatever is added to it


@dataclass(frozen=True, eq=False)
class Places:
    """The places of the minimum over paths, in [0, 1]."""

    at: np.ndarray  # (paths,), the place
    # t, paths: (n,) and (paths, n), the coarse points and the paths there, for questions about the whole curve.
    t: np.ndarray
    paths: np.ndarray


@lru_cache(maxsize=16)
def minimum_places(posterior: CurvePosterior) -> Places:
    """Find the minimum of every path, on points that become dense where the minima are."""
    coarse = np.linspace(0, 1, COARSE)
    places, paths = lowest(posterior, coarse)
    first, step = paths, 1 / (COARSE - 1)
    for _ in range(STAGES):
        low, high = np.quantile(places, [OUTSIDE, 1 - OUTSIDE])
        low, high = max(low - step, 0.0), min(high + step, 1.0)
        closer = (high - low) / (DENSE - 1)
        if high - low > NARROW or closer > 0.7 * step:
            break
        step = closer
        places, _ = lowest(posterior, np.union1d(coarse[::2], np.linspace(low, high, DENSE)))
    first = first[:, :COARSE]
    return Places(1 - places, coarse, first[:, ::-1]) if posterior.mirrored else Places(places, coarse, first)


def lowest(posterior: CurvePosterior, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(place of the minimum of each path, the paths at t and at the bend).

    Every particle also looks at its own bend. Places at a sharp one are not moved between the points.
    """
    p = posterior.given.p
    bend = np.clip(p.bend_place, 0, 1)[:, None]
    points = np.concatenate([np.tile(t, (len(bend), 1)), bend], axis=1)
    paths = posterior.paths(points)
    count = paths.shape[1]
    order = np.argsort(points, axis=1, kind="stable")
    x = np.take_along_axis(points, order, axis=1)[:, None, :].repeat(count, axis=1)
    y = np.take_along_axis(paths, order[:, None, :].repeat(count, axis=1), axis=2)
    at, between = lowest_on(x, y)
    steep = (p.trend == 0) | (np.minimum(p.before, p.after) < SHARP)
    cornered = steep & (p.bend_size > 0) & (p.softness == 0)
    place = np.where(cornered[:, None] & (at == bend), at, between)
    return place.ravel(), paths.reshape(-1, points.shape[1])


def interval(places: Places, level: float) -> tuple[float, float, float]:
    """(low, median, high) of the place, in [0, 1]: the quantiles of the paths.

    Quantiles beyond TAIL would be decided by one path, or by a particle that happens to be there. They are TAIL's, as
    much farther from the median as those of a normal distribution.
    """
    tail = max((1 - level) / 2, TAIL)
    low, middle, high = np.quantile(places.at, [tail, 0.5, 1 - tail]).tolist()
    if (1 - level) / 2 >= TAIL:
        return low, middle, high
    farther = normal_quantile(level) / normal_quantile(1 - 2 * TAIL)
    return max(middle - farther * (middle - low), 0.0), middle, min(middle + farther * (high - middle), 1.0)


def at_edges(places: Places, level: float) -> tuple[bool, bool]:
    """Whether the place may be at the lower (upper) end of the grid."""
    tail = (1 - level) / 2
    if tail < TAIL:
        low, _, high = interval(places, level)
        return low <= 0, high >= 1
    return bool((places.at <= 0).mean() > tail), bool((places.at >= 1).mean() > tail)


def clarity(places: Places, place: float) -> tuple[float, float]:
    """How clearly the curve falls to a place and rises from it: the largest difference, in its posterior deviations
    towards 0. (How much higher a wall may be says nothing against it.)"""
    index = int(np.argmin(np.abs(places.t - place)))
    low, middle = np.quantile(places.paths - places.paths[:, [index]], [0.16, 0.5], axis=0)
    clear = middle / np.maximum(middle - low, 1e-12)
    return float(clear[:index].max(initial=0.0)), float(clear[index + 1 :].max(initial=0.0))
