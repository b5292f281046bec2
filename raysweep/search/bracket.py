"""Two neighbouring points of a slice between which a zero lies: where, how far draws scatter, and its neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from raysweep.fits.statistics import t_quantile, two_way_anova
from raysweep.search.curves import LEAST, Curve, draws_needed, raised

REACH = 6  # how far from the bracket further cells are asked for the shape of the curve, two at a time on each side


def change_of_sign(inside: np.ndarray, values: np.ndarray) -> tuple[int, int]:
    """The two neighbours among these points between which the mean of values[draw, point] changes sign, without the
    effects of draws that not all have; of several changes the middle one."""
    values = values[:, inside]
    sign = np.where(np.nan_to_num(two_way_anova(values[np.isfinite(values).any(axis=1)]).curve) > 0, 1, -1)
    changes = np.flatnonzero(sign[:-1] != sign[1:])
    a, b = inside[changes[len(changes) // 2] + np.arange(2) if len(changes) else [0, -1]].tolist()
    return a, b


@dataclass(frozen=True)
class Line:
    """The zero of a straight line between two points, as the draws of one point, the lead, tell it.

    points: the two and the lead, sorted, each once. place: in units of x.
    draws: how many the lead has. pairs: how many the two points share with it.
    shared, rest: the deviation of the zero of one draw that those of the lead tell, and what they leave of it.
    """

    points: np.ndarray
    lead: int
    place: float
    draws: int
    pairs: int
    shared: float = 0.0
    rest: float = math.inf

    def half(self, level: float) -> float:
        """The half-width of the interval."""
        error = math.hypot(self.shared / math.sqrt(max(self.draws, 1)), self.rest / math.sqrt(max(self.pairs, 1)))
        return t_quantile(level, max(self.draws if self.shared else self.pairs, 2) - 1) * error

    def needed(self, counts: np.ndarray, level: float, wanted: float) -> np.ndarray:
        """The counts with as few more draws as make the half-width as narrow as wanted."""
        draws, total = draws_needed(self.shared + self.rest, level, wanted), self.shared + self.rest
        lead, others = draws, draws if self.pairs >= LEAST else min(draws, LEAST)
        if self.shared:
            lead, others = math.ceil(draws * self.shared / total), math.ceil(draws * self.rest / total)
        more = counts.copy()
        more[self.points] += max(others - self.pairs, 0)
        more[self.lead] = counts[self.lead] + max(lead - self.draws, 0)
        return more


def zero_of_line(x: np.ndarray, values: np.ndarray, a: int, b: int, lead: int, heavy: bool) -> Line:
    """The zero between the points a and b. heavy: whether draws have no variance."""
    draws, alone = values[np.isfinite(values[:, [a, b, lead]]).all(axis=1)], values[np.isfinite(values[:, lead]), lead]
    unknown = Line(np.unique([a, b, lead]), lead, float(x[a] + x[b]) / 2, len(alone), len(draws))
    if not len(draws):
        return unknown
    pair, z = draws[:, [a, b]], draws[:, lead] - draws[:, lead].mean()
    gain = z @ pair / (z @ z) if len(draws) >= LEAST and z.any() and not heavy else np.zeros(2)
    middle = np.median(pair, axis=0) if heavy else pair.mean(axis=0)
    left, right = middle + gain * (alone.mean() - draws[:, lead].mean())
    if left == right:
        return unknown
    share = float(np.clip(left / (left - right), 0.0, 1.0))
    weights, slope = np.array([1 - share, share]), abs(float((right - left) / (x[b] - x[a])))
    rest = (pair - z[:, None] * gain) @ weights
    shared = abs(float(gain @ weights)) * float(alone.std(ddof=1)) if gain.any() else 0.0
    spread = float(rest.std(ddof=2 if gain.any() else 1)) if len(rest) > 1 else math.inf
    if heavy and len(rest) > 1:  # no variance: from the quartiles, with the efficiency of the median of normal draws
        spread = 1.253 * float(np.ptp(np.quantile(rest, [0.25, 0.75]))) / 1.349
    return replace(unknown, place=float(x[a] + share * (x[b] - x[a])), shared=shared / slope, rest=spread / slope)


def inner(curve: Curve, a: int, b: int, place: float, aside: float) -> list[int]:
    """The points without these draws that would make a narrower bracket, at this distance from the zero at least."""
    between = np.arange(a + 1, b)
    low, high = between[curve.x[between] <= place - aside], between[curve.x[between] >= place + aside]
    return [*low[-1:].tolist(), *high[:1].tolist()]


def shaped(curve: Curve, a: int, b: int, place: float, draws: int) -> np.ndarray:
    """The counts with further points that say how the curve runs between the points a and b: the nearest one to the
    zero between them; else on each side the nearest two that have fewer draws, up to `REACH` points away. Few draws are
    enough there, since the noise of a draw is nearly the same."""
    between = np.arange(a + 1, b)
    if len(between):
        return raised(curve.counts, between[[np.argmin(np.abs(curve.x[between] - place))]], draws)
    few = np.flatnonzero(curve.counts < draws)
    left, right = few[(few < a) & (few >= a - REACH)], few[(few > b) & (few <= b + REACH)]
    return raised(curve.counts, np.concatenate([left[-2:], right[:2]]), draws)
