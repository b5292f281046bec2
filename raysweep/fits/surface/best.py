"""Where a surface is best, read off joint draws of it: the place, the values alike, and the cost of a choice."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from raysweep.fits.reasons import Reason
from raysweep.fits.result import Status
from raysweep.fits.statistics import LEVEL
from raysweep.fits.surface.posterior import CAP, Surface, paths

STEPS, STEPS_OF_TWO = 81, 21  # points along one axis, alone or as one of two
COUNT = 1024
# The standard error of a place that no model of the curve removes, in gaps of the grid: real best values that all
# cells of one seed show need it.
RESOLUTION = 0.1
# That of a law: slices of one form err alike, so their number does not average it away. Where one side is much steeper
# they do so by as much as draws of one place differ: all may lie too far from the bend.
SHARED = 0.2
# Gaps from the lowest point between which the slope of a side is read: nearer to it a kink is drawn as a bend.
STEEP = (1.5, 2.5)
# A side that has a quarter of this slope one gap nearer may have begun at a kink; with less it is a wall farther away.
STRAIGHT = 4.0
MOVED = 0.7  # the share of draws that are moved; not all, because a smooth curve can be that steep on one side
# Standard errors by which the curve rises from its lowest point to an edge, where the place is not at that edge.
CLEAR = 3.5
FEWEST = 5  # with fewer values of the axis nothing is located
# The share of draws in which a best value moves one way while the other axis goes on to its open edge.
TILTED = 0.9
MOST_REGRET = 4 * CAP  # units up to which regrets count: beyond them a run has diverged


@dataclass(frozen=True, eq=False)
class Best:
    """The best value of one axis in one slice, in the units of `Cells.x`."""

    status: Status
    reason: Reason
    estimate: float  # the median of the place; NaN unless it is located
    low: float  # low, high: its interval; an open side is infinite
    high: float
    choice: float  # the value of least expected regret
    regret: float  # that of the choice, in the units of y
    draws: np.ndarray  # of the place for laws, without the error that the interval has besides
    moves: np.ndarray  # how far the curve of each draw is moved, that error included
    gap: float  # of the grid around the place
    shared: float  # the standard error of the place that slices of one form share
    edge: np.ndarray  # -1 or 1 for each draw at an end of `points`, else 0
    points: np.ndarray  # where the surface was drawn
    alike: np.ndarray  # which of them cannot be told from the best


def best(
    surface: Surface, s: int, level: float = LEVEL, *, low: float, high: float, values: int, wall: float = np.inf
) -> Best:
    """The best value of the only axis of a surface in the slice s, between low and high.

    values: how many values of the axis the slice has. wall: where cells diverge, above high; inf if none does.
    """
    points = np.linspace(low, high, STEPS)
    f = paths(surface, s, points[:, None], COUNT, np.random.default_rng(s))
    found = _read(surface, s, points, f, f.mean(0), level, values, axis=0)
    if not high < wall < np.inf:
        return found
    # what the curve does between the last cell and the first that diverged is not known
    anywhere = np.random.default_rng([s, COUNT]).uniform(high, wall, COUNT)
    walled = replace(found, draws=np.where(found.edge == 1, anywhere, found.draws), edge=np.minimum(found.edge, 0))
    if found.status != Status.CENSORED_HIGH:
        return walled
    estimate = float(np.clip(np.median(found.draws), found.low, wall))
    return replace(walled, status=Status.LOCATED, reason=Reason.NONE, estimate=estimate, high=wall)


@dataclass(frozen=True, eq=False)
class Pair:
    """The best values of both axes of a surface in one slice."""

    axes: tuple[Best, ...]  # of each axis, with the other one at its best
    points: tuple[np.ndarray, np.ndarray]  # of the grid on which the surface was drawn, per axis
    # how much worse than the best each point of the grid is expected to be, in units of y, (points, points).
    regret: np.ndarray
    alike: np.ndarray  # which of them cannot be told from the best
    choice: tuple[float, float]  # the point of least expected regret


def jointly(surface: Surface, s: int, level: float, low: np.ndarray, high: np.ndarray, values: np.ndarray) -> Pair:
    """The best values of both axes of a surface in the slice s.

    low, high, values: as in `best`, one entry per axis.
    """
    first, second = (np.linspace(a, b, STEPS_OF_TWO) for a, b in zip(low, high, strict=True))
    grid = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1)
    flat = paths(surface, s, grid.reshape(-1, 2), COUNT, np.random.default_rng(s))
    f = flat.reshape(-1, *grid.shape[:2])
    mean = f.mean(0)
    one = _read(surface, s, first, f.min(2), mean.min(1), level, int(values[0]), axis=0)
    other = _read(surface, s, second, f.min(1), mean.min(0), level, int(values[1]), axis=1)
    one, other = _while_open(one, other, f), _while_open(other, one, f.swapaxes(1, 2))
    both = _moved(second, _moved(first, f, one.moves).swapaxes(1, 2), other.moves).swapaxes(1, 2)
    regret = _regret(surface, s, both.reshape(flat.shape), _lowest(f)).mean(0).reshape(mean.shape)
    alike = _alike(flat, int(flat.mean(0).argmin()), level).reshape(mean.shape)
    x, y = np.unravel_index(int(regret.argmin()), mean.shape)
    return Pair((one, other), (first, second), regret, alike, (float(first[x]), float(second[y])))


def _while_open(one: Best, other: Best, f: np.ndarray) -> Best:
    """The best value of an axis where that of the other one may lie beyond the grid: a bound if it moves with it.

    f: (draws, points of this axis, points of the other one).
    """
    if one.status != Status.LOCATED or other.status not in (Status.CENSORED_LOW, Status.CENSORED_HIGH):
        return one
    end, inside = (-1, -1 - STEPS_OF_TWO // 4) if other.status == Status.CENSORED_HIGH else (0, STEPS_OF_TWO // 4)
    rises = (refined(one.points, f[:, :, end]) > refined(one.points, f[:, :, inside])).mean()
    if 1 - TILTED < rises < TILTED:
        return one
    status, low, high = Status.CENSORED_LOW, -np.inf, one.high
    if rises >= TILTED:
        status, low, high = Status.CENSORED_HIGH, one.low, np.inf
    return replace(one, status=status, reason=Reason.OTHER_OPEN, estimate=np.nan, low=low, high=high)


def _read(
    surface: Surface, s: int, points: np.ndarray, f: np.ndarray, mean: np.ndarray, level: float, values: int, axis: int
) -> Best:
    """The answers from draws of a curve along an axis, f (draws, points).

    mean: (points,), the curve whose lowest point is compared with the edges.
    """
    tail, lowest, inner = (1 - level) / 2, int(np.argmin(mean)), len(points) // 10  # points from an edge
    rises = [f[:, edge] - f[:, lowest] for edge in (0, -1)]
    clear_low, clear_high = (bool(rise.mean() > CLEAR * rise.std()) for rise in rises)
    rng, place = np.random.default_rng(s + COUNT * axis), refined(points, f)  # own errors for each axis
    edge = np.where(place <= points[0], -1, np.where(place >= points[-1], 1, 0))
    gap, cap = _gap(surface, s, axis, points[lowest]), CAP * surface.unit[s]
    heights = surface.heights(s, f)
    rooms, lean = _towards_kinks(points, heights, place, gap, cap)
    draws = place + (rng.random(len(place)) < MOVED) * rooms
    wider = np.clip(draws + RESOLUTION * gap * rng.standard_normal(len(place)), points[0], points[-1])
    estimate, low, high = (float(one) for one in np.quantile(wider, [0.5, tail, 1 - tail]))
    status, reason = Status.LOCATED, Reason.NONE
    if values < FEWEST:
        status, reason = Status.UNDETERMINED, Reason.TOO_FEW_POINTS
    elif not surface.structured[s] or not (clear_low or clear_high):
        status, reason = Status.UNDETERMINED, Reason.NO_CLEAR_CHANGE
    elif not clear_high:
        status = Status.CENSORED_HIGH
        reason = Reason.TOWARDS_HIGH if (f[:, -1] < f[:, -1 - inner]).mean() >= 1 - tail else Reason.REACHES_HIGH
    elif not clear_low:
        status = Status.CENSORED_LOW
        reason = Reason.TOWARDS_LOW if (f[:, 0] < f[:, inner]).mean() >= 1 - tail else Reason.REACHES_LOW
    alike = _alike(f, lowest, level)
    if status == Status.UNDETERMINED:
        estimate = low = high = np.nan
    elif status == Status.CENSORED_HIGH:
        down, *_ = _up_to_the_line(-points[::-1], heights[:, ::-1], -points[alike][0], gap, cap)
        estimate, low, high = np.nan, min(low, float(points[alike][0] - np.quantile(down, 1 - tail))), np.inf
    elif status == Status.CENSORED_LOW:
        up, *_ = _up_to_the_line(points, heights, points[alike][-1], gap, cap)
        estimate, low, high = np.nan, -np.inf, max(high, float(points[alike][-1] + np.quantile(up, 1 - tail)))
    moves = wider - place
    regret = _regret(surface, s, _moved(points, f, moves), _lowest(f))
    chosen = int(regret.mean(0).argmin())
    return Best(
        status=status,
        reason=reason,
        estimate=estimate,
        low=low,
        high=high,
        choice=float(points[chosen]),
        regret=float(regret[:, chosen].mean()),
        draws=draws,
        moves=moves,
        gap=gap,
        shared=float(np.hypot(SHARED * gap, lean * draws.std())),
        edge=edge,
        points=points,
        alike=alike,
    )


def squared_distance(one: Best, other: Best) -> float:
    """That of two independent estimates of a place, over its expectation; NaN where one of them has none."""
    if Status.UNDETERMINED in (one.status, other.status):
        return np.nan
    expected = one.draws.var() + other.draws.var() + RESOLUTION**2 * (one.gap**2 + other.gap**2)
    return float((np.median(one.draws) - np.median(other.draws)) ** 2 / expected)


def widened(one: Best, times: float) -> Best:
    """The same with an error so many times as large, within where it was sought."""
    if times == 1 or one.status == Status.UNDETERMINED:
        return one
    middle, first, last = (float(at) for at in (np.median(one.draws), one.points[0], one.points[-1]))
    low = max(middle - times * (middle - one.low), min(first, one.low))
    high = min(middle + times * (one.high - middle), max(last, one.high))
    draws = np.clip(middle + times * (one.draws - middle), min(first, one.draws.min()), max(last, one.draws.max()))
    return replace(one, low=low, high=high, draws=draws)


def _moved(points: np.ndarray, f: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """The draws f (draws, points, ...) of a curve moved along the axis, each by as much as `moves` says.

    Between two points by the cubic through four: a straight line would lie above the lowest value.
    """
    last = len(points) - 1
    steps = np.clip((points - moves[:, None] - points[0]) / max(points[1] - points[0], 1e-300), 0, last)
    below = np.minimum(steps.astype(int), last - 1)
    below, t = (one.reshape(*one.shape, *[1] * (f.ndim - 2)) for one in (below, steps - below))
    a, b, c, d = (np.take_along_axis(f, np.clip(below + k, 0, last), 1) for k in (-1, 0, 1, 2))
    slope, other = (c - a) / 2, (d - b) / 2
    return np.asarray(b + t * (slope + t * (3 * (c - b) - 2 * slope - other + t * (2 * (b - c) + slope + other))))


def _lowest(f: np.ndarray) -> np.ndarray:
    """The lowest value of each draw f (draws, points, ...), between two points too: by a parabola along each axis."""
    every = np.arange(len(f))
    at = np.unravel_index(f.reshape(len(f), -1).argmin(1), f.shape[1:])
    lowest = f[every, *at]
    for axis, place in enumerate(at):
        middle = np.clip(place, 1, f.shape[axis + 1] - 2)
        left, here, right = (f[every, *at[:axis], middle + k, *at[axis + 1 :]] for k in (-1, 0, 1))
        drop = (left - right) ** 2 / np.maximum(8 * (left + right - 2 * here), 1e-12)
        lowest = lowest - np.where(place == middle, drop, 0)
    return lowest


def _regret(surface: Surface, s: int, values: np.ndarray, lowest: np.ndarray) -> np.ndarray:
    """How much worse than the lowest value of its draw each value is, in the units of y."""
    heights = surface.heights(s, values) - surface.heights(s, lowest[:, None])
    return np.clip(heights, 0, MOST_REGRET * surface.unit[s])


def _alike(values: np.ndarray, lowest: int, level: float) -> np.ndarray:
    """Which points are not shown to be above the lowest one."""
    return np.asarray((values > values[:, [lowest]]).mean(0) < (1 + level) / 2)


def _towards_kinks(
    points: np.ndarray, heights: np.ndarray, place: np.ndarray, gap: float, cap: float
) -> tuple[np.ndarray, float]:
    """(how far the places of draws lie from a kink, where one side is much steeper than the other; how much steeper it
    is, from 0 to 1).

    Smooth draws put the lowest point of a level curve that bends up sharply too far from the bend, about in proportion
    to the contrast of the slopes: a smooth slope averages both sides. The bend is no farther than where the line of the
    steep side meets the level of the lowest point, if the curve is convex there. Where the other side ends too near,
    nothing is moved.
    """
    rooms, slopes, straight = zip(
        *(_up_to_the_line(side * points[::side], heights[:, ::side], side * place, gap, cap) for side in (-1, 1)),
        strict=True,
    )
    contrast = (slopes[1] - slopes[0]) / np.maximum(slopes[1] + slopes[0], 1e-300)
    above, below = (STEEP[1] * gap <= end for end in (points[-1] - place, place - points[0]))
    room = np.where(contrast > 0, rooms[1] * straight[1] * below, -rooms[0] * straight[0] * above)
    return np.abs(contrast) * room, float(abs(np.median(contrast)))


def _up_to_the_line(
    points: np.ndarray, heights: np.ndarray, place: np.ndarray | float, gap: float, cap: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(how far above a place the line of the rising side meets the lowest level, its slope, how far the side is as
    steep already one gap nearer, 0 to 1), of each draw.

    Beyond the cap heights are not known, so there a wall may stand anywhere below.
    """
    first, second = (np.full(len(heights), np.minimum(place + steps * gap, points[-1])) for steps in STEEP)
    inner, near, far = (_heights_at(points, heights, at) for at in (first - gap, first, second))
    rise, run = np.maximum(near - heights.min(1), 0), second - first
    known = (run > 0) & (near < cap)
    slope = np.where(run > 0, far - near, rise) / np.maximum(np.where(run > 0, run, first - place), 1e-12)
    slope = np.maximum(slope, 0)
    back = np.where(known, rise / np.maximum(slope, 1e-100), 0)
    straight = np.clip(STRAIGHT * (near - inner) / np.maximum(far - near, 1e-100), 0, 1)
    return np.maximum(first - place - back, 0), slope, straight


