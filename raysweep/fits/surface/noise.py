"""The noise of single runs, off a fit of all slices: how rough neighbouring cells are says how large it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from raysweep.fits.statistics import LEVEL, normal_quantile, t_quantile
from raysweep.fits.surface.best import FEWEST
from raysweep.fits.surface.few_draws import CELLS
from raysweep.fits.surface.posterior import DEGREES, Cells, Surface, fit_surface

if TYPE_CHECKING:
    import pandas as pd

MOST = 10_000
"""More cells are not fitted: it would take minutes."""
HEAVY = t_quantile(LEVEL, int(DEGREES)) / normal_quantile(LEVEL)
"""Standard errors, of which 1.96 hold 95 % of the runs, in units of the fitted scale, which is one of Student's t."""


def axis_of(cells: pd.DataFrame, keys: Sequence[str]) -> str | None:
    """The numeric key with the most values in a typical slice of the others, of several the one along which the mean
    varies most.

    None if most cells lie in slices with fewer than `FEWEST` values, or if there are fewer than `CELLS` cells or more
    than `MOST`. cells: one row per cell.
    """
    if not CELLS <= len(cells) <= MOST:
        return None
    sizes = {}
    for x in (key for key in keys if cells[key].dtype.kind in "if"):
        others = [key for key in keys if key != x]
        means = cells.groupby(others, dropna=False)["mean"] if others else cells.groupby(lambda _: 0)["mean"]
        sizes[x] = means.transform("size").median(), means.var().median()
    longest = max(sizes, key=lambda name: sizes[name], default="")
    return longest if longest and sizes[longest][0] >= FEWEST else None


def surface_of(
    cells: pd.DataFrame, x: str, keys: Sequence[str], *, turn: str, logarithmic: bool, error: np.ndarray | None = None
) -> tuple[Surface, Cells] | None:
    """(the surface of a table of means, its cells in the order of the table); None if all cells are equal.

    cells: one row per cell with its keys, mean, draws and standard_error (NaN of one draw). x: the axis of a slice.
    keys: all axes. turn: min or max; y changes its sign for a maximum. error: given standard errors of the means.
    """
    others, sign = [key for key in keys if key != x], -1.0 if turn == "max" else 1.0
    draws, places = cells["draws"].to_numpy(float), cells[x].to_numpy(float)
    apart = logarithmic & (places <= 0)  # no place in log: a slice of its own
    places = np.where(apart, places[~apart].min(initial=np.inf), places)
    setting = cells[others].assign(_apart=apart)
    data = Cells(
        x=(np.log(places) if logarithmic else places)[:, None],
        y=cells["mean"].to_numpy(float) * sign,
        slices=setting.groupby([*setting], dropna=False).ngroup().to_numpy(),
        draws=draws,
        scatter=np.nan_to_num(cells["standard_error"].to_numpy(float) ** 2 * draws * (draws - 1)),
        error=np.full(len(cells), np.nan) if error is None else error,
        diverged=np.zeros(len(cells), dtype=bool),
    )
    with threadpool_limits(1):  # the matrices are small: more threads only wait for each other
        try:
            return fit_surface(data), data
        except ValueError:
            return None


def run_scales(surface: Surface, data: Cells) -> tuple[np.ndarray, np.ndarray]:
    """The scale of one run in the cells of each slice as fitted, (slices, n), and that where in a slice without a shape
    all scatter is noise."""
    variance = np.mean([surface.noise(sample.hypers) for sample in surface.samples], axis=0)
    fitted = np.sqrt(variance) * surface.unit[:, None] * np.exp(surface.height)  # of a height, by a compressed one's
    scales = fitted.copy()
    for s in np.flatnonzero(~surface.structured):
        some = data.slices == s
        scales[s] = data.y[some].std(ddof=1) * np.sqrt(np.median(data.draws[some])) / HEAVY
    return fitted, scales


def run_errors(cells: pd.DataFrame, x: str, keys: Sequence[str], *, turn: str, logarithmic: bool) -> np.ndarray | None:
    """The standard error of each cell's mean, shape (cells,); None if all cells are equal.

    cells, x, keys, turn: as in `surface_of`. RUN_ERRORS.md says how often intervals made of them hold the truth.
    """
    found = surface_of(cells, x, keys, turn=turn, logarithmic=logarithmic)
    if found is None:
        return None
    surface, data = found
    errors = np.empty(len(cells))
    errors[np.argsort(data.slices, kind="stable")] = HEAVY * run_scales(surface, data)[1][surface.mask]
    return errors / np.sqrt(data.draws)
