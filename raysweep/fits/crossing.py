"""One sign change of a noisy curve between two grid points: the root and its confidence set.

The draw is the unit. Every draw's curve is interpolated, so the mean curve and its standard error between draws are
known at any x, and the confidence set of the root is {x : |mean(x)| <= t_{n-1} se(x)}: Student's test, inverted. It
holds whether the points of a draw move together (common random numbers) or on their own. Where draws have no variance
the test is the sign test and the line is the median's.

The interpolations are linear in the values, so that means and errors follow. Within a cell [x_k, x_k+1] every draw that
was measured at both ends takes part, and no other: a missing value is never filled in. `linear` joins the ends; `cubic`
is the polynomial through the ends and their two neighbours; `left` and `right` are the parabolas through the ends and
one neighbour. A neighbour beyond the rim of the grid, or where a taking-part draw lacks a value, is left out. The two
parabolas disagree where the grid is too coarse for the curve, which is what they are for. `before` and `after` prolong
the straight line of the cell before or after: what a curve with a kink in the cell may do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raysweep.fits.statistics import half_width, sign_test_limit, standard_error

# beside the ends k and k+1 of a cell, the points that an interpolation uses; a prolonged one only those below
NEIGHBOURS = {"cubic": (-1, 2), "linear": (), "left": (-1,), "right": (2,), "before": (-1,), "after": (2,)}
PROLONGED = {"before": (-1, 0), "after": (1, 2)}
# The first gives the estimate, the largest difference between them the method spread.
METHODS = tuple(name for name in NEIGHBOURS if name not in PROLONGED)
SUBSTEPS = 32  # per cell; between two samples curve and error are taken as straight
STEEP = 2.0  # a cell whose rise is this many times both neighbours' is not resolved by the grid


@dataclass(frozen=True)
class Crossing:
    """One sign change of a curve, in the units of its x.

    estimate: the root.
    low, high: its interval.
    low_simultaneous, high_simultaneous: its interval at the stricter level of all slices at once.
    method_spread: the difference between the interpolations; the intervals are already widened by it.
    rising: whether the curve is negative before it.
    """

    estimate: float
    low: float
    high: float
    low_simultaneous: float
    high_simultaneous: float
    method_spread: float
    rising: bool
    note: str = ""


@dataclass(frozen=True, eq=False)
class Interpolated:
    """A curve by one interpolation, at fine samples of u.

    position, cell: (samples,), where each sample lies and in which cell of the grid.
    middle: (samples,), the mean over draws, or their median on the sign scale.
    margins: (levels, samples), the half width of the confidence interval of the middle less its distance from 0: at
        least 0 where the curve may be zero.
    height: (samples,), what the margins are less by; 0 on the sign scale, whose margins are counts.
    """

    position: np.ndarray
    cell: np.ndarray
    middle: np.ndarray
    margins: np.ndarray
    height: np.ndarray


def interpolated(
    u: np.ndarray, values: np.ndarray, method: str, levels: tuple[float, ...], scale: str, exact: bool
) -> Interpolated:
    """values[draw, point] over u by one method, sampled at SUBSTEPS + 1 places in every cell, both ends included."""
    present = np.isfinite(values)
    fraction = np.linspace(0.0, 1.0, SUBSTEPS + 1)
    position, middles, margins = [], [], []
    for k in range(len(u) - 1):
        taking_part = present[:, k] & present[:, k + 1]
        stencil = [k, k + 1]
        for neighbour in (k + offset for offset in NEIGHBOURS[method]):
            if 0 <= neighbour < len(u) and present[taking_part, neighbour].all():
                stencil.append(neighbour)
        if method in PROLONGED and len(stencil) == 3:
            stencil = [k + offset for offset in PROLONGED[method]]
        position.append(u[k] + fraction * (u[k + 1] - u[k]))
        draws = values[np.ix_(taking_part, stencil)] @ lagrange(u[stencil], position[-1]).T
        middle, margin = middle_and_margins(draws, levels, scale, exact)
        middles.append(middle)
        margins.append(margin)
    middle = np.concatenate(middles)
    return Interpolated(
        np.concatenate(position),
        np.repeat(np.arange(len(u) - 1), SUBSTEPS + 1),
        middle,
        np.concatenate(margins, axis=1),
        np.zeros(len(middle)) if scale == "sign" else np.abs(middle),
    )


def middle_and_margins(
    draws: np.ndarray, levels: tuple[float, ...], scale: str, exact: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Middle and margins (see `Interpolated`) of draws[draw, sample]."""
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
    """Weights (places, nodes) of the polynomial through the nodes."""
    weights = np.ones((len(at), len(nodes)))
    for i in range(len(nodes)):
        for j in range(len(nodes)):
            if i != j:
                weights[:, i] *= (at - nodes[j]) / (nodes[i] - nodes[j])
    return weights


