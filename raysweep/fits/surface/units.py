"""In which units slices of a surface are alike: of their heights, and of their axes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from raysweep.lazy import pd

ROWS = 3.0  # rows' worth of prior that the unit of a slice is that of all
ROUNDS = 5
FEWEST = 3  # cells that two curves have in common where they are compared
FARTHEST = 50  # gaps from the lowest cell: cells farther away are compared as one
FINEST = 1 / 12  # of the range of a slice: lines nearer together take the noise of its lowest cells for a kink


def units(x: np.ndarray, height: np.ndarray, slices: np.ndarray) -> np.ndarray:
    """The unit of heights above the lowest cell, per slice, (slices,).

    x: (n, axes), between -1 and 1. height: (n,), of which one is positive; infinite where a cell diverged.
    slices: the number of the slice, from 0, (n,).

    Along one axis cells are compared with those of other slices as far from the lowest point: where a slice has cells
    matters not. Of two axes few are equally far, so all are compared.
    """
    cells = pd.DataFrame({"slice": slices, "height": height, "x": x[:, 0]})
    ok = np.isfinite(height) & (height > 0)
    logs, by_slice = pd.Series(np.log(height[ok])), cells[ok].groupby("slice")
    if x.shape[1] == 1:
        gap = usual_gap(one.to_numpy() for _, one in cells.groupby("slice")["x"])
        lowest = cells.loc[cells.groupby("slice")["height"].idxmin()].set_index("slice")["x"]
        gaps = (cells["x"] - cells["slice"].map(lowest)) / gap
        far = gaps.clip(-FARTHEST, FARTHEST).round().astype(int)[ok]
        table = logs.groupby([slices[ok], far.to_numpy()]).median().unstack()
        log_unit = _of_one_form(table.reindex(columns=range(far.min() - ROUNDS, far.max() + ROUNDS + 1)))
    else:
        log_unit = logs.groupby(slices[ok]).median()
    every = range(slices.max() + 1)
    log_unit = (log_unit - log_unit.median()).reindex(every, fill_value=0.0)
    rows = by_slice.size().reindex(every, fill_value=0)
    return np.asarray(np.median(height[ok]) * np.exp(log_unit * rows / (rows + ROWS)))


def _of_one_form(logs: pd.DataFrame) -> pd.Series:
    """The log of the unit of each slice, such that their curves are alike.

    logs: of heights, (slices, gaps from the lowest cell). By noise that cell may be one beside the lowest point. Then
    a slice would get too large a unit on its steep side, and be sure of the wrong place: so slices move by a gap where
    they become more alike.
    """
    unit = pd.Series(0.0, index=logs.index)
    for _ in range(ROUNDS):
        form = logs.sub(unit, axis=0).median()
        unit, misfit, common = _compared(logs, form)
        for move in (-1, 1):
            moved = logs.shift(move, axis=1)
            other, other_misfit, other_common = _compared(moved, form)
            better = (other_misfit < misfit) & (other_common >= np.maximum(common - 1, FEWEST))
            logs, unit, misfit = logs.mask(better, moved), unit.mask(better, other), misfit.mask(better, other_misfit)
        unit = unit - unit.median()
    return unit


def _compared(logs: pd.DataFrame, form: pd.Series) -> tuple[pd.Series, pd.Series, pd.Series]:
    """(how far each curve lies above a form, by how much it still differs from it, in how many cells)."""
    apart = logs - form
    unit = apart.median(axis=1)
    return unit, apart.sub(unit, axis=0).abs().mean(axis=1), apart.count(axis=1)


def usual_gap(slices: Iterable[np.ndarray]) -> float:
    """The median gap between the values of an axis in a slice, at least `FINEST`; slices may have own values."""
    gaps = [np.diff(np.unique(x.round(6))) for x in slices]
    usual = [max(float(np.median(gap)), FINEST * float(gap.sum())) for gap in gaps if len(gap)]
    return float(np.median(usual)) if usual else 1.0
