"""The places that searches look for: where they are, what the fits say of them, and the fewest rows that tell them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.interpolate import CubicSpline

from benchmarks.search.pools import Pool
from raysweep.fits.optimum import fit_optimum
from raysweep.fits.result import Status
from raysweep.fits.statistics import normal_quantile
from raysweep.fits.zero import SIGN_DRAWS, find_zero
from raysweep.search.slices import Slice

BESIDE = 2  # the oracle takes the better pair of so many cells on each side of the place
CLEAR = 3.0  # a place is known if the mean of the pool is so many standard errors from zero on both sides of it
QUARTILES = 1.349  # between the quartiles of a normal distribution lie so many standard deviations
OF_MEDIAN = math.sqrt(math.pi / 2)  # the standard error of a median of normal draws, relative to that of the mean


@dataclass(frozen=True)
class Answer:
    """The interval of one place at the level of one slice, and at that of all slices at once, in units of x."""

    low: float
    high: float
    low_strict: float
    high_strict: float


def coordinate(slice_: Slice, x: np.ndarray) -> np.ndarray:
    """x, or its logarithm where places are sought in it."""
    return np.log(x) if slice_.logarithmic else x


def half_width(slice_: Slice, answer: Answer | None) -> float:
    """Half the interval that counts, in the unit of what is wanted; infinite if there is none."""
    if answer is None or not (math.isfinite(answer.low_strict) and math.isfinite(answer.high_strict)):
        return math.inf
    if slice_.logarithmic:
        return math.log(answer.high_strict / answer.low_strict) / 2
    return (answer.high_strict - answer.low_strict) / 2


def fitted(slice_: Slice, values: np.ndarray, counts: np.ndarray, exact: bool, pointwise: bool = True) -> Answer | None:
    """What the fits of a report say of a slice; None if the place is not located.

    values: (draws, points), of which each point has the first ones.
    counts: (points,), how many.
    exact: whether the values have no noise.
    pointwise: whether the interval of one slice by itself is needed too. It costs a second fit of an optimum.
    """
    there = np.flatnonzero(counts)
    draws = int(counts.max(initial=0))
    observed = np.where(np.arange(draws)[:, None] < counts[there], values[:draws, there], np.nan)
    if slice_.kind == "boundary":
        scale = None
        if slice_.heavy is not None and draws >= SIGN_DRAWS:
            scale = "sign" if slice_.heavy[there].any() else "linear"
        zero = find_zero(slice_.x[there], observed, slice_.single, slice_.strict, scale, exact, slice_.declared_log)
        if zero.status != Status.LOCATED:
            return None
        best = zero.crossings[0]
        return Answer(best.low, best.high, best.low_simultaneous, best.high_simultaneous)
    strict = _optimum(slice_, slice_.x[there], observed, slice_.strict, exact)
    wide = _optimum(slice_, slice_.x[there], observed, slice_.single, exact) if pointwise and strict else strict
    return Answer(*wide, *strict) if strict and wide else None


def _optimum(slice_: Slice, x: np.ndarray, values: np.ndarray, level: float, exact: bool) -> tuple[float, float] | None:
    import pandas as pd

    draw, point = np.nonzero(np.isfinite(values))
    frame = pd.DataFrame({"x": x[point], "y": values[draw, point], "draw": draw})
    turn = "max" if slice_.maximize else "min"
    fit = fit_optimum(frame, "x", "y", None, "draw", level, turn=turn, exact=exact, logarithmic=slice_.logarithmic)
    return (fit.low, fit.high) if fit.status == Status.LOCATED else None


def true_places(pool: Pool) -> np.ndarray:
    """For each slice the place for all draws of the pool, by a cubic spline on the fine axis; NaN if not clear."""
    return np.array([_true(slice_, *fine) for slice_, fine in zip(pool.slices, pool.fine, strict=True)])


def _true(slice_: Slice, x: np.ndarray, values: np.ndarray) -> float:
    u = coordinate(slice_, x)
    if slice_.kind == "optimum":
        mean = np.nanmean(values, axis=0) * (-1 if slice_.maximize else 1)
        finite = np.isfinite(mean)
        u, mean, at = u[finite], mean[finite], int(np.argmin(mean[finite]))
        if at in (0, len(u) - 1):
            return math.nan
        near = slice(max(at - 3, 0), at + 4)
        roots = CubicSpline(u[near], mean[near]).derivative().roots(extrapolate=False)
        curve = CubicSpline(u[near], mean[near])
        place = float(min(roots, key=curve)) if len(roots) else math.nan
        return math.exp(place) if slice_.logarithmic else place
    heavy = slice_.heavy is not None and bool(slice_.heavy.any())
    middle = np.nanmedian(values, axis=0) if heavy else np.nanmean(values, axis=0)
    error = _deviation(values, heavy) / math.sqrt(len(values))
    sure = np.flatnonzero(np.abs(middle) > CLEAR * error)
    changes = [(j, k) for j, k in pairwise(sure) if middle[j] * middle[k] < 0]
    if len(changes) != 1:
        return math.nan
    ((j, k),) = changes
    near = slice(max(j - 2, 0), k + 3)
    roots = CubicSpline(u[near], middle[near]).roots(extrapolate=False)
    inside = roots[(roots >= u[j]) & (roots <= u[k])]
    return float(np.median(inside)) if len(inside) else math.nan


def _deviation(values: np.ndarray, heavy: bool) -> np.ndarray:
    """The standard deviation of one draw, (points,); without a variance, the one that gives the median its error."""
    if heavy:
        low, high = np.nanquantile(values, [0.25, 0.75], axis=0)
        return np.asarray(OF_MEDIAN * (high - low) / QUARTILES)
    return np.asarray(np.nanstd(values, axis=0, ddof=1))


def floor(pool: Pool, places: np.ndarray) -> np.ndarray:
    """The counts, (cells,), of an oracle that knows the curve of every slice but for a shift along the axis: two cells
    beside the place, and as many draws as make the normal interval of the shift as narrow as asked for, at the level
    that is asked for: it does not stop by an interval, so it needs no stricter one."""
    counts = np.zeros(len(pool.cells), dtype=np.int64)
    for slice_, place in zip(pool.slices, places, strict=True):
        if math.isfinite(place):
            pair, draws = _pair(pool, slice_, place)
            counts[list(pair)] = np.maximum(counts[list(pair)], draws)
    return counts


def _pair(pool: Pool, slice_: Slice, place: float) -> tuple[tuple[int, int], int]:
    """The two cells of the oracle, and their draws."""
    values = pool.values[:, list(slice_.cells)]
    u, at = coordinate(slice_, slice_.x), float(coordinate(slice_, np.array(place)))
    right = int(np.clip(np.searchsorted(u, at), 1, len(u) - 1))
    z = normal_quantile(1 - (1 - slice_.level) / slice_.together)
    heavy = slice_.heavy is not None and bool(slice_.heavy.any())
    middle = np.nanmedian(values, axis=0) if heavy else np.nanmean(values, axis=0)
    slope = CubicSpline(u, middle).derivative() if slice_.kind == "optimum" else None
    pairs = []
    for a in range(max(right - BESIDE, 0), right):
        for b in range(right, min(right + BESIDE, len(u))):
            if slope is not None:
                noise, moved = values[:, [b]] - values[:, [a]], slope(u[b]) - slope(u[a])
            else:
                share = (at - u[a]) / (u[b] - u[a])
                noise = (1 - share) * values[:, [a]] + share * values[:, [b]]
                moved = (middle[b] - middle[a]) / (u[b] - u[a])
            deviation = float(_deviation(noise, heavy)[0] / abs(moved))
            pairs.append((max(1, math.ceil((z * deviation / slice_.wanted) ** 2)), (slice_.cells[a], slice_.cells[b])))
    draws, pair = min(pairs)
    return pair, draws
