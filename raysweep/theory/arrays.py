"""Functions that the closed forms share: angles in degrees, arrays of one shape, and the distinct rows of a table."""

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray

Array = np.ndarray


def cosine_sine(angle: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of angles in degrees (shape kept). Exact at 0, ±90 and ±180, so that no rounding shows there."""
    degrees = np.asarray(angle, dtype=float)
    radians, size = np.deg2rad(degrees), np.abs(degrees)
    return (np.where(size == 90.0, 0.0, np.cos(radians)), np.where(size == 180.0, 0.0, np.sin(radians)))


def broadcast(*values: ArrayLike) -> list[np.ndarray]:
    """The values as float64 arrays of one shape; each array has its own memory."""
    return [np.array(value, dtype=float) for value in np.broadcast_arrays(*values)]


def distinct(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of a table, and the index of each row among them: sweeps repeat few settings over many rows.

    columns: arrays of one size, or one table (rows, columns).
    """
    table = columns[0] if columns[0].ndim == 2 else np.stack(columns, axis=1)
    rows, inverse = np.unique(table, axis=0, return_inverse=True)
    return rows, inverse.reshape(-1)
