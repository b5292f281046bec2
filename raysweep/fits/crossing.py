"""The root of a curve between two grid points with opposite signs by interpolation, and its confidence interval.

`zero_posterior` is used instead for noisy draws with a variance, and besides for all others. The draw is the unit. The
curve of each draw is interpolated, which gives the mean curve and its standard error between draws at any x. The
confidence set of the root is {x : |mean(x)| <= t_{n-1} se(x)}: Student's t test, inverted. If draws have no variance,
the sign test replaces Student's t test and the median replaces the mean.

All interpolations are linear in the values, so the mean of the interpolated draws is the interpolated mean. In a cell
[x_k, x_k+1] only draws with a value at both ends are used; missing values are never filled in. The interpolations:

- `linear`: the straight line between the ends of the cell;
- `cubic`: the polynomial through the ends and their two neighbours;
- `left`, `right`: the parabola through the ends and the left (right) neighbour. The two parabolas differ if the grid is
  too coarse for the curve, and this widens the interval;
- `before`, `after`: the straight line of the cell before (after), continued into this cell, as for a curve with a kink.

A neighbour is not used if it lies outside the grid or if one of the draws has no value there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from raysweep.fits.reasons import Reason, because
from raysweep.fits.statistics import half_width, sign_test_limit, standard_error

# The points that an interpolation uses in addition to the ends k and k+1 of a cell, relative to k.
NEIGHBOURS = {"cubic": (-1, 2), "linear": (), "left": (-1,), "right": (2,), "before": (-1,), "after": (2,)}
PROLONGED = {"before": (-1, 0), "after": (1, 2)}  # the two points of the line that is continued, relative to k
# The first method gives the estimate. The largest difference between the methods is the method spread.
METHODS = tuple(name for name in NEIGHBOURS if name not in PROLONGED)
SUBSTEPS = 32  # samples per cell; between two samples the curve and its error are interpolated linearly
KINKED = 2.0  # a curve may have a kink in a cell if it bends this many times more there than in the cells beside it


@dataclass(frozen=True)
class Crossing:
    """One sign change of a curve, in the units of its x."""

    estimate: float  # the root
    low: float  # low, high: its interval
    high: float
    # low_simultaneous, high_simultaneous: its interval at the stricter level that holds for all slices at once.
    low_simultaneous: float
    high_simultaneous: float
    method_spread: float  # the difference between the interpolations of the mean curve
    rising: bool  # whether the curve is negative before the root and positive after it
    reason: Reason = Reason.NONE  # reason, note: what a reader must know of the interval, and its text (see `Reason`)
    note: str = ""


@dataclass(frozen=True, eq=False)
class Bracket:
    """Two points of a curve at which it has opposite signs."""

    u: np.ndarray  # (points,), the coordinate
    values: np.ndarray  # (draws, points)
    j: int  # j, k: the points
    k: int
    rising: bool  # whether the curve is negative at j and positive at k
    levels: tuple[float, float]  # of the interval, and of the one for all slices at once
    scale: str = "linear"
    exact: bool = True


def interpolated_crossing(b: Bracket) -> Crossing | None:
    """The root in a bracket by all interpolations; None if none of them reaches zero there."""
    roots = [root for method in METHODS if (root := interpolated_root(method, b))]
    if not roots:
        return None
    if kinked(b.u, b.values, int(np.clip(np.searchsorted(b.u, roots[0].estimate) - 1, b.j, b.k - 1))):
        bent = [root for method in PROLONGED if (root := interpolated_root(method, b))]
        roots += [within(root, b, "low_simultaneous", "high_simultaneous") for root in bent]
    spread = max(root.estimate for root in roots) - min(root.estimate for root in roots)
    return replace(within(joined(*roots), b, "low", "high"), method_spread=spread)


def interpolated_root(method: str, b: Bracket) -> Crossing | None:
    """The root in a bracket by one method, from SUBSTEPS + 1 samples per cell including both ends.

    None if the interpolation does not reach zero there. That happens to a continued line (see PROLONGED), and to any
    interpolation where other draws are missing at one point than at the other.
    """
    u, values = b.u, b.values
    present, fraction = np.isfinite(values), np.linspace(0.0, 1.0, SUBSTEPS + 1)
    position, middles, every_margin = [], [], []
    for left in range(len(u) - 1):
        taking_part = present[:, left] & present[:, left + 1]
        stencil = [left, left + 1]
        for neighbour in (left + offset for offset in NEIGHBOURS[method]):
            if 0 <= neighbour < len(u) and present[taking_part, neighbour].all():
                stencil.append(neighbour)
        if method in PROLONGED and len(stencil) == 3:
            stencil = [left + offset for offset in PROLONGED[method]]
        position.append(u[left] + fraction * (u[left + 1] - u[left]))
        draws = values[np.ix_(taking_part, stencil)] @ lagrange(u[stencil], position[-1]).T
        middle, margin = middle_and_margins(draws, b.levels, b.scale, b.exact)
        middles.append(middle)
        every_margin.append(margin)
    at, cell = np.concatenate(position), np.repeat(np.arange(len(u) - 1), SUBSTEPS + 1)
    middle, margins = np.concatenate(middles), np.concatenate(every_margin, axis=1)
    inside = np.flatnonzero((cell >= b.j) & (cell < b.k))
    roots = sign_changes(at[inside], middle[inside])
    # An interval may be narrower than the distance between samples, so the roots are added as samples.
    height = np.zeros(len(middle)) if b.scale == "sign" else np.abs(middle)
    with_roots = [np.insert(each, *at_roots(at, each + height, roots)) for each in margins]
    where = np.searchsorted(at, roots)
    at, cell = np.insert(at, where, roots), np.insert(cell, where, cell[np.maximum(where - 1, 0)])
    inside = np.flatnonzero((cell >= b.j) & (cell < b.k))
    if not len(roots) and not (with_roots[0][inside] >= 0).any():
        return None
    (low, high), (low_strict, high_strict) = (reach(at, margin, inside, roots) for margin in with_roots)
    estimate = float(np.median(roots)) if len(roots) else (low + high) / 2
    return Crossing(estimate, low, high, low_strict, high_strict, 0.0, b.rising)


def middle_and_margins(
    draws: np.ndarray, levels: tuple[float, ...], scale: str, exact: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(middle, margins) of draws[draw, sample]: the mean, or the median on the sign scale; and the half width of its
    confidence interval minus |middle|, (levels, samples), or differences of counts on the sign scale. The curve may be
    zero where the margin is 0 or more."""
    if scale == "sign":
        middle = np.median(draws, axis=0) if len(draws) else np.full(draws.shape[1], np.nan)
        positive, negative = (draws > 0).sum(axis=0), (draws < 0).sum(axis=0)
        limits = [[sign_test_limit(level, int(n)) for n in positive + negative] for level in levels]
        return middle, np.minimum(positive, negative) - np.array(limits) - 0.5
    middle, error, count = standard_error(draws)
    half = np.array([0 * middle if exact else half_width(level, error, count) for level in levels])
    margins = np.nan_to_num(half - np.abs(middle), nan=np.inf, posinf=np.inf)
    return middle, np.where(np.isfinite(middle), margins, np.inf)


