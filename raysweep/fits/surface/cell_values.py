"""What single runs would give on average: joint draws of the true means of all cells.

The lowest of many runs is too low. The surface takes from each run what its neighbours do not share, and slices are
drawn together as far as their lowest values do not differ. Widths are those that simulations ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from raysweep.fits.surface.noise import HEAVY, run_scales, surface_of
from raysweep.fits.surface.posterior import paths

if TYPE_CHECKING:
    import pandas as pd

COUNT = 1024
WIDER = 2.4
"""How much more cells err than draws of the surface say: the scale of Student's t stands there for an error (`HEAVY`),
and shape, units and weights for what is known. RUN_ERRORS.md says how it was chosen."""
STEPS = 200
"""Spreads of the lowest values of slices that are weighed."""


def cell_values(
    cells: pd.DataFrame, x: str, keys: Sequence[str], *, turn: str, logarithmic: bool, error: np.ndarray | None = None
) -> np.ndarray | None:
    """Joint draws of each cell's true mean in the units of the metric, (`COUNT`, cells); None if all cells are equal.

    cells, x, keys, turn, error: as in `surface_of`. RUN_ERRORS.md says how often their intervals hold the truth.

    Draws lie `WIDER` times as far from their mean as those of the surface; with given errors the part `HEAVY` of it is
    not needed. Without a shape, all scatter of a slice is noise.
    """
    found = surface_of(cells, x, keys, turn=turn, logarithmic=logarithmic, error=error)
    if found is None:
        return None
    surface, data = found
    fitted, scales = run_scales(surface, data)
    wider = np.sqrt((np.where(surface.mask, scales, 0) ** 2).sum(1) / (np.where(surface.mask, fitted, 0) ** 2).sum(1))
    wider = np.maximum(wider, 1) * WIDER / (1 if error is None else HEAVY)
    draws = np.empty((COUNT, len(cells)))
    with threadpool_limits(1):
        for s in range(len(wider)):
            some = data.slices == s
            values = surface.heights(s, paths(surface, s, data.x[some], COUNT, np.random.default_rng(s)))
            draws[:, some] = surface.floor[s] + values.mean(0) + wider[s] * (values - values.mean(0))
    return drawn_together(draws, data.slices) * (-1.0 if turn == "max" else 1.0)


def drawn_together(draws: np.ndarray, slices: np.ndarray) -> np.ndarray:
    """Draws of cells, given that the lowest values of slices are a sample of a normal distribution.

    Its mean and spread have flat priors, and each draw has its own. draws: (count, cells). slices: the number of each
    cell's slice. Fewer than three slices stay as they are. (Gelman, Bayesian Data Analysis, 5.4.)
    """
    rng, centre = np.random.default_rng(0), draws.mean(0)
    order = np.lexsort((centre, slices))
    lowest = order[np.unique(slices[order], return_index=True)[1]]
    if len(lowest) < 3:
        return draws
    estimate, variance = centre[lowest], draws[:, lowest].var(0)
    spread = np.linspace(0, 3 * estimate.std(), STEPS)
    weight = 1 / (spread[:, None] ** 2 + np.maximum(variance, np.finfo(float).tiny))
    middle = (weight * estimate).sum(1) / weight.sum(1)
    likely = np.log(weight).sum(1) - np.log(weight.sum(1)) - (weight * (estimate - middle[:, None]) ** 2).sum(1)
    share = np.exp((likely - likely.max()) / 2)
    k = rng.choice(STEPS, len(draws), p=share / share.sum())
    middle = middle[k] + rng.standard_normal(len(draws)) / np.sqrt(weight.sum(1)[k])
    prior = middle[:, None] + spread[k, None] * rng.standard_normal((len(draws), len(lowest)))
    move = variance * weight[k] * (prior - draws[:, lowest])
    with_lowest = ((draws - centre) * (draws[:, lowest] - estimate)[:, slices]).mean(0)
    return np.asarray(draws + move[:, slices] * (with_lowest / np.maximum(variance, np.finfo(float).tiny)[slices]))
