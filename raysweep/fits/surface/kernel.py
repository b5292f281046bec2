"""The prior of a surface: a form that slices share around their lowest points, and a smooth deviation of each."""

from __future__ import annotations

import numpy as np

# Where hinges begin, in gaps of the grid from the lowest point; at the last one all lines are level.
KNOTS = np.arange(-6, 8) / 3
BUMP = 2.0  # how far apart bumps stand, and their standard deviation, in gaps of the grid
TIE = 1e-4  # a point halfway between two bumps, as every second one of a grid is, is near to the outer one


def basis(x: np.ndarray) -> np.ndarray:
    """1, x_k and x_k x_l (k <= l), in this order: shape (..., p) from (..., d)."""
    dimensions = range(x.shape[-1])
    products = [x[..., k] * x[..., m] for k in dimensions for m in dimensions if m >= k]
    return np.stack([np.ones(x.shape[:-1]), *(x[..., k] for k in dimensions), *products], axis=-1)


def apart(a: np.ndarray, b: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Squared distances along each input in units of its length scale: shape (d, ..., n, m)."""
    return np.stack([((a[..., :, None, k] - b[..., None, :, k]) / length[k]) ** 2 for k in range(a.shape[-1])])


def matern(squares: np.ndarray) -> np.ndarray:
    """Matérn's correlation with smoothness 5/2 from squared distances along each input."""
    r = np.sqrt(5 * squares.sum(0))
    return np.asarray((1 + r + r * r / 3) * np.exp(-r))


def matern_slope(squares: np.ndarray) -> np.ndarray:
    """What a squared distance along an input is multiplied by for the derivative by the logarithm of its length."""
    r = np.sqrt(5 * squares.sum(0))
    return np.asarray(5 / 3 * (1 + r) * np.exp(-r))


def hinges(x: np.ndarray, lowest: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Lines that begin at knots around the lowest point of a slice: with them a curve can have a bend or a knee there.

    x: points (..., n, d). lowest: (..., d). gap: of the grid along each input, shape (d,). Shape (..., n, d · knots).
    """
    from_lowest = (x - lowest[..., None, :]) / gap
    lines = np.clip(from_lowest[..., None] - KNOTS, 0, KNOTS[-1] - KNOTS)
    return np.asarray(lines.reshape(*lines.shape[:-2], -1))


def nodes(x: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Where bumps stand that points x (n, d), from the lowest points of their slices, are near to: shape (nodes, d)."""
    number = np.floor(np.abs(x) / gap / BUMP + 0.5 + TIE) * np.sign(x) + 0.0  # no -0
    return np.asarray(np.unique(number, axis=0) * BUMP)


def bumps(x: np.ndarray, lowest: np.ndarray, gap: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Normal bumps around the nodes `at`: with them slices share a smooth form over the whole grid.

    x, lowest, gap: as for `hinges`. Shape (..., n, nodes).
    """
    from_lowest = (x - lowest[..., None, :]) / gap / BUMP
    each = [np.exp(-0.5 * (from_lowest[..., k, None] - at[:, k] / BUMP) ** 2) for k in range(x.shape[-1])]
    return np.asarray(np.prod(each, axis=0))


def compressed(height: np.ndarray) -> np.ndarray:
    """Heights above the best of a slice, such that a cliff does not dominate: h below 0, log(1 + h) above."""
    return np.where(height > 0, np.log1p(np.maximum(height, 0)), height)


def restored(values: np.ndarray) -> np.ndarray:
    """Heights from compressed ones."""
    return np.where(values > 0, np.expm1(np.maximum(values, 0)), values)
