"""Linear transfer: only a multiple of the source direction is learned on the target (F Thm 3.7-3.8, T Thm 5.5).

The frozen features are rank one along e_s, so that the trained map is a·e_s with one regression coefficient a. Given
S = |X e_s|² ~ χ²_n, the least-squares a is Gaussian: expectations at finite n are integrals over S alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincinv, ndtr

from raysweep.theory.angles import cosine_sine

Array = np.ndarray

_POINTS = 2001  # of the trapezoid rule in log S, which converges faster than any power for these integrands
_CHUNK = 500


def risk(
    angle: ArrayLike, n: ArrayLike, noise: ArrayLike, target_norm: ArrayLike = 1.0, effective_ridge: ArrayLike = 0.0
) -> Array:
    """Expected risk of linear transfer, exact at finite n, broadcast. Angles in degrees.

    Without ridge t² sin²θ + (σ² + t² sin²θ)/(n-2) (F Thm 3.7), inf for n <= 2 unless σ = sin θ = 0. With ridge λ on
    features of scale 1 (`effective_ridge` = λ/φ² on features of scale φ), F eq. 127: a is the ridge coefficient with
    penalty nλ, and the expectation is taken over S. n = 0: the solution of least norm is 0.
    """
    cosine, sine = cosine_sine(angle)
    along, across, samples, sigma, ridge = _broadcast(
        cosine * target_norm, sine * target_norm, n, noise, effective_ridge
    )
    spread = sigma**2 + across**2
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse_mean = np.where(samples > 2, 1 / (samples - 2), np.inf)
        plain = np.array(across**2 + np.where(spread > 0, spread * inverse_mean, 0.0))
    penalized = (ridge > 0) & (samples > 0)
    if penalized.any():
        shrinkage, variance = _ridge_moments(samples[penalized], ridge[penalized])
        plain[penalized] = across[penalized] ** 2 + along[penalized] ** 2 * shrinkage + spread[penalized] * variance
    return np.where(samples > 0, plain, along**2 + across**2)


def risk_limit(angle: ArrayLike, target_norm: ArrayLike = 1.0, effective_ridge: ArrayLike = 0.0) -> Array:
    """Limit of `risk` as n → ∞, broadcast: t²(1 - cos²θ (1+2λ)/(1+λ)²) (F Thm 3.8, eq. 15)."""
    cosine, _ = cosine_sine(angle)
    ridge = np.asarray(effective_ridge, float)
    return np.asarray(target_norm, float) ** 2 * (1 - cosine**2 * (1 + 2 * ridge) / (1 + ridge) ** 2)


def risk_nonnegative(angle: ArrayLike, n: ArrayLike, noise: ArrayLike, target_norm: ArrayLike = 1.0) -> Array:
    """Expected risk of max(a, 0)·e_s for the least-squares a, broadcast: frozen first layers, two or more trained.

    An exactly balanced flow cannot change the sign of its map and stops at 0 instead (THEORY §2). inf for n <= 2
    unless σ = sin θ = 0. n = 0: the zero map.
    """
    cosine, sine = cosine_sine(angle)
    along, across, samples, sigma = _broadcast(cosine * target_norm, sine * target_norm, n, noise)
    spread = np.sqrt(sigma**2 + across**2)
    risk = across**2 + np.minimum(along, 0.0) ** 2  # what is left without spread
    risk = np.where((spread > 0) & (samples <= 2), np.inf, risk)
    random = (spread > 0) & (samples > 2)
    if random.any():
        risk[random] = across[random] ** 2 + _truncated(along[random], spread[random], samples[random])
    return np.where(samples > 0, risk, along**2 + across**2)


def boundary_gammas(angle: ArrayLike, noise: ArrayLike, target_norm: ArrayLike = 1.0) -> tuple[Array, Array]:
    """(γ₋, γ₊) between which linear transfer hurts for γ < 1 as n → ∞, broadcast; NaN where it never does.

    γ± = ½[q ± √(q² - 4 cos²θ)], q = 1 + cos²θ - σ²/t² (F §3.3), there being such an island iff σ < t and
    θ > arccos(1 - σ/t); above 90 degrees as at 180 - θ.
    """
    cosine, _ = cosine_sine(angle)
    cos_angle, sigma, norm = _broadcast(np.abs(cosine), noise, target_norm)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = sigma / norm
        exists = (relative < 1) & (cos_angle < 1 - relative)
        q = 1 + cos_angle**2 - relative**2
        # (1 - cos θ)² - σ² and (1 + cos θ)² - σ² multiply to q² - 4cos²θ without cancellation
        root = np.sqrt(((1 - cos_angle) ** 2 - relative**2) * ((1 + cos_angle) ** 2 - relative**2))
        upper = (q + root) / 2
        lower = cos_angle**2 / upper
    return np.where(exists, lower, np.nan), np.where(exists, upper, np.nan)


def boundary_gamma_above(angle: ArrayLike, noise: ArrayLike, target_norm: ArrayLike = 1.0) -> Array:
    """The γ > 1 past which linear transfer hurts as n → ∞: 1 + σ²/(t² sin²θ), broadcast; inf where it never does."""
    _, sine = cosine_sine(angle)
    across, sigma = _broadcast(sine * target_norm, noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(across > 0, 1 + sigma**2 / across**2, np.inf)


def _broadcast(*values: ArrayLike) -> list[Array]:
    return [np.array(value, dtype=float) for value in np.broadcast_arrays(*values)]


def _ridge_moments(n: Array, ridge: Array) -> tuple[Array, Array]:
    """E[(Λ/(S+Λ))²] and E[S/(S+Λ)²] with Λ = nλ, each distinct (n, λ) once."""
    distinct, inverse = np.unique(np.stack([n, ridge], axis=1), axis=0, return_inverse=True)
    moments = np.empty((2, len(distinct)))
    for first in range(0, len(distinct), _CHUNK):
        part = slice(first, first + _CHUNK)
        samples, penalty = distinct[part, 0], distinct[part, 0] * distinct[part, 1]
        # few samples: 1/S reaches far below the mass of S, down to Λ
        reach = np.where(samples <= 6, np.log(penalty) - 80 / (samples + 2), np.inf)
        low = np.minimum(np.log(_quantile(samples)), reach)
        log_s, weight = _nodes(samples, low)
        share = 1 / (1 + np.exp(log_s - np.log(penalty)[:, None]))  # Λ/(S+Λ)
        moments[0, part] = (weight * share**2).sum(1)
        moments[1, part] = (weight * share * (1 - share)).sum(1) / penalty
    return moments[0][inverse.reshape(-1)], moments[1][inverse.reshape(-1)]


def _truncated(along: Array, spread: Array, n: Array) -> Array:
    """E (max(a, 0) - m)² for a = m + τ g/√S: given S, m² Φ(-h) + (τ²/S)(Φ(h) - h φ(h)), h = m√S/τ. For n > 2."""
    table = np.stack([along, spread, n], axis=1)
    distinct, inverse = np.unique(table, axis=0, return_inverse=True)
    values = np.empty(len(distinct))
    for first in range(0, len(distinct), _CHUNK):
        m, tau, samples = distinct[first : first + _CHUNK].T
        log_s, weight = _nodes(samples, np.log(_quantile(samples - 2)))
        h = m[:, None] * np.exp(log_s / 2) / tau[:, None]
        density = np.exp(-(h**2) / 2) / np.sqrt(2 * np.pi)
        inner = m[:, None] ** 2 * ndtr(-h) + tau[:, None] ** 2 * np.exp(-log_s) * (ndtr(h) - h * density)
        values[first : first + _CHUNK] = (weight * inner).sum(1)
    return values[inverse.reshape(-1)]


def _quantile(degrees: Array) -> Array:
    """A point that χ² falls below with negligible probability, even when weighted."""
    small = 2 * gammaincinv(degrees / 2, 1e-22)  # the chi-squared quantile
    return np.where(small > 1e-280, small, 1e-280)


def _nodes(n: Array, low: Array) -> tuple[Array, Array]:
    """Nodes in log S, shape (rows, points), and the χ²_n probability of each; the weights sum to 1."""
    high = np.log(n + 14 * np.sqrt(2 * n) + 120)
    log_s = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, _POINTS)
    log_weight = n[:, None] / 2 * log_s - np.exp(log_s) / 2
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return log_s, weight / weight.sum(axis=1, keepdims=True)
