"""How far cells are from the best of them, with intervals that hold although the best one was chosen among all.

Of many equal cells some look worse than the one of the lowest mean. Any pair may be the one that is compared, so the
level is Bonferroni's for all pairs. Few draws tell little of a variance, and at that level their t quantiles are huge.
Variances around the effects of cells and draws are therefore moderated: each is averaged with what all have in common,
as far as they are alike (Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004; the spread of the variances is taken one
standard error larger). What a draw does to many cells alike counts once: their degrees of freedom are fewer where
residuals of cells go together, and two draws cannot tell.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy import special

from raysweep.fits.statistics import LEVEL, ROUNDING

FEWEST = 3  # variances from which on they tell what they have in common
MOST = 500  # cells whose correlations are looked at: more do not fit in memory as pairs


def from_best(values: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """(mean, half width of its interval) of each cell less the first one; values: (draws, cells), NaN where there is
    none.

    Cells are paired by draws, or compared by Welch's t if they have no two draws in common. Both are NaN where one of
    the two has a single draw, and 0 where the two are equal in every draw.
    """
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of cells without a value
        differences, own = values - values[:, :1], np.isfinite(values).sum(0).astype(float)
        count, mean = np.isfinite(differences).sum(0).astype(float), np.nanmean(differences, axis=0)
        square, free = np.nanvar(values, axis=0, ddof=1) / own, own - 1
        variance, degrees = _moderated(values, own)
        paired, alone = count > 1, (count < 2) & (np.minimum(own, own[0]) > 1)
        mean = np.where(alone, np.nanmean(values, axis=0) - np.nanmean(values[:, 0]), mean)
        parts = np.where(paired, variance / count, square), np.where(paired, variance[0] / count, square[0])
        of = np.where(paired, degrees, free), np.where(paired, degrees[0], free[0])
        both = parts[0] + parts[1]
        whole = both**2 / (parts[0] ** 2 / of[0] + parts[1] ** 2 / of[1])  # Welch's degrees of freedom
        apart = np.nanvar(differences, axis=0, ddof=1) / count  # more, if two cells go opposite ways
        both = np.where(both > 0, np.fmax(both, apart), both)
        pairs = len(own) * (len(own) - 1) / 2
        limit = special.stdtrit(np.clip(whole, 1, 1e9), 1 - (1 - level) / (2 * pairs)) if pairs else np.zeros(1)
        half = np.where(both > 0, limit * np.sqrt(both), 0.0)
    half = np.where(paired & ~np.nan_to_num(differences).any(0), 0.0, half)
    compared = paired | alone
    return np.where(compared, mean, np.nan), np.where(compared, half, np.nan)


def _moderated(values: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(variance, degrees of freedom) of a draw of each cell around the effects of cells and draws. own: its draws."""
    there = np.isfinite(values)
    rest = values - np.nanmean(values, axis=0)
    rest -= np.nanmean(rest, axis=1, keepdims=True)
    shares = np.where(there, 1 - 1 / there.sum(1, keepdims=True), 0).sum(0)  # of draws that no other cell has, 0
    degrees = (1 - 1 / own) * shares
    variance = np.where(degrees > 0, np.nansum(rest**2, axis=0) / degrees, 0.0)
    known = variance > (ROUNDING * np.nanmax(np.abs(values), axis=0)) ** 2
    more, common = _in_common(variance[known], degrees[known])
    total = _together(rest[:, known], variance[known], degrees[known])
    mixed = common if np.isinf(more) else (more * common + degrees * variance) / (more + degrees)
    return np.where(known, mixed, 0.0), np.minimum(degrees + more, total)


def _together(rest: np.ndarray, variance: np.ndarray, degrees: np.ndarray) -> float:
    """The degrees of freedom of the sum of all squares, from the squared correlations of cells over draws that they
    share, less what chance and the mean of a draw make of these. Two shared draws do not tell it: it is taken as 1."""
    alone, whole, every = (degrees * variance**2).sum(), (degrees * variance).sum(), len(variance)
    some = np.unique(np.linspace(0, max(every - 1, 0), min(every, MOST)).astype(int))
    rest, variance = rest[:, some], variance[some]
    there = np.isfinite(rest)
    rest, overlap = np.where(there, rest, 0.0), np.maximum(there.T.astype(float) @ there - 1, 0)
    sizes = (rest**2).T @ there
    alike = (rest.T @ rest) ** 2 / np.maximum(sizes * sizes.T, 1e-300)
    alike = np.where(overlap > 1, (overlap * alike - 1) / np.maximum(overlap - 1, 1e-300), 1.0)
    alike -= 1 / max(every - 1, 1) ** 2
    np.fill_diagonal(alike, 0.0)
    pairs = every * (every - 1) / max(len(some) * (len(some) - 1), 1)  # for each that is looked at
    return float(whole**2 / (alone + pairs * max(variance @ (overlap * alike) @ variance, 0.0)))


def _in_common(variance: np.ndarray, degrees: np.ndarray) -> tuple[float, float]:
    """(degrees of freedom, value) of what variances have in common; none of these if they are few."""
    if len(variance) < FEWEST:
        return 0.0, 0.0
    logs = np.log(variance) - special.digamma(degrees / 2) + np.log(degrees / 2)
    apart = logs.var(ddof=1) * (1 + np.sqrt(2 / (len(logs) - 1))) - special.polygamma(1, degrees / 2).mean()
    if apart <= 0:
        return np.inf, float(np.exp(logs.mean()))
    half = 0.5 + 1 / apart  # Newton's steps to trigamma(half) = apart
    for _ in range(20):
        there = special.polygamma(1, half)
        half += there * (1 - there / apart) / special.polygamma(2, half)
    return float(2 * half), float(np.exp(logs.mean() + special.digamma(half) - np.log(half)))
