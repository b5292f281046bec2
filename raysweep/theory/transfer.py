"""The closed forms of `linear_transfer`: training from scratch, and linear transfer (F Thm 3.5-3.8, T Thm 5.5).

Linear transfer learns only a multiple of the source direction on the target: the frozen features are rank one along
e_s, so the trained map is a·e_s with one regression coefficient a. Given S = |X e_s|² ~ χ²_n, the least-squares a is
Gaussian. So expectations at finite n are integrals over S alone.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincinv, ndtr

from raysweep.theory import finetune_mean, pretraining
from raysweep.theory.arrays import Array, broadcast, cosine_sine, distinct, floats, samples

_POINTS = 2001  # of the trapezoid rule in log S; for these integrands it converges faster than any power
_CHUNK = 500


def closed_form(columns: Mapping[str, Array]) -> dict[str, Array]:
    """risk_{scratch,linear,finetune} and transferability_{linear,finetune} of each row, shape (rows,) each.

    All are expectations over draws at the row's n = round(gamma·dim) and dim. The transferability of fine-tuning is
    integrated numerically (`finetune_mean`); the risk of fine-tuning is the scratch risk minus it. With frozen_layers
    >= 1 it is the expectation over least-squares multiples of the source (T Thm 5.5). A risk is inf if its expectation
    is. The difference of two infinite risks is NaN; without frozen layers this occurs only in transferability_linear.
    """
    names = ("dim", "depth", "noise", "target_norm", "overlap_angle", "frozen_layers")
    dim, depth, noise, norm, angle, frozen = floats(columns, *names)
    n = samples(columns).astype(float)
    log_scale = pretraining.log_scale(columns["pretrain_length"], depth, columns["init_scale"], columns["source_norm"])
    risk_scratch = scratch_risk(n, dim, noise, norm)
    risk_linear = linear_risk(angle, n, noise, norm, effective_ridge(columns["ridge"], depth, log_scale))
    held = (frozen > 0) & (n > 0)  # without samples fine-tuning stays at its start, with or without frozen layers
    transferability = finetune_mean.transferability(angle, n, dim, noise, np.where(held, 1, depth), log_scale, norm)
    with np.errstate(invalid="ignore"):
        risk_finetune = risk_scratch - transferability
        several = depth - frozen >= 2
        for some, risk in ((held & ~several, linear_risk), (held & several, linear_risk_nonnegative)):
            if some.any():
                risk_finetune[some] = risk(angle[some], n[some], noise[some], norm[some])
        transferability[held] = (risk_scratch - risk_finetune)[held]
        return with_gains(risk_scratch, risk_linear, risk_finetune) | {"transferability_finetune": transferability}


def with_gains(scratch: Array, linear: Array, finetune: Array) -> dict[str, Array]:
    """risk_{scratch,linear,finetune}, and transferability_{linear,finetune}: how far the first is above the others."""
    risks = {"scratch": scratch, "linear": linear, "finetune": finetune}
    gains = {f"transferability_{name}": scratch - risks[name] for name in ("linear", "finetune")}
    return {f"risk_{name}": risk for name, risk in risks.items()} | gains


def effective_ridge(ridge: Array, depth: Array, log_scale: Array) -> Array:
    """ridge/φ² (broadcast): the penalty on features of scale 1 that has the effect of `ridge` on features of scale φ.

    The L-1 frozen layers of a balanced network with end-to-end scale c have scale φ = c^((L-1)/L) (F eq. 14).
    """
    layers = np.asarray(depth, float)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        shrink = np.exp(2 * (layers - 1) / layers * np.asarray(log_scale, float))
        return np.where(np.asarray(ridge) > 0, np.asarray(ridge, float) / shrink, 0.0)


def scratch_risk(n: ArrayLike, dim: ArrayLike, noise: ArrayLike, target_norm: ArrayLike = 1.0) -> Array:
    """Expected |X⁺y - b_t|² at finite size, broadcast; exact (THEORY §1, from F Thm 3.5-3.6).

    Training from a vanishing initialization ends at the minimum-norm solution X⁺y. The expectation is
    t²(1 - n/d) + σ² n/(d-n-1) for n < d-1, and σ² d/(n-d-1) for n > d+1. With noise it is inf for |n-d| <= 1, and its
    variance over draws is inf for |n-d| <= 3.
    """
    samples, d, sigma, norm = broadcast(n, dim, noise, target_norm)
    signal = norm**2 * np.maximum(1 - samples / d, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(samples > d + 1, d / (samples - d - 1), np.inf)
        factor = np.where(samples < d - 1, samples / (d - samples - 1), factor)
        return np.where((sigma > 0) & (samples > 0), signal + sigma**2 * factor, signal)


def linear_risk(
    angle: ArrayLike, n: ArrayLike, noise: ArrayLike, target_norm: ArrayLike = 1.0, effective_ridge: ArrayLike = 0.0
) -> Array:
    """Expected risk of linear transfer, exact at finite n, broadcast. Angles in degrees.

    Without ridge it is t² sin²θ + (σ² + t² sin²θ)/(n-2) (F Thm 3.7), and inf for n <= 2 unless σ = sin θ = 0. With
    ridge (F eq. 127), a is the ridge coefficient with penalty nλ, and the expectation is an integral over S. For n = 0
    the map is the solution of least norm, 0.

    effective_ridge: λ for features of scale 1; for features of scale φ it is λ/φ².
    """
    cosine, sine = cosine_sine(angle)
    columns = (cosine * target_norm, sine * target_norm, n, noise, effective_ridge)
    along, across, samples, sigma, ridge = broadcast(*columns)
    spread = sigma**2 + across**2
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse_mean = np.where(samples > 2, 1 / (samples - 2), np.inf)
        plain = np.array(across**2 + np.where(spread > 0, spread * inverse_mean, 0.0))
    penalized = (ridge > 0) & (samples > 0)
    if penalized.any():
        shrinkage, variance = _ridge_moments(samples[penalized], ridge[penalized])
        plain[penalized] = across[penalized] ** 2 + along[penalized] ** 2 * shrinkage + spread[penalized] * variance
    return np.where(samples > 0, plain, along**2 + across**2)


def linear_risk_nonnegative(angle: ArrayLike, n: ArrayLike, noise: ArrayLike, target_norm: ArrayLike = 1.0) -> Array:
    """Expected risk of max(a, 0)·e_s for the least-squares a, broadcast: behind frozen layers, two or more are trained.

    An exactly balanced flow cannot change the sign of its map; it stops at 0 instead (THEORY §2). inf for n <= 2 unless
    σ = sin θ = 0. For n = 0 the map is 0.
    """
    cosine, sine = cosine_sine(angle)
    along, across, samples, sigma = broadcast(cosine * target_norm, sine * target_norm, n, noise)
    spread = np.sqrt(sigma**2 + across**2)
    risk = across**2 + np.minimum(along, 0.0) ** 2  # the risk without spread
    risk = np.where((spread > 0) & (samples <= 2), np.inf, risk)
    random = (spread > 0) & (samples > 2)
    if random.any():
        risk[random] = across[random] ** 2 + _truncated(along[random], spread[random], samples[random])
    return np.where(samples > 0, risk, along**2 + across**2)


def _ridge_moments(n: Array, ridge: Array) -> tuple[Array, Array]:
    """E[(Λ/(S+Λ))²] and E[S/(S+Λ)²] with Λ = nλ; computed once for each distinct (n, λ)."""
    rows, index = distinct(n, ridge)
    moments = np.empty((2, len(rows)))
    for first in range(0, len(rows), _CHUNK):
        part = slice(first, first + _CHUNK)
        samples, penalty = rows[part, 0], rows[part, 0] * rows[part, 1]
        # with few samples, the integrand with 1/S extends far below the mass of S, down to Λ
        reach = np.where(samples <= 6, np.log(penalty) - 80 / (samples + 2), np.inf)
        low = np.minimum(np.log(_quantile(samples)), reach)
        log_s, weight = _nodes(samples, low)
        share = 1 / (1 + np.exp(log_s - np.log(penalty)[:, None]))  # Λ/(S+Λ)
        moments[0, part] = (weight * share**2).sum(1)
        moments[1, part] = (weight * share * (1 - share)).sum(1) / penalty
    return moments[0][index], moments[1][index]


def _truncated(along: Array, spread: Array, n: Array) -> Array:
    """E (max(a, 0) - m)² for a = m + τ g/√S. Given S it is m² Φ(-h) + (τ²/S)(Φ(h) - h φ(h)), h = m√S/τ. For n > 2."""
    rows, index = distinct(along, spread, n)
    values = np.empty(len(rows))
    for first in range(0, len(rows), _CHUNK):
        m, tau, samples = rows[first : first + _CHUNK].T
        log_s, weight = _nodes(samples, np.log(_quantile(samples - 2)))
        h = m[:, None] * np.exp(log_s / 2) / tau[:, None]
        density = np.exp(-(h**2) / 2) / np.sqrt(2 * np.pi)
        inner = m[:, None] ** 2 * ndtr(-h) + tau[:, None] ** 2 * np.exp(-log_s) * (ndtr(h) - h * density)
        values[first : first + _CHUNK] = (weight * inner).sum(1)
    return values[index]


def _quantile(degrees: Array) -> Array:
    """A point below which χ² lies with negligible probability, even if weighted."""
    small = 2 * gammaincinv(degrees / 2, 1e-22)  # the chi-squared quantile
    return np.where(small > 1e-280, small, 1e-280)


def _nodes(n: Array, low: Array) -> tuple[Array, Array]:
    """Nodes in log S, shape (rows, points), and the χ²_n probability of each; the weights sum to 1."""
    high = np.log(n + 14 * np.sqrt(2 * n) + 120)
    log_s = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, _POINTS)
    log_weight = n[:, None] / 2 * log_s - np.exp(log_s) / 2
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return log_s, weight / weight.sum(axis=1, keepdims=True)
