"""The covariance of the mean curve a priori."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import expit

from raysweep.fits.posterior.prior import CurveParameters

SPREAD = 0.5  # of the factor of a side of a turn, whose mean is 1: one of forty does not rise there
LEVEL, SLOPE, CURVATURE = 10.0, 1.5, 3.0  # standard deviations of the polynomial part; the level is next to free
# by family: MATERN_3, MATERN_5, SQUARED_EXPONENTIAL
LINEAR, SQUARE, HALF = np.sqrt([3.0, 5.0, 0.0]), np.array([0.0, 5 / 3, 0.0]), np.array([0.0, 0.0, 0.5])


@dataclass(frozen=True, eq=False)
class Terms:
    """What the covariance of each particle's curve needs of some points.

    stretched: (particles, points), the points in correlation lengths.
    columns: (particles, points, terms), the terms of the covariance that are not stationary.
    expected: (particles, points), the mean curve expected a priori: a curve that turns at its bend rises on both sides
        of it, of all others nothing is expected.
    """

    stretched: np.ndarray
    columns: np.ndarray
    expected: np.ndarray


def warped(t: np.ndarray, warp: np.ndarray) -> np.ndarray:
    """Stretch t (particles or 1, points) over [0, 1], the slope at 1 being e^warp times that at 0."""
    k = np.where(np.abs(warp) < 1e-3, 1e-3, warp)[:, None]
    return np.asarray(np.expm1(k * t) / np.expm1(k))


def correlation(distance: np.ndarray, family: np.ndarray) -> np.ndarray:
    """Matérn 3/2, Matérn 5/2 or squared exponential of distances (particles, rows, columns) in correlation lengths."""
    # each is (1 + linear d + square d^2) exp(-rate d - half d^2)
    linear, square, half = (table[family][:, None, None] for table in (LINEAR, SQUARE, HALF))
    rate = linear  # of both Matérn functions
    return np.asarray(((square * distance + linear) * distance + 1) * np.exp(-(half * distance + rate) * distance))


@lru_cache(maxsize=32)
def pairs(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(first, second, place): the pairs first >= second of `count` points, and where each entry of a symmetric matrix
    (count, count) stands among them."""
    first, second = np.tril_indices(count)
    place = np.empty((count, count), dtype=np.intp)
    place[first, second] = place[second, first] = np.arange(len(first))
    return first, second, place


def between(p: CurveParameters, a: Terms, b: Terms) -> np.ndarray:
    """The covariance of the curve between the points of a and of b: (particles, rows, columns).

    A polynomial of degree two, a stationary process over the warped coordinate, and a bend, which is on each side of a
    place a power of the distance with a factor for that side.
    """
    scale = (p.amplitude**2)[:, None, None]
    if a is b:  # each pair once
        first, second, place = pairs(a.stretched.shape[1])
        distance = np.abs(a.stretched[:, first] - a.stretched[:, second])[:, None]
        out = np.take((scale * correlation(distance, p.family))[:, 0], place, axis=1)
    else:
        out = scale * correlation(np.abs(a.stretched[:, :, None] - b.stretched[:, None, :]), p.family)
    out += a.columns @ np.swapaxes(b.columns, 1, 2)
    return out


def terms(p: CurveParameters, t: np.ndarray) -> Terms:
    """The terms at points t (particles or 1, points)."""
    stretched = warped(t, p.warp)
    trend = p.trend[:, None]
    spread = np.where(trend == 0, SPREAD, 1.0)
    middle = stretched - 0.5
    others = [np.full_like(stretched, LEVEL), SLOPE * trend * middle, CURVATURE * trend * middle**2]
    after, before = sides(p, t)
    expected = np.where(trend == 0, after + before, 0.0) if (trend == 0).any() else np.zeros_like(stretched)
    return Terms(stretched / p.length[:, None], np.stack([*others, spread * after, spread * before], axis=2), expected)


def sides(p: CurveParameters, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bend at points t (particles or 1, points) after its place and before it, each (particles, points): a power of
    the distance, or a step if the power is 0. At its place a sharp step is still low."""
    place, size = p.bend_place[:, None], p.bend_size[:, None]
    soft = np.maximum(p.softness, 1e-9)[:, None]
    beyond = t - place
    after = np.maximum(beyond, 0) + soft * np.log1p(np.exp(-np.abs(beyond) / soft))  # rounded max(beyond, 0)
    bends = [after ** p.after[:, None], np.maximum(after - beyond, 0) ** p.before[:, None]]
    for side, power, sign in zip(bends, (p.after, p.before), (1, -1), strict=True):
        steps = np.flatnonzero(power == 0)
        if len(steps):
            ahead = sign * beyond[steps]
            side[steps] = np.where(p.softness[steps, None] == 0, ahead > 0, expit(ahead / soft[steps]))
    return size * bends[0], size * bends[1]
