"""The zero of one noisy curve in x, from a few draws of it.

The draw is the unit. Every draw's curve is interpolated, so the mean curve and its standard error between draws are
known at any x, and the confidence set of the root is {x : |mean(x)| <= t_{n-1} se(x)}: Student's test, inverted. It
holds whether the points of a draw move together (common random numbers) or on their own. Where draws have no variance
the test is the sign test and the line is the median's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from raysweep.reporting.draws import log_axis, standard_error
from raysweep.reporting.interpolation import METHODS, Sampled, sample
from raysweep.reporting.result import CENSORED_HIGH, CENSORED_LOW, LOCATED, UNDETERMINED
from raysweep.reporting.signs import choose_scale, clear_signs, rescaled, sign_test_limit, t_quantile

SIGN_DRAWS = 6  # fewer draws can never reject at 95 % in a two-sided sign test
STEEP = 2.0  # a cell whose rise is this many times both neighbours' is not resolved by the grid


@dataclass(frozen=True)
class Crossing:
    """One sign change: the root, its interval, and its interval at the stricter level of all slices at once."""

    estimate: float
    low: float
    high: float
    low_simultaneous: float
    high_simultaneous: float
    method_spread: float
    rising: bool
    note: str = ""


@dataclass(frozen=True)
class Zero:
    """The answer for one curve; every crossing of it, the clearest first."""

    status: str
    crossings: tuple[Crossing, ...]
    low: float
    high: float
    scale: str
    points: int
    draws: int
    note: str = ""


def find_zero(
    x: np.ndarray,
    values: np.ndarray,
    level: float,
    strict_level: float | None = None,
    scale: str | None = None,
    exact: bool = False,
) -> Zero:
    """The zero of the mean of values[draw, point] over x (of the median on the sign scale).

    strict_level: level of the simultaneous interval (that of the slice if None). scale: linear, asinh or sign; chosen
    from the data if None. exact: the values carry no noise, so that one draw is enough.
    """
    draws = int(np.isfinite(values).any(axis=1).sum())
    scale = scale or choose_scale(values)
    answer = Zero(UNDETERMINED, (), np.nan, np.nan, scale, len(x), draws)
    needed = 1 if exact else SIGN_DRAWS if scale == "sign" else 2
    if len(x) < 2 or draws < needed:
        few = "points" if len(x) < 2 else "draws"
        return replace(answer, note=f"too few {few}: {len(x)} points, {draws} draws" if draws else "no usable rows")
    if exact:
        scale = answer.scale if answer.scale != "sign" else "linear"
    u = np.log(x) if log_axis(x) else x
    labels = clear_signs(values, level, scale, exact)
    transformed = rescaled(values, scale)
    clear = np.flatnonzero(labels)
    brackets = [(int(j), int(k)) for j, k in pairwise(clear) if labels[j] * labels[k] < 0]
    if not brackets:
        return no_crossing(answer, x, values, labels, level, exact)
    sampled = {method: sample(u, transformed, method) for method in METHODS}
    crossings = []
    for j, k in brackets:
        parts = [between(sampled[method], j, k, level, strict_level or level, scale, exact) for method in METHODS]
        crossing = joined(parts, u, values, j, k, bool(labels[k] > 0))
        if log_axis(x):
            crossing = exponentiated(crossing)
        strength = min(strengths(values, labels, j), strengths(values, labels, k))
        crossings.append((strength, crossing))
    ordered = tuple(crossing for _, crossing in sorted(crossings, key=lambda pair: -pair[0]))
    return replace(
        answer, status=LOCATED, crossings=ordered, low=ordered[0].low, high=ordered[0].high, note=ordered[0].note
    )


def strengths(values: np.ndarray, labels: np.ndarray, node: int) -> float:
    """How clear the sign is on one side: the mean size of the values at the node, relative to the largest."""
    size = np.abs(standard_error(values)[0])
    run = [node]
    for step in (-1, 1):
        at = node + step
        while 0 <= at < len(labels) and labels[at] in (0, labels[node]):
            run.append(at)
            at += step
    return float(np.nanmax(size[run]))


@dataclass(frozen=True)
class _Part:
    estimate: float
    low: float
    high: float
    low_strict: float
    high_strict: float


def between(sampled: Sampled, j: int, k: int, level: float, strict_level: float, scale: str, exact: bool) -> _Part:
    """Root and confidence sets of one interpolation between grid points j and k, whose signs differ."""
    centre, doubt, strict_doubt = [], [], []
    for draws in sampled.cells:
        if scale == "sign":
            middle = np.median(draws, axis=0) if len(draws) else np.full(draws.shape[1], np.nan)
            positive, negative = (draws > 0).sum(axis=0), (draws < 0).sum(axis=0)
            rarer = np.minimum(positive, negative)
            margins = [
                rarer - np.array([sign_test_limit(at, int(n)) for n in positive + negative]) - 0.5
                for at in (level, strict_level)
            ]
        else:
            middle, error, count = standard_error(draws)
            error = np.zeros_like(error) if exact else error
            margins = [
                (0.0 if exact else t_quantile(at, int(count[0]) - 1)) * error - np.abs(middle)
                for at in (level, strict_level)
            ]
            margins = [
                np.where(np.isfinite(middle), np.nan_to_num(m, nan=np.inf, posinf=np.inf), np.inf) for m in margins
            ]
        centre.append(middle)
        doubt.append(margins[0])
        strict_doubt.append(margins[1])
    middle, at = np.concatenate(centre), sampled.position
    inside = np.flatnonzero((sampled.cell >= j) & (sampled.cell < k))
    roots = sign_changes(at[inside], middle[inside])
    lows, highs = [], []
    for margin in (np.concatenate(doubt), np.concatenate(strict_doubt)):
        low, high = reach(at, margin, inside, roots)
        lows.append(low)
        highs.append(high)
    estimate = float(np.median(roots)) if len(roots) else (lows[0] + highs[0]) / 2
    return _Part(estimate, lows[0], highs[0], lows[1], highs[1])


def sign_changes(at: np.ndarray, curve: np.ndarray) -> np.ndarray:
    """Roots of a finely sampled curve, and its exact zeros."""
    known = np.isfinite(curve)
    at, curve = at[known], curve[known]
    before, after = curve[:-1], curve[1:]
    change = np.flatnonzero(before * after < 0)
    fraction = before[change] / (before[change] - after[change])
    return np.sort(np.concatenate([at[change] + fraction * (at[change + 1] - at[change]), np.unique(at[curve == 0])]))


def reach(at: np.ndarray, margin: np.ndarray, inside: np.ndarray, roots: np.ndarray) -> tuple[float, float]:
    """The ends of where margin >= 0 around the roots; beyond the bracket only as far as it stays so without a gap."""
    doubtful = np.flatnonzero(margin[inside] >= 0) + inside[0]
    if not len(doubtful):
        return float(roots.min()), float(roots.max())
    first, last = int(doubtful[0]), int(doubtful[-1])
    while first > 0 and margin[first - 1] >= 0:
        first -= 1
    while last < len(at) - 1 and margin[last + 1] >= 0:
        last += 1
    low = -np.inf if first == 0 else meeting(at, margin, first - 1, first)
    high = np.inf if last == len(at) - 1 else meeting(at, margin, last + 1, last)
    if len(roots):
        low, high = min(low, float(roots.min())), max(high, float(roots.max()))
    return low, high


def meeting(at: np.ndarray, margin: np.ndarray, outside: int, inside: int) -> float:
    """Where margin vanishes between a sample outside and a neighbour inside the set."""
    step = margin[inside] - margin[outside]
    fraction = -margin[outside] / step if np.isfinite(step) and step > 0 else 0.0
    return float(at[outside] + fraction * (at[inside] - at[outside]))


def joined(parts: list[_Part], u: np.ndarray, values: np.ndarray, j: int, k: int, rising: bool) -> Crossing:
    """One crossing from all interpolations: the first gives the estimate, the interval holds for each of them."""
    spread = max(part.estimate for part in parts) - min(part.estimate for part in parts)
    low, high = min(part.low for part in parts), max(part.high for part in parts)
    low_strict, high_strict = min(part.low_strict for part in parts), max(part.high_strict for part in parts)
    note = ""
    if k == j + 1 and unresolved(values, j):
        note = "the grid does not resolve the step: it lies somewhere in one cell"
        spread = max(spread, float(u[k] - u[j]))
        low, high = min(low, float(u[j])), max(high, float(u[k]))
        low_strict, high_strict = min(low_strict, low), max(high_strict, high)
    return Crossing(parts[0].estimate, low, high, min(low, low_strict), max(high, high_strict), spread, rising, note)


def unresolved(values: np.ndarray, j: int) -> bool:
    """Whether nearly all of the rise around cell j happens inside it, so that no interpolation can place the root."""
    mean = standard_error(values)[0]
    first, last = max(j - 1, 0), min(j + 3, len(mean))
    rise = np.abs(np.diff(mean[first:last]))
    own = rise[j - first]
    others = np.delete(rise, j - first)
    return bool(len(others) > 0 and own > STEEP * np.nanmax(others))


def exponentiated(crossing: Crossing) -> Crossing:
    """A crossing found in log x, in x."""

    def back(end: float) -> float:
        return end if np.isinf(end) else float(np.exp(end))

    estimate = float(np.exp(crossing.estimate))
    return replace(
        crossing,
        estimate=estimate,
        low=back(crossing.low),
        high=back(crossing.high),
        low_simultaneous=back(crossing.low_simultaneous),
        high_simultaneous=back(crossing.high_simultaneous),
        method_spread=estimate * float(np.expm1(crossing.method_spread)),
    )


def no_crossing(answer: Zero, x: np.ndarray, values: np.ndarray, labels: np.ndarray, level: float, exact: bool) -> Zero:
    """Censored where the curve has one clear sign and comes down towards zero at one edge; else undetermined."""
    mean, _, _ = standard_error(values)
    if not np.nanmax(np.abs(values)) > 0:
        return replace(answer, note="zero everywhere")
    if not labels.any():
        return replace(answer, note="no point has a clear sign")
    clear = np.flatnonzero(labels)
    sign = int(labels[clear[0]])
    for edge in (0, len(x) - 1):
        inner = clear[0] if edge == 0 else clear[-1]
        outside = np.arange(0, inner) if edge == 0 else np.arange(inner + 1, len(x))
        if len(outside) and not np.nan_to_num(values[:, outside]).any():
            return replace(
                answer,
                note=f"exactly zero {'up to' if edge == 0 else 'from'} "
                f"{x[outside[-1] if edge == 0 else outside[0]]:.6g}: meets zero without crossing",
            )
    ends_clear = labels[0] != 0, labels[-1] != 0
    edge = 0 if sign * mean[0] < sign * mean[-1] else len(x) - 1
    if not any(ends_clear) or ends_clear == ((False, True) if edge else (True, False)):
        return replace(answer, note="sign not clear at the edges")
    gaps = np.diff(clear)
    if (gaps > 1).any() and not ends_clear[0 if edge == 0 else 1]:
        return replace(answer, note="sign not clear in several places")
    if not falls_towards(edge, x, sign * values, level, exact):
        return replace(answer, note=f"{'positive' if sign > 0 else 'negative'} everywhere, towards neither edge")
    word = "positive" if sign > 0 else "negative"
    if edge == 0:
        return replace(answer, status=CENSORED_LOW, low=-np.inf, high=float(x[clear[0]]), note=f"{word} above")
    return replace(answer, status=CENSORED_HIGH, low=float(x[clear[-1]]), high=np.inf, note=f"{word} below")


def falls_towards(edge: int, x: np.ndarray, values: np.ndarray, level: float, exact: bool) -> bool:
    """Whether values are clearly lower in the third of the points nearest that edge than in the rest."""
    third = max(1, len(x) // 3)
    near = np.arange(third) if edge == 0 else np.arange(len(x) - third, len(x))
    rest = np.setdiff1d(np.arange(len(x)), near)
    complete = np.isfinite(values).all(axis=1)
    rows = values[complete] if complete.sum() >= 2 or exact else values
    difference = np.nanmean(rows[:, rest], axis=1) - np.nanmean(rows[:, near], axis=1)
    mean, error, count = standard_error(difference[:, None])
    if exact:
        return bool(mean[0] > 0)
    return bool(mean[0] > t_quantile(2 * level - 1, int(count[0]) - 1) * error[0])
