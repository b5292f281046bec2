"""The mean curve given parameters and draws: a Gaussian process in closed form, its evidence and its sample paths.

Values may be compressed: value = s sinh(f / s) with a Gaussian f (a wall becomes a slope). The draws are then seen
through the derivative at the mean of the data, and since the level of a curve is unknown, f is pinned there: its
average near the lowest point is that of the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raysweep.fits.posterior.noise import CurveData, Seen
from raysweep.fits.posterior.prior import CurveParameters, between, terms

NUGGET = 1e-10  # of the prior variance, for the factorizations
BORDER = 1e200  # above the square of any whitened vector
LARGEST = 30.0  # sinh stays finite


@dataclass(frozen=True, eq=False)
class Conditional:
    """The curve given the draws, for each particle."""

    p: CurveParameters
    data: CurveData
    slope: np.ndarray  # (particles, points), d value / d f at the mean of the data
    pin: np.ndarray  # (particles, points), the weights of the pinned average
    along: np.ndarray  # (particles, points), the covariance of f with that average a priori
    variance: np.ndarray  # (particles, 1), the variance of that average a priori
    pull: np.ndarray  # (particles, 1), by how much the pin moves the average
    root: np.ndarray  # (particles, contrasts, contrasts), the Cholesky factor of the covariance of the seen contrasts
    excess: np.ndarray  # (particles, contrasts), the seen contrasts less their expectation a priori
    evidence: np.ndarray  # (particles,), the log density of the seen contrasts


def compression(p: CurveParameters, data: CurveData) -> tuple[np.ndarray, np.ndarray]:
    """(mean of the data in the units of f, d value / d f there), each (particles, points)."""
    finite = np.isfinite(p.compression)[:, None]
    s = np.where(finite, p.compression[:, None], 1.0)
    inside = np.where(finite, s * np.arcsinh(data.mean / s), data.mean)
    return inside, np.where(finite, np.sqrt(1 + (data.mean / s) ** 2), 1.0)


def conditional(p: CurveParameters, data: CurveData, shown: Seen) -> Conditional:
    """The curve given the draws, for each particle's parameters."""
    compressed, slope = compression(p, data)
    estimate, spread = shown.chosen(p)
    t = terms(p, data.t[None])
    prior = between(p, t, t)
    pin = 1 / slope / (1 / slope).sum(axis=1, keepdims=True)
    along = (prior @ pin[:, :, None])[:, :, 0]
    variance = (pin * along).sum(axis=1)[:, None]
    pull = (pin * (compressed - t.expected)).sum(axis=1)[:, None]
    mean = t.expected + along * pull / variance
    prior -= along[:, :, None] * (along / variance)[:, None, :]
    design = data.contrasts * slope[:, None, :]
    ahead = (design @ (mean - compressed)[:, :, None])[:, :, 0]
    total = design @ prior @ np.swapaxes(design, 1, 2) + spread
    total += NUGGET * np.eye(total.shape[1])
    excess = estimate - ahead
    # The factor of the matrix bordered by the excess has the whitened excess in its last row: no triangular solve.
    count = total.shape[1]
    bordered = np.empty((len(total), count + 1, count + 1))
    bordered[:, :count, :count] = total
    bordered[:, count, :count] = bordered[:, :count, count] = excess
    bordered[:, count, count] = BORDER
    bordered = np.linalg.cholesky(bordered)
    root, white = bordered[:, :count, :count], bordered[:, count, :count]
    evidence = -np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1) - 0.5 * (white**2).sum(axis=1)
    return Conditional(p, data, slope, pin, along, variance, pull, root, excess, evidence)


def moments(c: Conditional, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mean, covariance) of f given the draws at points at (particles or 1, n): (particles, n), (particles, n, n)."""
    a, t = terms(c.p, at), terms(c.p, c.data.t[None])
    inside, across = between(c.p, a, a), between(c.p, a, t)
    left = (across @ c.pin[:, :, None])[:, :, 0]
    mean = a.expected + left * c.pull / c.variance
    inside -= left[:, :, None] * (left / c.variance)[:, None, :]
    across -= left[:, :, None] * (c.along / c.variance)[:, None, :]
    design = c.data.contrasts * c.slope[:, None, :]
    cross = across @ np.swapaxes(design, 1, 2)
    white = np.linalg.solve(c.root, np.swapaxes(cross, 1, 2))
    mean = mean + (np.swapaxes(white, 1, 2) @ np.linalg.solve(c.root, c.excess[:, :, None]))[:, :, 0]
    inside -= np.swapaxes(white, 1, 2) @ white
    return mean, inside


def sample_paths(c: Conditional, at: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Joint sample paths of the curve given the draws, in scaled units, at (particles or 1, n) points in [0, 1], from
    standard normal numbers: both (particles, paths, n)."""
    mean, spread = moments(c, at)
    size = np.diagonal(spread, axis1=1, axis2=2).max(axis=1)[:, None, None]
    identity = np.eye(spread.shape[1])
    for nugget in (1e-9, 1e-7, 1e-5, 1e-3):
        try:
            root = np.linalg.cholesky(spread + (nugget * size + 1e-13) * identity)
            break
        except np.linalg.LinAlgError:
            continue
    else:
        value, vector = np.linalg.eigh(spread)
        root = vector * np.sqrt(np.clip(value, 0, None))[:, None, :]
    f = mean[:, None, :] + normal @ np.swapaxes(root, 1, 2)
    finite = np.isfinite(c.p.compression)
    s = np.where(finite, c.p.compression, 1.0)[:, None, None]
    return np.where(finite[:, None, None], s * np.sinh(np.clip(f / s, -LARGEST, LARGEST)), f)
