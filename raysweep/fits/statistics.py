"""Statistics of a curve that was measured in a few draws: Student's t between draws, and the two-way ANOVA.

There are two noise models:

- The draw is the unit: Student's t on one number per draw. It is valid even if the points of a draw are correlated.
- Two-way ANOVA: value = draw effect + curve + independent noise. The noise has one variance, pooled over all points, so
  three draws are enough.

Both are textbook statistics. The choice between them is that of each fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

LEVEL = 0.95  # the confidence level of an interval if nobody asks for another
ROUNDING = 1e-12  # relative to the size of the values: a smaller number is a zero with a rounding error
CONNECTED = 1e-10  # relative: an eigenvalue below it is 0 with a rounding error
# The degrees of freedom of Student's t whose quantiles replace those of the normal distribution; see `stopped_level`.
# Chosen by benchmarks/stopping.py.
STOPPED = 10


@lru_cache(maxsize=4096)
def t_quantile(level: float, degrees: float) -> float:
    """Two-sided quantile of Student's t; infinite below one degree of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + level / 2)) if degrees > 0 else np.inf


def scale_of(error: np.ndarray, degrees: float) -> np.ndarray:
    """The scale of Student's t of which 95 % lie within 1.96 standard errors; the errors for infinite degrees."""
    return error * normal_quantile(LEVEL) / t_quantile(LEVEL, degrees)


def normal_quantile(level: float) -> float:
    """The two-sided quantile of the normal distribution: 1.96 at 0.95."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))


def stopped_level(level: float) -> float:
    """The level at which an interval is computed so that it holds with `level` although a search ended because of it.

    A search looks often and ends when the interval is narrow, so it ends more readily where the draws happen to scatter
    little: their scatter then tells less of the noise than that of as many draws taken anyway. So the interval is read
    as one of `STOPPED` degrees of freedom: 95 % -> 97.4 %, 68 % -> 70 %. What such intervals then hold is measured by
    `python -m benchmarks.stopping`.
    """
    from scipy.special import ndtr

    return float(2 * ndtr(t_quantile(level, STOPPED)) - 1)


@lru_cache(maxsize=4096)
def sign_test_limit(level: float, draws: int) -> int:
    """The largest count of the rarer sign at which a two-sided sign test rejects; -1 if it never does."""
    from scipy.special import bdtr

    limit = -1
    while limit + 1 < draws / 2 and 2 * float(bdtr(limit + 1, draws, 0.5)) <= 1 - level:
        limit += 1
    return limit


def standard_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean over draws, its standard error, number of draws) at each point of values[draw, point].

    NaN values are skipped. The standard error is NaN with fewer than two draws.
    """
    count = np.isfinite(values).sum(axis=0)
    total = np.nansum(values, axis=0)
    mean = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    square = np.nansum((values - mean) ** 2, axis=0)
    variance = np.divide(square, count - 1, out=np.full(len(count), np.nan), where=count > 1)
    return mean, np.sqrt(variance / np.maximum(count, 1)), count


