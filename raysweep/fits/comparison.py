"""Compare draws with the closed form in all cells at once, or with another sweep. The draw is the unit.

Cells of one draw are correlated, so they do not count as independent trials. The average over cells gives one number
per draw. These numbers are independent, and Student's t test of them is valid.

Two sweeps are compared draw by draw: rows with the same seed and otherwise equal parameters form a pair. The randomness
that both rows share cancels in their difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from raysweep.fits.draws import means_with_errors
from raysweep.fits.lost_draws import among_lost
from raysweep.fits.statistics import LEVEL, half_width, holm, normal_quantile, scale_of, t_quantile, two_sided
from raysweep.lazy import pd

FEWEST = 4  # draws; with three, each draw is scaled by the standard deviation of the other two, which is too uncertain
ROUNDING = 1e-9  # relative; batching changes the last digits of rows that are otherwise equal
HIGHER, LOWER, UNCLEAR, UNTESTED = "higher", "lower", "no clear difference", "not tested"


@dataclass(frozen=True)
class Joint:
    """The result of a test over all cells at once."""

    mean: float  # mean, error: over draws, of their averages over cells, in standard deviations of a cell
    error: float
    z: float  # the t-value as the normal quantile with the same p-value: 1.96 means the same for any number of draws
    draws: int  # how many were used
    skewness: float  # the sample skewness of the draws in a cell, median over cells; NaN with fewer than 8 draws


def joint(differences: np.ndarray) -> Joint | None:
    """Test that differences[draw, cell] from the closed form have mean zero, in all cells at once.

    Each cell is scaled by the standard deviation between its draws. Returns None with fewer than 4 draws or if nothing
    varies.

    The difference of a draw is divided by the standard deviation of the *other* draws. If the draw itself were
    included, an outlier would shrink itself, and many skewed cells would share a bias. Example: with 20 draws of a
    chi-squared distribution (one degree of freedom) in 20 independent cells, a true closed form would pass in 61 % of
    cases instead of 92 %.
    """
    from scipy.special import ndtri, stdtr

    present = np.isfinite(differences)
    present &= present.sum(axis=0) >= FEWEST
    values = np.where(present, differences, 0.0)
    others = present.sum(axis=0) - 1
    total, square = values.sum(axis=0), (values**2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (total - values) / others
        variance = (square - values**2 - others * mean**2) / (others - 1)
        real = present & (variance > 1e-14 * (square / np.maximum(others, 1)))  # a smaller variance is only rounding
        scaled = np.where(real, values / np.sqrt(np.where(real, variance, 1.0)), np.nan)
    scaled = scaled[:, np.isfinite(scaled).any(axis=0)]
    if not scaled.size:
        return None
    count = np.isfinite(scaled).sum(axis=1)
    averages = np.nansum(scaled, axis=1)[count > 0] / count[count > 0]
    draws = len(averages)
    error = float(averages.std(ddof=1) / np.sqrt(draws)) if draws >= FEWEST else 0.0
    if not error > 0:
        return None
    mean = float(averages.mean())
    tail = float(stdtr(draws - 1, -abs(mean / error)))
    size = -float(ndtri(tail)) if tail > 1e-300 else 37.0
    skewness = typical_skewness(np.where(present, differences, np.nan))
    return Joint(mean, error, float(np.copysign(size, mean)), draws, skewness)


def typical_skewness(values: np.ndarray) -> float:
    """The median over cells of the sample skewness, corrected for the number of draws; NaN with fewer than 8 draws."""
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
def student_coverage(skewness: float, draws: int, level: float = LEVEL) -> float:
    """How often Student's t interval contains the true mean of a gamma distribution with this skewness.

    The coverage is simulated, to about half a percent.
    """
    shape = 4 / max(abs(skewness), 0.05) ** 2
    values = np.random.default_rng(0).gamma(shape, size=(4000, draws))
    error = values.std(axis=1, ddof=1) / np.sqrt(draws)
    return float(np.mean(np.abs(values.mean(axis=1) - shape) <= t_quantile(level, draws - 1) * error))


def paired(
    one: pd.DataFrame, other: pd.DataFrame, same: Sequence[str], metric: str, error: str | None = None
) -> pd.DataFrame:
    """Pair the rows of two sweeps that have the same seed and the same values of the parameters `same`.

    The columns are `same`, seed, `difference` (value in `other` minus value in `one`) and `_size` (the larger absolute
    value). Only rows with status ok and a finite metric are used, and none of a cell most of whose draws are lost.

    error: the column of the standard error of each run. Then the means of cells are paired, whatever their seeds, and
        this column has the standard error of the difference.
    """
    keys = list(same) if error else [*same, "seed"]
    good = [
        rows[(rows["status"] == "ok") & np.isfinite(rows[metric].astype(float)) & ~among_lost(rows, metric, same)]
        for rows in (one, other)
    ]
    if error:
        left, right = (means_with_errors(rows, keys, metric, error) for rows in good)
    else:
        left, right = (rows[[*keys, metric]].drop_duplicates(keys) for rows in good)
    both = left.merge(right, on=keys, suffixes=("_one", "_other"))
    if error:
        both[error] = np.hypot(both.pop(f"{error}_one"), both.pop(f"{error}_other"))
        both["seed"] = 0
    first, second = both.pop(f"{metric}_one").astype(float), both.pop(f"{metric}_other").astype(float)
    return both.assign(difference=second - first, _size=np.maximum(first.abs(), second.abs()))


def per_cell(
    pairs: pd.DataFrame, same: Sequence[str], level: float = LEVEL, error: str | None = None, degrees: float = np.inf
) -> pd.DataFrame:
    """Estimate the mean difference in each cell, with Student's t intervals over draws.

    pairs: from `paired`. same: the parameters that define a cell. error: as for `paired`. degrees: of Student's t,
        which these errors follow: 95 % of them lie within 1.96 standard errors.

    One row per cell: draws, difference, its interval for this cell alone (low, high) and for all cells at once
    (low_simultaneous, high_simultaneous; Bonferroni), p_value, p_holm (after Holm's correction) and status: higher,
    lower, no clear difference, or not tested (a single draw).
    """
    grouped = pairs.groupby(list(same), sort=False, dropna=False)
    table = grouped["difference"].agg(draws="count", difference="mean", error="sem").reset_index()
    size, draws = grouped["_size"].max().to_numpy(), table["draws"].to_numpy()
    free = np.full(len(table), degrees) if error else draws - 1.0
    scale = scale_of(grouped[error].first().to_numpy(), degrees) if error else table["error"].to_numpy()
    mean, scale = rounded(table["difference"].to_numpy(), scale, size)
    table["difference"], tested = mean, free > 0
    strict = 1 - (1 - level) / max(int(tested.sum()), 1)
    for confidence, suffix in ((level, ""), (strict, "_simultaneous")):
        half = half_width(confidence, scale, free + 1)
        table[f"low{suffix}"], table[f"high{suffix}"] = mean - half, mean + half
    chances = [two_sided(*each) for each in zip(mean, scale, free, strict=True)]
    table["p_value"] = np.where(tested, chances, np.nan)  # without an error the p-value is 0 or 1
    table["p_holm"] = holm(table["p_value"].to_numpy(float))
    clear = (table["p_holm"] <= 1 - level).to_numpy()
    table["status"] = np.where(~tested, UNTESTED, np.where(~clear, UNCLEAR, np.where(mean > 0, HIGHER, LOWER)))
    return table.drop(columns="error")


@dataclass(frozen=True)
class Overall:
    """The mean difference over cells, with a Student's t interval over draws."""

    mean: float  # mean, low, high: NaN without a pair; a single draw gives no finite interval
    low: float
    high: float
    draws: int  # how many there are
    cells: int  # how many there are


def over_cells(pairs: pd.DataFrame, same: Sequence[str], level: float = LEVEL, error: str | None = None) -> Overall:
    """Estimate the mean difference over all cells, which count alike however many draws they have.

    pairs, same, error: as in `per_cell`; the mean of cells with given errors is taken as normal.

    Otherwise the variance is the sum of squares of what each draw adds in its cells. Degrees of freedom are the
    harmonic mean of those of the cells, weighted by their variances. With equal draws in all cells this is Student's t
    of the draws' averages. A cell with one draw has a noise that is not known, taken as that of others.
    """
    if not len(pairs):
        return Overall(np.nan, np.nan, np.nan, draws=0, cells=0)
    if error:
        mean, width = float(pairs["difference"].mean()), float(np.sqrt((pairs[error] ** 2).sum())) / len(pairs)
        width *= normal_quantile(level)
        return Overall(mean, mean - width, mean + width, draws=1, cells=len(pairs))
    cell, draw = (pairs.groupby(keys, dropna=False).ngroup().to_numpy() for keys in (list(same), "seed"))
    values, count = pairs["difference"].to_numpy(float), np.bincount(cell)
    means, known = np.bincount(cell, values) / count, count > 1
    others = np.maximum(count - 1, 1)
    part = (values - means[cell]) / np.sqrt(count * others)[cell] / len(count)
    root = 1 / np.sqrt(count)
    unknown = root.sum() / root[known].sum() if known.any() else np.nan
    width = unknown * np.sqrt(np.sum(np.bincount(draw, part) ** 2))
    (mean,), (width,) = rounded(means.mean(keepdims=True), np.array([width]), np.array([pairs["_size"].max()]))
    noise = np.bincount(cell, part**2)
    degrees = noise.sum() / (noise / others).sum() if noise.any() else others.max()
    half = t_quantile(level, float(degrees)) * width
    return Overall(float(mean), float(mean - half), float(mean + half), int(draw.max()) + 1, len(count))


def rounded(mean: np.ndarray, error: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors, set to 0 if they are only rounding errors of values of this size."""
    error = np.where(error <= ROUNDING * size, 0.0, error)
    return np.where((error == 0) & (np.abs(mean) <= ROUNDING * size), 0.0, mean), error
