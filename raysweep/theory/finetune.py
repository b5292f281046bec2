"""The end point of gradient flow from a (partly) pretrained balanced network of any depth (THEORY §3).

For n < d the end point is r P⊥e_s + X⁺y with r = c^(1/L) s^((L-1)/(2L)), where s is its squared norm. Special cases are
F Thm 3.9 (noiseless, c = 1) and T Thm 5.2. Symbols: depth L, pretrained norm c, target norm t, noise σ, γ = n/d. Names
that end in _limit are the limit d → ∞. `finetune_mean.transferability` is the expectation at finite d.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from raysweep.theory.arrays import broadcast, cosine_sine

Array = np.ndarray


def log_squared_norm(log_scale: ArrayLike, depth: ArrayLike, p: ArrayLike, q: ArrayLike) -> Array:
    """log s, where s is the unique positive root of s = c^(2/L) s^((L-1)/L) p + q (THEORY §3), broadcast.

    log_scale: log c.
    p, q: |P⊥e_s|² and |X⁺y|², not negative; the result is -inf where both are 0.

    The root is found by Newton on log s - log(c^(2/L) p s^((L-1)/L) + q). This function increases and is concave, so
    that Newton from below converges without overshoot.
    """
    log_c, layers, orthogonal, fitted = broadcast(log_scale, depth, p, q)
    with np.errstate(divide="ignore"):
        return log_squared_norm_of_logs(2 * log_c / layers + np.log(orthogonal), np.log(fitted), layers)


def log_squared_norm_of_logs(log_moved: Array, log_fitted: Array, layers: Array) -> Array:
    """`log_squared_norm` from log c^(2/L) p and log q, so that the numbers themselves may overflow or underflow."""
    power = (layers - 1) / layers
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        y = np.maximum(log_fitted, layers * log_moved)  # s >= q and s^(1/L) >= c^(2/L) p
        open_rows = np.isfinite(y)
        for _ in range(100):
            total = np.logaddexp(log_moved + power * y, log_fitted)
            share = np.exp(log_moved + power * y - total)
            step = np.where(open_rows, (total - y) / (1 - power * share), 0.0)
            y = y + step
            if not (np.abs(step) > 1e-15 * layers * np.maximum(1.0, np.abs(y))).any():
                break
    return y


def rescaling(log_scale: ArrayLike, depth: ArrayLike, p: ArrayLike, q: ArrayLike) -> Array:
    """r in the end point r P⊥e_s + X⁺y, broadcast: the norm that the unmoved part of the source keeps."""
    log_c, layers, orthogonal, fitted = broadcast(log_scale, depth, p, q)
    log_s = log_squared_norm(log_c, layers, orthogonal, fitted)
    with np.errstate(invalid="ignore", under="ignore"):
        return np.exp(log_c / layers + np.where(layers == 1, 0.0, (layers - 1) / (2 * layers) * log_s))


def rescaling_limit(
    gamma: ArrayLike, noise: ArrayLike, depth: ArrayLike, log_scale: ArrayLike = 0.0, target_norm: ArrayLike = 1.0
) -> Array:
    """r as d → ∞ at γ = n/d < 1 and any angle, broadcast: p = 1-γ, q = t²γ + σ²γ/(1-γ); NaN for γ >= 1."""
    ratio, sigma, layers, log_c, norm = broadcast(gamma, noise, depth, log_scale, target_norm)
    below = ratio < 1
    ratio = np.where(below, ratio, 0.5)
    q = norm**2 * ratio + sigma**2 * ratio / (1 - ratio)
    return np.where(below, rescaling(log_c, layers, 1 - ratio, q), np.nan)


def rescaling_deep(gamma: ArrayLike, noise: ArrayLike, target_norm: ArrayLike = 1.0) -> Array:
    """r as d → ∞ and then L → ∞ (T Thm 5.2, eq. 6, with noise), broadcast: r² = t² + σ²/(1-γ); NaN for γ >= 1."""
    ratio, sigma, norm = broadcast(gamma, noise, target_norm)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(ratio < 1, np.sqrt(norm**2 + sigma**2 / (1 - ratio)), np.nan)


def transferability_limit(
    angle: ArrayLike,
    gamma: ArrayLike,
    noise: ArrayLike,
    depth: ArrayLike,
    log_scale: ArrayLike = 0.0,
    target_norm: ArrayLike = 1.0,
) -> Array:
    """𝒯_ft = (1-γ) r (2 t cos θ - r) as d → ∞, broadcast; exactly 0 for γ >= 1 (THEORY §3). Angles in degrees.

    The expectation at finite d differs from it by O(1/d). At σ = 0, c = 1, t = 1 it is F's (17): (γ-1)(1 - 2 cos θ).
    """
    cosine, _ = cosine_sine(angle)
    along, ratio, sigma, layers, log_c, norm = broadcast(
        cosine * target_norm, gamma, noise, depth, log_scale, target_norm
    )
    r = rescaling_limit(ratio, sigma, layers, log_c, norm)
    return np.where(ratio < 1, (1 - ratio) * r * (2 * along - r), 0.0)


def transferability_paper(angle: ArrayLike, gamma: ArrayLike) -> Array:
    """F Thm 3.9 (eq. 17) as printed: (γ-1)(1 - 2 cos θ), 0 for γ >= 1. It is wrong with noise and L >= 2."""
    cosine, _ = cosine_sine(angle)
    return np.maximum(1 - np.asarray(gamma, float), 0.0) * (2 * cosine - 1)


def boundary_angle_limit(
    gamma: ArrayLike, noise: ArrayLike, depth: ArrayLike, log_scale: ArrayLike = 0.0, target_norm: ArrayLike = 1.0
) -> Array:
    """Angle in degrees below which fine-tuning helps as d → ∞, broadcast: cos θ* = r/(2t) (THEORY §3).

    NaN if no angle helps (r > 2t), and for γ >= 1, where fine-tuning equals scratch. It is 60 degrees at σ = 0, c = t =
    1.
    """
    norm = np.asarray(target_norm, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.rad2deg(np.arccos(rescaling_limit(gamma, noise, depth, log_scale, norm) / (2 * norm)))


def boundary_angle_deep(gamma: ArrayLike, noise: ArrayLike, target_norm: ArrayLike = 1.0) -> Array:
    """`boundary_angle_limit` as L → ∞, broadcast: no angle helps if σ²/(1-γ) > 3t²."""
    norm = np.asarray(target_norm, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.rad2deg(np.arccos(rescaling_deep(gamma, noise, norm) / (2 * norm)))
