"""A level for the intervals of single slices at which they hold for all slices at once."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

SIMULATED = 40_000  # the quantile of the largest of several normal numbers is known to 0.01
FEWEST = 5  # fewer common draws say nothing of a correlation


def simultaneous_level(level: float, deviations: np.ndarray, shares: np.ndarray, slices: int) -> float:
    """The level of each slice's interval such that all hold at once with `level`.

    deviations: (draws, located slices), how far each draw is from the mean at the slice's place; NaN where missing.
    shares: (located slices,), which share of the variance of the place is noise between draws; the rest, what is not
        known between the points of the grid, is independent between slices.
    slices: how many slices there are; those that are not located count as independent.

    The errors of the places are taken as normal numbers with the correlation that the draws show, less what independent
    draws show by chance. Places that move together need hardly more than one place; independent ones need Šidák's
    level, 1 - (1 - level) / slices in good approximation.
    """
    correlation = np.eye(slices)
    located = deviations.shape[1]
    for a in range(located):
        for b in range(a + 1, located):
            shrunk = _correlation(deviations[:, a], deviations[:, b]) * np.sqrt(shares[a] * shares[b])
            correlation[a, b] = correlation[b, a] = shrunk
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.clip(values, 1e-9, None))
    root /= np.sqrt((root**2).sum(axis=1, keepdims=True))
    normal = np.random.default_rng(slices).standard_normal((SIMULATED, slices))
    largest = np.abs(normal @ root.T).max(axis=1)
    joint = float(2 * ndtr(np.quantile(largest, level)) - 1)
    return min(max(joint, level), 1 - (1 - level) / slices)


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    """The correlation between draws, shrunk by what independent ones show by chance."""
    both = np.isfinite(first) & np.isfinite(second)
    count = int(both.sum())
    if count < FEWEST:
        return 0.0
    a, b = first[both] - first[both].mean(), second[both] - second[both].mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    if not size > 0:
        return 0.0
    estimate = float(a @ b) / size
    square = max((estimate**2 * (count - 1) - 1) / (count - 2), 0.0)
    return float(np.sign(estimate)) * float(np.sqrt(square))
