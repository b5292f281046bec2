"""The samples and labels of one draw: inputs of length 1, and two label functions at a given angle.

sphere: inputs are uniform on the unit sphere; labels are linear, θ_S·x of the source and (cos α θ_S + sin α θ_⊥)·x of the
target, with unit vectors θ_S, θ_⊥ at a right angle. α is the angle between the maps; it is also the angle between the
two functions in the mean square over the sphere, and in the space of the kernel H∞, where a linear map θ·x has the
length 2‖θ‖ (`raysweep/theory/THEORY.md` §6).

Images: pixels divided by their length. Labels are of classes: s = +1 for even ones and -1 for odd ones in the source,
cos α s + sin α p in the target. p tells the classes below five from the others, made orthogonal to s and of equal mean
square over all training images. So α is the angle between label vectors over all training images, in plain label space,
not in the kernel's. Both are multiplied with one number, for which no label of any angle is beyond ±1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.training import draws

Array = np.ndarray
SPHERE = "sphere"
TEST = 1000  # samples of the sphere that the risk is measured on


@dataclass(frozen=True, eq=False)
class Task:
    """source, target, test: inputs, (samples, dim), rows of length 1.

    source_labels: (source samples,).
    target_labels, test_labels: values of the two functions that make the target's labels, (samples, 2), for cos α, sin α.
    target_noise, test_noise: independent N(0,1) numbers, (samples,).
    """

    source: Array
    target: Array
    test: Array
    source_labels: Array
    target_labels: Array
    test_labels: Array
    target_noise: Array
    test_noise: Array

    def labels(self, angles: Array, noises: Array) -> tuple[Array, Array]:
        """The labels of the target and of the test samples at angles in degrees, (rows, samples) each."""
        turn = np.deg2rad(np.asarray(angles, float))
        turns, spread = np.stack([np.cos(turn), np.sin(turn)], axis=1), np.asarray(noises, float)[:, None]
        return (
            turns @ self.target_labels.T + spread * self.target_noise,
            turns @ self.test_labels.T + spread * self.test_noise,
        )


def of_row(row: Mapping[str, Any]) -> Task:
    """The samples of a row of the stage `finetune`, whatever its angle and noise."""
    source, source_labels = source_of(row)
    parts = [_sphere(row, "target", int(row["target_samples"])), _sphere(row, "test", TEST)]
    (target, target_labels), (test, test_labels) = parts
    seed = int(row["seed"])
    return Task(
        source,
        target,
        test,
        source_labels,
        target_labels,
        test_labels,
        draws.normal(seed, "target noise", len(target)),
        draws.normal(seed, "test noise", len(test)),
    )


def source_of(row: Mapping[str, Any]) -> tuple[Array, Array]:
    """Inputs of the source, (samples, dim), and their labels, (samples,): what pretraining sees of a row."""
    inputs, values = _sphere(row, "source", int(row["source_samples"]))
    return inputs, values[:, 0]


def _sphere(row: Mapping[str, Any], part: str, samples: int) -> tuple[Array, Array]:
    """Inputs of one part, and the values of the two label functions on them."""
    seed, dim = int(row["seed"]), int(row["dim"])
    inputs = draws.normal(seed, f"{part} inputs", samples, dim)
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    return inputs, inputs @ draws.unit_vectors(seed, "label functions", 2, dim).T
