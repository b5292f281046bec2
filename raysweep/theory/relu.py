"""Kernels of two-layer ReLU networks in closed form (Cho & Saul 2009), and what they span (F App. C; THEORY §6).

σ(y) = max(0, y). Weights enter as rows (neurons, dim); their lengths count. Inputs are N(0, I).

Then fine-tuning in the kernel limit (D §6, T §6). The network is f(x) = (1/√m) Σ_r a_r σ(w_r·x), a_r = ±1 fixed,
w_r(0) ~ N(0, κ²I); inputs have length 1. Gradient descent on ½‖y - f‖² changes W. As m grows the kernel H∞ (`slopes`)
no longer moves, and training ends at the solution that is nearest to its start. P is the source, Q the target.
"""

import contextlib
from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lapack

from raysweep.theory.arrays import Array

ROUNDING = 1e-14
"""A pivot below it, relative to the kernel, is 0 but for rounding: two samples then are 1e-13 apart, in radians."""


def cosines(left: Array, right: Array) -> tuple[Array, Array]:
    """(cosines, products of lengths) of all pairs of rows, (left, right) each; a row of zeros has cosine 0."""
    sizes = np.outer(np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1))
    return np.clip((left @ right.T) / np.where(sizes > 0, sizes, 1.0), -1.0, 1.0), sizes


def activations(left: Array, right: Array) -> Array:
    """E σ(u·x) σ(v·x) for all pairs of rows u, v, (left, right): F's eq. 153."""
    cosine, sizes = cosines(left, right)
    sine = np.sqrt((1 - cosine) * (1 + cosine))
    return np.asarray(sizes * (sine + cosine * (np.pi - np.arccos(cosine))) / (2 * np.pi))


def slopes(left: Array, right: Array) -> Array:
    """u·v E σ'(u·x) σ'(v·x) for all pairs of rows, (left, right): H∞ of D §6 and T §6 for inputs u, v of length 1."""
    cosine, sizes = cosines(left, right)
    return np.asarray(sizes * cosine * (np.pi - _angles(cosine, left, right)) / (2 * np.pi))


def _angles(cosine: Array, left: Array, right: Array) -> Array:
    """The angles of all pairs of rows, from 0 to π, (left, right).

    An arccos near 0 or π is only good to 1e-8, the root of the cosine's rounding. There the rows themselves are
    subtracted, or added, so that a row has the angle 0 to itself.
    """
    angle = np.arccos(cosine)
    for side, whole in ((1, 0.0), (-1, np.pi)):
        i, j = np.nonzero(side * cosine > 1 - 1e-6)
        u, v = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (left[i], right[j]))
        angle[i, j] = np.abs(whole - 2 * np.arcsin(np.linalg.norm(u - side * v, axis=1) / 2))
    return np.asarray(angle)


def residual(features: Array, teachers: Array, weights: Array) -> tuple[Array, Array]:
    """How much of f = Σ_i a_i σ(w*_i·x) lies outside of the span of σ(w_j·x), in squared length (F eq. 159).

    features: w, (neurons, dim). teachers: w*, (teachers, dim). weights: a of some functions, (functions, teachers).

    Gives the squared lengths outside of the span and of the whole functions, (functions,) each. Features are nearly
    dependent where a network has copied one of its teachers many times. So the span is built by a Cholesky
    factorization with pivots, which ends where what is left of every feature is rounding; K⁻¹ of the paper would
    amplify that.
    """
    whole = np.einsum("fi,ij,fj->f", weights, activations(teachers, teachers), weights)
    if not len(features):
        return whole, whole
    factor, pivots, rank, _ = lapack.dpstrf(activations(features, features), lower=1)
    chosen = pivots[:rank] - 1
    across = activations(features[chosen], teachers) @ weights.T
    inside, _ = lapack.dtrtrs(np.tril(factor[:rank, :rank]), across, lower=1)
    return np.clip(whole - (inside**2).sum(0), 0.0, None), whole


def solver(inputs: Array) -> Callable[[Array], Array]:
    """Gives H∞⁻¹ times values, (samples, ...), for the H∞ of these inputs, factorized once.

    LinAlgError where two inputs are parallel. NaN among the values, of a diverged network, stays NaN.
    """
    kernel = slopes(inputs, inputs)
    with contextlib.suppress(np.linalg.LinAlgError):
        factor = cho_factor(kernel, lower=True)
        if np.diag(factor[0]).min() ** 2 > ROUNDING * kernel.max():
            return lambda values: np.asarray(cho_solve(factor, values, check_finite=False))
    raise np.linalg.LinAlgError(
        "the kernel of these samples has no inverse: two of them point in the same direction, which D and T exclude"
    )


def carried(source: Array, labels: Array, inputs: Array) -> Array:
    """y_{P→Q} = H_PQᵀ H_P⁻¹ y_P of D §6.1: the outputs on other inputs after training on the source from f = 0.

    source: (source samples, dim). labels: (source samples, ...). inputs: (inputs, dim). Gives (inputs, ...).
    """
    return np.asarray(slopes(inputs, source) @ solver(source)(labels))


def mean_excess(source: Array, inputs: Array) -> tuple[float, float]:
    """What a start of scale κ = 1 adds on average, over initializations, in the limit m → ∞; both scale as κ².

    First to the squared change of the weights, tr(H_Q⁻¹C), then to D's change of the squared activation gradient,
    tr C - tr E σσ. C is the covariance of f(inputs; W(P)), (inputs, inputs): before pretraining E σσ
    (`activations`). Pretraining adds H_QP H_P⁻¹(y_P - f(X_P; W(0))), so that what is left of the start is
    f(X_Q) - B f(X_P), B = H_QP H_P⁻¹. D's terms in κ bound what it does.
    """
    weights = carried(source, np.eye(len(source)), inputs)
    across = weights @ activations(source, inputs)
    fitted = weights @ activations(source, source) @ weights.T
    covariance = activations(inputs, inputs) - across - across.T + fitted
    return float(np.trace(solver(inputs)(covariance))), float(np.trace(covariance) - len(inputs) / 2)


def outputs_at_start(inputs: Array, normal: Array) -> Array:
    """One draw of f(inputs; W(0)) with κ = 1 in the limit m → ∞: a Gaussian vector of covariance E σσ, (inputs,).

    normal: independent N(0,1) numbers, (inputs,). Noise of variance 1e-10 is added, by which the covariance of inputs
    that are nearly equal can be factorized, in the same order on every machine.
    """
    covariance = activations(inputs, inputs) + 1e-10 * np.eye(len(inputs))
    return np.asarray(np.linalg.cholesky(covariance) @ normal)


def remainder(samples: int, smallest: float, failure: float) -> float:
    """√(log(n/(λ₀δ))/n), the second term of T's Thm 6.1 and Cor. 6.3, whose constant T leaves open, here 1.

    smallest: λ₀, the smallest eigenvalue of H∞. failure: δ.
    """
    return float(np.sqrt(np.log(samples / (smallest * failure)) / samples))
