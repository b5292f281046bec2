"""The samples and labels of one draw: inputs of length 1, and two label functions at a given angle.

sphere: inputs are uniform on the unit sphere. Labels are linear: θ_S·x of the source and (cos α θ_S + sin α θ_⊥)·x of
the target, with unit vectors θ_S, θ_⊥ at a right angle. α is the angle between the maps; it is also the angle between
the two functions in mean square over the sphere and in the space of the kernel H∞, where θ·x has the length 2‖θ‖.

Images: pixels divided by their length. Labels are of classes: s = +1 for even ones and -1 for odd ones in the source,
cos α s + sin α p in the target. p tells the first half of the classes from the others, made orthogonal to s and of
equal mean square over all training images. So α is the angle between label vectors over all training images, in plain
label space, not in the kernel's. Both are multiplied with one number, for which no label at any angle is beyond ±1.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.training import draws
from raysweep.workloads import image_data

Array = np.ndarray
SPHERE = "sphere"
MOST_NEURONS = 10_000_000
TEST = 1000  # samples that the risk is measured on, or fewer where there are fewer test images


@dataclass(frozen=True, eq=False)
class Task:
    """source, target, test: inputs, (samples, dim), rows of length 1.

    source_labels: (source samples,).
    target_labels, test_labels: the two functions whose parts cos α and sin α make the target's labels, (2, samples).
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
        turn, spread = np.deg2rad(np.asarray(angles, float))[:, None], np.asarray(noises, float)[:, None]
        functions = (self.target_labels, self.test_labels)
        target, test = (np.cos(turn) * first + np.sin(turn) * second for first, second in functions)
        return target + spread * self.target_noise, test + spread * self.test_noise


def of_row(row: Mapping[str, Any]) -> Task:
    """The samples of a row, whatever its angle and noise."""
    parts = [part(row, name) for name in ("source", "target", "test")]
    (source, source_labels), (target, target_labels), (test, test_labels) = parts
    inputs = {"target": target, "test": test}
    noises = [draws.normal(int(row["seed"]), f"{name} noise", len(some)) for name, some in inputs.items()]
    return Task(source, target, test, source_labels[0], target_labels, test_labels, *noises)


def complaint(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """(parameter, what is wrong with it), of a row that cannot be computed; None of any other."""
    if math.isfinite(row["width"]) and row["width"] > MOST_NEURONS:
        return "width", f"expected at most {MOST_NEURONS:,} neurons, or .inf, got {row['width']:,.0f}"
    if row["data"] == SPHERE:
        return None
    if why := image_data.complaint(row["data"]):
        return "data", why.replace(image_data.FORMS, f"{SPHERE}, {image_data.FORMS}")
    there, source = len(image_data.load(row["data"]).train.labels), int(row["source_samples"])
    if source >= there:
        return "source_samples", f"expected fewer than the {there:,} training images of {row['data']}, got {source:,}"
    if (samples := int(row["target_samples"])) > there - source:
        left = f"the {there - source:,} training images of {row['data']} beside source_samples"
        return "target_samples", f"expected at most {left}, got {samples:,}"
    return None


def dimension(row: Mapping[str, Any]) -> int:
    if row["data"] == SPHERE:
        return int(row["dim"])
    return int(np.prod(image_data.load(row["data"]).train.pixels.shape[1:]))


def part(row: Mapping[str, Any], name: str) -> tuple[Array, Array]:
    """Inputs of the source, target or test part, and the values of the two label functions on them, (2, samples)."""
    seed = int(row["seed"])
    if row["data"] == SPHERE:
        samples, dim = TEST if name == "test" else int(row[f"{name}_samples"]), int(row["dim"])
        inputs = _unit(draws.normal(seed, f"{name} inputs", samples, dim))
        return inputs, draws.unit_vectors(seed, "label functions", 2, dim) @ inputs.T
    images, first = image_data.load(row["data"]), int(row["source_samples"])
    some, places = images.test, slice(TEST)
    if name != "test":  # one order of the training images for both, so that they share none
        some, places = images.train, slice(first)
        if name == "target":
            places = slice(first, first + int(row["target_samples"]))
    order = "test images" if name == "test" else "training images"
    chosen = draws.generator(seed, order).permutation(len(some.labels))[places]
    pixels = some.pixels[chosen].reshape(len(chosen), -1).astype(float)
    return _unit(pixels), _label_functions(images.digest, row["data"])[:, some.labels[chosen]]


@functools.lru_cache(maxsize=8)
def _label_functions(digest: str, name: str) -> Array:
    """The two label functions of the classes of a set of images, (2, classes)."""
    data = image_data.load(name)
    shares = np.bincount(data.train.labels, minlength=len(data.classes)) / len(data.train.labels)
    classes = np.arange(len(data.classes))
    parity, half = np.where(classes % 2 == 0, 1.0, -1.0), np.where(2 * classes < len(classes), 1.0, -1.0)
    half = half - (shares * half) @ parity * parity  # parity has mean square 1
    half = half / np.sqrt(shares @ half**2)
    functions = np.stack([parity, half])
    return np.asarray(functions / np.sqrt((functions**2).sum(0)).max())


def _unit(inputs: Array) -> Array:
    return np.asarray(inputs / np.linalg.norm(inputs, axis=1, keepdims=True))
