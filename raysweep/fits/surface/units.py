"""In which units slices of a surface are alike: of their heights, and of their axes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from raysweep.lazy import pd

ROWS = 3.0  # rows' worth of prior that the unit of a slice is that of all
ROUNDS = 5
FINEST = 1 / 12  # of the range of a slice: lines nearer together take the noise of its lowest cells for a kink


def units(x: np.ndarray, height: np.ndarray, slices: np.ndarray) -> np.ndarray:
    """The unit of heights above the lowest cell, per slice, (slices,).

    x: (n, axes), between -1 and 1. height: (n,), of which one is positive; infinite where a cell diverged.
    slices: the number of the slice, from 0, (n,).

    Along one axis cells are compared with those of other slices as far from the lowest one: where a slice has cells
    matters not. Of two axes few are equally far, so all are compared.
    """
    cells = pd.DataFrame({"slice": slices, "height": height, "x": x[:, 0], "far": 0})
    if x.shape[1] == 1:
        gap = usual_gap(one.to_numpy() for _, one in cells.groupby("slice")["x"])
        lowest = cells.loc[cells.groupby("slice")["height"].idxmin()].set_index("slice")["x"]
        cells["far"] = ((cells["x"] - cells["slice"].map(lowest)) / gap).round().astype(int)
    cells = cells[np.isfinite(height) & (height > 0)]
    logs, by_slice = np.log(cells["height"]), cells.groupby("slice")
    unit = pd.Series(0.0, index=range(slices.max() + 1))
    for _ in range(ROUNDS):
        form = (logs - cells["slice"].map(unit)).groupby(cells["far"]).transform("median")
        unit.update((logs - form).groupby(cells["slice"]).median())
        unit -= unit.median()
    rows = by_slice.size().reindex(unit.index, fill_value=0)
    return np.asarray(cells["height"].median() * np.exp(unit * rows / (rows + ROWS)))


def usual_gap(slices: Iterable[np.ndarray]) -> float:
    """The median gap between the values of an axis in a slice, at least `FINEST`; slices may have own values."""
    gaps = [np.diff(np.unique(x.round(6))) for x in slices]
    usual = [max(float(np.median(gap)), FINEST * float(gap.sum())) for gap in gaps if len(gap)]
    return float(np.median(usual)) if usual else 1.0
