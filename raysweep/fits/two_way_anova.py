"""A few draws of one noisy curve: the draw effect taken out, and how sure what is left is.

value = draw effect + curve + independent noise of one variance, pooled over all points, so that three draws are enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

SIMULATED = 4000


@dataclass(frozen=True)
class Anova:
    """Least-squares fit of value = draw effect + curve: curve (points,), its factor (points, points) such that
    curve + factor @ standard normal is one resample of it, residuals (draws, points), variance and its degrees of
    freedom."""

    curve: np.ndarray
    factor: np.ndarray
    residual: np.ndarray
    variance: float
    degrees: int


def two_way_anova(values: np.ndarray) -> Anova:
    """The two-way fit of values[draw, point] with values missing anywhere (each point must be linked through draws)."""
    draws, points = values.shape
    at_draw, at_point = np.nonzero(np.isfinite(values))
    rows = np.arange(len(at_draw))
    design = np.zeros((len(rows), points + draws - 1))
    design[rows, at_point] = 1
    later = at_draw > 0  # draw effects are contrasts to the first draw, then centred
    design[rows[later], points + at_draw[later] - 1] = 1
    inverse = np.linalg.pinv(design.T @ design)
    solution = inverse @ (design.T @ values[at_draw, at_point])
    effect = np.concatenate([[0.0], solution[points:]])
    residual = np.full(values.shape, np.nan)
    residual[at_draw, at_point] = values[at_draw, at_point] - design @ solution
    degrees = len(rows) - points - draws + 1
    variance = float(np.nansum(residual**2) / degrees) if degrees > 0 else np.nan
    # The curve is needed up to a constant only: its covariance without the common level.
    centre = np.eye(points) - 1 / points
    covariance = centre @ inverse[:points, :points] @ centre
    eigenvalues, vectors = np.linalg.eigh(covariance)
    factor = vectors * np.sqrt(np.clip(eigenvalues, 0, None) * (variance if degrees > 0 else 0.0))
    return Anova(solution[:points] + effect.mean(), factor, residual, variance, degrees)


def smooth_within_draws(fit: Anova) -> bool:
    """Whether residuals of neighbouring points of one draw go together far more than independent noise would."""
    residual = fit.residual
    if fit.degrees < 4 or not fit.variance > 0:
        return False
    pairs = residual[:, :-1] * residual[:, 1:]
    known = np.isfinite(pairs)
    draws, points = residual.shape
    both = np.sqrt(np.nanmean(residual[:, :-1] ** 2) * np.nanmean(residual[:, 1:] ** 2))
    correlation = float(np.nansum(pairs) / known.sum() / both) if both > 0 else 0.0
    chance = -1 / points
    return correlation > chance + 2.5 / np.sqrt(max((draws - 1) * (points - 1), 1))


@lru_cache(maxsize=256)
def rises_by_chance(points: int, degrees: int) -> np.ndarray:
    """The rise statistics of 4,000 curves of `points` equal means, their variance estimated with so many degrees of
    freedom (simulated, fixed seed; from 200 on it is as good as known). Equal means are the hardest falling curve: any
    other falls, and so rises less by chance."""
    rng = np.random.default_rng([points, min(degrees, 200)])
    z = rng.standard_normal((SIMULATED, points))
    scale = np.sqrt(rng.chisquare(degrees, SIMULATED) / degrees) if degrees < 200 else np.ones(SIMULATED)
    return np.asarray(rise(z) / scale)


def rise(z: np.ndarray) -> np.ndarray:
    """Largest climb of a sequence (..., points) of unit-variance means: over windows of 1, 2 and 3 points, the largest
    (later mean - earlier mean), in units of its standard error."""
    best = np.zeros(z.shape[:-1])
    total = np.concatenate([np.zeros((*z.shape[:-1], 1)), np.cumsum(z, axis=-1)], axis=-1)
    for window in (1, 2, 3):
        if z.shape[-1] < 2 * window:
            break
        mean = (total[..., window:] - total[..., :-window]) / window
        earlier = np.minimum.accumulate(mean, axis=-1)[..., :-window]
        climb = (mean[..., window:] - earlier).max(axis=-1) * np.sqrt(window / 2)
        best = np.maximum(best, climb)
    return best
