"""The rows of a table as arrays: both spectra, read from text, the pretrained modes, and what follows them;
and what rows of one draw cost. Without torch and SciPy."""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from raysweep.theory import spectrum
from raysweep.theory.arrays import alike, floats
from raysweep.training import draws
from raysweep.workloads import symmetric
from raysweep.workloads.declaration import Array, Columns, Cost

FORMS = (
    "singular values as in 2,1.5,1 (the rest 0), or power:FIRST:EXPONENT, "
    "geometric:FIRST:RATIO, linear:FIRST:LAST, each with :COUNT at the end for fewer than dim"
)
_KINDS = ("power", "geometric", "linear")
_STEP_CAP = 1e5
_FLOPS = 2e10


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
    for _, rows in alike(columns["dim"]):
        yield rows, tasks({name: np.asarray(values)[rows] for name, values in columns.items()})


def tasks(columns: Columns) -> Tasks:
    """The Tasks of rows with equal dim. ValueError on a spectrum that cannot be read."""
    dim = int(columns["dim"][0])
    source = np.stack([read(str(text), dim, True) for text in columns["source_spectrum"]])
    target = np.stack([read(str(text), dim) for text in columns["target_spectrum"]])
    of_task = ("depth", "overlap_angle", "noise", "penalty", "finetune_lr", "finetune_steps")
    depth, angle, noise, penalty, lr, steps = floats(columns, *of_task)
    length, init_scale = floats(columns, "pretrain_length", "init_scale")
    weights = spectrum.follow(init_scale[:, None], source, length[:, None], depth[:, None])
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


@functools.lru_cache(maxsize=4096)
def read(text: str, dim: int, falling: bool = False) -> np.ndarray:
    """The singular values that `text` names, shape (dim,), read-only; zeros follow if it names fewer.

    power:a:p is a·i^-p, geometric:a:q is a·q^(i-1), linear:a:b goes from a to b in even steps, i = 1 … COUNT.
    falling: no value may be above the value before it.
    ValueError says what was expected.
    """
    kind, *rest = (part.strip() for part in text.split(":"))
    if kind in _KINDS:
        if len(rest) not in (2, 3):
            raise ValueError(f"expected {kind} with two or three numbers, as in {kind}:2:0.5:4, got {text!r}")
        first, shape = _number(rest[0], text), _number(rest[1], text)
        count = dim
        if len(rest) == 3:
            number = _number(rest[2], text)
            if number != int(number) or number < 1:
                raise ValueError(f"expected a whole COUNT of at least 1, got {rest[2]} in {text!r}")
            count = int(number)
        _fits(count, dim, text)
        index = np.arange(1, count + 1, dtype=float)
        values = np.linspace(first, shape, count)
        with np.errstate(over="ignore"):
            if kind != "linear":
                values = first * (index**-shape if kind == "power" else shape ** (index - 1))
    else:
        if rest:
            raise ValueError(f"expected {FORMS}; got {text!r}")
        listed = [_number(part.strip(), text) for part in text.split(",")]
        _fits(len(listed), dim, text)
        values = np.array(listed)
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(f"expected finite singular values of at least 0, got {text!r}")
    if falling and (np.diff(values) > 0).any():
        order = "from the largest to the smallest (the order they are learned in)"
        raise ValueError(f"expected singular values {order}, got {text!r}")
    if falling and not values.any():
        raise ValueError(f"expected at least one singular value above 0, got {text!r}")
    spectrum = np.concatenate([values, np.zeros(dim - len(values))])
    spectrum.setflags(write=False)
    return spectrum


def _number(part: str, text: str) -> float:
    try:
        value = float(part)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"expected {FORMS}; got {part!r} in {text!r}")
    return value


def _fits(count: int, dim: int, text: str) -> None:
    if count > dim:
        raise ValueError(f"expected at most dim = {dim} singular values, got {count} in {text!r}")


def of_rows(columns: Columns) -> Cost:
    """Seconds and peak bytes of all rows of one draw, which share engine and dim."""
    engine, dim = str(columns["engine"][0]), int(columns["dim"][0])
    if engine != "theory":  # each sign choice is trained
        columns = with_even_layers(columns)
        columns, _ = symmetric.expanded(columns, signs(columns))
    rows, depth = len(columns["dim"]), np.asarray(columns["depth"], float)
    base = Cost(1e-3 + rows * (2e-5 + 4e-7 * dim), 1e6 + rows * (1000.0 + 200.0 * dim))
    if engine == "theory":
        return base
    layers = float(8 * (3 * depth.max() + 4) * dim**2)
    steps = np.where(np.asarray(columns["finetune_steps"]) > 0, np.minimum(columns["finetune_steps"], _STEP_CAP), 0.0)
    # seconds of a gradient, or of a perturbed product
    work = 6 * np.maximum(depth - 1, 0.5) * float(dim) ** 3 / _FLOPS + 5e-9 * depth * dim**2
    if engine == "flow":
        coupled = (np.asarray(columns["noise"]) != 0) | ((np.asarray(columns["overlap_angle"]) > 0) & (steps > 0))
        evaluations = np.where(coupled, np.where(steps > 0, 600.0, 1.0), 0.0)
        seconds = (evaluations * (2e-5 * depth + work) + np.where(coupled, 1e-4, 0.0)).sum()
        return Cost(base.seconds + float(seconds), base.peak_bytes + 20 * layers)
    # a step of a batch has a fixed time, which is charged to its longest row
    seconds = float(steps.max(initial=0.0)) * float(depth.max()) * 1.5e-5 + float((steps * work).sum())
    return Cost(base.seconds + 1e-2 + seconds, base.peak_bytes + min(rows * layers, 64e6 + layers))
