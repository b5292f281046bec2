"""Random draws, keyed by (seed, role) and by nothing else.

Numbers come from NumPy's Philox on the CPU, row by row: a smaller sample is a prefix of a larger one. A draw does not
depend on order, worker, pack or device. So rows that share a seed share their data (common random numbers).
"""

import hashlib

import numpy as np


def generator(seed: int, role: str) -> np.random.Generator:
    """The random stream of one role ("inputs", "noise", ...) of one seed."""
    key = int.from_bytes(hashlib.sha256(f"{seed}/{role}".encode()).digest()[:16], "little")
    return np.random.Generator(np.random.Philox(key=key))


def normal(seed: int, role: str, *shape: int) -> np.ndarray:
    """Independent N(0,1) numbers, float64, of the given shape (row-major, prefix-stable in the first axis)."""
    return generator(seed, role).standard_normal(shape)


def unit_vectors(seed: int, role: str, count: int, dim: int) -> np.ndarray:
    """`count` orthonormal vectors of length `dim`, oriented uniformly at random, shape (count, dim)."""
    gaussian = normal(seed, role, count, dim)
    vectors: list[np.ndarray] = []
    for vector in gaussian:
        for _ in range(2):  # a second pass restores orthogonality to the last digit
            for earlier in vectors:
                vector = vector - (vector @ earlier) * earlier
        vectors.append(vector / np.linalg.norm(vector))
    return np.stack(vectors)
