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

from dataclasses import dataclass, replace

import numpy as np

from raysweep.fits.statistics import sign_test_limit, standard_error, t_quantile

NEIGHBOURS = {"cubic": (-1, 2), "linear": (), "left": (-1,), "right": (2,), "before": (-1,), "after": (2,)}
PROLONGED = {"before": (-1, 0), "after": (1, 2)}
# The first gives the estimate, the largest difference between them the method spread.
METHODS = tuple(name for name in NEIGHBOURS if name not in PROLONGED)
SUBSTEPS = 32


@dataclass(frozen=True)
class Sampled:
    """Curves sampled finely: position (samples,), cell index (samples,), and each cell's draws."""

    position: np.ndarray
    cell: np.ndarray
    cells: list[np.ndarray]  # one array (draws, SUBSTEPS + 1) per cell


def sample(u: np.ndarray, values: np.ndarray, method: str) -> Sampled:
    """values[draw, point] over u, sampled at SUBSTEPS + 1 places in every cell, both ends included."""
    present = np.isfinite(values)
    fraction = np.linspace(0.0, 1.0, SUBSTEPS + 1)
    position, cell, cells = [], [], []
    for k in range(len(u) - 1):
        taking_part = present[:, k] & present[:, k + 1]
        stencil = [k, k + 1]
        for neighbour in (k + offset for offset in NEIGHBOURS[method]):
            if 0 <= neighbour < len(u) and present[taking_part, neighbour].all():
                stencil.append(neighbour)
        if method in PROLONGED and len(stencil) == 3:
            stencil = [k + offset for offset in PROLONGED[method]]
        at = u[k] + fraction * (u[k + 1] - u[k])
        weights = lagrange(u[stencil], at)
        cells.append(values[np.ix_(taking_part, stencil)] @ weights.T)
        position.append(at)
        cell.append(np.full(len(at), k))
    return Sampled(np.concatenate(position), np.concatenate(cell), cells)


def lagrange(nodes: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Weights (places, nodes) of the polynomial through the nodes."""
    weights = np.ones((len(at), len(nodes)))
    for i in range(len(nodes)):
        for j in range(len(nodes)):
            if i != j:
                weights[:, i] *= (at - nodes[j]) / (nodes[i] - nodes[j])
    return weights


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
class Part:
    """What one interpolation says; the strict ends are those of the simultaneous interval."""

    estimate: float
    low: float
    high: float
    low_strict: float
    high_strict: float


def between(
    sampled: Sampled, j: int, k: int, level: float, strict_level: float, scale: str, exact: bool
) -> Part | None:
    """Root and confidence sets of one interpolation between grid points j and k, whose signs differ; None where a
    prolonged line does not reach zero there."""
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
    middle, at, cell = np.concatenate(centre), sampled.position, sampled.cell
    inside = np.flatnonzero((cell >= j) & (cell < k))
    roots = sign_changes(at[inside], middle[inside])
    margins = [np.concatenate(doubt), np.concatenate(strict_doubt)]
    # An interval may be narrower than the samples are apart: the roots themselves are samples, too.
    height = np.zeros(len(at)) if scale == "sign" else np.abs(middle)
    margins = [np.insert(each, *at_roots(at, each + height, roots)) for each in margins]
    where = np.searchsorted(at, roots)
    at, cell = np.insert(at, where, roots), np.insert(cell, where, cell[np.maximum(where - 1, 0)])
    inside = np.flatnonzero((cell >= j) & (cell < k))
    if not len(roots) and not (margins[0][inside] >= 0).any():
        return None
    lows, highs = [], []
    for margin in margins:
        low, high = reach(at, margin, inside, roots)
        lows.append(low)
        highs.append(high)
    estimate = float(np.median(roots)) if len(roots) else (lows[0] + highs[0]) / 2
    return Part(estimate, lows[0], highs[0], lows[1], highs[1])


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


def joined(parts: list[Part], u: np.ndarray, values: np.ndarray, j: int, k: int, rising: bool) -> Crossing:
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
