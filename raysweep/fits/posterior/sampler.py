"""Tempered sequential Monte Carlo: a sample of standard normal coordinates weighted by a likelihood, and its evidence.

Source: Del Moral, Doucet and Jasra, "Sequential Monte Carlo samplers" (2006); Ter Braak, "A Markov chain Monte Carlo
version of the genetic algorithm differential evolution" (2006) for the moves along differences of particles.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

FIRST = 8  # times as many particles are drawn from the prior
MOVES, LAST = 3, 4  # moves at each temperature, and more at the last
AT_ONCE = 400  # particles in one call: more do not fit a processor's cache
ENOUGH = 0.5  # share of effective particles that a step of the temperature keeps


def sample(
    log_likelihood: Callable[[np.ndarray], np.ndarray], coordinates: int, rng: np.random.Generator, particles: int
) -> tuple[np.ndarray, float]:
    """Draw (particles, coordinates) from the density of standard normal coordinates times the likelihood; also the
    logarithm of the mean likelihood under that normal density.

    log_likelihood: of coordinates (any, coordinates); -inf is allowed.
    """
    z = rng.standard_normal((FIRST * particles, coordinates))
    like, heat, scale, evidence = safely(log_likelihood, z), 0.0, 0.6, 0.0
    while heat < 1:
        new = next_heat(like, heat, ENOUGH * particles)
        weight = np.exp((new - heat) * np.maximum(like - like.max(), -1e300))
        evidence += float((new - heat) * like.max() + np.log(weight.mean()))
        weight /= weight.sum()
        at = (rng.random() + np.arange(particles)) / particles
        chosen = np.minimum(np.searchsorted(np.cumsum(weight), at), len(z) - 1)
        z, like, heat = z[chosen], like[chosen], new
        root = np.linalg.cholesky(np.cov(z.T) + 1e-4 * np.eye(coordinates))
        for move in range(MOVES + (LAST if heat == 1 else 0)):
            if move % 3 == 2:
                proposal = refreshed(z, rng)
            else:
                proposal = z + scale * (along_differences(z, rng) if move % 3 else some_coordinates(z, root, rng))
            proposed = safely(log_likelihood, proposal)
            with np.errstate(invalid="ignore"):
                gain = heat * (proposed - like) - 0.5 * (proposal**2 - z**2).sum(axis=1)
            taken = np.log(rng.random(particles)) < gain
            z, like = np.where(taken[:, None], proposal, z), np.where(taken, proposed, like)
            if move % 3 != 2:
                scale = float(np.clip(scale * np.exp(0.5 * (taken.mean() - 0.25)), 0.05, 1.5))
    return z, evidence


def safely(log_likelihood: Callable[[np.ndarray], np.ndarray], z: np.ndarray) -> np.ndarray:
    """The log likelihood at each of z; -inf where a factorization fails or the result is not a number."""
    if len(z) > AT_ONCE:
        return np.concatenate([safely(log_likelihood, z[k : k + AT_ONCE]) for k in range(0, len(z), AT_ONCE)])
    with np.errstate(all="ignore"):
        try:
            like = log_likelihood(z)
        except np.linalg.LinAlgError:
            if len(z) == 1:
                return np.array([-np.inf])
            half = len(z) // 2
            return np.concatenate([safely(log_likelihood, z[:half]), safely(log_likelihood, z[half:])])
    return np.where(np.isfinite(like), like, -np.inf)


def next_heat(like: np.ndarray, heat: float, count: float) -> float:
    """The next power of the likelihood, which leaves `count` effective particles; at most 1."""
    height = np.maximum(like - like.max(), -1e300)

    def effective(power: float) -> float:
        weight = np.exp(power * height)
        return float(weight.sum() ** 2 / (weight**2).sum())

    if effective(1 - heat) >= count:
        return 1.0
    low, high = 0.0, 1 - heat
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if effective(middle) > count else (low, middle)
    return heat + max(low, 1e-12)


def some_coordinates(z: np.ndarray, root: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Steps with the covariance of the particles, in about half of the particles along a few coordinates only."""
    count, size = z.shape
    kept = (rng.random((count, size)) < 0.4) | (rng.random((count, 1)) < 0.4)
    return np.where(kept, 1.3 * (rng.standard_normal((count, size)) @ root.T), 0.0)


def along_differences(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Steps along differences of two other particles."""
    first, second = rng.integers(0, len(z), (2, len(z)))
    return np.asarray(0.7 * (z[first] - z[second]) + 1e-3 * rng.standard_normal(z.shape))


def refreshed(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """z with about two coordinates of each particle drawn anew from the prior."""
    fresh = rng.random(z.shape) < 2 / z.shape[1]
    return np.where(fresh, rng.standard_normal(z.shape), z)
