"""Overtraining in a deep linear network: how its modes move, and losses under noise and after fine-tuning (paper O §4
and App. A, Saxe et al.; THEORY §5).

The map P = W_1 W_2 … W_L learns A = UΣVᵀ with loss ‖P - A‖_F². Its layers start balanced and aligned with U and V. Then
each layer has one weight w_i per singular vector, the map has the mode s_i = w_i^L, and gradient flow is
dw/dt = -2 (w^L - σ) w^(L-1). O treats two layers; other depths follow by the same argument. Functions of weights, goals
and modes broadcast; those of whole maps have the modes on the last axis.

A penalty λ‖P - P_0‖_F² changes only the goal and the speed: (P - A)² + λ(P - P_0)² is (1+λ)(P - M)² plus a constant,
with M = (A + λP_0)/(1+λ).
"""

import numpy as np
from numpy.typing import ArrayLike

from raysweep.theory.arrays import Array, cosine_sine

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_SATURATED = 60.0  # a logit whose sigmoid is 1 to the last digit


def turned_loss(modes: ArrayLike, spectrum: ArrayLike, angle: ArrayLike) -> Array:
    """‖diag(modes) - diag(spectrum) R(angle)ᵀ‖_F² over the last axis, R as in `turned`; angle has no such axis."""
    s, sigma = np.broadcast_arrays(np.asarray(modes, float), np.asarray(spectrum, float))
    cosine, sine = (np.asarray(each)[..., None] for each in cosine_sine(angle))
    dim = s.shape[-1]
    paired = np.arange(dim) < dim - dim % 2
    along, across = np.where(paired, cosine, 1.0) * sigma, np.where(paired, sine, 0.0) * sigma
    return ((s - along) ** 2 + across**2).sum(-1)


def turned(spectrum: ArrayLike, angle: float) -> Array:
    """diag(spectrum) R(angle)ᵀ, (d, d): a task whose right singular vectors are turned by `angle` degrees.

    R turns vector i towards vector i + d//2, so that every vector turns by `angle`. For odd d the last vector stays.
    """
    sigma = np.asarray(spectrum, float)
    dim, half = len(sigma), len(sigma) // 2
    cosine, sine = (float(each) for each in cosine_sine(angle))
    rotation = np.eye(dim)
    first = np.arange(half)
    rotation[first, first] = rotation[first + half, first + half] = cosine
    rotation[first + half, first], rotation[first, first + half] = sine, -sine
    return sigma[:, None] * rotation.T


def noise_excess(weights: ArrayLike, noise: ArrayLike, depth: ArrayLike) -> Array:
    """The expected increase of the loss by N(0, noise²) on every entry of every d×d layer, for any task.

    weights: (..., d). noise, depth: without the last axis.

    Two layers: 2dγ²Σs_i + d³γ⁴ (O Lemma A.4, THEORY §5). Any depth, derived here: X_0 = I,
    X_l = W X_(l-1) W + γ² tr(X_(l-1)) I, E‖P‖² = tr X_L. All X are diagonal, so a layer costs O(d).
    """
    w = np.asarray(weights, float)
    variance = np.asarray(noise, float)[..., None] ** 2
    layers = np.broadcast_to(np.asarray(depth)[..., None], (*w.shape[:-1], 1))
    excess = np.zeros(np.broadcast_shapes(w.shape, variance.shape))
    clean = np.ones_like(w)
    for layer in range(int(layers.max(initial=0))):
        with np.errstate(over="ignore", invalid="ignore"):
            more = w**2 * excess + variance * (clean + excess).sum(-1, keepdims=True)
        excess = np.where(layer < layers, more, excess)
        clean = np.where(layer < layers, clean * w**2, clean)
    return excess.sum(-1)


def whole_mode_noise_losses(spectrum: ArrayLike, noise: float, depth: int) -> Array:
    """Expected pretraining loss under noise if exactly the first n modes are learned, completely; n = 0 … d, (d+1,)."""
    sigma = np.asarray(spectrum, float)
    learned = np.tril(np.ones((len(sigma) + 1, len(sigma))), -1) * sigma
    return ((learned - sigma) ** 2).sum(-1) + noise_excess(learned ** (1 / depth), noise, depth)


