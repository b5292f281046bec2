"""Where the draws of slices go, so that their best values are located with a precision.

A slice starts with few cells over the whole axis and few draws. Cells are added beside the best one, and it and its
neighbours get more draws. Slices share draws, and where a draw moves them alike, one of them gets many and the others
are `completed` from it. So draws go to the widest slice first, and to others only as far as they vary in another way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from raysweep.fits.draws import Axis, DrawCurves
from raysweep.fits.extremum import find_extremum
from raysweep.fits.lost_draws import can_be_fitted
from raysweep.fits.optimum import divergence, find_optimum
from raysweep.fits.result import Status
from raysweep.fits.statistics import ROUNDING, clearly_positive, standard_error, t_quantile, two_way_anova
from raysweep.search import endings
from raysweep.search.curves import (
    EVEN,
    LEAST,
    MANY,
    MOSTLY,
    OPEN,
    REACHED,
    Choice,
    Curve,
    Fitted,
    Step,
    beginning,
    jump,
    raised,
    shape_and_draws,
)
from raysweep.search.slices import Ask

BEGIN = 8  # draws of each cell at first: with half as many hardly a cell can lose, and cells are added beside all
LOSES = 0.99  # the level of the paired one-sided test that a cell is worse than the best one
BESIDE = 1  # cells on each side of the best one that keep their draws: they say where between them the best value is
MARGIN = 0.9  # an interval is so many times as wide as the noise beside the best cell makes it, or more
REACH = 2  # so many cells on each side of the best one have draws, unless they are nearer than asked for
MORE = 6  # draws of a cell are the least that is worth a round
SHAPED = 24  # draws of each cell that are enough to show the shape of a curve
OF_BEST = 0.7  # noise beside the best cell that makes less than this share of an interval is not what makes it wide
ALIKE = 0.5  # a correlation from which on the draws of one slice say what those of another would


def first(ask: Ask) -> np.ndarray:
    """How many draws each point gets at the beginning, (points,)."""
    return beginning(len(ask.slice.x), min(ask.most, BEGIN))


def step(curve: Curve, ask: Ask, fit: bool = True) -> Step:
    """What a slice wants next, given the draws that it asked for.

    curve: its values may be `completed` ones. fit: whether the interval that the report will have is computed where
        the cells beside the best one seem to have draws enough; otherwise such a slice wants nothing.
    """
    rest, whole = Step(curve.counts, OPEN), curve
    curve = _minimized(curve, ask)
    alive = _alive(curve)
    if not len(alive):
        return replace(rest, state=endings.NO_ROW)
    values = curve.values[:, alive]
    if np.nanmax(values) - np.nanmin(values) <= ROUNDING * np.nanmax(np.abs(values)):
        return replace(rest, state=endings.SAME)
    if ask.most < 2 and not ask.exact:
        return replace(rest, state=endings.ONE_DRAW)
    log = ask.slice.logarithmic
    u = np.log(curve.x) if log else curve.x
    place = int(np.argmin(_paired_means(values)))
    best = int(alive[place])
    worse = values - values[:, [place]]
    loses = clearly_positive(worse, LOSES, ask.exact)
    if gaps := _beside(curve, u, alive, place, ask.slice.wanted):
        draws = min(BEGIN, ask.most)
        choices = tuple(_in_gap(curve.counts, u, low, high, draws) for low, high in gaps)
        middle = np.array([(low + high) // 2 for low, high in gaps], dtype=np.int64)
        return replace(rest, counts=raised(curve.counts, middle, draws), choices=choices)
    enough = 1 if ask.exact else min(LEAST, ask.most)
    near = alive[max(place - BESIDE, 0) : place + BESIDE + 1]
    if (curve.counts[near] < enough).any():
        return replace(rest, counts=raised(curve.counts, near, enough))
    if place in (0, len(alive) - 1) and loses.sum() == len(alive) - 1:
        return replace(rest, state=endings.EDGE, place=float(curve.x[best]))
    draws, half = int(curve.counts[near].min()), _normal_half(curve, ask)
    needed = math.ceil(min(draws * (MARGIN * half / ask.slice.wanted) ** 2, MANY))
    if needed <= draws or draws >= ask.most:
        if not fit:
            return replace(rest, half=half)
        interval = fitted(whole, ask)
        width, estimate = interval.half(log), interval.place
        if width <= ask.slice.wanted:
            return replace(rest, state=REACHED, half=width, then=width, place=estimate)
        coarse, more = shape_and_draws(width, fitted(whole, ask, EVEN).half(log), ask.slice.wanted)
        unknown = _unknown(curve, u, alive, place, interval)
        counts = np.minimum(_shaped(curve, unknown, alive, interval, draws), ask.most)
        if (coarse or half < OF_BEST * width) and (counts > curve.counts).any():
            return replace(rest, counts=counts, half=width, then=half, place=estimate, needed=counts)
        noise, half = half, width
        if math.isfinite(half) and ((coarse and not more) or noise**2 < MOSTLY * ask.slice.wanted**2):
            return replace(rest, state=endings.COARSE, half=half, place=estimate)
        needed = math.ceil(draws * max(more, 1.1))
    if draws >= ask.most:
        return replace(rest, state=endings.ALL_DRAWS if math.isfinite(half) else endings.NO_TURN, half=half)
    if not loses.any() and _flat(np.delete(worse, place, axis=1), ask.most):
        return replace(rest, state=endings.NOT_FLAT)
    target = min(max(jump(draws, min(needed, 2 * draws), ask.most), draws + MORE), ask.most)
    return replace(
        rest,
        counts=raised(curve.counts, near, target),
        half=half,
        then=half * math.sqrt(draws / target),
        place=float(curve.x[best]),
        needed=raised(curve.counts, near, min(needed, ask.most)),
    )


def in_turn(slices: Sequence[tuple[Curve, Ask, Callable[[], Step]]]) -> list[Step]:
    """The next steps of slices that share draws. A slice waits while a wider one, relative to what is asked for, gets
    more draws and its own vary like those, so that it gains from them.

    slices: the third entry returns the `step` with an interval, which takes long.
    """
    steps = [step(curve, ask, fit=False) for curve, ask, _ in slices]
    fit = not any((one.counts > curve.counts).any() for one, (curve, *_) in zip(steps, slices, strict=True))
    leading: list[np.ndarray] = []
    for place in sorted(range(len(steps)), key=lambda place: -steps[place].half / slices[place][1].slice.wanted):
        curve, ask, judged = slices[place]
        noise = _vertices(_minimized(curve, ask), ask)
        waits = any(_alike(noise, other) for other in leading)
        if fit and not waits:
            steps[place] = judged()
        more = steps[place].counts > curve.counts
        if steps[place].needed is None or not more.any() or not curve.counts[more].all():
            continue  # nothing more is wanted, or new cells are
        if waits:
            steps[place] = replace(steps[place], counts=curve.counts)
        else:
            leading.append(noise)
    return steps


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two slices' draws vary so much alike that one predicts the other."""
    size = min(len(a), len(b))
    both = np.isfinite(a[:size]) & np.isfinite(b[:size])
    return bool(both.sum() > 2 and abs(np.corrcoef(a[:size][both], b[:size][both])[0, 1]) > ALIKE)


