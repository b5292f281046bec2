"""Correlations over units that are a sample, and their intervals: R² by a line, and Spearman's of ranks.

A report often has one number per unit and draw, such as the test error and a bound for each pair of tasks. R² is the
square of Pearson's correlation over units, which is averaged over draws on Fisher's scale, atanh of the correlation.
(The mean of the draws' own R² would be at least 1 / (units - 1) by chance.)

Units are what another experiment would choose anew, so the interval is over units and keeps whole draws together. It is
a jackknife over units on Fisher's scale: the units are few (T has 20 pairs) and a bound's values are skewed, and there
the percentile bootstrap holds the true value too seldom (tests/fits/test_rank.py has both rates). It holds for units
drawn independently; pairs that share classes are not quite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raysweep.fits.reasons import Reason, because
from raysweep.fits.statistics import LEVEL, ROUNDING, t_quantile

Array = np.ndarray
FEWEST, FEWEST_RANKED = 4, 5  # units below which there is no result, or no interval of ranks
ONE = 1 - 1e-15  # a correlation of 1 in rounding; atanh of it is finite


@dataclass(frozen=True)
class Explained:
    """R² over units, the interval over units, and the standard deviation of R² over draws."""

    r_squared: float
    low: float
    high: float
    correlation: float  # the mean correlation (by Fisher's scale), whose square is R²
    over_draws: float
    draws: int
    units: int
    reason: Reason = Reason.NONE  # reason, note: why there is no result, and its text (see `Reason`)
    note: str = ""


def explained(x: Array, y: Array, level: float = LEVEL) -> Explained:
    """R² of y by a line in x; both (draws, units). A unit without a finite value in some draw is left out."""
    x, y = _complete(x, y)
    draws, units = x.shape
    if units < FEWEST or not draws:
        return _without(draws, units, Reason.TOO_FEW_UNITS)
    each = _correlation(x, y)
    if not np.isfinite(each).all():
        return _without(draws, units, Reason.NO_VARIATION)
    z = np.arctanh(np.clip(each, -ONE, ONE))
    with np.errstate(invalid="ignore", divide="ignore"):
        error = _jackknife(np.arctanh(np.clip(_without_each(x, y), -ONE, ONE)).mean(0))
    bounds = np.tanh(z.mean() + np.array([-1, 1]) * t_quantile(level, units - 1) * error)
    low, high = np.sort(bounds**2).tolist()
    low = 0.0 if bounds[0] * bounds[1] < 0 else low
    deviation = float((each**2).std(ddof=1)) if draws > 1 else np.nan
    correlation = float(np.tanh(z.mean()))
    return Explained(correlation**2, low, high, correlation, deviation, draws, units)


def difference(x: Array, other: Array, y: Array, level: float = LEVEL) -> tuple[float, float, float]:
    """R² of y by x minus R² by another predictor on the same units, and its interval over units; (draws, units) each.

    A jackknife of the difference, cut at -1 and 1; NaN if either has no result.
    """
    x, other, y = _complete(x, other, y)
    if x.shape[1] < FEWEST or not len(x):
        return np.nan, np.nan, np.nan
    estimate = float(_squared(_correlation(x, y)) - _squared(_correlation(other, y)))
    with np.errstate(invalid="ignore", divide="ignore"):
        error = _jackknife(_squared(_without_each(x, y)) - _squared(_without_each(other, y)))
    half = t_quantile(level, x.shape[1] - 1) * error
    return estimate, max(estimate - half, -1.0), min(estimate + half, 1.0)


def of_ranks(x: np.ndarray, y: np.ndarray, level: float = LEVEL) -> tuple[float, float, float]:
    """(rank correlation of x and y, low, high), both (units,) without NaN; equal values share the mean of their ranks.

    NaN where x or y does not vary; ends are NaN with fewer than 5 units.

    The interval is Bonett and Wright's (Psychometrika 65, 2000): on Fisher's scale, atanh of the correlation, the
    standard error is √((1 + r²/2)/(n - 3)); here with Student's t of n - 2 degrees, as units are few. A correlation of
    ±1 has no place on that scale: it is taken half way to the next value that n ranks can have, 1 - 12/(n³ - n), and
    the interval reaches ±1. Of 95 % intervals this share holds the value of the population (20,000 samples each;
    tests/fits/test_rank.py has the populations): 5 units 1.00, where it says little; 8 at least 0.98; 12 at least 0.94;
    20 at least 0.96 in normal populations, 0.92 where extremes of x and y come together; 40 at least 0.95 and 0.90.
    """
    from scipy.stats import spearmanr

    count = len(x)
    if count < 2 or len(np.unique(x)) < 2 or len(np.unique(y)) < 2:
        return np.nan, np.nan, np.nan
    estimate = float(np.clip(spearmanr(x, y).statistic, -1, 1))
    if count < FEWEST_RANKED:
        return estimate, np.nan, np.nan
    inside = 1 - 6 / (count**3 - count)
    kept = float(np.clip(estimate, -inside, inside))
    half = t_quantile(level, count - 2) * np.sqrt((1 + kept**2 / 2) / (count - 3))
    low, high = np.tanh(np.arctanh(kept) + np.array([-half, half]))
    return estimate, float(-1 if estimate <= -inside else low), float(1 if estimate >= inside else high)


def _squared(correlations: Array) -> Array:
    """The square of correlations averaged over draws, the first axis, on Fisher's scale."""
    return np.asarray(np.tanh(np.arctanh(np.clip(correlations, -ONE, ONE)).mean(0)) ** 2)


def _without(draws: int, units: int, reason: Reason) -> Explained:
    return Explained(np.nan, np.nan, np.nan, np.nan, np.nan, draws, units, **because(reason, least=FEWEST))


def _complete(*arrays: Array) -> list[Array]:
    """The arrays without the units that have no finite value somewhere."""
    good = np.logical_and.reduce([np.isfinite(array).all(0) for array in arrays])
    return [np.asarray(array, float)[:, good] for array in arrays]


def _correlation(x: Array, y: Array) -> Array:
    """Pearson's correlation over the last axis; NaN where one of the two varies by no more than rounding."""
    x, y = (_from_mean(each) for each in (x, y))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1)))


def _from_mean(values: Array) -> Array:
    """The values minus their mean over the last axis, over a power of two; NaN where they are no more than rounding.

    The power of two keeps their squares in the range of float64, and every digit.
    """
    size = np.abs(values).max(-1, keepdims=True)
    centred = values - values.mean(-1, keepdims=True)
    largest = np.abs(centred).max(-1, keepdims=True)
    return np.asarray(np.where(largest > ROUNDING * size, np.ldexp(centred, -np.frexp(largest)[1]), np.nan))


def _without_each(x: Array, y: Array) -> Array:
    """The correlation without each unit, the shape of x."""
    count = x.shape[-1]
    kept = np.array([[j for j in range(count) if j != i] for i in range(count)])
    return _correlation(x[..., kept], y[..., kept])


def _jackknife(values: Array) -> float:
    """The standard error of an estimate, from its values without each unit."""
    return float(np.sqrt((len(values) - 1) / len(values) * ((values - values.mean()) ** 2).sum()))
