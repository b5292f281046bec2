"""Gradient descent on the last layer alone, which is linear and therefore known after any number of steps."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def descend_readout(curvature: Array, pull: Array, start: Array, lr: Array, steps: Array) -> tuple[Array, Array]:
    """Weights after `steps` steps of w ← w - lr (curvature w - pull), and what is left of the gradient; (rows, modes).

    curvature (the penalty included), pull, start: (rows, modes), uncoupled modes. lr, steps: (rows,), finite.
    Overflows to inf or NaN where lr is too large for the curvature.
    """
    rate, count = lr[:, None], steps[:, None]
    factor = 1 - rate * curvature
    gradient = curvature * start - pull
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        contracting = factor > 0
        power = np.where(
            contracting,
            np.exp(count * np.log1p(-np.where(contracting, rate * curvature, 0.0))),
            np.where(count == 0, 1.0, np.abs(factor) ** count * np.where(count % 2 == 0, 1.0, -1.0)),
        )
        slow = contracting & (count * rate * curvature < 1e-6)  # where 1 - power would cancel
        total = np.where(
            slow,
            rate * count * (1 - 0.5 * rate * curvature * np.maximum(count - 1, 0)),
            (1 - power) / np.where(curvature > 0, curvature, 1.0),
        )
        return start - gradient * total, gradient * power