def lagrange(nodes: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The Lagrange weights, shape (places, nodes): weights @ (values at the nodes) is the interpolating polynomial."""
    weights = np.ones((len(at), len(nodes)))
    for i, j in permutations(range(len(nodes)), 2):
        weights[:, i] *= (at - nodes[j]) / (nodes[i] - nodes[j])
    return weights


def sign_changes(at: np.ndarray, curve: np.ndarray) -> np.ndarray:
    """The roots of a finely sampled curve: its sign changes and its exact zeros, sorted."""
    finite = np.isfinite(curve)
    at, curve = at[finite], curve[finite]
    before, after = curve[:-1], curve[1:]
    change = np.flatnonzero(before * after < 0)
    fraction = before[change] / (before[change] - after[change])
    return np.sort(np.concatenate([at[change] + fraction * (at[change + 1] - at[change]), np.unique(at[curve == 0])]))


def at_roots(at: np.ndarray, values: np.ndarray, roots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the index of each root among the samples `at`, the values interpolated linearly at the roots)."""
    where = np.searchsorted(at, roots)
    left, right = np.maximum(where - 1, 0), np.minimum(where, len(at) - 1)
    step = at[right] - at[left]
    fraction = np.divide(roots - at[left], step, out=np.zeros(len(roots)), where=step > 0)
    with np.errstate(invalid="ignore"):
        inner = values[left] + fraction * (values[right] - values[left])
    return where, np.where(np.isnan(inner), np.inf, np.maximum(inner, 0.0))


def reach(at: np.ndarray, margin: np.ndarray, inside: np.ndarray, roots: np.ndarray) -> tuple[float, float]:
    """The ends of the confidence set {margin >= 0} around the roots.

    inside: the indices of the samples between the two grid points with opposite signs. Outside of them the set goes on
        only as long as it has no gap. An end is infinite if the set reaches the edge of the grid.
    """
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
    """Where the margin is 0 between a sample outside the set and its neighbour inside (linear interpolation)."""
    step = margin[inside] - margin[outside]
    fraction = -margin[outside] / step if np.isfinite(step) and step > 0 else 0.0
    return float(at[outside] + fraction * (at[inside] - at[outside]))


def joined(first: Crossing, *others: Crossing) -> Crossing:
    """The first crossing with intervals that cover those of all, and the largest method spread."""
    every = first, *others
    return replace(
        first,
        low=min(part.low for part in every),
        high=max(part.high for part in every),
        low_simultaneous=min(min(part.low, part.low_simultaneous) for part in every),
        high_simultaneous=max(max(part.high, part.high_simultaneous) for part in every),
        method_spread=max(part.method_spread for part in every),
        **because(next((part.reason for part in every if part.reason), Reason.NONE)),
    )


def within(crossing: Crossing, b: Bracket, *ends: str) -> Crossing:
    """The crossing, of which these ends reach no farther than the two points of the bracket."""
    places: dict[str, Any] = {end: float(np.clip(getattr(crossing, end), b.u[b.j], b.u[b.k])) for end in ends}
    return replace(crossing, **places)


def kinked(u: np.ndarray, values: np.ndarray, cell: int) -> bool:
    """Whether the mean curve bends far more inside a cell than in the cells beside it (see KINKED)."""
    bends = np.abs(np.diff(np.diff(standard_error(values)[0]) / np.diff(u)))  # at the inner points, the first at u[1]
    at = np.arange(1, len(u) - 1)
    inside, around = np.isin(at, (cell, cell + 1)), np.isin(at, (cell - 1, cell + 2))
    return bool(inside.any() and around.any() and np.nanmax(bends[inside]) > KINKED * np.nanmax(bends[around]))
