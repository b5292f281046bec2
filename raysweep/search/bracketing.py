"""Where the draws of one slice go, so that its zero is located with a precision.

A slice starts with few cells and few draws. Two cells of clear and opposite sign bracket the zero, and the bracket
moves in as far as its signs will stay clear. Neighbouring cells of one draw have nearly the same noise. So one cell,
the lead, gets most of the draws. The others get the first few of them, which tell how their noise goes with that of the
lead: the fit of the report then corrects their means by the draws that they lack.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np

from raysweep.fits.result import Status
from raysweep.fits.statistics import ROUNDING, half_width, standard_error, t_quantile, two_way_anova
from raysweep.fits.zero import SIGN_DRAWS, clearness, find_zero, point_signs
from raysweep.search import endings
from raysweep.search.bracket import change_of_sign, inner, shaped, zero_of_line
from raysweep.search.curves import (
    EVEN,
    FEWEST,
    FIRST,
    LEAST,
    MANY,
    NOWHERE,
    OPEN,
    REACHED,
    SOME,
    Curve,
    Fitted,
    Step,
    beginning,
    doubt,
    jump,
    raised,
    shape_and_draws,
)
from raysweep.search.slices import Ask

SIGN = 0.95  # the level at which the sign of a cell counts as clear
ASIDE = 1.2  # the bracket keeps this many half-widths away from the zero, so that its signs stay clear
WIDER = 2.0  # an interval so many times as wide as the noise of its bracket is wide by the shape of the curve
CAREFUL = 1.3  # then draws are multiplied by this at most: not all of an interval is their noise


def first(ask: Ask) -> np.ndarray:
    """How many draws each point gets at the beginning, (points,)."""
    return beginning(len(ask.slice.x), min(ask.most, SIGN_DRAWS if _heavy(ask) else FEWEST))


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
    if not ask.exact and ask.most < 2:
        return replace(rest, state=endings.ONE_DRAW)
    scale = "sign" if _heavy(ask) and not ask.exact else "linear"
    labels = point_signs(values[:, there], SIGN, scale, ask.exact)
    bracket = _bracket(labels, standard_error(values[:, there])[0])
    if bracket is None:
        return _without_bracket(curve, ask, labels, rest)
    inside = there[bracket[0] : bracket[1] + 1]
    few = int(min(curve.counts[inside].max(), MANY if _heavy(ask) else LEAST))
    if (curve.counts[inside] < few).any():
        return replace(rest, counts=raised(curve.counts, inside, few))
    return _with_bracket(curve, ask, inside, few, rest)


def _valued(curve: Curve) -> np.ndarray:
    """The points that have a draw with a value: further draws of the others would have none either."""
    return curve.there[np.isfinite(curve.values[:, curve.there]).any(axis=0)]


def _bracket(labels: np.ndarray, mean: np.ndarray) -> tuple[int, int] | None:
    """The positions of the two clear signs around the clearest change of sign; None if there is none."""
    clear = np.flatnonzero(labels)
    pairs = [(int(j), int(k)) for j, k in pairwise(clear) if labels[j] * labels[k] < 0]
    return max(pairs, key=lambda pair: min(clearness(mean, labels, node) for node in pair), default=None)


def _with_bracket(curve: Curve, ask: Ask, inside: np.ndarray, few: int, rest: Step) -> Step:
    """The next step if the points `inside`, which have so few draws or more, bracket the zero."""
    x, counts, wanted, strict = curve.x, curve.counts, ask.slice.wanted, ask.slice.strict
    most_drawn = int(inside[np.argmax(counts[inside])])
    a, b = change_of_sign(inside, curve.values)
    lines = [zero_of_line(x, curve.values, a, b, lead, _heavy(ask)) for lead in dict.fromkeys((most_drawn, a, b))]
    line = min(lines, key=lambda line: int(line.needed(counts, strict, wanted).sum()))
    place, draws, noise = line.place, int(counts[line.lead]), 0.0 if ask.exact else line.half(strict)
    rest, half = replace(rest, place=place), noise
    needed = counts if ask.exact else np.minimum(line.needed(counts, strict, wanted), ask.most)
    aside = max(ASIDE * wanted, noise)
    if x[b] - x[a] > 2.5 * aside or noise <= wanted:
        counts = raised(counts, np.array(inner(curve, a, b, place, aside), dtype=np.int64), few)
    if (counts > curve.counts).any():
        return replace(rest, counts=counts, half=half, then=half, needed=np.maximum(counts, needed))
    sure, enough, times = (1.0, 1, 0.0) if ask.exact else (doubt(draws), min(SOME, ask.most), 0.0)
    needed = raised(needed, line.points, enough)
    if draws >= enough and (noise * sure <= wanted or draws >= ask.most):
        interval = fitted(curve, ask)
        if interval.half() * sure <= wanted:
            return replace(rest, state=REACHED, half=interval.half(), then=interval.half(), place=interval.place)
        place, half = (interval.place, interval.half()) if math.isfinite(interval.half()) else (place, half)
        rest, coarse, more = replace(rest, half=half, place=place), False, 1.0
        if interval.half() > wanted:
            coarse, more = shape_and_draws(interval.half(), fitted(curve, ask, EVEN).half(), wanted)
            coarse |= interval.half() > WIDER * noise
        first, last = np.searchsorted(curve.there, [a, b])
        near = curve.there[max(first - 1, 0) : last + 2]
        even = raised(counts, near, min(draws, 4 * int(counts[near].min())))
        for further in (shaped(curve, a, b, place, few), even) if coarse else ():
            if (further > counts).any():
                return replace(rest, counts=further, then=wanted, needed=further)
        if coarse and not more and (draws >= SOME or ask.exact):  # fewer draws hardly tell their noise from the shape
            return replace(rest, state=endings.COARSE)
        times = min(max(more, 1.1), CAREFUL)
    elif (needed <= counts).all():
        times = 1.05
    needed[line.points] = np.minimum(np.maximum(needed, np.ceil(times * counts)), ask.most)[line.points]
    counts = counts.copy()
    for point in np.flatnonzero(needed > counts):
        now = int(counts[point])
        counts[point] = max(jump(now, int(needed[point]), ask.most), min(LEAST, 2 * now, ask.most))
    if (counts == curve.counts).all():
        return replace(rest, state=endings.ALL_DRAWS, half=half, then=half)
    then = half * math.sqrt(draws / counts[line.lead])
    return replace(rest, counts=counts, half=half, then=then, needed=np.maximum(counts, needed))


def fitted(curve: Curve, ask: Ask, shrink: float = 1.0) -> Fitted:
    """The zero with its interval at the level that applies, as the report computes it.

    shrink: the deviations of draws from their means are multiplied by it, to see what more draws would give.
    """
    there = curve.there
    values = curve.values[:, there]
    if shrink != 1.0:
        values = values[np.isfinite(values).any(axis=1)]
        values = values - (1 - shrink) * (values - two_way_anova(values).curve)
    one, scale = ask.slice, None
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
