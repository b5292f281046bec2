"""Covariances of surfaces over one or two axes."""

from __future__ import annotations

import numpy as np


def quadratic(z: np.ndarray) -> np.ndarray:
    """1, z_k and z_k z_l of z[..., axes], as a last axis."""
    axes = z.shape[-1]
    products = [z[..., k] * z[..., m] for k in range(axes) for m in range(k, axes)]
    return np.stack([np.ones(z.shape[:-1]), *(z[..., k] for k in range(axes)), *products], axis=-1)


def matern(squares: np.ndarray) -> np.ndarray:
    """Matern 5/2 of squared distances in lengths."""
    r = np.sqrt(5 * squares + 1e-12)
    return np.asarray((1 + r + r * r / 3) * np.exp(-r))


def matern_slope(squares: np.ndarray) -> np.ndarray:
    """Half the derivative by log length of `matern`, over the part of the squared distance that this length scales."""
    r = np.sqrt(5 * squares + 1e-12)
    return np.asarray((5 / 6) * (1 + r) * np.exp(-r))


def rough_matern(squares: np.ndarray) -> np.ndarray:
    """Matern 3/2."""
    r = np.sqrt(3 * squares + 1e-12)
    return np.asarray((1 + r) * np.exp(-r))


def rough_matern_slope(squares: np.ndarray) -> np.ndarray:
    """As `matern_slope`, of Matern 3/2."""
    return np.asarray(1.5 * np.exp(-np.sqrt(3 * squares + 1e-12)))


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared differences along each axis, (axes, ..., n, m), of a[..., n, axes] and b[..., m, axes]."""
    return np.stack([(a[..., :, None, k] - b[..., None, :, k]) ** 2 for k in range(a.shape[-1])])
