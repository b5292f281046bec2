"""Training from scratch from vanishing initialization: the minimum-norm solution X⁺y (F Thm 3.5-3.6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray


def risk(n: ArrayLike, dim: ArrayLike, noise: ArrayLike, target_norm: ArrayLike = 1.0) -> Array:
    """Expected |X⁺y - b_t|² at finite size, broadcast; exact (THEORY §1, from F Thm 3.5-3.6).

    t²(1 - n/d) + σ² n/(d-n-1) for n < d-1, σ² d/(n-d-1) for n > d+1. With noise the expectation is inf for
    |n-d| <= 1, and for |n-d| <= 3 the variance over draws is.
    """
    samples, d, sigma, norm = np.broadcast_arrays(*(np.asarray(value, float) for value in (n, dim, noise, target_norm)))
    signal = norm**2 * np.maximum(1 - samples / d, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(
            samples < d - 1, samples / (d - samples - 1), np.where(samples > d + 1, d / (samples - d - 1), np.inf)
        )
        return np.where((sigma > 0) & (samples > 0), signal + sigma**2 * factor, signal)


def risk_limit(gamma: ArrayLike, noise: ArrayLike, target_norm: ArrayLike = 1.0) -> Array:
    """Limit of `risk` as d → ∞ at γ = n/d, broadcast (F Thm 3.6); inf at γ = 1 with noise.

    t²(1-γ) + σ² γ/(1-γ) for γ < 1, σ²/(γ-1) for γ > 1.
    """
    ratio, sigma, norm = np.broadcast_arrays(*(np.asarray(value, float) for value in (gamma, noise, target_norm)))
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(ratio == 1, np.inf, np.minimum(ratio, 1.0) / np.abs(1 - ratio))
        return norm**2 * np.maximum(1 - ratio, 0.0) + np.where(sigma > 0, sigma**2 * factor, 0.0)
