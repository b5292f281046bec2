"""The mean curve a priori: its parameters as functions of standard normal coordinates, and its covariance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import expit, ndtr, ndtri

CURVE = (
    *("length", "amplitude", "family", "warp", "compression", "bend_place", "bend_size", "before", "after"),
    *("softness", "tail", "choice"),
)
SHARP, SHARP_TURN = 0.5, 0.6  # the chances that a bend is sharp, beside the turn and at the turn
EQUAL = 0.35  # the chance that a bend has the same power on both sides
# The chances of the powers of one side of a bend: 0 (a step, such as a wall of divergence), SMALLEST_POWER to 1 (a
# cusp), 1 and 2; the others lie between 1 and LARGEST_POWER.
STEP, CUSP, CORNER, PARABOLA = 0.1, 0.1, 0.3, 0.2
SMALLEST_POWER, LARGEST_POWER = 0.6, 3.0
UP_TO = tuple(np.cumsum([STEP, CUSP, CORNER, PARABOLA]).tolist())
TURNING = 0.25  # the chance that a curve turns where its law changes
MATERN_3, MATERN_5, SQUARED_EXPONENTIAL = 0, 1, 2
SPREAD = 0.5  # of the factor of a side of a turn, whose mean is 1: one of forty does not rise there
LEVEL, SLOPE, CURVATURE = 10.0, 1.5, 3.0  # standard deviations of the polynomial part; the level is next to free
# by family: MATERN_3, MATERN_5, SQUARED_EXPONENTIAL
LINEAR, SQUARE, HALF = np.sqrt([3.0, 5.0, 0.0]), np.array([0.0, 5 / 3, 0.0]), np.array([0.0, 0.0, 0.5])


@dataclass(frozen=True, eq=False)
class CurveParameters:
    """Parameters of many curves at once; each field has the shape (particles,). Lengths are shares of the grid, sizes
    shares of the curve's range."""

    length: np.ndarray  # length, amplitude, family: of the stationary part of the mean curve
    amplitude: np.ndarray
    family: np.ndarray
    warp: np.ndarray  # x is stretched so that the slope of the map at its end is e^warp times that at its start
    compression: np.ndarray  # values are compressed to compression * asinh(value / compression); inf for not at all
    trend: np.ndarray  # 1 with a polynomial part, 0 without
    # bend_place, bend_size: where the curve may bend as a power of the distance, each side by itself.
    bend_place: np.ndarray
    bend_size: np.ndarray
    before: np.ndarray  # before, after: the powers on the two sides; 0 for a step
    after: np.ndarray
    softness: np.ndarray  # over which distance the bend is rounded; 0 for a sharp one
    tail: np.ndarray  # tail, choice: standard normal coordinates, for `noise.py`
    choice: np.ndarray


def beyond(u: np.ndarray, share: float) -> np.ndarray:
    """The standard normal quantile of the part of uniform u above `share`."""
    return np.asarray(ndtri(np.clip((u - share) / (1 - share), 1e-9, 1 - 1e-9)))


def power_at(u: np.ndarray) -> np.ndarray:
    """The power of one side of a bend at quantile u: a step, a cusp, a corner, a parabola or up to LARGEST_POWER."""
    step, cusped, corner, parabola = UP_TO
    cusp = SMALLEST_POWER + (1 - SMALLEST_POWER) * np.clip((u - STEP) / CUSP, 0, 1)
    power = 1 + (LARGEST_POWER - 1) * np.clip((u - parabola) / (1 - parabola), 0, 1)
    return np.select([u < step, u < cusped, u < corner, u < parabola], [0.0, cusp, 1.0, 2.0], power)


def curve_parameters(z: np.ndarray, turning: np.ndarray) -> CurveParameters:
    """The parameters at coordinates z (particles, CURVE), which are standard normal a priori.

    turning: (particles,), whether the curve turns where its law changes: it has no trend and is little but its bend.
    """
    c = dict(zip(CURVE, z.T, strict=True))
    u = dict(zip(CURVE, ndtr(z.T), strict=True))
    after = power_at(u["after"])
    before = np.where(u["before"] < EQUAL, after, power_at((u["before"] - EQUAL) / (1 - EQUAL)))
    before = np.where((before == 0) & (after == 0), 1.0, before)  # two steps at one place would be no curve
    size = np.where(u["bend_size"] > 0.15, np.exp(0.5 + beyond(u["bend_size"], 0.15)), 0)
    sharp = np.where(turning, SHARP_TURN, SHARP)
    soft = 0.004 * (0.15 / 0.004) ** np.clip((u["softness"] - sharp) / (1 - sharp), 0, 1)
    compressed = ~turning & (u["compression"] > 0.5)
    little = np.minimum(c["amplitude"] + 0.67, 0)  # a quarter of the curves hardly leave their bends and polynomials
    amplitude = np.exp(np.log(0.4) + c["amplitude"] + 3 * little)
    return CurveParameters(
        length=np.exp(np.log(0.4) + 0.7 * c["length"]),
        amplitude=np.where(turning, np.exp(np.log(0.02) + c["amplitude"]), amplitude),
        family=np.digitize(u["family"], [0.45, 0.85]),
        warp=1.2 * c["warp"],
        compression=np.where(compressed, 10 ** (-2 * (2 * u["compression"] - 1)), np.inf),
        trend=np.where(turning, 0.0, 1.0),
        bend_place=np.where(turning, u["bend_place"], -0.1 + 1.2 * u["bend_place"]),
        bend_size=np.where(turning, np.exp(0.5 + c["bend_size"]), size),
        before=before,
        after=after,
        softness=np.where(u["softness"] < sharp, 0.0, soft),
        tail=c["tail"],
        choice=c["choice"],
    )


@dataclass(frozen=True, eq=False)
class Terms:
    """What the covariance of each particle's curve needs of some points."""

    stretched: np.ndarray  # (particles, points), the points in correlation lengths
    columns: np.ndarray  # (particles, points, terms), the terms of the covariance that are not stationary
    # (particles, points), the mean curve expected a priori: a curve that turns at its bend rises on both sides of it,
    # of all others nothing is expected.
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
