"""Teachers, starts and data of a draw, from (seed, role) alone: a larger sample contains a smaller one."""

from typing import Any

import numpy as np

from raysweep.training import draws
from raysweep.workloads.relu_features import removed

Array = np.ndarray
Row = dict[str, Any]


def on_sphere(seed: int, role: str, count: int, dim: int) -> Array:
    """`count` independent uniform vectors of length 1, shape (count, dim)."""
    vectors = draws.normal(seed, role, count, dim)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def teacher(row: Row) -> Array:
    """The features of the target's teacher, (teacher_width, dim); the source's lacks the first ones."""
    return on_sphere(row["seed"], "teacher", row["teacher_width"], row["dim"])


def source_weights(row: Row) -> Array:
    """What each feature of the target's teacher counts in the source's, (teacher_width,): 0 if it is removed, and the
    same for all others, which add up to 1 (F eq. 19)."""
    gone = removed(row["ablation"], row["teacher_width"])
    there = np.arange(row["teacher_width"]) >= gone
    return np.asarray(there / (row["teacher_width"] - gone))


def start(row: Row) -> Array:
    """The features of every network of the draw before training, (width, dim)."""
    return on_sphere(row["seed"], "features", row["width"], row["dim"])


def data(row: Row, number: int) -> tuple[Array, Array]:
    """One data set of the target: inputs (target_samples, dim) and labels (target_samples,)."""
    n = row["target_samples"]
    inputs = draws.normal(row["seed"], f"inputs {number}", n, row["dim"])
    noise = draws.normal(row["seed"], f"noise {number}", n)
    return inputs, np.maximum(inputs @ teacher(row).T, 0).mean(1) + row["noise"] * noise
