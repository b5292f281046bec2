"""Functions that closed forms and engines share: angles in degrees, arrays of one shape, and the rows of a table."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

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


def alike(*columns: ArrayLike) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
    """The rows that agree in some columns: (their values, row numbers), in the order in which they first appear."""
    places: dict[tuple[Any, ...], list[int]] = {}
    for row, values in enumerate(zip(*(np.asarray(column).tolist() for column in columns), strict=True)):
        places.setdefault(values, []).append(row)
    return ((values, np.array(rows)) for values, rows in places.items())


def samples(columns: Mapping[str, Array]) -> Array:
    """Target samples n = round(gamma * dim) of each row, shape (rows,), int64 (halves round to even)."""
    return np.round(np.asarray(columns["gamma"], float) * np.asarray(columns["dim"], float)).astype(np.int64)


def floats(columns: Mapping[str, Array], *names: str) -> list[Array]:
    """Some columns as float64, (rows,) each."""
    return [np.asarray(columns[name], float) for name in names]
