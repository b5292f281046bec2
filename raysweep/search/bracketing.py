"""Where the draws of one slice go, so that its zero is located with a precision.

A slice starts with few cells and few draws. Two cells of clear and opposite sign bracket the zero. Neighbouring cells
of one draw have nearly the same noise, so a further cell near the zero says nothing that the bracket does not; more
draws do. So the bracket moves in only as far as its signs will stay clear, or as the curve bends between its cells, and
then its cells get draws: always the same ones, because the zero of a mean over different draws would be biased.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from raysweep.fits.boundary import SIGN_DRAWS, find_zero
from raysweep.fits.result import Status
from raysweep.fits.statistics import ROUNDING, half_width, sign_test_limit, standard_error, t_quantile
from raysweep.search.curves import (
    EVEN,
    FEWEST,
    FIRST,
    LEAST,
    NOWHERE,
    OPEN,
    REACHED,
    SOME,
    START,
    Curve,
    Fitted,
    Step,
    doubt,
    draws_needed,
    evenly,
    jump,
    raised,
    shape_and_draws,
)

SIGN = 0.95  # the level at which the sign of a cell counts as clear
ASIDE = 1.2  # the bracket keeps this many half-widths away from the zero, so that its signs stay clear
BESIDE = 6  # how far from the bracket further cells are asked for the shape of the curve, two at a time on each side
BENDS = 0.15  # a bend that moves the zero by more than this share of the wanted half-width asks for a cell between


@dataclass(frozen=True)
class Ask:
    """What is asked of a slice: as in `Slice`. most: the most draws of a cell. exact: whether values have no noise."""

    level: float
    strict: float
    wanted: float
    most: int
    logarithmic: bool | None = None
    heavy: np.ndarray | None = None
    exact: bool = False


def first(points: int, ask: Ask) -> np.ndarray:
    """How many draws each point gets at the beginning, (points,)."""
    counts = np.zeros(points, dtype=np.int64)
    counts[evenly(points, START)] = min(ask.most, FEWEST if ask.heavy is None or not ask.heavy.any() else SIGN_DRAWS)
    return counts


def step(curve: Curve, ask: Ask) -> Step:
    """What a slice wants next, given the draws that it asked for."""
    there, values = curve.there, curve.values
    rest = Step(curve.counts, OPEN)
    finite = np.isfinite(values[:, there])
    if not finite.any():
        return replace(rest, state="no row is ok")
    size = float(np.nanmax(np.abs(values[:, there])))
    values = np.where(np.abs(values) > ROUNDING * size, values, np.where(np.isnan(values), np.nan, 0.0))
    curve = replace(curve, values=values)
    if not size > 0 or not np.nan_to_num(values).any():
        return replace(rest, state="zero everywhere")
    exact = ask.exact
    if not exact and ask.most < 2:
        return replace(rest, state="one draw has no interval")
    labels = signs(values[:, there], ask)
    found = _bracket(labels, standard_error(values[:, there])[0])
    if found is None:
        return _without_bracket(curve, ask, labels, rest)
    inside = there[found[0] : found[1] + 1]
    draws = int(curve.counts[inside].max())
    if (curve.counts[inside] < draws).any():
        return replace(rest, counts=raised(curve.counts, inside, draws))
    return _with_bracket(curve, ask, inside, draws, rest)


def signs(values: np.ndarray, ask: Ask) -> np.ndarray:
    """The sign of each point of values[draw, point]: +1 or -1 if it is clear, otherwise 0."""
    mean, error, count = standard_error(values)
    if ask.exact:
        return np.sign(np.nan_to_num(mean)).astype(int)
    if ask.heavy is not None and ask.heavy.any():
        positive, negative = (values > 0).sum(axis=0), (values < 0).sum(axis=0)
        limits = np.array([sign_test_limit(SIGN, int(n)) for n in positive + negative])
        return np.where(np.minimum(positive, negative) <= limits, np.sign(positive - negative), 0).astype(int)
    half = np.nan_to_num(half_width(SIGN, error, count), nan=np.inf)  # of a single draw there is no error
    return np.where(np.abs(np.nan_to_num(mean)) > half, np.sign(np.nan_to_num(mean)), 0).astype(int)


def _bracket(labels: np.ndarray, mean: np.ndarray) -> tuple[int, int] | None:
    """The positions of the two clear signs around the clearest change of sign; None if there is none."""
    clear = np.flatnonzero(labels)
    pairs = [(int(j), int(k)) for j, k in pairwise(clear) if labels[j] * labels[k] < 0]

    def clearness(pair: tuple[int, int]) -> float:
        own = []
        for node in pair:
            other = np.flatnonzero(labels == -labels[node])
            low, high = other[other < node].max(initial=-1) + 1, other[other > node].min(initial=len(labels))
            own.append(float(np.nanmax(np.abs(mean[low:high]))))
        return min(own)

    return max(pairs, key=clearness, default=None)


def _with_bracket(curve: Curve, ask: Ask, inside: np.ndarray, draws: int, rest: Step) -> Step:
    """The next step if the points `inside`, which have equal draws, bracket the zero."""
    x, values = curve.x, curve.values[:draws]
    a, b = _change(inside, standard_error(values[:, inside])[0])
    place, deviation = _zero_of_line(x, values, a, b, ask)
    count = int(np.isfinite(values[:, [a, b]]).all(axis=1).sum())
    half = t_quantile(ask.strict, count - 1) * deviation / math.sqrt(max(count, 1)) if not ask.exact else 0.0
    aside = max(ASIDE * ask.wanted, half)
    needed = draws if ask.exact else max(draws, draws_needed(deviation, ask.strict, ask.wanted))
    bends = _bend(curve, a, b, place) > BENDS * ask.wanted
    counts = curve.counts
    if x[b] - x[a] > 2.5 * aside or half <= ask.wanted or bends:
        counts = raised(counts, np.array(_inner(curve, a, b, place, aside), dtype=np.int64), draws)
    if bends and half <= ask.wanted and (counts == curve.counts).all():  # the line between two cells is not the curve
        counts = _shaped(curve, a, b, place, draws, 1)
    if (counts > curve.counts).any():
        expected = raised(counts, np.asarray([a, b]), min(needed, ask.most))
        return replace(rest, counts=counts, half=half, then=half, place=place, needed=expected)
    sure = 1.0 if ask.exact else doubt(draws)
    enough = min(ask.most, 1 if ask.exact else SOME)
    needed = max(enough, needed)
    if draws >= enough and (half * sure <= ask.wanted or draws >= ask.most):
        found = fitted(curve, ask)
        if found.half * sure <= ask.wanted:
            return replace(rest, state=REACHED, half=found.half, then=found.half, place=found.place)
        place, half = (found.place, found.half) if math.isfinite(found.half) else (place, half)
        coarse, more = False, 1.0
        if found.half > ask.wanted:
            coarse, more = shape_and_draws(found.half, fitted(curve, ask, EVEN).half, ask.wanted)
        if coarse and ((counts := _shaped(curve, a, b, place, draws, BESIDE)) > curve.counts).any():
            return replace(rest, counts=counts, half=half, then=ask.wanted, place=place, needed=counts)
        if coarse and not more:
            return replace(rest, state="the axis is too coarse", half=half, place=place)
        needed = max(needed, math.ceil(draws * max(more, 1.1)))
    if draws >= ask.most:
        return replace(rest, state="all draws that are allowed", half=half, then=half, place=place)
    target = max(jump(draws, needed, ask.most), min(LEAST, 2 * draws, ask.most))
    counts = raised(curve.counts, inside, target)
    return replace(
        rest,
        counts=counts,
        half=half,
        then=half * math.sqrt(draws / target),
        place=place,
        needed=raised(counts, inside, min(ask.most, needed)),
    )


def _change(inside: np.ndarray, mean: np.ndarray) -> tuple[int, int]:
    """The two neighbours among these points between which the mean changes sign; of several changes the middle one."""
    sign = np.where(np.nan_to_num(mean) > 0, 1, -1)
    changes = np.flatnonzero(sign[:-1] != sign[1:])
    if not len(changes):
        return int(inside[0]), int(inside[-1])
    at = int(changes[len(changes) // 2])
    return int(inside[at]), int(inside[at + 1])


def _zero_of_line(x: np.ndarray, values: np.ndarray, a: int, b: int, ask: Ask) -> tuple[float, float]:
    """The zero of the straight line through the means at two points, and the deviation of the zero of one draw."""
    pair = values[:, [a, b]]
    pair = pair[np.isfinite(pair).all(axis=1)]
    if not len(pair):
        return float(x[a] + x[b]) / 2, math.inf
    heavy = ask.heavy is not None and bool(ask.heavy.any())
    left, right = np.median(pair, axis=0) if heavy else pair.mean(axis=0)
    if left == right:
        return float(x[a] + x[b]) / 2, math.inf
    share = float(np.clip(left / (left - right), 0.0, 1.0))
    slope = (right - left) / (x[b] - x[a])
    at = pair @ np.array([1 - share, share])
    spread = float(at.std(ddof=min(1, len(at) - 1)))
    if heavy:  # no variance: from the quartiles, with the efficiency of the median of normal draws
        spread = 1.253 * float(np.ptp(np.quantile(at, [0.25, 0.75]))) / 1.349
    return float(x[a] + share * (x[b] - x[a])), spread / abs(float(slope)) if len(at) > 1 else math.inf


def _inner(curve: Curve, a: int, b: int, place: float, aside: float) -> list[int]:
    """The points without these draws that would make a narrower bracket, at this distance from the zero at least."""
    between = np.arange(a + 1, b)
    low, high = between[curve.x[between] <= place - aside], between[curve.x[between] >= place + aside]
    return [*low[-1:].tolist(), *high[:1].tolist()]


def _bend(curve: Curve, a: int, b: int, place: float) -> float:
    """By how much the zero moves at least if the curve bends between a and b as it does up to the next points beside
    them: less two standard errors, since the draws bend too."""
    there = curve.there
    moved = []
    for other in (*there[there < a][-1:].tolist(), *there[there > b][:1].tolist()):
        points = np.sort(np.array([a, b, other]))
        draws = curve.values[: int(curve.counts[points].min()), points]
        draws = draws[np.isfinite(draws).all(axis=1)]
        if not len(draws):
            continue
        at = curve.x[points]
        second = np.diff(np.diff(draws, axis=1) / np.diff(at), axis=1)[:, 0] / (at[2] - at[0])
        sure = abs(float(second.mean())) - 2 * (
            float(second.std(ddof=1)) / math.sqrt(len(second)) if len(second) > 1 else 0.0
        )
        slope = float((draws[:, points == b] - draws[:, points == a]).mean()) / (curve.x[b] - curve.x[a])
        if slope and sure > 0:
            moved.append(sure * (place - curve.x[a]) * (curve.x[b] - place) / abs(slope))
    return max(moved, default=0.0)


def fitted(curve: Curve, ask: Ask, shrink: float = 1.0) -> Fitted:
    """The zero with its interval at the level that applies, as the report computes it.

    shrink: the deviations of draws from their means are multiplied by it, to see what more draws would give.
    """
    there = curve.there
    values = curve.values[:, there]
    if shrink != 1.0:
        mean = standard_error(values)[0]
        values = mean + shrink * (values - mean)
    scale = None
    if ask.heavy is not None and len(values) >= SIGN_DRAWS:
        scale = "sign" if ask.heavy[there].any() else "linear"
    zero = find_zero(curve.x[there], values, ask.level, ask.strict, scale, ask.exact, ask.logarithmic)
    if zero.status != Status.LOCATED:
        return NOWHERE
    best = zero.crossings[0]
    return Fitted(best.estimate, best.low_simultaneous, best.high_simultaneous)


def _shaped(curve: Curve, a: int, b: int, place: float, draws: int, reach: int) -> np.ndarray:
    """The counts with further points that say how the curve runs between the points a and b: the nearest one to the
    zero between them with all draws; else on each side the nearest two that have few, up to `reach` points away. Few
    draws are enough there, since the noise of a draw is nearly the same."""
    between = np.arange(a + 1, b)
    if len(between):
        return raised(curve.counts, between[[np.argmin(np.abs(curve.x[between] - place))]], draws)
    enough = min(draws, LEAST)
    few = np.flatnonzero(curve.counts < enough)
    left, right = few[(few < a) & (few >= a - reach)], few[(few > b) & (few <= b + reach)]
    return raised(curve.counts, np.concatenate([left[-2:], right[:2]]), enough)


def _without_bracket(curve: Curve, ask: Ask, labels: np.ndarray, rest: Step) -> Step:
    """The next step if no two clear signs are opposite."""
    there = curve.there
    unclear = there[labels == 0]
    if not ask.exact and (few := there[curve.counts[there] < min(FIRST, ask.most)]).size:
        return replace(rest, counts=raised(curve.counts, few, min(FIRST, ask.most)))
    if not len(unclear):
        return replace(rest, state="no change of sign")
    if ask.exact:
        return replace(rest, state="zero in places, without a change of sign")
    slope = _steepest(curve, ask)
    values = curve.values[:, unclear]
    deviation = np.nanstd(values, axis=0, ddof=1) if len(values) > 1 else np.full(len(unclear), np.inf)
    deviation = np.nan_to_num(deviation, nan=np.inf)
    now = np.array([t_quantile(ask.strict, int(n) - 1) / math.sqrt(n) for n in curve.counts[unclear]]) * deviation
    last = t_quantile(ask.strict, ask.most - 1) / math.sqrt(ask.most) * deviation
    if (now <= ask.wanted * slope).all():
        return replace(rest, state="no change of sign, unless nearer to an edge or to a touching point than asked for")
    if (last > ask.wanted * slope).all() and curve.counts[unclear].min() >= LEAST:
        return replace(rest, state="not told from zero, and not with all draws that are allowed")
    if (curve.counts[unclear] >= ask.most).all():
        return replace(rest, state="no change of sign is clear with all draws that are allowed")
    target = min(ask.most, 2 * int(curve.counts[unclear].min()))
    return replace(rest, counts=raised(curve.counts, unclear, target))


def _steepest(curve: Curve, ask: Ask) -> float:
    """The steepest slope of the mean curve that its draws allow: the draw is the unit, over neighbouring cells."""
    there = curve.there
    draws = curve.values[: int(curve.counts[there].min()), there]
    slopes = np.diff(draws, axis=1) / np.diff(curve.x[there])
    mean, error, count = standard_error(slopes)
    most = np.abs(mean) + half_width(SIGN, error, count)
    return float(np.nanmax(most)) if np.isfinite(most).any() else math.inf
