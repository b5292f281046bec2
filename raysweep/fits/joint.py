"""All cells against the closed form at once, with the draw as the unit.

Cells of one draw move together, so cells cannot be counted as if each were a trial of its own. Averaging over cells
within each draw leaves one number per draw; those are independent, and Student's t over them holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

FEWEST = 4  # draws; a standard deviation of two others says nothing


@dataclass(frozen=True, eq=False)
class Joint:
    """mean ± error over draws of each draw's average over cells, `averages`; z: the t-value as the normal quantile of
    its probability, so that 1.96 means the same for any number of draws. skewness: of one draw's value in a cell, the
    median over cells (NaN below 8 draws)."""

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
    from scipy.special import stdtrit

    shape = 4 / max(abs(skewness), 0.05) ** 2
    values = np.random.default_rng(0).gamma(shape, size=(4000, draws))
    error = values.std(axis=1, ddof=1) / np.sqrt(draws)
    return float(np.mean(np.abs(values.mean(axis=1) - shape) <= stdtrit(draws - 1, 0.5 + level / 2) * error))
