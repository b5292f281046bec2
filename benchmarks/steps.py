"""Steps sharper than half a cell of the grid, with the zero anywhere in its cell.

The zero of a third of them lies one width of the step before its middle, of another third one width after.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.boundaries import Line, noise_of

WIDTHS = (0.02, 0.05, 0.1, 0.2, 0.5)  # of the step, in cells
SIZES = (0.003, 0.02, 0.1)  # of one row's noise; the step is 2 high
DRAWS, POINTS = (3, 5, 10, 20), (9, 13)
KINDS = ("independent", "shift")
SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "arctangent": lambda u: np.arctan(u) / (np.pi / 2),
    "Gompertz": lambda u: 2 * np.exp(-np.exp(-u)) - 2 / np.e,
    "exponentials, one 4 times as long": lambda u: np.where(u < 0, np.expm1(np.minimum(u, 0)), -np.expm1(-u / 4)),
}
CURVES = {f"{name}, {width} cells": (name, width) for name in SHAPES for width in WIDTHS}


def lines(name: str, repeats: int) -> Iterator[Line]:
    """The steps of one shape and width: every size and kind of noise, number of draws and points, `repeats` times."""
    shape, width = SHAPES[CURVES[name][0]], CURVES[name][1]
    for number, (size, draws, points, kind) in enumerate(itertools.product(SIZES, DRAWS, POINTS, KINDS)):
        for repeat in range(repeats):
            rng = np.random.default_rng([11, list(CURVES).index(name), number, repeat])
            x, offset = np.linspace(0, 1, points), rng.integers(-1, 2)
            root = (rng.integers(1, points - 2) + rng.random()) / (points - 1)
            u = (x - root) * (points - 1) / width
            values = shape(u + offset) - shape(np.array(float(offset))) + size * noise_of(kind, rng, draws, x)
            if rng.random() < 0.5:
                x, values, root = 1 - x[::-1], -values[:, ::-1], 1 - root
            yield Line(x, values, root, size, draws, kind, 10 * number + repeat)