def _minimized(curve: Curve, ask: Ask) -> Curve:
    return replace(curve, values=-curve.values) if ask.slice.maximize else curve


def _alive(curve: Curve) -> np.ndarray:
    """The points most of whose draws are ok."""
    there = curve.there
    return there[2 * np.isfinite(curve.values[:, there]).sum(axis=0) >= curve.counts[there]]


def _paired_means(values: np.ndarray) -> np.ndarray:
    """The means of values[draw, point], without the effects of draws where some are missing, so that no point gains
    from the draws that it has."""
    return values.mean(axis=0) if np.isfinite(values).all() else two_way_anova(values).curve


def _beside(curve: Curve, u: np.ndarray, alive: np.ndarray, place: int, wanted: float) -> list[tuple[int, int]]:
    """The gaps that are wider than asked for, beside the best point or else beside the next ones: their two ends."""
    wide = [(p, q) for p, q in pairwise(curve.there.tolist()) if q - p > 1 and u[q] - u[p] > wanted]
    for reach in range(REACH):
        near = alive[max(place - reach, 0) : place + reach + 1]
        if gaps := [(p, q) for p, q in wide if p in near or q in near]:
            return gaps
    return []


def _in_gap(counts: np.ndarray, u: np.ndarray, low: int, high: int, draws: int) -> tuple[Choice, ...]:
    """Each point of a gap with these draws, the middle one first. It gains as much as it makes the gap narrower."""
    middle = (low + high) // 2
    inside = sorted(range(low + 1, high), key=lambda point: (abs(point - middle), point))
    return tuple(
        Choice(raised(counts, np.array([point]), draws), float(min(u[point] - u[low], u[high] - u[point])))
        for point in inside
    )