def between(curve: Interpolated, j: int, k: int, rising: bool) -> Crossing | None:
    """Root and intervals by one interpolation between grid points j and k, whose signs differ, for each of two levels;
    None where a prolonged line does not reach zero there."""
    at, cell = curve.position, curve.cell
    inside = np.flatnonzero((cell >= j) & (cell < k))
    roots = sign_changes(at[inside], curve.middle[inside])
    # An interval may be narrower than the samples are apart: the roots themselves are samples, too.
    margins = [np.insert(each, *at_roots(at, each + curve.height, roots)) for each in curve.margins]
    where = np.searchsorted(at, roots)
    at, cell = np.insert(at, where, roots), np.insert(cell, where, cell[np.maximum(where - 1, 0)])
    inside = np.flatnonzero((cell >= j) & (cell < k))
    if not len(roots) and not (margins[0][inside] >= 0).any():
        return None
    (low, high), (low_strict, high_strict) = (reach(at, margin, inside, roots) for margin in margins)
    estimate = float(np.median(roots)) if len(roots) else (low + high) / 2
    return Crossing(estimate, low, high, low_strict, high_strict, 0.0, rising)


def sign_changes(at: np.ndarray, curve: np.ndarray) -> np.ndarray:
    """Roots of a finely sampled curve, and its exact zeros."""
    known = np.isfinite(curve)
    at, curve = at[known], curve[known]
    before, after = curve[:-1], curve[1:]
    change = np.flatnonzero(before * after < 0)
    fraction = before[change] / (before[change] - after[change])
    return np.sort(np.concatenate([at[change] + fraction * (at[change + 1] - at[change]), np.unique(at[curve == 0])]))


def at_roots(at: np.ndarray, values: np.ndarray, roots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where roots stand among sampled places, and sampled values there, from the neighbours on both sides."""
    where = np.searchsorted(at, roots)
    left, right = np.maximum(where - 1, 0), np.minimum(where, len(at) - 1)
    step = at[right] - at[left]
    fraction = np.divide(roots - at[left], step, out=np.zeros(len(roots)), where=step > 0)
    with np.errstate(invalid="ignore"):
        inner = values[left] + fraction * (values[right] - values[left])
    return where, np.where(np.isnan(inner), np.inf, np.maximum(inner, 0.0))


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


def joined(parts: list[Crossing], u: np.ndarray, mean: np.ndarray, j: int, k: int) -> Crossing:
    """One crossing between grid points j and k from all interpolations: the first gives the estimate, the interval
    holds for each of them, and for the whole cell where the grid does not resolve the step of the mean curve."""
    spread = max(part.estimate for part in parts) - min(part.estimate for part in parts)
    low, high = min(part.low for part in parts), max(part.high for part in parts)
    note = ""
    if k == j + 1 and unresolved(mean, j):
        note = "the grid does not resolve the step: it lies somewhere in one cell"
        spread = max(spread, float(u[k] - u[j]))
        low, high = min(low, float(u[j])), max(high, float(u[k]))
    low_strict = min(low, *(part.low_simultaneous for part in parts))
    high_strict = max(high, *(part.high_simultaneous for part in parts))
    return Crossing(parts[0].estimate, low, high, low_strict, high_strict, spread, parts[0].rising, note)


def unresolved(mean: np.ndarray, j: int) -> bool:
    """Whether nearly all of the rise around cell j happens inside it, so that no interpolation can place the root."""
    first = max(j - 1, 0)
    rise = np.abs(np.diff(mean[first : j + 3]))
    others = np.delete(rise, j - first)
    return bool(len(others) > 0 and rise[j - first] > STEEP * np.nanmax(others))
