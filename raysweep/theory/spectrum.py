"""Overtraining in a deep linear network: losses under noise and after fine-tuning (paper O §4 and App. A; THEORY §5).

Modes are as in `modes`: the last axis of an array is the modes, and the axes before it are broadcast. O treats two
layers; other depths follow by the same argument.
"""

import numpy as np
from numpy.typing import ArrayLike

from raysweep.theory.arrays import Array, cosine_sine


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

    weights: (..., d).
    noise, depth: without the last axis.

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