def _heights_at(points: np.ndarray, heights: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The height of each draw at its own place, between two points."""
    gap = max(points[1] - points[0], 1e-300)  # of a slice with a single value the points are one
    steps = np.clip((at - points[0]) / gap, 0, len(points) - 1)
    below, every = np.minimum(steps.astype(int), len(points) - 2), np.arange(len(at))
    return np.asarray(heights[every, below] + (steps - below) * (heights[every, below + 1] - heights[every, below]))


def _gap(surface: Surface, s: int, axis: int, place: float) -> float:
    """The gap of an axis around a place of a slice, at least the usual one, in the units of `Cells.x`."""
    values = np.unique(surface.x[s, surface.mask[s], axis]) * surface.width[axis] + surface.centre[axis]
    usual = float(surface.gap[axis] * surface.width[axis])
    gaps = np.diff(values)[(values[:-1] <= place) & (place <= values[1:])]
    return max(usual, *gaps.tolist()) if len(gaps) else usual


def refined(points: np.ndarray, f: np.ndarray) -> np.ndarray:
    """The place of the lowest value of each draw, by a parabola through it and its neighbours."""
    lowest, every = f.argmin(1), np.arange(len(f))
    middle = np.clip(lowest, 1, len(points) - 2)
    left, centre, right = (f[every, middle + move] for move in (-1, 0, 1))
    bend = np.maximum(left - 2 * centre + right, 1e-12)
    shift = np.clip(0.5 * (left - right) / bend, -0.5, 0.5) * (points[1] - points[0])
    return np.where(lowest == middle, points[middle] + shift, points[lowest])
