"""The best value as a product of powers of the slices' axes, from the joint posterior of the slices' best values.

log best_s ~ N(constant + sum_k exponent_k log axis_ks, scatter^2), by Gibbs sampling: the best value of a slice is
drawn from the posterior of its surface, weighted by the law. Where that is at an end of the grid it is there or beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from raysweep.fits.reasons import Reason, because
from raysweep.fits.statistics import LEVEL
from raysweep.fits.surface.surface import Surface

if TYPE_CHECKING:
    import pandas as pd

STEPS, WARM = 3000, 300  # of the chain, after those that are forgotten
USED = 256  # paths of a slice
SCATTER = 0.35  # standard deviation of the half-normal prior of the scatter, in log
SCATTERS = np.geomspace(0.005, 2, 120)
BEYOND = 0.5  # shares of a grid's length by which the best value may lie outside, all alike before the law is known
SPARE = 2  # slices more than coefficients


@dataclass(frozen=True, eq=False)
class Law:
    """x: the axis whose best value the law gives. over: the axes of the slices. reason, note: why there is none.

    coefficients: (draws, 1 + axes), the constant, then exponents, at axes divided by `centre`; scatter: (draws,).
    low, high: (axes,), the range of the slices. slices: how many were used.
    """

    x: str
    over: tuple[str, ...]
    coefficients: np.ndarray
    scatter: np.ndarray
    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray
    slices: int
    reason: Reason = Reason.NONE
    note: str = ""

    def exponents(self, level: float = LEVEL) -> pd.DataFrame:
        """One row per axis: exponent, low, high, p (two-sided, of 0) and belongs (whether p is below 1 - level)."""
        import pandas as pd

        values = self.coefficients[:, 1:]
        low, middle, high = quantiles(values, level)
        p = 2 * np.minimum((values > 0).mean(axis=0), (values < 0).mean(axis=0)) if len(values) else low
        columns = {"exponent": middle, "low": low, "high": high, "p": p, "belongs": p < 1 - level}
        return pd.DataFrame({"axis": list(self.over), **columns})

    def at(self, settings: pd.DataFrame, level: float = LEVEL, seed: int = 0) -> pd.DataFrame:
        """The best value at settings: adds estimate, low and high of a new slice, mean_low and mean_high of the
        law, and outside (whether an axis lies outside of the range of the slices)."""
        logs = np.log(settings[list(self.over)].to_numpy(np.float64))
        places = self.coefficients @ np.column_stack([np.ones(len(logs)), logs - self.centre]).T
        new = places + self.scatter[:, None] * np.random.default_rng(seed).standard_normal(places.shape)
        low, _, high = np.exp(quantiles(new, level))
        mean_low, estimate, mean_high = np.exp(quantiles(places, level))
        slack = 1e-9
        outside = ((logs < self.low - slack) | (logs > self.high + slack)).any(axis=1)
        return settings.assign(
            estimate=estimate, low=low, high=high, mean_low=mean_low, mean_high=mean_high, outside=outside
        )


def quantiles(values: np.ndarray, level: float) -> np.ndarray:
    """(low, median, high) of values[draws, ...] along the draws; NaN without draws."""
    if not len(values):
        return np.full((3, *values.shape[1:]), np.nan)
    return np.asarray(np.quantile(values, [(1 - level) / 2, 0.5, (1 + level) / 2], axis=0))


def law(surface: Surface, over: Sequence[str], x: str | None = None, seed: int = 0) -> Law:
    """Tie the best values of x by powers of numeric axes of the slices.

    over: columns of the slices, with values above 0. x: one of the surface's axes; None for the first.

    Slices in which the surface says nothing of x are left out. Raises ValueError for an axis that is not numeric and
    above 0, and for one that the surface does not have.
    """
    axis = surface.x.index(x) if x else 0
    missing = [name for name in over if name not in surface.by]
    if missing:
        raise ValueError(f"{missing[0]}: expected one of {', '.join(surface.by)}")
    columns = [surface.by.index(name) for name in over]
    keys = np.array([[float(key[k]) for k in columns] for key in surface.posterior.cells.keys])
    if not (keys > 0).all():
        raise ValueError(f"{', '.join(over)}: expected values above 0")
    used = np.array([not surface.missing(s, axis) for s in range(len(keys))])
    place = surface.posterior.cells.axes[axis]
    places = surface.places

    def logs(u: np.ndarray) -> np.ndarray:
        return np.asarray(u if place.logarithmic else np.log(u))

    at = logs(places.at[used, :: max(places.at.shape[1] // USED, 1), axis])
    ends = np.stack([logs(places.low[used, axis]), logs(places.high[used, axis])], axis=1)
    design = np.log(keys[used])
    name = surface.x[axis]
    need = len(over) + 1 + SPARE
    nothing = np.empty((0, len(over) + 1))
    centre = design.mean(axis=0) if used.any() else np.zeros(len(over))
    full = np.column_stack([np.ones(len(design)), design - centre])
    if len(design) < need or np.linalg.matrix_rank(full) < full.shape[1]:
        why = because(Reason.TOO_FEW_CELLS, least=need)
        none = np.full(len(over), np.nan)
        return Law(name, tuple(over), nothing, np.empty(0), none, none, none, len(design), **why)
    coefficients, scatter = sampled(at, ends, full, np.random.default_rng(seed))
    return Law(name, tuple(over), coefficients, scatter, centre, design.min(axis=0), design.max(axis=0), len(design))


def sampled(
    at: np.ndarray, ends: np.ndarray, design: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of (coefficients, scatter), (STEPS, ...), by Gibbs sampling.

    at: (slices, paths), the log best value; ends: (slices, 2), of the grid. design: (slices, coefficients).
    """
    slices, paths = at.shape
    margin = 1e-9 * np.ptp(ends, axis=1, keepdims=True)
    below, above = at <= ends[:, :1] + margin, at >= ends[:, 1:] - margin
    extent = BEYOND * np.ptp(ends, axis=1)
    with np.errstate(divide="ignore"):
        outer = np.log(np.stack([below.mean(axis=1), above.mean(axis=1)], axis=1) / extent[:, None])
    inner = ~below & ~above
    best, scatter = np.median(at, axis=1), 0.3
    inverse = np.linalg.inv(design.T @ design)
    root, hat = np.linalg.cholesky(inverse), inverse @ design.T
    coefficients, scatters = np.empty((STEPS, design.shape[1])), np.empty(STEPS)
    every = np.arange(slices)
    for step in range(WARM + STEPS):
        beta = hat @ best + scatter * (root @ rng.standard_normal(design.shape[1]))
        mean = design @ beta
        squares = np.sum((best - mean) ** 2)
        density = (1 - slices) * np.log(SCATTERS) - 0.5 * squares / SCATTERS**2 - 0.5 * (SCATTERS / SCATTER) ** 2
        weight = np.cumsum(np.exp(density - density.max()))
        scatter = float(SCATTERS[np.searchsorted(weight, rng.random() * weight[-1])])
        tails = np.stack([ndtr((ends[:, 0] - mean) / scatter), ndtr((mean - ends[:, 1]) / scatter)], axis=1)
        logs = np.where(inner, -0.5 * ((at - mean[:, None]) / scatter) ** 2, -np.inf)
        logs -= np.log(paths * scatter * np.sqrt(2 * np.pi))
        with np.errstate(divide="ignore"):
            logs = np.concatenate([logs, outer + np.log(tails)], axis=1)
        peak = logs.max(axis=1, keepdims=True)
        weights = np.cumsum(np.exp(logs - np.where(np.isfinite(peak), peak, 0)), axis=1)
        chosen = np.sum(weights < rng.random((slices, 1)) * weights[:, -1:], axis=1).clip(max=paths + 1)
        beyond = chosen >= paths
        side = np.where(chosen == paths, -1, 1)
        tail = tails[every, (side > 0).astype(int)]
        depth = -ndtri(np.clip(rng.random(slices) * tail, 1e-300, None))  # of a normal beyond its end
        far = mean + side * scatter * depth
        best = np.where(beyond, far, at[every, np.minimum(chosen, paths - 1)])
        if step >= WARM:
            coefficients[step - WARM], scatters[step - WARM] = beta, scatter
    return coefficients, scatters
