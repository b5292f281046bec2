"""The scale of noisy values, and where the sign of their mean (or median) is beyond doubt."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from raysweep.fits.draws import standard_error

OUTLYING = 10.0  # robust deviations; the farthest of 8 normal draws lies beyond in 0.5 % of cells, of 20 in none


def choose_scale(values: np.ndarray) -> str:
    """sign where draws scatter as if they had no variance; asinh where the mean runs over decades; else linear."""
    draws = np.isfinite(values).sum(axis=0)
    full = draws >= 8  # with fewer, one far draw proves nothing
    if full.any():
        columns = values[:, full]
        deviation = np.abs(columns - np.nanmedian(columns, axis=0))
        typical = 1.4826 * np.nanmedian(deviation, axis=0)
        farthest = np.nanmax(deviation, axis=0)
        varying = typical > 0
        if varying.any() and np.median(farthest[varying] / typical[varying]) > OUTLYING:
            return "sign"
    mean = np.abs(standard_error(values)[0])
    mean = mean[np.isfinite(mean) & (mean > 0)]
    return "asinh" if len(mean) > 2 and mean.max() > 30 * np.median(mean) else "linear"


def rescaled(values: np.ndarray, scale: str) -> np.ndarray:
    """The values to interpolate. On the asinh scale the mean is bent, and each draw follows it to first order: the zero
    stays that of the mean, which the mean of asinh(value) would move."""
    if scale == "linear":
        return values
    size = np.nanmedian(np.abs(values)) or np.nanmax(np.abs(values)) or 1.0
    if scale == "sign":
        return np.arcsinh(values / size)
    mean = standard_error(values)[0]
    return np.arcsinh(mean / size) + (values - mean) / (size * np.sqrt(1 + (mean / size) ** 2))


@lru_cache(maxsize=4096)
def t_quantile(level: float, degrees: int) -> float:
    """Two-sided quantile of Student's t; infinite below one degree of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + level / 2)) if degrees > 0 else np.inf


@lru_cache(maxsize=4096)
def sign_test_limit(level: float, draws: int) -> int:
    """The largest count of the rarer sign at which a two-sided sign test rejects; -1 if it never does."""
    from scipy.special import bdtr

    limit = -1
    while limit + 1 < draws / 2 and 2 * float(bdtr(limit + 1, draws, 0.5)) <= 1 - level:
        limit += 1
    return limit


def clear_signs(values: np.ndarray, level: float, scale: str, exact: bool) -> np.ndarray:
    """+1 or -1 where the sign of the curve at a grid point is beyond doubt, 0 elsewhere.

    Beyond doubt allows for the number of points looked at, but only as far as they are independent: points of one draw
    that move together are one look.
    """
    mean, error, count = standard_error(values)
    if exact:
        return np.sign(np.nan_to_num(mean)).astype(int)
    point_level = max(level, 1 - 2 * (1 - level) / independent_points(values))
    if scale == "sign":
        positive, negative = (values > 0).sum(axis=0), (values < 0).sum(axis=0)
        limits = np.array([sign_test_limit(point_level, int(n)) for n in positive + negative])
        return np.where(np.minimum(positive, negative) <= limits, np.sign(positive - negative), 0).astype(int)
    quantile = np.array([t_quantile(point_level, int(n) - 1) for n in count])
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(mean) > quantile * error, np.sign(mean), 0).astype(int)


def independent_points(values: np.ndarray) -> float:
    """Effective number of independent points, from the mean squared correlation between points over draws."""
    mean, error, count = standard_error(values)
    usable = (count > 2) & (error > 0)
    points, draws = int(usable.sum()), int(count.max())
    if points < 2:
        return float(max(points, 1)) if draws > 2 else float(values.shape[1])
    score = (values[:, usable] - mean[usable]) / (error[usable] * np.sqrt(count[usable]))
    score = np.nan_to_num(score)
    correlation = (score.T @ score) / (draws - 1)
    square = (np.sum(correlation**2) - np.sum(np.diag(correlation) ** 2)) / (points * (points - 1))
    chance = 1 / (draws - 1)  # what independent points show by chance
    shared = min(max((square - chance) / (1 - chance), 0.0), 1.0)
    return 1 + (points - 1) * (1 - shared)
