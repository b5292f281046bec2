"""Kernels of two-layer ReLU networks in closed form (Cho & Saul 2009), and what they span (F App. C; THEORY §6).

σ(y) = max(0, y). Weights enter as rows (neurons, dim); their lengths count. Inputs are N(0, I).
"""

import numpy as np
from scipy.linalg import lapack

Array = np.ndarray


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

    features: w, (neurons, dim). teachers: w*, (teachers, dim).
    weights: a of some functions, (functions, teachers).

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
