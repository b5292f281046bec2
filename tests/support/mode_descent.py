"""Gradient descent of the modes of a deep linear network, step by step: an oracle for closed forms and flows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def descended(weight: ArrayLike, goal: ArrayLike, lr: ArrayLike, steps: int, depth: ArrayLike) -> np.ndarray:
    """Weight of each mode after `steps` steps towards `goal`: w ← w - 2 lr (w^L - goal) w^(L-1).

    With a penalty, pass goal M and lr (1+λ)η; THEORY §5 writes this as w ← w - 2η(w²-σ_ft)w - 2ηλ(w²-s_0)w. Overflows
    to inf or NaN if lr is too large.
    """
    w, target, rate, layers = (np.array(v, dtype=float) for v in np.broadcast_arrays(weight, goal, lr, depth))
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            w = w - 2 * rate * (w**layers - target) * w ** (layers - 1)
    return w