def half_width(level: float, error: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Half the width of Student's t intervals of means of `count` draws with these standard errors."""
    return np.array([t_quantile(level, float(draws) - 1) for draws in count]) * error


def all_at_once(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intervals at `LEVEL`, widened to what would hold for all of them at once (Bonferroni, as if normal)."""
    wider = (normal_quantile(1 - (1 - LEVEL) / max(len(low), 1)) / normal_quantile(LEVEL) - 1) * (high - low) / 2
    return low - wider, high + wider


def mean_band(values: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean, low, high) over draws at each point of values[draw, point]: Student's t intervals, NaN with fewer than two
    draws. The band holds the expected value with this level at each point by itself, not everywhere at once."""
    mean, error, count = standard_error(values)
    half = half_width(level, error, count)
    return mean, mean - half, mean + half


def clearly_positive(differences: np.ndarray, level: float, exact: bool = False) -> np.ndarray:
    """Whether the mean over draws of differences[draw, point] is above 0 at each point (one-sided Student's t test).

    exact: the differences have no noise, so the sign of the mean decides.
    """
    mean, error, count = standard_error(differences)
    return np.asarray(mean > (0.0 if exact else half_width(2 * level - 1, error, count)))


def complete_draws(values: np.ndarray) -> np.ndarray:
    """The draws of values[draw, point] that have a value at every point."""
    return values[np.isfinite(values).all(axis=1)]


def two_sided(mean: float, error: float, degrees: float) -> float:
    """The two-sided p-value of Student's t test of mean = 0; without an error, 1 if the mean is 0 and else 0."""
    from scipy.special import stdtr

    return float(2 * stdtr(degrees, -abs(mean) / error)) if error > 0 else float(mean == 0)


def rising_chances(steps: np.ndarray, size: float) -> np.ndarray:
    """One-sided p-values of Student's t test that the mean over draws of steps[draw, step] is above 0; 1 with fewer
    than two draws. A smaller scatter than rounding errors of values of this size counts as no noise."""
    from scipy.special import stdtr

    mean, error, count = standard_error(steps)
    tested = count > 1
    exact = tested & (error <= ROUNDING * size)
    tested = tested & ~exact
    chance = np.ones(steps.shape[1])
    chance[tested] = stdtr(count[tested] - 1, -mean[tested] / error[tested])
    chance[exact] = np.where(mean[exact] > ROUNDING * size, 0.0, 1.0)
    return chance


def independent_points(values: np.ndarray) -> float:
    """How many points of values[draw, point] vary independently between draws, by the mean squared correlation between
    points: all if it is no larger than independent points show by chance, 1 if all points move together."""
    mean, error, count = standard_error(values)
    usable = (count > 2) & (error > 0)
    points, draws = int(usable.sum()), int(count.max())
    if points < 2:
        return float(max(points, 1)) if draws > 2 else float(values.shape[1])
    score = np.nan_to_num((values[:, usable] - mean[usable]) / (error[usable] * np.sqrt(count[usable])))
    correlation = (score.T @ score) / (draws - 1)
    square = (np.sum(correlation**2) - np.sum(np.diag(correlation) ** 2)) / (points * (points - 1))
    chance = 1 / (draws - 1)  # the mean squared correlation of independent points
    shared = min(max((square - chance) / (1 - chance), 0.0), 1.0)
    return 1 + (points - 1) * (1 - shared)


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjust p-values for testing all of them at once (Holm 1979); NaN stays NaN."""
    adjusted = np.full(len(p_values), np.nan)
    order = np.argsort(p_values)[: np.isfinite(p_values).sum()]  # NaN sorts last
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1)), 1.0)
    return adjusted


@dataclass(frozen=True)
class Anova:
    """The least-squares fit of value = draw effect + curve."""

    curve: np.ndarray  # (points,), at the mean of the draw effects
    residual: np.ndarray  # (draws, points), NaN where a value is missing
    variance: float  # the variance of the noise of one value; NaN without degrees of freedom
    degrees: int  # the degrees of freedom of `variance`


def two_way_anova(values: np.ndarray) -> Anova:
    """Fit value = draw effect + curve to values[draw, point], NaN where missing, by least squares.

    The draw effects are eliminated, so the normal equations have the size of the curve. Where no draws connect two
    groups of points, the mean of the curve is the same in both.
    """
    there = np.isfinite(values)
    draws, points = values.shape
    of_draw = np.maximum(there.sum(axis=1), 1)
    share = there / of_draw[:, None]
    eigenvalues, vectors = np.linalg.eigh(np.diag(there.sum(axis=0)) - there.T.astype(float) @ share)
    certain = eigenvalues > CONNECTED * eigenvalues[-1]  # that of the level of all connected points is 0
    inverse = np.divide(1, eigenvalues, out=np.zeros(points), where=certain)
    filled = np.where(there, values, 0.0)
    level = filled.sum(axis=1) / of_draw
    shape = (vectors * inverse) @ (vectors.T @ (np.where(there, filled - level[:, None], 0.0)).sum(axis=0))
    effect = level - share @ shape
    residual = np.where(there, values - effect[:, None] - shape, np.nan)
    degrees = int(there.sum()) - points - draws + 1
    variance = float(np.nansum(residual**2) / degrees) if degrees > 0 else np.nan
    return Anova(shape + effect[there.any(axis=1)].mean(), residual, variance, degrees)


def noiseless(values: np.ndarray, fit: Anova) -> bool:
    """Whether any two draws differ at most by a constant, so that the shape of the curve has no noise."""
    return not fit.variance > ROUNDING**2 * float(np.nanmax(np.abs(values))) ** 2
