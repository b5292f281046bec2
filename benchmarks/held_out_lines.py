"""Lines with one zero on which the boundary fit was not tuned: `python -m benchmarks.held_out_lines`.

They were written before the method and looked at when it was done. Other shapes, grids and noise than in `boundaries`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.boundaries import DRAWS, POINTS, SIZES, Curve, Line, main


def steps_apart(x: np.ndarray, root: float, where: float) -> np.ndarray:
    """A line with two kinks, one on each side of its zero and up to a cell and a half away, steep between them."""
    cell = 1 / (len(x) - 1)
    left, right = root - (0.5 + abs(where)) * cell, root + (1.5 - abs(where)) * cell
    knots = [left - 2, left, root, right, right + 2]
    heights = [4 * (root - left) + 2, 4 * (root - left), 0.0, 4 * (root - right), 4 * (root - right) - 2]
    return np.asarray(np.interp(x, knots, heights))


CURVES: dict[str, Curve] = {
    "Gompertz": lambda x, root, _: np.exp(-np.exp(6 * (x - root))) - np.exp(-1.0),
    "logarithm": lambda x, root, _: np.log((root + 0.05) / (x + 0.05)) / 2,
    "pole beyond the edge": lambda x, root, _: 0.2 / (1.1 - root) - 0.2 / (1.1 - x),
    "arctangent step": lambda x, root, _: np.arctan((root - x) / 0.04) / np.pi + 0.3 * (root - x),
    "ripple on a line": lambda x, root, where: (
        root - x + 0.05 * (np.sin(10 * (x + where)) - np.sin(10 * (root + where)))
    ),
    "power 0.7": lambda x, root, _: np.sign(root - x) * np.abs(root - x) ** 0.7,
    "power 1.5": lambda x, root, _: np.sign(root - x) * np.abs(root - x) ** 1.5,
    "two kinks": steps_apart,
}
# Transferability over the angle between teachers has noise in proportion to sin(angle), nearly the same for all angles.
NOISES = ("sine", "smooth", "growing and shared", "own, heavy tails", "in proportion", "own and shift")


def noise_of(kind: str, rng: np.random.Generator, x: np.ndarray, draws: int, height: np.ndarray) -> np.ndarray:
    """Noise (draws, points) of about size 1."""
    own, (first, second) = rng.standard_normal((draws, len(x))), rng.standard_normal((2, draws, 1))
    if kind == "sine":
        return np.asarray(first * np.sin(np.pi / 2 * (0.05 + 0.95 * x)) + 0.03 * own)
    if kind == "smooth":
        places = np.linspace(-0.5, 1.5, 9)
        bumps = np.exp(-0.5 * ((x[:, None] - places) / 0.3) ** 2)
        return np.asarray(rng.standard_normal((draws, 9)) @ bumps.T / 1.3 + 0.05 * own)
    if kind == "growing and shared":
        return np.asarray((0.05 + 2 * x**2) * (first + 0.2 * second * np.cos(2 * x) + 0.05 * own))
    if kind == "own, heavy tails":
        return np.asarray(rng.standard_t(4, (draws, len(x))) / np.sqrt(2))
    if kind == "in proportion":
        return np.asarray(2 * np.abs(height) / np.abs(height).max() * first + 0.3 * own)
    return np.asarray(0.7 * own + 0.7 * first)


def lines(name: str, repeats: int) -> Iterator[Line]:
    """The curves of one name, on grids that are even or not, some with more draws near the zero than elsewhere."""
    for number, (size, draws, points, kind) in enumerate(itertools.product(SIZES, DRAWS, POINTS, NOISES)):
        for repeat in range(repeats):
            rng = np.random.default_rng([8, list(CURVES).index(name), number, repeat])
            x, root = np.linspace(0, 1, points), rng.uniform(0.2, 0.8)
            if rng.random() < 0.3:
                x[1:-1] += rng.uniform(-0.35, 0.35, points - 2) / (points - 1)
            height = CURVES[name](x, root, rng.uniform(-1, 1))
            values = height + size * noise_of(kind, rng, x, draws, height)
            if draws > 4 and rng.random() < 0.3:
                far = np.argsort(np.abs(x - root))[4:]
                values[np.ix_(np.arange(draws // 2, draws), far)] = np.nan
            if rng.random() < 0.5:
                x, values, root = 1 - x[::-1], -values[:, ::-1], 1 - root
            yield Line(x, values, root, size, draws, kind, 10 * number + repeat)


if __name__ == "__main__":
    main(lines, list(CURVES), sys.argv[1:])
