"""The noise of single runs, off a fit of all slices: how rough neighbouring cells are says how large it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from raysweep.fits.statistics import LEVEL, normal_quantile, t_quantile
from raysweep.fits.surface.best import FEWEST
from raysweep.fits.surface.few_draws import CELLS
from raysweep.fits.surface.posterior import DEGREES, Cells, fit_surface

if TYPE_CHECKING:
    import pandas as pd

MOST = 10_000
"""More cells are not fitted: it would take minutes."""
HEAVY = t_quantile(LEVEL, int(DEGREES)) / normal_quantile(LEVEL)
"""Standard errors, of which 1.96 hold 95 % of the runs, in units of the fitted scale, which is one of Student's t."""


def axis_of(cells: pd.DataFrame, keys: Sequence[str]) -> str | None:
    """The numeric key with the most values in a typical slice of the others.

    None if most cells lie in slices with fewer than `FEWEST` values, or if there are fewer than `CELLS` cells or more
    than `MOST`. cells: one row per cell.
    """
    if not CELLS <= len(cells) <= MOST:
        return None
    sizes = {}
    for x in (key for key in keys if cells[key].dtype.kind in "if"):
        others = [key for key in keys if key != x]
        sizes[x] = cells.groupby(others, dropna=False)[x].transform("size").median() if others else len(cells)
    longest = max(sizes, key=lambda name: sizes[name], default="")
    return longest if longest and sizes[longest] >= FEWEST else None


def run_errors(cells: pd.DataFrame, x: str, keys: Sequence[str], *, turn: str, logarithmic: bool) -> np.ndarray | None:
    """The standard error of each cell's mean, shape (cells,); None if all cells are equal.

    cells: one row per cell with its keys, mean, draws and standard_error (NaN of one draw). x: the axis of a slice.
    keys: all axes. turn: min or max. RUN_ERRORS.md says how often intervals made of them hold the truth.
    """
    others, sign = [key for key in keys if key != x], -1.0 if turn == "max" else 1.0
    slices = cells.groupby(others, dropna=False).ngroup().to_numpy() if others else np.zeros(len(cells), dtype=int)
    draws, places = cells["draws"].to_numpy(float), cells[x].to_numpy(float)
    data = Cells(
        x=(np.log(places) if logarithmic else places)[:, None],
        y=cells["mean"].to_numpy(float) * sign,
        slices=slices,
        draws=draws,
        scatter=np.nan_to_num(cells["standard_error"].to_numpy(float) ** 2 * draws * (draws - 1)),
        error=np.full(len(cells), np.nan),
        diverged=np.zeros(len(cells), dtype=bool),
    )
    with threadpool_limits(1):  # the matrices are small: more threads only wait for each other
        try:
            surface = fit_surface(data)
        except ValueError:
            return None
    variance = np.mean([surface.noise(sample.hypers) for sample in surface.samples], axis=0)
    scale = np.sqrt(variance) * surface.unit[:, None] * np.exp(surface.height)  # of a height, by a compressed one's
    for s in np.flatnonzero(~surface.structured):  # all of its scatter is noise
        scale[s] = data.y[slices == s].std(ddof=1) * np.sqrt(np.median(draws[slices == s])) / HEAVY
    errors = np.empty(len(cells))
    errors[np.argsort(slices, kind="stable")] = HEAVY * scale[surface.mask]
    return errors / np.sqrt(draws)
