"""Sufficient statistics of draws with missing values: a mean and a scatter matrix for each pattern of points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Draws that differ by a few smooth curves only have a scatter matrix of low rank, for which no structure is likely. So
# each point gets independent noise of this share of its standard deviation, which widens intervals by 1 in 1,000.
FLOOR = 0.05
LARGEST_DIP = 1e-4  # a standard deviation below this share of the median one is a chance, or rounding


@dataclass(frozen=True, eq=False)
class Pattern:
    """The draws that have values at the same points.

    at: the indices of these points.
    draws: how many draws.
    mean: their mean (points of the pattern,).
    scatter: the sum of squares and products about the mean, a square matrix.
    """

    at: np.ndarray
    draws: int
    mean: np.ndarray
    scatter: np.ndarray


@dataclass(frozen=True, eq=False)
class Scatter:
    """The draws of one curve.

    t: (points,), from 0 to 1.
    patterns: the pattern with most points first.
    draws: how many draws in total.
    deviation: the standard deviation between draws, pooled over the points.
    deviations, counts: (points,), the standard deviation between draws and the number of draws at each point.
    profile: (points,), the logarithm of the standard deviation at each point about its mean, smoothed.
    """

    t: np.ndarray
    patterns: tuple[Pattern, ...]
    draws: int
    deviation: float
    deviations: np.ndarray
    counts: np.ndarray
    profile: np.ndarray


def scatter_of(t: np.ndarray, values: np.ndarray) -> Scatter:
    """The sufficient statistics of values[draw, point]; every point has a value in some draw."""
    present = np.isfinite(values)
    values, present = values[present.any(axis=1)], present[present.any(axis=1)]
    count = present.sum(axis=0)
    square = np.nansum((values - np.nanmean(values, axis=0)) ** 2, axis=0)
    floor = np.diag(FLOOR**2 * square / np.maximum(count - 1, 1))
    patterns = []
    for key in np.unique(present, axis=0):
        rows = values[(present == key).all(axis=1)][:, key]
        rest = rows - rows.mean(axis=0)
        scatter = rest.T @ rest + (len(rows) - 1) * floor[np.ix_(key, key)]
        patterns.append(Pattern(np.flatnonzero(key), len(rows), rows.mean(axis=0), scatter))
    patterns.sort(key=lambda each: -len(each.at))
    deviation = float(np.sqrt(square.sum() / max(int((count - 1).clip(0).sum()), 1)))
    deviations = np.sqrt(square / np.maximum(count - 1, 1))
    return Scatter(t, tuple(patterns), len(values), deviation, deviations, count, _profile(t, square, count))


def _profile(t: np.ndarray, square: np.ndarray, count: np.ndarray) -> np.ndarray:
    """A cubic in t, shrunk to a constant where draws are few, and what it misses as far as it is more than chance."""
    measured = count > 1
    deviation = np.sqrt(square / np.maximum(count - 1, 1))
    logarithm = np.log(np.maximum(deviation, LARGEST_DIP * np.median(deviation[measured]) + 1e-300))
    chance = 0.5 / np.maximum(count - 1, 0.5)  # the variance of the logarithm of a standard deviation
    powers = np.stack([np.ones(len(t)), t - 0.5, (t - 0.5) ** 2, (t - 0.5) ** 3], axis=1)
    weighted = powers * (measured / chance)[:, None]
    smooth = powers @ np.linalg.solve(powers.T @ weighted + np.diag([0.01, 0.25, 0.25, 0.25]), weighted.T @ logarithm)
    rest = np.where(measured, logarithm - smooth, 0.0)
    spread = max(float(np.mean(rest[measured] ** 2 - chance[measured])), 0.0)
    smooth = smooth + spread / (spread + chance) * rest
    return np.asarray(smooth - smooth.mean())
