"""What single runs say of their cells, off a surface over all slices: standard errors, and joint draws of true means.

How rough neighbouring cells are says how large the noise of one run is. The lowest of many runs is too low: the surface
takes from each run what its neighbours do not share, and slices are drawn together as far as their lowest values do not
differ. RUN_ERRORS.md says how often such intervals hold the truth. Widths are those that its simulations ask for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from raysweep.fits.statistics import LEVEL, normal_quantile, t_quantile
from raysweep.fits.surface.best import FEWEST
from raysweep.fits.surface.posterior import DEGREES, Cells, Surface, fit_surface, paths
from raysweep.fits.surface.slice_places import CELLS
from raysweep.lazy import pd

MOST = 10_000  # more cells are not fitted: it would take minutes
# Standard errors, of which 1.96 hold 95 % of the runs, in units of the fitted scale, which is one of Student's t.
HEAVY = t_quantile(LEVEL, int(DEGREES)) / normal_quantile(LEVEL)
COUNT = 1024
# How much more cells err than draws of the surface say: the scale of Student's t stands there for an error (`HEAVY`),
# and shape, units and weights for what is known. RUN_ERRORS.md says how it was chosen.
WIDER = 3.0
SHORT = 7  # with fewer values of the axis nothing tells where along it a run errs less than others
STEPS = 200  # spreads of the lowest values of slices that are weighed


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


def run_errors(cells: pd.DataFrame, x: str, keys: Sequence[str], *, turn: str, logarithmic: bool) -> np.ndarray | None:
    """The standard error of each cell's mean, shape (cells,); None if all cells are equal. Arguments as in
    `_surface_of`."""
    found = _surface_of(cells, x, keys, turn=turn, logarithmic=logarithmic)
    if found is None:
        return None
    surface, data, order = found
    errors = HEAVY * _run_scales(surface, data)[1][surface.mask]
    if np.median(np.bincount(data.slices)) < SHORT:
        errors = np.maximum(errors, np.median(errors))
    return np.asarray((errors / np.sqrt(data.draws))[np.argsort(order)])


def cell_values(
    cells: pd.DataFrame, x: str, keys: Sequence[str], *, turn: str, logarithmic: bool, error: np.ndarray | None = None
) -> np.ndarray | None:
    """Joint draws of each cell's true mean in the units of the metric, (`COUNT`, cells); None if all cells are equal.
    Arguments as in `_surface_of`.

    Draws lie `WIDER` times as far from their mean as those of the surface; with given errors the part `HEAVY` of it is
    not needed. Without a shape, all scatter of a slice is noise.
    """
    found = _surface_of(cells, x, keys, turn=turn, logarithmic=logarithmic, error=error)
    if found is None:
        return None
    surface, data, order = found
    fitted, scales = _run_scales(surface, data)
    wider = np.sqrt((np.where(surface.mask, scales, 0) ** 2).sum(1) / (np.where(surface.mask, fitted, 0) ** 2).sum(1))
    wider = np.maximum(wider, 1) * WIDER / (1 if error is None else HEAVY)
    draws = np.empty((COUNT, len(cells)))
    with threadpool_limits(1):
        for s in range(len(wider)):
            some = data.slices == s
            values = surface.heights(s, paths(surface, s, data.x[some], COUNT, np.random.default_rng(s)))
            draws[:, some] = surface.floor[s] + values.mean(0) + wider[s] * (values - values.mean(0))
    return drawn_together(draws, data.slices)[:, np.argsort(order)] * (-1.0 if turn == "max" else 1.0)


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


def _surface_of(
    cells: pd.DataFrame, x: str, keys: Sequence[str], *, turn: str, logarithmic: bool, error: np.ndarray | None = None
) -> tuple[Surface, Cells, np.ndarray] | None:
    """(the surface of a table of means, its cells by slice and place, which row each is); None if all are equal.

    cells: one row per cell with its keys, mean, draws and standard_error (NaN of one draw). x: the axis of a slice.
    keys: all axes. turn: min or max; y changes its sign for a maximum. error: given standard errors of the means.
    """
    others, places = [key for key in keys if key != x], cells[x].to_numpy(float)
    apart = logarithmic & (places <= 0)  # no place in log: a slice of its own
    places = np.where(apart, places[~apart].min(initial=np.inf), places)
    setting = cells[others].assign(_apart=apart)
    slices = setting.groupby([*setting], dropna=False).ngroup().to_numpy()
    order = np.lexsort((places, slices))  # tests of shape shuffle cells: the order of the table is not to matter
    cells, places = cells.iloc[order], places[order]
    draws = cells["draws"].to_numpy(float)
    data = Cells(
        x=(np.log(places) if logarithmic else places)[:, None],
        y=cells["mean"].to_numpy(float) * (-1.0 if turn == "max" else 1.0),
        slices=slices[order],
        draws=draws,
        scatter=np.nan_to_num(cells["standard_error"].to_numpy(float) ** 2 * draws * (draws - 1)),
        error=np.full(len(cells), np.nan) if error is None else error[order],
        diverged=np.zeros(len(cells), dtype=bool),
    )
    with threadpool_limits(1):  # the matrices are small: more threads only wait for each other
        try:
            return fit_surface(data), data, order
        except ValueError:
            return None


def _run_scales(surface: Surface, data: Cells) -> tuple[np.ndarray, np.ndarray]:
    """The scale of one run in the cells of each slice as fitted, (slices, n), and that where in a slice without a shape
    all scatter is noise."""
    variance = np.mean([surface.noise(sample.hypers) for sample in surface.samples], axis=0)
    fitted = np.sqrt(variance) * surface.unit[:, None] * np.exp(surface.height)  # of a height, by a compressed one's
    scales = fitted.copy()
    for s in np.flatnonzero(~surface.structured):
        some = data.slices == s
        scales[s] = data.y[some].std(ddof=1) * np.sqrt(np.median(data.draws[some])) / HEAVY
    return fitted, scales
