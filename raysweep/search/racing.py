"""Where the draws of one slice go, so that its best value is located with a precision.

A slice starts with few cells over the whole axis and few draws. Cells are then added near those that may be the best,
and draws are added where the place is decided. A cell that is clearly worse than the best one on the same draws gets no
more of them, unless it stands beside the best one and its value shapes the curve there. Draws are compared in pairs, so
which of them a cell gets never depends on its own values alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from raysweep.fits.draws import Axis, DrawCurves
from raysweep.fits.extremum import find_extremum
from raysweep.fits.lost_draws import can_be_fitted
from raysweep.fits.optimum import divergence, find_optimum
from raysweep.fits.result import Status
from raysweep.fits.statistics import ROUNDING, standard_error, t_quantile, two_way_anova
from raysweep.search import endings
from raysweep.search.curves import (
    EVEN,
    LEAST,
    NOWHERE,
    OPEN,
    REACHED,
    START,
    Choice,
    Curve,
    Fitted,
    Step,
    draws_needed,
    evenly,
    jump,
    raised,
    shape_and_draws,
)
from raysweep.search.slices import Slice

BEGIN = 8  # draws of each cell at first: with half as many hardly a cell can lose, and cells are added beside all
LOSES = 0.99  # the level of the paired one-sided test that a cell is worse than the best one
BESIDE = 1  # cells on each side of the best one that keep their draws: they say where between them the best value is
PLENTY = 4  # times the draws that noise beside the best cell asks for: what is wide with so many stays wide with more
WIDER = 1.5  # an interval so many times as wide as the noise beside the best cell makes it: cells farther off limit it


@dataclass(frozen=True, eq=False)
class Ask:
    """What is asked of a slice. most: the most draws of a cell. exact: whether values have no noise."""

    slice: Slice
    most: int
    exact: bool = False


def first(points: int, most: int) -> np.ndarray:
    """How many draws each point gets at the beginning, (points,)."""
    return raised(np.zeros(points, dtype=np.int64), evenly(points, START), min(most, BEGIN))


def step(curve: Curve, ask: Ask) -> Step:
    """What a slice wants next, given the draws that it asked for."""
    rest = Step(curve.counts, OPEN)
    if ask.slice.maximize:
        curve = replace(curve, values=-curve.values)
    there = curve.there
    finite = np.isfinite(curve.values[:, there])
    alive = there[2 * finite.sum(axis=0) >= curve.counts[there]]  # at the others most draws are not ok
    if not len(alive):
        return replace(rest, state=endings.NO_ROW)
    known = curve.values[:, alive]
    if np.nanmax(known) - np.nanmin(known) <= ROUNDING * np.nanmax(np.abs(known)):
        return replace(rest, state=endings.SAME)
    if ask.most < 2 and not ask.exact:
        return replace(rest, state=endings.ONE_DRAW)
    draws = int(curve.counts[alive].max())
    full = alive[curve.counts[alive] == draws]
    best = int(full[np.argmin(_paired_means(curve.values[:draws, full]))])
    plausible = np.array([point for point in alive if not _loses(curve, int(point), best, ask.exact)])
    if (behind := plausible[curve.counts[plausible] < draws]).size:
        return replace(rest, counts=raised(curve.counts, behind, draws))
    u = np.log(curve.x) if ask.slice.logarithmic else curve.x
    if gaps := _between(curve, u, plausible, ask.slice.wanted):
        choices = tuple(_in_gap(curve.counts, u, low, high, draws) for low, high in gaps)
        middle = np.array([(low + high) // 2 for low, high in gaps], dtype=np.int64)
        return replace(rest, counts=raised(curve.counts, middle, draws), choices=choices)
    return _more_draws(curve, ask, u, alive, plausible, best, draws, rest)


def _paired_means(values: np.ndarray) -> np.ndarray:
    """The means of values[draw, point] over the draws that all points have. If there are none: without the effects of
    draws, so that still no point gains from the draws that it has."""
    whole = values[np.isfinite(values).all(axis=1)]
    return whole.mean(axis=0) if len(whole) else two_way_anova(values).curve


def _loses(curve: Curve, point: int, best: int, exact: bool) -> bool:
    """Whether a point is clearly worse than the best one, on the draws that both have."""
    if point == best:
        return False
    worse = curve.values[:, point] - curve.values[:, best]
    worse = worse[np.isfinite(worse)]
    if exact:
        return bool(len(worse) and worse.mean() > 0)
    if len(worse) < 2:
        return False
    mean, error, _ = standard_error(worse[:, None])
    return bool(mean[0] > t_quantile(2 * LOSES - 1, len(worse) - 1) * error[0])


def _between(curve: Curve, u: np.ndarray, plausible: np.ndarray, wanted: float) -> list[tuple[int, int]]:
    """The gaps beside points that may be the best, as far as they are wider than asked for: their two ends."""
    return [
        (p, q)
        for p, q in pairwise(curve.there.tolist())
        if q - p > 1 and (p in plausible or q in plausible) and u[q] - u[p] > wanted
    ]


def _in_gap(counts: np.ndarray, u: np.ndarray, low: int, high: int, draws: int) -> tuple[Choice, ...]:
    """Each point of a gap with these draws, the middle one first. It gains as much as it makes the gap narrower."""
    middle = (low + high) // 2
    inside = sorted(range(low + 1, high), key=lambda point: (abs(point - middle), point))
    return tuple(
        Choice(raised(counts, np.array([point]), draws), float(min(u[point] - u[low], u[high] - u[point])))
        for point in inside
    )


def _more_draws(
    curve: Curve, ask: Ask, u: np.ndarray, alive: np.ndarray, plausible: np.ndarray, best: int, draws: int, rest: Step
) -> Step:
    """The next step if there are cells enough beside the best one."""
    place = int(np.flatnonzero(alive == best)[0])
    shape = alive[max(place - BESIDE, 0) : place + BESIDE + 1]
    racing = np.union1d(plausible, shape)
    if (curve.counts[racing] < draws).any():
        return replace(rest, counts=raised(curve.counts, racing, draws))
    if place in (0, len(alive) - 1) and len(plausible) == 1 and draws >= min(LEAST, ask.most):
        return replace(rest, state=endings.EDGE, place=float(curve.x[best]))
    deviation = _deviation(u, curve.values[:draws], alive, place)
    half = 0.0 if ask.exact else t_quantile(ask.slice.strict, draws - 1) * deviation / math.sqrt(draws)
    needed = draws if ask.exact else max(LEAST, draws_needed(deviation, ask.slice.strict, ask.slice.wanted))
    enough = 1 if ask.exact else min(LEAST, ask.most)
    if draws >= enough and (half <= ask.slice.wanted or draws >= ask.most):
        found = fitted(curve, ask)
        width, estimate = _half(found, ask), found.place
        if width <= ask.slice.wanted:
            return replace(rest, state=REACHED, half=width, then=width, place=estimate)
        unknown = _unknown(curve, u, alive, place, found)
        if draws >= PLENTY * needed and math.isfinite(width) and not len(unknown):
            return replace(rest, state=endings.COARSE, half=width, place=estimate)
        coarse, more = shape_and_draws(width, _half(fitted(curve, ask, EVEN), ask), ask.slice.wanted)
        if (coarse or width > WIDER * half) and (
            (counts := _shaped(curve, unknown, alive, draws)) > curve.counts
        ).any():
            choices: tuple[tuple[Choice, ...], ...] = ()
            if more:  # draws would be enough too
                target = max(jump(draws, math.ceil(draws * max(more, 1.1)), ask.most), draws)
                left = width / math.sqrt(target / draws)
                further = Choice(raised(curve.counts, racing, target), width - max(left, ask.slice.wanted))
                choices = ((Choice(counts, width - min(half, width)), further),) if math.isfinite(width) else ()
            return replace(rest, counts=counts, half=width, then=half, place=estimate, needed=counts, choices=choices)
        half = width
        told = draws >= LEAST or ask.exact  # fewer draws hardly tell their noise from the shape
        if coarse and not more and told and math.isfinite(half):
            return replace(rest, state=endings.COARSE, half=half, place=estimate)
        needed = math.ceil(draws * max(more, 1.1))
    if draws >= ask.most:
        why = endings.ALL_DRAWS if math.isfinite(half) else endings.NO_TURN
        return replace(rest, state=why, half=half)
    if draws >= LEAST and len(plausible) == len(alive) and _flat(curve, alive, best, ask):
        return replace(rest, state=endings.NOT_FLAT)
    target = max(jump(draws, min(needed, 4 * draws), ask.most), enough)
    return replace(
        rest,
        counts=raised(curve.counts, racing, target),
        half=half,
        then=half * math.sqrt(draws / target),
        place=float(curve.x[best]),
        needed=raised(curve.counts, racing, min(needed, ask.most)),
    )


def _deviation(u: np.ndarray, values: np.ndarray, alive: np.ndarray, place: int) -> float:
    """The deviation of the lowest place of one draw: that of its slope at the vertex of the parabola through the best
    point and its two neighbours, by the curvature of the mean."""
    middle = min(max(place, 1), len(alive) - 2)
    if len(alive) < 3:
        return math.inf
    a, b, c = alive[middle - 1 : middle + 2]
    three = values[:, [a, b, c]]
    three = three[np.isfinite(three).all(axis=1)]
    if len(three) < 2:
        return math.inf
    left, right = (three[:, 1] - three[:, 0]) / (u[b] - u[a]), (three[:, 2] - three[:, 1]) / (u[c] - u[b])
    bend = 2 * (right - left) / (u[c] - u[a])
    curvature = float(bend.mean())
    if not curvature > 0:
        return math.inf
    slope = left + bend * (u[b] - u[a]) / 2  # at the middle point
    vertex = -float(slope.mean()) / curvature
    return float((slope + bend * np.clip(vertex, u[a] - u[b], u[c] - u[b])).std(ddof=1)) / curvature


def fitted(curve: Curve, ask: Ask, shrink: float = 1.0) -> Fitted:
    """The best place with its interval at the level that applies, as the report computes it.

    shrink: the deviations of draws from the mean curve are multiplied by it, to see what more draws would give.
    """
    there, own = curve.there, ask.slice
    values = curve.values[:, there]
    if shrink != 1.0:
        values = values - (1 - shrink) * two_way_anova(values).residual
    x = curve.x[there]
    if own.fit == "inflection":
        found = find_extremum(x, values, own.strict, ask.exact, axis=Axis(own.logarithmic))
    else:
        draw, point = np.nonzero(np.arange(len(values))[:, None] < curve.counts[there])
        limit = divergence(x[point], ~can_be_fitted(values[draw, point]))
        inside = can_be_fitted(values) & (x < limit)
        some = inside.any(axis=0)
        values = np.where(inside, values, np.nan)[inside.any(axis=1)][:, some]
        curves = DrawCurves(x[some], values, np.arange(len(values)))
        found = find_optimum(curves, own.axis, own.strict, ask.exact, limit, own.logarithmic)
    return Fitted(found.estimate, found.low, found.high) if found.status == Status.LOCATED else NOWHERE


def _half(found: Fitted, ask: Ask) -> float:
    """The half-width of an interval in the unit of `Slice.wanted`."""
    return found.half_log if ask.slice.logarithmic else found.half


def _unknown(curve: Curve, u: np.ndarray, alive: np.ndarray, place: int, found: Fitted) -> np.ndarray:
    """Points without a draw that say more of the curve's shape: those beside the best one; else the middle of the
    widest gap in the interval, where the curve may have another lowest place."""
    low, high = alive[max(place - 1, 0)], alive[min(place + 1, len(alive) - 1)]
    beside = [point for point in range(low + 1, high) if curve.counts[point] == 0]
    first, last = (found.low, found.high) if math.isfinite(found.high - found.low) else (-math.inf, math.inf)
    gaps = [
        (float(u[q] - u[p]), (p + q) // 2)
        for p, q in pairwise(alive.tolist())
        if q - p > 1 and curve.x[q] > first and curve.x[p] < last
    ]
    return np.array(beside or [point for _, point in sorted(gaps)[-1:]], dtype=np.int64)


def _shaped(curve: Curve, unknown: np.ndarray, alive: np.ndarray, draws: int) -> np.ndarray:
    """The counts with more that says of the curve's shape: the unknown points with all draws; else those that have few;
    else twice the draws of all."""
    if len(unknown):
        return raised(curve.counts, unknown, draws)
    few = curve.counts[alive] < LEAST
    return raised(curve.counts, alive, min(draws, LEAST)) if few.any() else _doubled(curve.counts, alive, draws)


def _doubled(counts: np.ndarray, points: np.ndarray, draws: int) -> np.ndarray:
    """The counts with twice the draws at these points, up to `draws`."""
    found = counts.copy()
    found[points] = np.maximum(found[points], np.minimum(2 * found[points], draws))
    return found


def _flat(curve: Curve, alive: np.ndarray, best: int, ask: Ask) -> bool:
    """Whether no point would be clearly worse than the best one even with all draws, if it is as much worse as its
    draws allow."""
    worse = curve.values[:, alive] - curve.values[:, [best]]
    mean, error, count = standard_error(worse)
    deviation = error * np.sqrt(count)
    most = mean + 2 * error
    last = t_quantile(2 * LOSES - 1, ask.most - 1) * deviation / math.sqrt(ask.most)
    other = alive != best
    return bool((most[other] < last[other]).all())
