"""Overtraining in a deep linear network, mode by mode (paper O §4 and App. A; THEORY §5).

The map P = W_1 W_2 … W_L learns A = UΣVᵀ with loss ‖P - A‖_F², from layers that are balanced and aligned with U and V.
Each layer then has one weight w_i per singular vector, the map the mode s_i = w_i^L, and gradient flow is
dw/dt = -2 (w^L - σ) w^(L-1). Everything here is in those coordinates: the last axis of an array is the modes, the
axes before it are broadcast. O has L = 2; other depths are the same argument.

A penalty λ‖P - P_0‖_F² only moves the goal and the speed: (P - A)² + λ(P - P_0)² is (1+λ)(P - M)² and a constant,
M = (A + λP_0)/(1+λ).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from raysweep.theory import pretraining
from raysweep.theory.angles import cosine_sine

Array = np.ndarray


def follow(weight: ArrayLike, goal: ArrayLike, time: ArrayLike, depth: ArrayLike) -> Array:
    """Weight of each mode after flow time `time` towards `goal`, all broadcast, weight and goal >= 0; time may be inf.

    For two layers s(t) = σ/(1 + (σ/s_0 - 1) e^(-4σt)) (O Thm 4.1, Saxe et al.); a mode at 0 stays there, unless there
    is only one layer. For other depths see `pretraining`.
    """
    w, target, t, layers = (np.array(v, dtype=float) for v in np.broadcast_arrays(weight, goal, time, depth))
    result = w.copy()
    still = (t == 0) | ((w == 0) & (layers > 1))
    single = ~still & (layers == 1)
    result[single] = target[single] + (w[single] - target[single]) * np.exp(-2 * t[single])
    fading = ~still & ~single & (target == 0)
    power = 2 * layers[fading] - 2
    with np.errstate(over="ignore"):
        result[fading] = w[fading] * (1 + 2 * power * w[fading] ** power * t[fading]) ** (-1 / power)
    pair = ~still & (layers == 2) & (target > 0)
    s, sigma = w[pair] ** 2, target[pair]
    decay = np.exp(-4 * sigma * t[pair])
    with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
        grown = s / (decay - s * np.expm1(-4 * sigma * t[pair]) / sigma)  # keeps its digits for σ far below s too
    result[pair] = np.sqrt(np.where(s > 0, grown, s))  # s = 0 by underflow: as good as nothing
    deep = ~still & (layers > 2) & (target > 0)
    if deep.any():
        # `pretraining` has half this loss, and so half the speed
        result[deep] = np.exp(pretraining.log_scale(2 * t[deep], layers[deep], w[deep], target[deep]) / layers[deep])
    return result


def pretrained(spectrum: ArrayLike, length: ArrayLike, init_scale: ArrayLike, depth: ArrayLike) -> Array:
    """Weight of each mode after pretraining for `length` from layers init_scale·I: `follow` from there."""
    return follow(np.broadcast_to(init_scale, np.broadcast_shapes(np.shape(init_scale), np.shape(spectrum))), spectrum,
                  length, depth)


def descended(weight: ArrayLike, goal: ArrayLike, lr: ArrayLike, steps: int, depth: ArrayLike) -> Array:
    """Weight of each mode after `steps` steps of gradient descent towards `goal`: w ← w - 2 lr (w^L - goal) w^(L-1).

    With a penalty: goal M and lr (1+λ)η. THEORY §5 has it as w ← w - 2η(w²-σ_ft)w - 2ηλ(w²-s_0)w. Overflows to inf or
    NaN where lr is too large.
    """
    w, target, rate, layers = (np.array(v, dtype=float) for v in np.broadcast_arrays(weight, goal, lr, depth))
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            w = w - 2 * rate * (w**layers - target) * w ** (layers - 1)
    return w


def turned_loss(modes: ArrayLike, spectrum: ArrayLike, angle: ArrayLike) -> Array:
    """‖diag(modes) - diag(spectrum) R(angle)ᵀ‖_F² over the last axis, R as in `turned`; angle broadcasts without it."""
    s, sigma = np.broadcast_arrays(np.asarray(modes, float), np.asarray(spectrum, float))
    cosine, sine = (np.asarray(each)[..., None] for each in cosine_sine(angle))
    dim = s.shape[-1]
    paired = np.arange(dim) < dim - dim % 2
    along, across = np.where(paired, cosine, 1.0) * sigma, np.where(paired, sine, 0.0) * sigma
    return ((s - along) ** 2 + across**2).sum(-1)


def turned(spectrum: ArrayLike, angle: float) -> Array:
    """diag(spectrum) R(angle)ᵀ, (d, d): a task whose right singular vectors are turned by `angle` degrees.

    R turns vector i towards vector i + d//2, so that each is `angle` from where it was; the last of an odd d stays.
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
    """What N(0, noise²) on every entry of every d×d layer adds to the expected loss, whatever the task.

    weights (..., d), noise and depth without the last axis. Two layers: 2dγ²Σs_i + d³γ⁴ (O Lemma A.4, THEORY §5). Any
    depth, derived here: X_0 = I, X_l = W X_(l-1) W + γ² tr(X_(l-1)) I, E‖P‖² = tr X_L; diagonal, so O(d) a layer.
    """
    w = np.asarray(weights, float)
    variance = np.asarray(noise, float)[..., None] ** 2
    layers = np.broadcast_to(np.asarray(depth)[..., None], (*w.shape[:-1], 1))
    excess = np.zeros(np.broadcast_shapes(w.shape, variance.shape))
    clean = np.ones_like(w)
    for layer in range(int(layers.max(initial=0))):
        more = w**2 * excess + variance * (clean + excess).sum(-1, keepdims=True)
        excess = np.where(layer < layers, more, excess)
        clean = np.where(layer < layers, clean * w**2, clean)
    return excess.sum(-1)