def noise_inflection(spectrum: ArrayLike, noise: float, depth: int) -> int:
    """Number of whole modes after which more pretraining hurts under noise.

    0 if any pretraining hurts; the number of nonzero modes if more never hurts. Two layers: #{i: σ_i >= 2dγ²} (THEORY
    §5, which corrects O's text by one). Other depths: Def. 4.2 on the exact losses.
    """
    sigma = np.asarray(spectrum, float)
    nonzero = int((sigma > 0).sum())
    if depth == 2:
        return int(((sigma >= 2 * len(sigma) * noise**2) & (sigma > 0)).sum())
    rises = np.flatnonzero(np.diff(whole_mode_noise_losses(sigma, noise, depth)) > 0)
    return min([*rises.tolist(), nonzero])


def finetune_inflection(spectrum: ArrayLike, target: ArrayLike, penalty: float) -> int:
    """Number of whole modes after which more pretraining hurts after fine-tuning; all nonzero modes if it never hurts.

    The smallest r >= 1 with σ_ft,r+1 > (2+λ) σ_r+1 (O Def. 4.2, THEORY §5); nondecreasing in λ (O Thm 4.7(2)).
    """
    sigma, goal = np.asarray(spectrum, float), np.asarray(target, float)
    nonzero = int((sigma > 0).sum())
    harmful = np.flatnonzero(goal[1:nonzero] > (2 + penalty) * sigma[1:nonzero])
    return 1 + int(harmful[0]) if len(harmful) else nonzero


