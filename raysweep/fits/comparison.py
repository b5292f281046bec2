"""Draws held against something: the closed form in all cells at once, or another sweep, with the draw as the unit.

Cells of one draw move together, so cells cannot be counted as if each were a trial of its own. Averaging over cells
within each draw leaves one number per draw; those are independent, and Student's t over them holds. A draw of one sweep
is held against the draw of the same seed in the other, at equal other parameters: what the two share cancels in the
difference, whatever it does to the rows themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.statistics import half_width, holm, t_quantile, two_sided

if TYPE_CHECKING:
    import pandas as pd


FEWEST = 4  # draws; a standard deviation of two others says nothing
ROUNDING = 1e-9  # relative: batching changes the last digits of equal rows
HIGHER, LOWER, UNCLEAR, UNTESTED = "higher", "lower", "no clear difference", "not tested"


@dataclass(frozen=True, eq=False)
class Joint:
    """A test over all cells at once.

    mean, error: over draws, of each draw's average over cells, in units of a cell's standard deviation.
    z: the t-value as the normal quantile of its probability, so that 1.96 means the same for any number of draws.
    draws: how many entered.
    skewness: of one draw's value in a cell, the median over cells (NaN below 8 draws).
    averages: (draws,), what the mean is of.
    """

    mean: float
    error: float
    z: float
    draws: int
    skewness: float
    averages: np.ndarray


def joint(differences: np.ndarray) -> Joint | None:
    """Test that differences[draw, cell] from the closed form have mean zero, each cell in units of its draws'
    standard deviation; None below 4 draws or without any variation.

    A draw's difference is divided by the standard deviation of the *other* draws. With its own among them a far draw
    would shrink itself, and many skewed cells would agree on a bias: of 20 draws of a chi-squared with one degree of
    freedom in 20 independent cells, a true closed form would pass in 61 % of cases instead of 92 %.
    """
    known = np.isfinite(differences)
    known &= known.sum(axis=0) >= FEWEST
    values = np.where(known, differences, 0.0)
    others = known.sum(axis=0) - 1
    total, square = values.sum(axis=0), (values**2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (total - values) / others
        variance = (square - values**2 - others * mean**2) / (others - 1)
        real = known & (variance > 1e-14 * (square / np.maximum(others, 1)))  # below, only rounding varies
        scaled = np.where(real, values / np.sqrt(np.where(real, variance, 1.0)), np.nan)
    scaled = scaled[:, np.isfinite(scaled).any(axis=0)]
    if not scaled.size:
        return None
    averages = row_means(scaled)
    test = over_draws(averages)
    if test is None:
        return None
    averages = averages[np.isfinite(averages)]
    return Joint(*test, skewness=typical_skewness(np.where(known, differences, np.nan)), averages=averages)


def over_draws(values: np.ndarray) -> tuple[float, float, float, int] | None:
    """(mean, standard error, z, draws) of one number per draw; None below 4 draws or if they are all equal."""
    from scipy.special import ndtri, stdtr

    values = values[np.isfinite(values)]
    count = len(values)
    error = float(values.std(ddof=1) / np.sqrt(count)) if count >= FEWEST else 0.0
    if not error > 0:
        return None
    mean = float(values.mean())
    tail = float(stdtr(count - 1, -abs(mean / error)))
    size = -float(ndtri(tail)) if tail > 1e-300 else 37.0
    return mean, error, float(np.copysign(size, mean)), count


def row_means(values: np.ndarray) -> np.ndarray:
    """Mean over the finite entries of each row, NaN where there are none."""
    count = np.isfinite(values).sum(axis=1)
    return np.divide(np.nansum(values, axis=1), count, out=np.full(len(values), np.nan), where=count > 0)


def typical_skewness(values: np.ndarray) -> float:
    """Median over cells of the sample skewness, corrected for the number of draws; NaN below 8 draws."""
    count = np.isfinite(values).sum(axis=0)
    values, count = values[:, count >= 8], count[count >= 8]
    if not len(count):
        return float("nan")
    centred = values - np.nansum(values, axis=0) / count
    second, third = (np.nansum(centred**power, axis=0) / count for power in (2, 3))
    varying = second > 0
    skewness = third[varying] / second[varying] ** 1.5 * np.sqrt(count * (count - 1))[varying] / (count[varying] - 2)
    return float(np.median(skewness)) if len(skewness) else float("nan")


@lru_cache(maxsize=256)
def student_coverage(skewness: float, draws: int, level: float = 0.95) -> float:
    """How often Student's interval for the mean holds, for draws of a gamma distribution of that skewness (simulated,
    to about half a percent)."""
    shape = 4 / max(abs(skewness), 0.05) ** 2
    values = np.random.default_rng(0).gamma(shape, size=(4000, draws))
    error = values.std(axis=1, ddof=1) / np.sqrt(draws)
    return float(np.mean(np.abs(values.mean(axis=1) - shape) <= t_quantile(level, draws - 1) * error))


def paired(one: pd.DataFrame, other: pd.DataFrame, same: Sequence[str], metric: str) -> pd.DataFrame:
    """The rows of two sweeps that agree in the seed and in the parameters `same`: these, `difference` (the other's
    value less the one's) and `size` (the larger of the two). Only rows that are ok and finite in both count."""
    keys = [*same, "seed"]
    good = [rows[(rows["status"] == "ok") & np.isfinite(rows[metric].astype(float))] for rows in (one, other)]
    left, right = (rows[[*keys, metric]].drop_duplicates(keys) for rows in good)
    both = left.merge(right, on=keys, suffixes=("_one", "_other"))
    first, second = both.pop(f"{metric}_one").astype(float), both.pop(f"{metric}_other").astype(float)
    return both.assign(difference=second - first, size=np.maximum(first.abs(), second.abs()))


def per_cell(pairs: pd.DataFrame, same: Sequence[str], level: float = 0.95) -> pd.DataFrame:
    """One row per cell: mean difference, its interval by Student's t over draws (low, high: for that cell alone;
    low_simultaneous, high_simultaneous: for all cells at once, Bonferroni), p-value, the same after Holm's correction,
    and status: higher, lower, no clear difference, or not tested (a single draw)."""
    grouped = pairs.groupby(list(same), sort=False, dropna=False)
    table = grouped["difference"].agg(draws="count", difference="mean", error="sem").reset_index()
    size, draws = grouped["size"].max().to_numpy(), table["draws"].to_numpy()
    mean, error = rounded(table["difference"].to_numpy(), table["error"].to_numpy(), size)
    table["difference"], table["error"] = mean, error
    tested = draws > 1
    strict = 1 - (1 - level) / max(int(tested.sum()), 1)
    for wanted, suffix in ((level, ""), (strict, "_simultaneous")):
        half = half_width(wanted, error, draws)
        table[f"low{suffix}"], table[f"high{suffix}"] = mean - half, mean + half
    chances = [two_sided(*each) for each in zip(mean, error, draws - 1, strict=True)]
    table["p_value"] = np.where(tested, chances, np.nan)  # draws that all differ alike leave no doubt
    table["p_holm"] = holm(table["p_value"].to_numpy(float))
    clear = (table["p_holm"] <= 1 - level).to_numpy()
    table["status"] = np.where(~tested, UNTESTED, np.where(~clear, UNCLEAR, np.where(mean > 0, HIGHER, LOWER)))
    return table.drop(columns="error")


def over_cells(pairs: pd.DataFrame, same: Sequence[str], level: float = 0.95) -> tuple[float, float, float, int, int]:
    """(mean difference over cells, low, high, draws, cells): the mean of each draw over the cells that every draw has,
    then Student's t over draws. NaN where there is no such cell; no interval for a single draw."""
    cell = pairs.groupby(list(same), dropna=False).ngroup()
    wide = pairs.assign(cell=cell).pivot_table(index="seed", columns="cell", values=["difference", "size"])
    wide = wide.dropna(axis="columns")
    if "difference" not in wide.columns.get_level_values(0):
        return np.nan, np.nan, np.nan, len(wide), 0
    values = wide["difference"].mean(axis="columns").to_numpy()
    draws, error = len(values), values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    size = float(wide["size"].to_numpy().max())
    (mean,), (error,) = rounded(np.array([values.mean()]), np.array([error]), np.array([size]))
    half = t_quantile(level, draws - 1) * error
    return float(mean), float(mean - half), float(mean + half), draws, wide["difference"].shape[1]


def rounded(mean: np.ndarray, error: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors, with 0 for what is only rounding beside values of that size."""
    error = np.where(error <= ROUNDING * size, 0.0, error)
    return np.where((error == 0) & (np.abs(mean) <= ROUNDING * size), 0.0, mean), error
