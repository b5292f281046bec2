"""The rows of a table as the cells of a surface, slice by slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.fits.draws import usable
from raysweep.fits.lost_draws import MOST, losses_of
from raysweep.fits.statistics import two_way_anova
from raysweep.fits.surface.posterior import Cells
from raysweep.lazy import pd
from raysweep.workloads.declaration import DIVERGED


@dataclass(frozen=True, eq=False)
class Slices:
    """The slices of a table, in the order of their keys."""

    settings: list[tuple[Any, ...]]  # the values of the keys, a tuple per slice
    cells: Cells  # of all slices; x is the logarithm of a logarithmic axis
    logarithmic: Sequence[bool]  # per axis
    values: np.ndarray  # how many values of each axis a slice has, shape (slices, axes)
    # (slices,), of one axis: the lowest x above some ok one at which most draws diverged; inf if there is none.
    limit: np.ndarray
    rows: int  # how many rows were used
    dropped: dict[str, int]  # how many were not, by reason

    def range_of(self, s: int) -> tuple[np.ndarray, np.ndarray]:
        """Between which coordinates the best place of a slice is sought, per axis: its ok cells."""
        x = self.cells.x[(self.cells.slices == s) & ~self.cells.diverged]
        return x.min(0), x.max(0)

    def wall(self, s: int) -> float:
        """The coordinate along the only axis from which on cells diverge; inf if none does."""
        return float(np.log(self.limit[s]) if self.logarithmic[0] else self.limit[s])

    def back(self, axis: int, coordinate: float) -> float:
        """A coordinate in the units of the axis; the lower end that is open is 0 on a logarithmic one."""
        return float(np.exp(coordinate) if self.logarithmic[axis] else coordinate)


def slices_of(
    frame: pd.DataFrame,
    axes: Sequence[str],
    y: str,
    by: Sequence[str],
    *,
    turn: str,
    logarithmic: Sequence[bool],
    error: str | None = None,
) -> Slices:
    """Gather the cells. turn: min or max; y changes its sign for a maximum. error: the column of given standard errors.

    A value of 0 on a logarithmic axis is left out. Cells in which most draws diverged are above everything; of one axis
    they are a `limit` and no cells.
    """
    keys, axes = list(by), list(axes)
    frame = frame.reset_index(drop=True)
    frame = frame if "seed" in frame else frame.assign(seed=0)
    rows, dropped = usable(frame, y, [axes[0], "seed", *axes[1:], *keys])
    grouped = frame.groupby(keys or np.zeros(len(frame)), sort=True, dropna=False)
    number = grouped.ngroup()
    settings = [one if isinstance(one, tuple) else (one,) for one in grouped.size().index] if keys else [()]
    frame = frame.assign(_slice=number, _bad=losses_of(frame, y, (DIVERGED,)))
    logs = [axis for axis, log in zip(axes, logarithmic, strict=True) if log]
    rows = rows[(rows[logs] > 0).all(axis=1)].assign(_slice=number)
    lost = frame[(frame[logs] > 0).all(axis=1)].groupby(["_slice", *axes])["_bad"].mean()
    lost = lost[lost > MOST].index.to_frame(index=False)
    cells = rows.groupby(["_slice", *axes], sort=True)
    mean, size, scatter = without_shared_levels(rows, y, cells)
    given = np.full(len(mean), np.nan)
    if error is not None:
        squares = cells[error].agg(lambda some: (some.astype(float) ** 2).sum())
        given = np.sqrt(squares.to_numpy(float)) / size.to_numpy()
    at = size.index.to_frame(index=False)
    every = range(len(settings))
    values = at.groupby("_slice")[axes].nunique().reindex(every, fill_value=0).to_numpy()
    limit = np.full(len(settings), np.inf)
    if len(axes) == 1:  # with two a cell diverges at some values of the other
        low = at.groupby("_slice")[axes[0]].min().reindex(lost["_slice"], fill_value=np.inf)
        first = lost[lost[axes[0]].to_numpy(float) > low.to_numpy(float)].groupby("_slice")[axes[0]].min()
        limit[first.index] = first
        lost = lost[~lost["_slice"].isin(at["_slice"])]  # a wall says nothing of the curve before it
    places = np.concatenate([at[axes].to_numpy(float), lost[axes].to_numpy(float)])
    slices = np.concatenate([at["_slice"], lost["_slice"]]).astype(int)
    with np.errstate(divide="ignore"):
        x = np.where(logarithmic, np.log(np.where(logarithmic, places, 1.0)), places)
    count = len(lost)
    data = Cells(
        x=x,
        y=np.r_[mean * (-1.0 if turn == "max" else 1.0), np.full(count, np.inf)],
        slices=slices,
        draws=np.r_[size.to_numpy(float), np.ones(count)],
        scatter=np.r_[scatter, np.zeros(count)],
        error=np.r_[given, np.full(count, np.nan)],
        diverged=np.arange(len(slices)) >= len(mean),
    )
    return Slices(settings, data, tuple(logarithmic), values, limit, len(rows), dropped)


def without_shared_levels(rows: pd.DataFrame, y: str, cells: Any) -> tuple[np.ndarray, pd.Series, np.ndarray]:
    """(mean, number, sum of squares about the mean) of the draws of each cell of `cells`, the rows grouped by cell.

    A draw that is used in several cells of a slice may be higher in all of them. That moves no best place, so it is no
    noise: it is fitted and left out, and the sums of squares keep their expectation.
    """
    size, mean = cells[y].size(), cells[y].mean().to_numpy(float).copy()
    scatter = cells[y].var(ddof=0).fillna(0).to_numpy(float) * size.to_numpy()
    number, slice_of_cell = cells.ngroup().to_numpy(), size.index.get_level_values(0).to_numpy()
    draw, value = rows["seed"].factorize()[0], rows[y].to_numpy(float)
    for s in np.unique(slice_of_cell[size.to_numpy() > 1]):
        at, part = np.flatnonzero(slice_of_cell == s), np.flatnonzero(slice_of_cell[number] == s)
        draws, row = np.unique(draw[part], return_inverse=True)
        if 2 * len(draws) > len(part):
            continue
        values = np.full((len(draws), len(at)), np.nan)
        values[row, np.searchsorted(at, number[part])] = value[part]
        if np.isfinite(values).sum() < len(part):  # a draw twice in a cell: the names of draws say nothing
            continue
        fit = two_way_anova(values)
        if fit.degrees > 0:
            mean[at] = fit.curve
            scatter[at] = np.nansum(fit.residual**2, axis=0) * (len(part) - len(at)) / fit.degrees
    return mean, size, scatter
