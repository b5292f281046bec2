"""Two sweeps on the same draws: the difference in a metric, cell by cell and over all cells, with the draw as the unit.

A draw of one sweep is held against the draw of the same seed in the other, at equal other parameters: what the two
share cancels in the difference, whatever it does to the rows themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.signs import t_quantile
from raysweep.fits.trend import holm, two_sided

if TYPE_CHECKING:
    import pandas as pd

ROUNDING = 1e-9  # relative: batching changes the last digits of equal rows
HIGHER, LOWER, UNCLEAR, UNTESTED = "higher", "lower", "no clear difference", "not tested"


def paired(one: pd.DataFrame, other: pd.DataFrame, same: Sequence[str], metric: str) -> pd.DataFrame:
    """The rows of two sweeps that agree in the seed and in the parameters `same`: these, `difference` (the other's
    value less the one's) and `size` (the larger of the two). Only rows that are ok and finite in both count."""
    keys = [*same, "seed"]
    left, right = (
        rows.loc[(rows["status"] == "ok") & np.isfinite(rows[metric].astype(float)), [*keys, metric]].drop_duplicates(
            keys
        )
        for rows in (one, other)
    )
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
        half = np.array([t_quantile(wanted, int(n) - 1) if n > 1 else np.nan for n in draws]) * error
        table[f"low{suffix}"], table[f"high{suffix}"] = mean - half, mean + half
    table["p_value"] = [p_value(*each) for each in zip(mean, error, draws, strict=True)]
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
    half = t_quantile(level, draws - 1) * error if draws > 1 else np.nan
    return float(mean), float(mean - half), float(mean + half), draws, wide["difference"].shape[1]


def rounded(mean: np.ndarray, error: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors, with 0 for what is only rounding beside values of that size."""
    error = np.where(error <= ROUNDING * size, 0.0, error)
    return np.where((error == 0) & (np.abs(mean) <= ROUNDING * size), 0.0, mean), error


def p_value(mean: float, error: float, draws: int) -> float:
    """Two-sided, of no difference; NaN for a single draw. Draws that all differ alike leave no doubt."""
    if draws < 2:
        return np.nan
    return two_sided(mean, error, draws - 1)
