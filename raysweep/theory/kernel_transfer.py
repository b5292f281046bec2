"""Fine-tuning in the kernel limit of a two-layer ReLU network (D §6, T §6): closed forms for given inputs.

The network is f(x) = (1/√m) Σ_r a_r σ(w_r·x), a_r = ±1 fixed, w_r(0) ~ N(0, κ²I); inputs have length 1. Gradient
descent on ½‖y - f‖² changes W. As m grows the kernel H∞ (`relu.slopes`) no longer moves, and training ends at the
solution that is nearest to its start. P is the source, Q the target.
"""

import contextlib
from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from raysweep.theory import relu

Array = np.ndarray
ROUNDING = 1e-14
"""A pivot below it, relative to the kernel, is 0 but for rounding: two samples then are 1e-13 apart, in radians."""


def solver(inputs: Array) -> Callable[[Array], Array]:
    """Gives H∞⁻¹ times values, (samples, ...), for the H∞ of these inputs, factorized once.

    LinAlgError where two inputs are parallel. NaN among the values, of a diverged network, stays NaN.
    """
    kernel = relu.slopes(inputs, inputs)
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
    return np.asarray(relu.slopes(inputs, source) @ solver(source)(labels))


def mean_excess(source: Array, inputs: Array) -> tuple[float, float]:
    """What a start of scale κ = 1 adds on average, over initializations, in the limit m → ∞; both scale as κ².

    First to the squared change of the weights, tr(H_Q⁻¹C), then to D's change of the squared activation gradient,
    tr C - tr E σσ. C is the covariance of f(inputs; W(P)), (inputs, inputs): before pretraining E σσ
    (`relu.activations`). Pretraining adds H_QP H_P⁻¹(y_P - f(X_P; W(0))), so that what is left of the start is
    f(X_Q) - B f(X_P), B = H_QP H_P⁻¹. D's terms in κ bound what it does.
    """
    weights = carried(source, np.eye(len(source)), inputs)
    across = weights @ relu.activations(source, inputs)
    fitted = weights @ relu.activations(source, source) @ weights.T
    covariance = relu.activations(inputs, inputs) - across - across.T + fitted
    return float(np.trace(solver(inputs)(covariance))), float(np.trace(covariance) - len(inputs) / 2)


def outputs_at_start(inputs: Array, normal: Array) -> Array:
    """One draw of f(inputs; W(0)) with κ = 1 in the limit m → ∞: a Gaussian vector of covariance E σσ, (inputs,).

    normal: independent N(0,1) numbers, (inputs,). Noise of variance 1e-10 is added, by which the covariance of inputs
    that are nearly equal can be factorized, in the same order on every machine.
    """
    covariance = relu.activations(inputs, inputs) + 1e-10 * np.eye(len(inputs))
    return np.asarray(np.linalg.cholesky(covariance) @ normal)


def remainder(samples: int, smallest: float, failure: float) -> float:
    """√(log(n/(λ₀δ))/n), the second term of T's Thm 6.1 and Cor. 6.3, whose constant T leaves open, here 1.

    smallest: λ₀, the smallest eigenvalue of H∞. failure: δ.
    """
    return float(np.sqrt(np.log(samples / (smallest * failure)) / samples))