def whole_mode_noise_losses(spectrum: ArrayLike, noise: float, depth: int) -> Array:
    """Expected pretraining loss under noise with the first n modes learned whole and no others, n = 0 … d, (d+1,)."""
    sigma = np.asarray(spectrum, float)
    learned = np.tril(np.ones((len(sigma) + 1, len(sigma))), -1) * sigma
    return ((learned - sigma) ** 2).sum(-1) + noise_excess(learned ** (1 / depth), noise, depth)


def whole_mode_finetune_losses(spectrum: ArrayLike, target: ArrayLike, penalty: float) -> tuple[Array, Array]:
    """(pretraining loss, in-domain loss) after fine-tuning from n whole modes, n = 0 … d, (d+1,) each.

    THEORY §5, O App. A. Valid while the modes from n+1 on stay negligible.
    """
    sigma, goal = np.asarray(spectrum, float), np.asarray(target, float)
    learned = np.tril(np.ones((len(sigma) + 1, len(sigma))), -1) > 0
    before = np.where(learned, ((goal - sigma) / (1 + penalty)) ** 2, sigma**2)
    domain = np.where(learned, (penalty * (sigma - goal) / (1 + penalty)) ** 2, goal**2)
    return before.sum(-1), domain.sum(-1)


def first_rise(losses: ArrayLike, first: int) -> int:
    """O Def. 4.2: the smallest r >= first with losses[r] < losses[r+1]; the last index where there is none."""
    values = np.asarray(losses, float)
    rises = np.flatnonzero(values[first:-1] < values[first + 1:])
    return first + int(rises[0]) if len(rises) else len(values) - 1


def noise_inflection(spectrum: ArrayLike, noise: float, depth: int) -> int:
    """Whole modes after which more pretraining hurts under noise; 0: any does; all nonzero modes: none.

    Two layers: #{i: σ_i >= 2dγ²} (THEORY §5, which corrects O's text by one). Other depths: Def. 4.2 on exact losses.
    """
    sigma = np.asarray(spectrum, float)
    nonzero = int((sigma > 0).sum())
    if depth == 2:
        return int(((sigma >= 2 * len(sigma) * noise**2) & (sigma > 0)).sum())
    return min(first_rise(whole_mode_noise_losses(sigma, noise, depth), 0), nonzero)


def finetune_inflection(spectrum: ArrayLike, target: ArrayLike, penalty: float) -> int:
    """Whole modes after which more pretraining hurts after fine-tuning; all nonzero modes where there are none such.

    The smallest r >= 1 with σ_ft,r+1 > (2+λ) σ_r+1 (O Def. 4.2, THEORY §5), nondecreasing in λ (O Thm 4.7).
    """
    sigma, goal = np.asarray(spectrum, float), np.asarray(target, float)
    nonzero = int((sigma > 0).sum())
    harmful = np.flatnonzero(goal[1:nonzero] > (2 + penalty) * sigma[1:nonzero])
    return 1 + int(harmful[0]) if len(harmful) else nonzero


def goal_modes(modes: ArrayLike, target: ArrayLike, penalty: ArrayLike) -> Array:
    """M = (σ_ft + λ s)/(1+λ), where fine-tuning from modes s ends (all broadcast)."""
    return (np.asarray(target, float) + np.asarray(penalty) * np.asarray(modes, float)) / (1 + np.asarray(penalty))


def curvature(goal: ArrayLike, penalty: ArrayLike, depth: ArrayLike) -> Array:
    """Curvature 2(1+λ) L M^(2-2/L) of the fine-tuning loss along a mode that has arrived (broadcast).

    Descent is locally stable iff lr < 2/curvature; for two layers that is η < 1/(2(σ_ft + λ s_0)) (THEORY §5).
    """
    layers = np.asarray(depth, float)
    return 2 * (1 + np.asarray(penalty, float)) * layers * np.asarray(goal, float) ** (2 - 2 / layers)