def _vertices(curve: Curve, ask: Ask) -> np.ndarray:
    """How far the lowest place of each draw is from that of the mean curve, (draws,): by its slope at the vertex of the
    parabola through the best point and its two neighbours, over the curvature of the mean. NaN if it is not known."""
    u = np.log(curve.x) if ask.slice.logarithmic else curve.x
    alive, nothing = _alive(curve), np.full(len(curve.values), np.nan)
    if len(alive) < 3:
        return nothing
    place = int(np.argmin(_paired_means(curve.values[:, alive])))
    middle = min(max(place, 1), len(alive) - 2)
    a, b, c = alive[middle - 1 : middle + 2]
    three = curve.values[:, [a, b, c]]
    left, right = (three[:, 1] - three[:, 0]) / (u[b] - u[a]), (three[:, 2] - three[:, 1]) / (u[c] - u[b])
    bend = 2 * (right - left) / (u[c] - u[a])
    slope = left + bend * (u[b] - u[a]) / 2  # at the middle point
    if not np.isfinite(slope).any() or not (curvature := float(np.nanmean(bend))) > 0:
        return nothing
    vertex = -float(np.nanmean(slope)) / curvature
    return (slope + bend * np.clip(vertex, u[a] - u[b], u[c] - u[b])) / curvature


def _normal_half(curve: Curve, ask: Ask) -> float:
    """The half-width that draws beside the best point leave, whatever the shape of the curve; infinite if unknown."""
    noise = _vertices(curve, ask)
    noise = noise[np.isfinite(noise)]
    if ask.exact:
        return 0.0
    if len(noise) < 2:
        return math.inf
    return t_quantile(ask.slice.strict, len(noise) - 1) * float(noise.std(ddof=1)) / math.sqrt(len(noise))


def fitted(curve: Curve, ask: Ask, shrink: float = 1.0) -> Fitted:
    """The best place with its interval at the level that applies, as the report computes it.

    shrink: the deviations of draws from the mean curve are multiplied by it, to see what more draws would give.
    """
    there, slice_ = curve.there, ask.slice
    values = _minimized(curve, ask).values[:, there]
    if shrink != 1.0:
        values = values - (1 - shrink) * two_way_anova(values).residual
    x = curve.x[there]
    if slice_.fit == "inflection":
        extremum = find_extremum(x, values, slice_.strict, ask.exact, axis=Axis(slice_.logarithmic))
    else:
        draw, point = np.nonzero(np.arange(len(values))[:, None] < curve.counts[there])
        limit = divergence(x[point], ~can_be_fitted(values[draw, point]))
        inside = can_be_fitted(values) & (x < limit)
        some = inside.any(axis=0)
        values = np.where(inside, values, np.nan)[inside.any(axis=1)][:, some]
        curves = DrawCurves(x[some], values, np.arange(len(values)))
        extremum = find_optimum(curves, slice_.axis, slice_.strict, ask.exact, limit, slice_.logarithmic)
    return Fitted(extremum.estimate if extremum.status == Status.LOCATED else math.nan, extremum.low, extremum.high)


def _unknown(curve: Curve, u: np.ndarray, alive: np.ndarray, place: int, interval: Fitted) -> np.ndarray:
    """Points without a draw that say more of the curve's shape: those beside the best one; else the middle of the
    widest gap in the interval, where the curve may have another lowest place."""
    low, high = alive[max(place - 1, 0)], alive[min(place + 1, len(alive) - 1)]
    beside = [point for point in range(low + 1, high) if curve.counts[point] == 0]
    first, last = (interval.low, interval.high) if interval.low < interval.high else (-math.inf, math.inf)
    gaps = [
        (float(u[q] - u[p]), (p + q) // 2)
        for p, q in pairwise(alive.tolist())
        if q - p > 1 and curve.x[q] > first and curve.x[p] < last
    ]
    return np.array(beside or [point for _, point in sorted(gaps)[-1:]], dtype=np.int64)


def _shaped(curve: Curve, unknown: np.ndarray, alive: np.ndarray, interval: Fitted, draws: int) -> np.ndarray:
    """The counts with more that says of the curve's shape: the unknown points; else twice the draws of those where the
    interval lies and beside it, or else of all, up to `SHAPED` (up to `draws` if they are more and the place is not
    located)."""
    if len(unknown):
        return raised(curve.counts, unknown, min(draws, BEGIN))
    most = max(draws, SHAPED) if math.isnan(interval.place) else SHAPED
    more = np.maximum(curve.counts, np.minimum(2 * curve.counts, most))
    x = curve.x[alive]
    first, last = np.searchsorted(x, interval.low), np.searchsorted(x, interval.high, side="right")
    some = alive[max(first - REACH, 0) : last + REACH] if interval.low < interval.high else alive
    points = some if (more > curve.counts)[some].any() else alive
    return raised(curve.counts, points, more[points])


def _flat(worse: np.ndarray, most: int) -> bool:
    """Whether no point would be clearly worse than the best one even with `most` draws, if it is as much worse as its
    draws allow. worse: by how much each draw is, (draws, points)."""
    mean, error, count = standard_error(worse)
    last = t_quantile(2 * LOSES - 1, most - 1) * error * np.sqrt(count / most)
    return bool((mean + 2 * error < last).all())
