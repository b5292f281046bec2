"""Modes and matrices of deep linear networks, step by step or by an ODE solver: oracles for closed forms and flows."""

import functools

import numpy as np
from scipy.integrate import solve_ivp


def descended(weight, goal, lr, steps, depth):
    """Weight of each mode after `steps` steps towards `goal`: w ← w - 2 lr (w^L - goal) w^(L-1).

    With a penalty, pass goal M and lr (1+λ)η; THEORY §5 writes this as w ← w - 2η(w²-σ_ft)w - 2ηλ(w²-s_0)w. Overflows
    to inf or NaN if lr is too large.
    """
    w, target, rate, layers = (np.array(v, dtype=float) for v in np.broadcast_arrays(weight, goal, lr, depth))
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            w = w - 2 * rate * (w**layers - target) * w ** (layers - 1)
    return w


def followed(start, goal, time, depth):
    """The weights of modes after gradient flow towards `goal`, by an ODE solver."""
    given = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-14}
    return solve_ivp(lambda _, w: -2 * (w**depth - goal) * w ** (depth - 1), (0, time), start, **given).y[:, -1]


def multiplied(matrices, dim=1):
    """Their product; the identity of this size if there are none."""
    return functools.reduce(np.matmul, matrices) if len(matrices) else np.eye(dim)


def matrix_descent(layers, target, lr, steps, penalty=0.0):
    """Gradient descent of |P - target|² + penalty |P - P_0|² on matrices with the product P; the layers at the end."""
    start, dim = multiplied(layers), len(target)
    for _ in range(steps):
        product = multiplied(layers)
        slope = 2 * (product - target) + 2 * penalty * (product - start)
        around = [(multiplied(layers[:i], dim), multiplied(layers[i + 1 :], dim)) for i in range(len(layers))]
        layers = [w - lr * before.T @ slope @ after.T for w, (before, after) in zip(layers, around, strict=True)]
    return layers
