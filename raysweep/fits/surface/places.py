"""Points at which the sample paths of a surface are looked at, and the place of the minimum of each path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raysweep.fits.statistics import normal_quantile
from raysweep.fits.surface.covariance import distances
from raysweep.fits.surface.paths import Posterior

COARSE = {1: 41, 2: 13}  # points of an axis over the whole range, by the number of axes
DENSE = {1: 41, 2: 19}  # more where the minimum is
FIRST, PATHS = 192, 512  # paths that say where it is, and that say what it is
OUTSIDE = 0.002  # share of the first minima that the dense points may miss, on each side
WALL = 3.0  # of g: how far a diverged run is above all others
LOOKS = 8  # places where a fall could seem clear, as in `extremum.py`


@dataclass(frozen=True, eq=False)
class Places:
    """Sample paths and their minima.

    u: (slices, points, axes), coordinates, first a grid over the range of the slice. paths: (slices, paths, points), g.
    at: (slices, paths, axes), where each path is lowest. low, high: (slices, axes), the range.
    """

    u: np.ndarray
    paths: np.ndarray
    at: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def profile(self, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """(values of an axis (slices, coarse), lowest value of each path there over the other axis)."""
        axes = self.u.shape[-1]
        coarse = COARSE[axes]
        grid = self.u[:, : coarse**axes, axis].reshape(len(self.u), *[coarse] * axes)
        paths = self.paths[:, :, : coarse**axes].reshape(*self.paths.shape[:2], *[coarse] * axes)
        if axes == 1:
            return grid, paths
        return (grid[:, :, 0], paths.min(axis=3)) if axis == 0 else (grid[:, 0, :], paths.min(axis=2))


def places_of(posterior: Posterior) -> Places:
    """Find the minimum of every path, on points that are dense where the minima are."""
    cells = posterior.cells
    axes = cells.z.shape[-1]
    low, high = cells.bounds[:, 0], cells.bounds[:, 1]
    coarse = product(low, high, COARSE[axes])
    every = np.arange(len(low))
    first = paths_below_walls(posterior, coarse, FIRST, 1, every)
    found = np.take_along_axis(coarse, first.argmin(axis=2)[..., None], axis=1)
    step = (high - low) / (COARSE[axes] - 1)
    ends = np.quantile(found, [OUTSIDE, 1 - OUTSIDE], axis=1)
    box_low, box_high = np.maximum(ends[0] - step, low), np.minimum(ends[1] + step, high)
    dense = product(box_low, box_high, DENSE[axes])
    u = np.concatenate([coarse, dense], axis=1)
    paths = paths_below_walls(posterior, u, PATHS, 2, every)
    at = np.take_along_axis(u, paths.argmin(axis=2)[..., None], axis=1)
    at += within_steps(paths[..., coarse.shape[1] :], (box_high - box_low) / (DENSE[axes] - 1), axes, paths.min(axis=2))
    at = np.clip(at, low[:, None], high[:, None])
    return Places(u, paths, up_to_walls(posterior, at) if axes == 1 else at, low, high)


def up_to_walls(posterior: Posterior, at: np.ndarray) -> np.ndarray:
    """Places (slices, paths, 1) of which those between the last cell with a value and a diverged one may be anywhere
    between these two: nothing says where the metric stops to fall."""
    cells = posterior.cells
    u = (cells.z[..., 0] + 1) / 2 * (cells.high - cells.low) + cells.low
    kept, lost = cells.there & ~cells.lost, cells.lost
    first, last = np.where(kept, u, np.inf).min(axis=1), np.where(kept, u, -np.inf).max(axis=1)
    below = np.where(lost & (u < first[:, None]), u, -np.inf).max(axis=1)
    above = np.where(lost & (u > last[:, None]), u, np.inf).min(axis=1)
    share = np.random.default_rng(3).uniform(size=at.shape[:2])
    for end, wall, outside in ((first, below, np.less), (last, above, np.greater)):
        walled = outside(at[..., 0], end[:, None]) & np.isfinite(wall)[:, None]
        gap = np.where(np.isfinite(wall), wall - end, 0.0)
        at = np.where(walled[..., None], (end[:, None] + share * gap[:, None])[..., None], at)
    return at


def paths_below_walls(posterior: Posterior, u: np.ndarray, count: int, seed: int, of: np.ndarray) -> np.ndarray:
    """Joint draws (slices, paths, points) of slices `of` at u[slices, points, axes], above all else at points whose
    nearest cell is lost."""
    cells = posterior.cells
    z = cells.scaled(u)
    paths = posterior.paths(z, count, seed, of)
    if cells.lost[of].any():
        far = np.where(cells.there[of][:, None], distances(z, cells.z[of]).sum(axis=0), np.inf)
        wall = np.take_along_axis(cells.lost[of], far.argmin(axis=2), axis=1)
        paths = np.where(wall[:, None], paths.max(axis=2, keepdims=True) + WALL, paths)
    return paths


def product(low: np.ndarray, high: np.ndarray, count: int) -> np.ndarray:
    """A grid of `count` values of each axis between low and high[slices, axes]: (slices, count**axes, axes)."""
    each = low[:, None] + np.linspace(0, 1, count)[None, :, None] * (high - low)[:, None]
    if low.shape[1] == 1:
        return each
    a, b = each[:, :, None, 0], each[:, None, :, 1]
    return np.stack(np.broadcast_arrays(a, b), axis=-1).reshape(len(low), -1, 2)


def within_steps(dense: np.ndarray, step: np.ndarray, axes: int, least: np.ndarray) -> np.ndarray:
    """How far from its lowest dense point each path is lowest, (slices, paths, axes), by a parabola along each axis.

    0 at the border of the dense points, and where the lowest of all points (`least`) is none of them.
    """
    count = DENSE[axes]
    index = dense.argmin(axis=2)
    lowest = np.take_along_axis(dense, index[..., None], axis=2)[..., 0]
    out = []
    for k in range(axes):
        stride = count ** (axes - 1 - k)
        place = index // stride % count
        inner = (place > 0) & (place < count - 1) & (lowest <= least)
        before, after = (
            np.take_along_axis(dense, np.clip(index + way * stride, 0, dense.shape[2] - 1)[..., None], axis=2)[..., 0]
            for way in (-1, 1)
        )
        bend = np.maximum(before - 2 * lowest + after, 1e-300)
        out.append(np.where(inner, np.clip(0.5 * (before - after) / bend, -0.5, 0.5) * step[:, None, k], 0.0))
    return np.stack(out, axis=-1)


def clarity(grid: np.ndarray, paths: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How clearly each slice falls to a place and rises from it, in posterior deviations towards 0.

    grid: (slices, points). paths: (slices, paths, points). place: (slices,), coordinates.
    """
    walled = np.median(paths - paths.min(axis=2, keepdims=True), axis=1) >= WALL
    index = np.argmin(np.where(walled, np.inf, np.abs(grid - place[:, None])), axis=1)
    above = paths - np.take_along_axis(paths, index[:, None, None], axis=2)
    low, middle = np.quantile(above, [0.16, 0.5], axis=1)
    clear = middle / np.maximum(middle - low, 1e-12)
    points = np.arange(grid.shape[1])
    before, after = points < index[:, None], points > index[:, None]
    return np.where(before, clear, 0).max(axis=1), np.where(after, clear, 0).max(axis=1)


def least_clarity(level: float) -> float:
    """The clarity from which on a fall or a rise counts."""
    return normal_quantile(1 - 2 * (1 - level) / LOOKS)
