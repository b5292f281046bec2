"""Least squares with more samples than dimensions, for every number of samples of one draw."""

import numpy as np
from scipy.linalg import lapack

Array = np.ndarray
_BLOCK = 16


def noise_norms(inputs: Array, noise: Array, sizes: Array) -> Array:
    """‖X⁺ε‖² of the first n samples at each n of `sizes` (increasing, distinct, each above dim), shape (len(sizes),).

    inputs, noise: X (samples, dim) and ε (samples,).

    From R and Qᵀε of (X, ε); each n extends the factor of the n before.
    """
    dim = inputs.shape[1]
    joined = np.empty((dim + 1, len(inputs)))
    joined[:dim], joined[dim] = inputs.T, noise
    first = sizes[0]
    factor, _, _, _ = lapack.dgeqrf(joined[:, :first].T, lwork=64 * dim)
    triangle = np.asfortranarray(np.triu(factor[: dim + 1]))
    norms = np.empty(len(sizes))
    for index, n in enumerate(sizes):
        if index:
            triangle, _, _, _ = lapack.dtpqrt(
                0, min(_BLOCK, dim + 1), triangle, joined[:, sizes[index - 1] : n].T, overwrite_a=1
            )
        solution, _ = lapack.dtrtrs(triangle[:dim, :dim], triangle[:dim, dim])
        norms[index] = solution @ solution
    return norms
