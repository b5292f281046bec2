"""The rows of a table as arrays: both spectra, the pretrained modes, and the parameters of what follows."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from raysweep.theory import modes
from raysweep.training import draws
from raysweep.workloads.declaration import Array, Columns
from raysweep.workloads.linear_spectrum.spectra import read


@dataclass(frozen=True)
class Tasks:
    """Rows with one dim d.

    source, target, weights (pretrained, per layer): (rows, d). All others: (rows,).
    noises: (rows, 2), the noise of the layers 1, 3, … and that of 2, 4, …; negative if the perturbation is flipped.
    """

    source: Array
    target: Array
    weights: Array
    depth: Array
    angle: Array
    noise: Array
    penalty: Array
    lr: Array
    steps: Array
    noises: Array

    @property
    def time(self) -> Array:
        """Flow time of fine-tuning."""
        return self.lr * self.steps


def with_even_layers(columns: Columns) -> dict[str, Array]:
    """The columns and noise_of_even_layers, so that `noise` is that of the layers 1, 3, … alone."""
    return {**columns, "noise_of_even_layers": np.asarray(columns["noise"])}


def signs(columns: Columns) -> dict[str, Array]:
    """The columns whose negation flips a sign of the draw, each with the rows in which that makes a difference.

    The perturbations of the layers are normal and independent, so that each could have a sign of its own. Two signs
    that alternate cancel what is odd in one layer, or in one layer and the next.
    """
    noisy = np.asarray(columns["noise"]) != 0
    return {"noise": noisy, "noise_of_even_layers": noisy & (np.asarray(columns["depth"]) > 1)}


def by_dim(columns: Columns) -> Iterator[tuple[Array, Tasks]]:
    """The Tasks of each dim in the table: (row numbers, Tasks)."""
    dims = np.asarray(columns["dim"])
    for dim in np.unique(dims):
        index = np.flatnonzero(dims == dim)
        yield index, tasks({name: np.asarray(values)[index] for name, values in columns.items()})


def tasks(columns: Columns) -> Tasks:
    """The Tasks of rows with equal dim. ValueError on a spectrum that cannot be read."""
    dim = int(columns["dim"][0])
    source = np.stack([read(str(text), dim, True) for text in columns["source_spectrum"]])
    target = np.stack([read(str(text), dim) for text in columns["target_spectrum"]])
    of_task = ("depth", "overlap_angle", "noise", "penalty", "finetune_lr", "finetune_steps")
    depth, angle, noise, penalty, lr, steps = (np.asarray(columns[name], float) for name in of_task)
    length, init_scale = (np.asarray(columns[name], float)[:, None] for name in ("pretrain_length", "init_scale"))
    weights = modes.pretrained(source, length, init_scale, depth[:, None])
    noises = np.stack([noise, np.asarray(columns.get("noise_of_even_layers", noise), float)], axis=1)
    return Tasks(source, target, weights, depth, angle, noise, penalty, lr, steps, noises)


def perturbed(layers: Array, noise: Array, seeds: Array) -> Array:
    """A copy of layers (rows, L, d, d) plus `noise` times N(0,1) numbers that each row's seed draws.

    noise: (rows, 2), of the layers 1, 3, … and 2, 4, ….
    """
    layers = layers.copy()
    each = noise[:, np.arange(layers.shape[1]) % 2, None, None]
    drawn: dict[int, Array] = {}
    for row in np.flatnonzero(noise[:, 0]):
        seed = int(seeds[row])
        if seed not in drawn:
            drawn = {seed: draws.normal(seed, "perturbation", *layers.shape[1:])}  # rows of a seed are neighbours
        layers[row] += each[row] * drawn[seed]
    return layers


def diagonal(weights: Array, depth: int) -> Array:
    """Layers (rows, depth, d, d) with these weights (rows, d) on their diagonals."""
    return np.repeat((weights[:, None, :] * np.eye(weights.shape[1]))[:, None], depth, axis=1)


def product(layers: Array) -> Array:
    """W_1 W_2 … W_L, (rows, d, d), of layers (rows, L, d, d)."""
    return functools.reduce(np.matmul, layers.swapaxes(0, 1))