def follow(weight: ArrayLike, goal: ArrayLike, time: ArrayLike, depth: ArrayLike) -> Array:
    """Weight of each mode after flow time `time` towards `goal`, all broadcast; weight and goal >= 0; time may be inf.

    For two layers s(t) = σ/(1 + (σ/s_0 - 1) e^(-4σt)) (O Thm 4.1). A mode at 0 stays there, unless there is only one
    layer. For deeper networks the time to reach a mode is known in closed form; it is inverted by Newton's method.
    """
    w, target, t, layers = (np.array(v, dtype=float) for v in np.broadcast_arrays(weight, goal, time, depth))
    result = w.copy()
    still = (t == 0) | ((w == 0) & (layers > 1))
    single = ~still & (layers == 1)
    result[single] = target[single] + (w[single] - target[single]) * np.exp(-2 * t[single])
    pair = ~still & (layers == 2) & (target > 0)
    s, sigma = w[pair] ** 2, target[pair]
    decay = np.exp(-4 * sigma * t[pair])
    with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
        grown = s / (decay - s * np.expm1(-4 * sigma * t[pair]) / sigma)  # accurate also for σ far below s
    result[pair] = np.sqrt(np.where(s > 0, grown, s))  # s = 0 by underflow counts as 0
    ended = ~still & (layers > 2) & (target > 0) & np.isinf(t)
    result[ended] = target[ended] ** (1 / layers[ended])
    deep = ~still & (layers > 2) & (target > 0) & np.isfinite(t)
    fading = ~still & (layers > 1) & (target == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = layers * np.log(w) - np.log(target)  # of s to its goal
    rising, falling = deep & (log_ratio < 0), deep & (log_ratio > 0)
    fading |= falling & (log_ratio > 700)
    power = 2 * layers[fading] - 2
    result[fading] = w[fading] * (1 + 2 * power * w[fading] ** power * t[fading]) ** (-1 / power)
    falling &= ~fading
    result[rising] = _rise(w[rising], target[rising], t[rising], layers[rising], log_ratio[rising])
    result[falling] = _fall(w[falling], t[falling], layers[falling], -log_ratio[falling])
    return result


def goal_modes(modes: ArrayLike, target: ArrayLike, penalty: ArrayLike) -> Array:
    """M = (σ_ft + λ s)/(1+λ), the end of fine-tuning from modes s (all broadcast)."""
    return (np.asarray(target, float) + np.asarray(penalty) * np.asarray(modes, float)) / (1 + np.asarray(penalty))


def curvature(goal: ArrayLike, penalty: ArrayLike, depth: ArrayLike) -> Array:
    """Curvature 2(1+λ) L M^(2-2/L) of the fine-tuning loss along a mode at its goal (broadcast).

    Gradient descent is locally stable iff lr < 2/curvature; for two layers that is η < 1/(2(σ_ft + λ s_0)) (THEORY §5).
    """
    layers = np.asarray(depth, float)
    return 2 * (1 + np.asarray(penalty, float)) * layers * np.asarray(goal, float) ** (2 - 2 / layers)


def _rise(weight: Array, goal: Array, time: Array, depth: Array, log_start: Array) -> Array:
    """`follow` for L > 2 from below. log_start: log of y_0 = s_0/σ < 0.

    With y = s/σ and m = 1 - 2/L, the flow is dy/dt = 2L σ^(1+m) y^(1+m) (1 - y). With ρ = y/y_0 its integral from y_0
    to y is (1 - ρ^-m)/m + y_0^m [y^(1-m) Φ_-m(y)] = 2L σ s_0^m t, where [·] is the difference between y and y_0. The
    left side is concave in the logit of y, so Newton converges from the left.
    """
    m = 1 - 2 / depth
    start = log_start - np.log(-np.expm1(log_start))
    with np.errstate(under="ignore", over="ignore"):
        total = 2 * depth * goal * weight ** (depth - 2) * time
        share = np.exp(m * log_start)
        offset = np.exp((1 - m) * log_start) * _phi(start, -m)
        ahead = np.where(m * total < 1, log_start - np.log1p(-np.minimum(m * total, 1 - 1e-15)) / m, 0.0)
        z = np.where(ahead < np.log(0.5), ahead - np.log(-np.expm1(np.minimum(ahead, -0.1))), 0.0)
        z = np.maximum(z, start)
        for _ in range(200):
            log_y = -np.logaddexp(0, -z)
            gained = log_y - log_start
            value = -np.expm1(-m * gained) / m + share * (np.exp((1 - m) * log_y) * _phi(z, -m) - offset) - total
            following = np.clip(z - value * np.exp(m * gained), start, _SATURATED)
            change = np.abs(following - z)
            z = following
            if (change <= 1e-12 * np.maximum(1, np.abs(z))).all():
                break
    return weight * np.exp((-np.logaddexp(0, -z) - log_start) / depth)


def _fall(weight: Array, time: Array, depth: Array, log_start: Array) -> Array:
    """`follow` for L > 2 from above. log_start: log of q_0 = σ/s_0 < 0.

    With q = σ/s, m = 1 - 2/L and ρ = q/q_0, it solves ρ^(1+m) Φ_m(q) = Φ_m(q_0) + 2L s_0^(1+m) t. The logarithm of the
    left side is concave in the logit of q.
    """
    m = 1 - 2 / depth
    z = start = log_start - np.log(-np.expm1(log_start))
    with np.errstate(under="ignore", over="ignore"):
        target = np.log(_phi(start, m) + 2 * depth * weight ** (2 * depth - 2) * time)
        for _ in range(200):
            phi = _phi(z, m)
            value = (1 + m) * (-np.logaddexp(0, -z) - log_start) + np.log(phi) - target
            following = np.clip(z - value * phi, start, _SATURATED)
            change = np.abs(following - z)
            z = following
            if (change <= 1e-12 * np.maximum(1, np.abs(z))).all():
                break
    return weight * np.exp((np.logaddexp(0, -z) + log_start) / depth)


def _phi(logit: Array, power: Array) -> Array:
    """Φ_c(y) = y^-(1+c) ∫_0^y x^c/(1-x) dx = Σ_k y^k/(1+c+k), where y is the sigmoid of logit and c = power > -1."""
    low = np.minimum(logit, 0.0)
    y = np.exp(-np.logaddexp(0, -low))
    series = np.zeros_like(y)
    for k in range(55, -1, -1):
        series = series * y + 1 / (1 + power + k)
    high = np.flatnonzero(logit > 0)
    if len(high):
        z, c = logit[high], power[high]
        log_y = -np.logaddexp(0, -z)
        width = (np.exp(log_y) - 0.5) / 2
        x = 0.5 + width[:, None] * (1 + _NODES)
        rest = (-np.expm1(c[:, None] * np.log(x)) / (1 - x) * _WEIGHTS).sum(1) * width
        upper = np.logaddexp(0, z) + np.log(0.5) - rest
        series[high] = np.exp(-(1 + c) * log_y) * (0.5 ** (1 + c) * series[high] + upper)
    return series
