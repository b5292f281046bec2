"""Where the draws of one slice go, so that its zero is located with a precision.

A slice starts with few cells and few draws. Two cells of clear and opposite sign bracket the zero. Neighbouring cells
of one draw have nearly the same noise, so a further cell near the zero says nothing that the bracket does not; more
draws do. So the bracket moves in only as far as its signs will stay clear, or as the curve bends between its cells, and
then its cells get draws: always the same ones, because the zero of a mean over different draws would be biased.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np

from raysweep.fits.boundary import SIGN_DRAWS, find_zero
from raysweep.fits.result import Status
from raysweep.fits.statistics import ROUNDING, half_width, sign_test_limit, standard_error, t_quantile
from raysweep.search import endings
from raysweep.search.bracket import bend, change_of_sign, inner, shaped, zero_of_line
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
from raysweep.search.slices import Ask

SIGN = 0.95  # the level at which the sign of a cell counts as clear
ASIDE = 1.2  # the bracket keeps this many half-widths away from the zero, so that its signs stay clear
BESIDE = 6  # how far from the bracket further cells are asked for the shape of the curve, two at a time on each side
BENDS = 0.15  # a bend that moves the zero by more than this share of the wanted half-width asks for a cell between


def first(ask: Ask) -> np.ndarray:
    """How many draws each point gets at the beginning, (points,)."""
    points = len(ask.slice.x)
    draws = min(ask.most, SIGN_DRAWS if _heavy(ask) else FEWEST)
    return raised(np.zeros(points, dtype=np.int64), evenly(points, START), draws)


def step(curve: Curve, ask: Ask) -> Step:
    """What a slice wants next, given the draws that it asked for."""
    there, values = _valued(curve), curve.values
    rest = Step(curve.counts, OPEN)
    if not len(there):
        return replace(rest, state=endings.NO_ROW)
    size = float(np.nanmax(np.abs(values[:, there])))
    values = np.where(np.abs(values) > ROUNDING * size, values, np.where(np.isnan(values), np.nan, 0.0))
    curve = replace(curve, values=values)
    if not size > 0 or not np.nan_to_num(values).any():
        return replace(rest, state=endings.ZERO)
    exact = ask.exact
    if not exact and ask.most < 2:
        return replace(rest, state=endings.ONE_DRAW)
    labels = signs(values[:, there], ask)
    bracket = _bracket(labels, standard_error(values[:, there])[0])
    if bracket is None:
        return _without_bracket(curve, ask, labels, rest)
    inside = there[bracket[0] : bracket[1] + 1]
    draws = int(curve.counts[inside].max())
    if (curve.counts[inside] < draws).any():
        return replace(rest, counts=raised(curve.counts, inside, draws))
    return _with_bracket(curve, ask, inside, draws, rest)


def _valued(curve: Curve) -> np.ndarray:
    """The points that have a draw with a value: further draws of the others would have none either."""
    return curve.there[np.isfinite(curve.values[:, curve.there]).any(axis=0)]


def signs(values: np.ndarray, ask: Ask) -> np.ndarray:
    """The sign of each point of values[draw, point]: +1 or -1 if it is clear, otherwise 0."""
    mean, error, count = standard_error(values)
    if ask.exact:
        return np.sign(np.nan_to_num(mean)).astype(int)
    if _heavy(ask):
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
        largest = []
        for node in pair:
            other = np.flatnonzero(labels == -labels[node])
            low, high = other[other < node].max(initial=-1) + 1, other[other > node].min(initial=len(labels))
            largest.append(float(np.nanmax(np.abs(mean[low:high]))))
        return min(largest)

    return max(pairs, key=clearness, default=None)


def _with_bracket(curve: Curve, ask: Ask, inside: np.ndarray, draws: int, rest: Step) -> Step:
    """The next step if the points `inside`, which have equal draws, bracket the zero."""
    x, values, wanted = curve.x, curve.values[:draws], ask.slice.wanted
    a, b = change_of_sign(inside, standard_error(values[:, inside])[0])
    place, deviation = zero_of_line(x, values, a, b, _heavy(ask))
    count = int(np.isfinite(values[:, [a, b]]).all(axis=1).sum())
    half = t_quantile(ask.slice.strict, count - 1) * deviation / math.sqrt(max(count, 1)) if not ask.exact else 0.0
    aside = max(ASIDE * wanted, half)
    needed = draws if ask.exact else max(draws, draws_needed(deviation, ask.slice.strict, wanted))
    bends = bend(curve, a, b, place) > BENDS * wanted
    counts = curve.counts
    if x[b] - x[a] > 2.5 * aside or half <= wanted or bends:
        counts = raised(counts, np.array(inner(curve, a, b, place, aside), dtype=np.int64), draws)
    if bends and half <= wanted and (counts == curve.counts).all():  # the line between two cells is not the curve
        counts = shaped(curve, a, b, place, draws, 1)
    if (counts > curve.counts).any():
        expected = raised(counts, np.asarray([a, b]), min(needed, ask.most))
        return replace(rest, counts=counts, half=half, then=half, place=place, needed=expected)
    sure = 1.0 if ask.exact else doubt(draws)
    enough = min(ask.most, 1 if ask.exact else SOME)
    needed = max(enough, needed)
    if draws >= enough and (half * sure <= wanted or draws >= ask.most):
        interval = fitted(curve, ask)
        if interval.half() * sure <= wanted:
            return replace(rest, state=REACHED, half=interval.half(), then=interval.half(), place=interval.place)
        place, half = (interval.place, interval.half()) if math.isfinite(interval.half()) else (place, half)
        coarse, more = False, 1.0
        if interval.half() > wanted:
            coarse, more = shape_and_draws(interval.half(), fitted(curve, ask, EVEN).half(), wanted)
        if coarse and ((counts := shaped(curve, a, b, place, draws, BESIDE)) > curve.counts).any():
            return replace(rest, counts=counts, half=half, then=wanted, place=place, needed=counts)
        if coarse and not more and (draws >= SOME or ask.exact):  # fewer draws hardly tell their noise from the shape
            return replace(rest, state=endings.COARSE, half=half, place=place)
        needed = max(needed, math.ceil(draws * max(more, 1.1)))
    if draws >= ask.most:
        return replace(rest, state=endings.ALL_DRAWS, half=half, then=half, place=place)
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
    one = ask.slice
    if one.heavy is not None and len(values) >= SIGN_DRAWS:
        scale = "sign" if one.heavy[there].any() else "linear"
    zero = find_zero(curve.x[there], values, one.single, one.strict, scale, ask.exact, one.declared_log)
    if zero.status != Status.LOCATED:
        return NOWHERE
    best = zero.crossings[0]
    return Fitted(best.estimate, best.low_simultaneous, best.high_simultaneous)


def _without_bracket(curve: Curve, ask: Ask, labels: np.ndarray, rest: Step) -> Step:
    """The next step if no two clear signs are opposite. labels: of the points of `_valued`."""
    there = _valued(curve)
    unclear = there[labels == 0]
    if not ask.exact and (few := there[curve.counts[there] < min(FIRST, ask.most)]).size:
        return replace(rest, counts=raised(curve.counts, few, min(FIRST, ask.most)))
    if not len(unclear):
        return replace(rest, state=endings.NO_CHANGE)
    if ask.exact:
        return replace(rest, state=endings.TOUCHES)
    slope = _steepest(curve, ask)
    values = curve.values[:, unclear]
    deviation = np.nanstd(values, axis=0, ddof=1) if len(values) > 1 else np.full(len(unclear), np.inf)
    deviation = np.nan_to_num(deviation, nan=np.inf)
    now = np.array([t_quantile(ask.slice.strict, int(n) - 1) / math.sqrt(n) for n in curve.counts[unclear]]) * deviation
    last = t_quantile(ask.slice.strict, ask.most - 1) / math.sqrt(ask.most) * deviation
    if (now <= ask.slice.wanted * slope).all():
        return replace(rest, state=endings.NO_CHANGE_INSIDE)
    if (last > ask.slice.wanted * slope).all() and curve.counts[unclear].min() >= LEAST:
        return replace(rest, state=endings.NOT_ZERO)
    if (curve.counts[unclear] >= ask.most).all():
        return replace(rest, state=endings.NO_CLEAR_CHANGE)
    target = min(ask.most, 2 * int(curve.counts[unclear].min()))
    return replace(rest, counts=raised(curve.counts, unclear, target))


def _heavy(ask: Ask) -> bool:
    """Whether some draws have no variance."""
    return ask.slice.heavy is not None and bool(ask.slice.heavy.any())


def _steepest(curve: Curve, ask: Ask) -> float:
    """The steepest slope of the mean curve that its draws allow: the draw is the unit, over neighbouring cells."""
    there = _valued(curve)
    draws = curve.values[: int(curve.counts[there].min()), there]
    slopes = np.diff(draws, axis=1) / np.diff(curve.x[there])
    mean, error, count = standard_error(slopes)
    most = np.abs(mean) + half_width(SIGN, error, count)
    return float(np.nanmax(most)) if np.isfinite(most).any() else math.inf
