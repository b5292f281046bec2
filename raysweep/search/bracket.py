"""Two neighbouring points of a slice between which a zero lies: where, how far draws scatter, and its neighbours."""

from __future__ import annotations

import math

import numpy as np

from raysweep.search.curves import LEAST, Curve, raised


def change_of_sign(inside: np.ndarray, mean: np.ndarray) -> tuple[int, int]:
    """The two neighbours among these points between which the mean changes sign; of several changes the middle one."""
    sign = np.where(np.nan_to_num(mean) > 0, 1, -1)
    changes = np.flatnonzero(sign[:-1] != sign[1:])
    if not len(changes):
        return int(inside[0]), int(inside[-1])
    at = int(changes[len(changes) // 2])
    return int(inside[at]), int(inside[at + 1])


def zero_of_line(x: np.ndarray, values: np.ndarray, a: int, b: int, heavy: bool) -> tuple[float, float]:
    """The zero of the straight line through the means at two points, and the deviation of the zero of one draw.

    heavy: whether draws have no variance.
    """
    pair = values[:, [a, b]]
    pair = pair[np.isfinite(pair).all(axis=1)]
    if not len(pair):
        return float(x[a] + x[b]) / 2, math.inf
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


def inner(curve: Curve, a: int, b: int, place: float, aside: float) -> list[int]:
    """The points without these draws that would make a narrower bracket, at this distance from the zero at least."""
    between = np.arange(a + 1, b)
    low, high = between[curve.x[between] <= place - aside], between[curve.x[between] >= place + aside]
    return [*low[-1:].tolist(), *high[:1].tolist()]


def bend(curve: Curve, a: int, b: int, place: float) -> float:
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


def shaped(curve: Curve, a: int, b: int, place: float, draws: int, reach: int) -> np.ndarray:
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
