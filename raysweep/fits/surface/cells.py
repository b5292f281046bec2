"""Rows of a sweep as padded arrays of cells, in units in which surfaces are smooth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import Axis, decades, even_in_log, not_zero
from raysweep.fits.lost_draws import MOST, can_be_fitted, losses_of
from raysweep.fits.surface.runs import Runs, scatter_of, two_way
from raysweep.workloads.declaration import DIVERGED, OK

if TYPE_CHECKING:
    import pandas as pd

CAP = 12.0  # units: a height above it says no more than that a run diverged
TOP = np.log1p(CAP)


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of all slices, padded to the slice with most cells.

    keys: the values of the slice's axes, one tuple per slice. axes: the coordinate of each optimized axis.
    low, high: (axes,), the range of the coordinates over all slices; bounds: (slices, 2, axes), within each slice.
    z: (slices, cells, axes), scaled to [-1, 1]. there: (slices, cells), which cells are no padding.
    g: (slices, cells), the compressed height above the lowest cell of the slice, in units. slope: dg / d value.
    valued: (slices, cells), which have a finite mean. lost: where most runs diverged or the mean is higher than CAP:
        above everything, however high.
    count: (slices, cells), runs per cell. variance: known variance of g: standard errors, and rounding of the values.
    runs: how runs of a cell differ.
    floor: (slices,), the lowest value. unit: of heights. compressed: whether heights are compressed.
    values: (slices, axes), different values of each axis with a finite metric.
    flat: (slices,), whether all values are equal.
    """

    keys: list[tuple[Any, ...]]
    axes: tuple[Axis, ...]
    low: np.ndarray
    high: np.ndarray
    bounds: np.ndarray
    z: np.ndarray
    there: np.ndarray
    g: np.ndarray
    slope: np.ndarray
    valued: np.ndarray
    lost: np.ndarray
    count: np.ndarray
    variance: np.ndarray
    runs: Runs
    floor: np.ndarray
    unit: float
    compressed: bool
    values: np.ndarray
    flat: np.ndarray
    errors_known: bool

    @property
    def noise_degrees(self) -> int:
        """How many numbers are left to tell noise, after a quadratic in every slice."""
        axes = self.z.shape[-1]
        free = np.maximum(self.valued.sum(axis=1) - (axes + 1) * (axes + 2) // 2, 0)
        runs = self.runs
        inner = runs.degrees.sum() + np.sum(runs.draws * np.maximum(runs.complete.sum(axis=1) - 1, 0))
        return int(free.sum() + inner)

    def scaled(self, coordinate: np.ndarray) -> np.ndarray:
        """Coordinates (..., axes) scaled to [-1, 1]."""
        return 2 * (coordinate - self.low) / np.maximum(self.high - self.low, 1e-12) - 1

    def value(self, g: np.ndarray) -> np.ndarray:
        """The metric (of which less is better) above the lowest cell of its slice."""
        if not self.compressed:
            return self.unit * g
        return self.unit * np.where(g > 0, np.expm1(np.clip(g, 0, 50)), g)


def cells_of(
    frame: pd.DataFrame,
    x: Sequence[str],
    y: str,
    by: Sequence[str],
    seed: str | None = None,
    *,
    turn: str = "min",
    error: str | None = None,
    logarithmic: Sequence[bool | None] | None = None,
    compressed: bool = True,
) -> Cells:
    """Arrange rows as cells. The arguments are those of `fit_surface`.

    What a draw adds to all cells of a slice is removed before means are taken. Raises ValueError for a missing column,
    for x that is not finite, or not above 0 on a logarithmic axis, and where no row has a value.
    """
    for name in (*x, y, *by, *([seed] if seed else []), *([error] if error else [])):
        if name not in frame.columns:
            raise ValueError(f"no column {name!r}; there are: {', '.join(map(str, frame.columns))}")
    frame = frame.reset_index(drop=True)
    value = frame[y].to_numpy(np.float64) * (1 if turn == "min" else -1)
    lost = losses_of(frame, y, (DIVERGED,)) > 0
    usable = can_be_fitted(value) & ~lost
    if "status" in frame.columns:
        usable &= (frame["status"] == OK).to_numpy()
    keep = usable | lost
    if not usable.any():
        raise ValueError(f"no value of {y}")
    frame, value, lost = frame[keep], value[keep], lost[keep]
    raw = frame[list(x)].to_numpy(np.float64)
    axes = axes_of(raw, x, logarithmic)
    u = np.column_stack([axis.coordinate(raw[:, k]) for k, axis in enumerate(axes)])
    in_slice, keys = slices_of(frame, by)
    cell_rows, cell = np.unique(np.column_stack([in_slice, raw]), axis=0, return_inverse=True)
    cell = cell.ravel()
    draw = np.arange(len(frame)) if seed is None else frame[seed].factorize()[0]
    # rows that repeat a draw in a cell count once, with their mean
    pair, row, times = np.unique(cell * (draw.max() + 1) + draw, return_inverse=True, return_counts=True)
    value = np.bincount(row.ravel(), np.where(lost, 0.0, value)) / times
    gone = np.bincount(row.ravel(), lost) > 0
    cell, draw = pair // (draw.max() + 1), pair % (draw.max() + 1)
    slice_of = cell_rows[:, 0].astype(int)
    cells = len(cell_rows)
    share = np.bincount(cell, gone, cells) / np.bincount(cell, minlength=cells)
    good = ~gone & (share[cell] <= MOST)
    value, cell, draw = value[good], cell[good], draw[good]
    mean, residual, common = two_way(value, cell, slice_of[cell], draw, cells)
    count = np.bincount(cell, minlength=cells)

    size = np.bincount(slice_of, minlength=len(keys))
    place = np.arange(cells) - np.concatenate([[0], np.cumsum(size)])[slice_of]
    shape = (len(keys), int(size.max()))

    def padded(values: np.ndarray, fill: Any = 0) -> np.ndarray:
        out = np.full((*shape, *values.shape[1:]), fill, dtype=values.dtype)
        out[slice_of, place] = values
        return out

    there, has = padded(np.ones(cells, bool)), padded(count > 0)
    low, high = u.min(axis=0), u.max(axis=0)
    at = padded(np.column_stack([axis.coordinate(cell_rows[:, 1 + k]) for k, axis in enumerate(axes)]))
    inside = there[..., None]
    bounds = np.stack([np.where(inside, at, np.inf).min(axis=1), np.where(inside, at, -np.inf).max(axis=1)], axis=1)
    means = padded(mean)
    floor = np.where(has, means, np.inf).min(axis=1) if compressed else np.zeros(len(keys))
    floor = np.where(np.isfinite(floor), floor, 0.0)
    height = np.where(has, means - floor[:, None], 0.0)
    sizes = np.abs(height[has])
    unit = float(np.median(sizes[sizes > 0])) if (sizes > 0).any() else 1.0
    height /= unit
    if compressed:
        above = np.maximum(height, 0)
        g, slope = np.where(height > 0, np.log1p(above), height), 1 / (1 + above)
        beyond = (there & ~has) | (height > CAP)
        g, slope = np.where(beyond, TOP, g), np.where(beyond, 1 / (1 + CAP), slope)
    else:
        g, slope, beyond = height, np.ones(shape), there & ~has
    slope = slope / unit
    spread = np.where(has, means, np.nan)
    flat = np.array([np.unique(row[np.isfinite(row)]).size <= 1 for row in spread])
    steps = np.diff(np.unique(value))
    variance = (steps.min() * slope) ** 2 / 12 if len(steps) else np.zeros(shape)
    if error:
        given = frame[error].to_numpy(np.float64) ** 2
        given = (np.bincount(row.ravel(), given) / times)[good]
        variance = variance + padded(np.bincount(cell, given, cells) / np.maximum(count, 1) ** 2) * slope**2
    residual = residual * slope[slice_of[cell], place[cell]]
    runs = scatter_of(residual, cell, draw, slice_of, place, there, padded(count), common)
    values = np.array([[len(np.unique(at[s][has[s], k])) for k in range(len(axes))] for s in range(len(keys))])
    return Cells(
        *(keys, axes, low, high, bounds, 2 * (at - low) / np.maximum(high - low, 1e-12) - 1, there),
        *(g * there, slope, has, beyond & there, np.maximum(padded(count), 1), variance),
        runs=runs,
        floor=floor,
        unit=unit,
        compressed=compressed,
        values=values,
        flat=flat,
        errors_known=error is not None,
    )


def axes_of(raw: np.ndarray, names: Sequence[str], logarithmic: Sequence[bool | None] | None) -> tuple[Axis, ...]:
    """The coordinate of each axis; None chooses log where the values span decades or are spread evenly in log."""
    out = []
    for name, column, asked in zip(names, raw.T, logarithmic or [None] * len(names), strict=True):
        every = not_zero(np.unique(column))
        log = (decades(every) or even_in_log(every)) if asked is None else asked
        bad = ~np.isfinite(column) | (log & ~(column > 0))
        if bad.any():
            raise ValueError(f"{name}: expected {'values above 0' if log else 'finite values'}, got {column[bad][0]:g}")
        out.append(Axis(bool(log)))
    return tuple(out)


def slices_of(frame: pd.DataFrame, by: Sequence[str]) -> tuple[np.ndarray, list[tuple[Any, ...]]]:
    """(number of the slice of each row, the keys of each slice), in sorted order."""
    if not by:
        return np.zeros(len(frame), dtype=int), [()]
    groups = frame.groupby(list(by), sort=True, dropna=False)
    number = groups.ngroup().to_numpy()
    first = frame.iloc[np.unique(number, return_index=True)[1]]
    return number, list(first[list(by)].itertuples(index=False, name=None))
