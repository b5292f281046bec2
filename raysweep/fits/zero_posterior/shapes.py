"""Shapes of a mean curve a priori: Gaussian processes over the grid, and rough stretches near the zero.

Curves are scaled so that the largest |mean| is 1, and x so that the grid goes from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

LEVEL, LINEAR, SQUARE = 2.0, 1.5, 3.0  # standard deviations of a constant, a line and a parabola about the middle
LENGTHS = {"squared exponential": (0.2, 0.4, 0.8), "Matern 5/2": (0.2, 0.5, 1.2), "Matern 3/2": (0.15, 0.5)}
SIZES = {0.05: 0.3, 0.2: 0.35, 0.8: 0.35}  # standard deviations about the parabola, with their chances
WARPS = {-1.5: 0.25, 0.0: 0.5, 1.5: 0.25}  # x is stretched so that its scale changes by this factor of e
ROUGH = 0.3  # the chance of a rough stretch: about one cell wide, far rougher than the rest of the curve
ROUGH_WIDTHS, ROUGH_LENGTHS, ROUGH_SIZES = (1.0, 2.0), (0.7, 2.0), (0.3, 1.0)  # widths and lengths in cells
MANY = 6  # with more cells that may hold the zero there is no telling which stretch is rough


@dataclass(frozen=True)
class Shape:
    """A Gaussian process: constant, line and parabola in warped x, a stationary process, and perhaps a rough stretch.

    rough: (middle, width, length, size) of the stretch; None for none.
    """

    family: str
    length: float
    size: float
    warp: float
    rough: tuple[float, float, float, float] | None = None

    def covariance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The covariance between the curve at a and at b, shape (a, b)."""
        warped_a, warped_b = _warped(a, self.warp), _warped(b, self.warp)
        c, d = warped_a - 0.5, warped_b - 0.5
        smooth = self.size**2 * _correlation(self.family, np.abs(warped_a[:, None] - warped_b) / self.length)
        smooth = smooth + LEVEL**2 + LINEAR**2 * np.outer(c, d) + SQUARE**2 * np.outer(c**2, d**2)
        if self.rough is None:
            return np.asarray(smooth)
        middle, width, length, size = self.rough
        window = np.outer(*(np.exp(-0.5 * ((x - middle) / width) ** 2) for x in (a, b)))
        return np.asarray(smooth + size**2 * window * _correlation("Matern 3/2", np.abs(a[:, None] - b) / length))

    def variance(self, x: np.ndarray) -> np.ndarray:
        """The diagonal of the covariance."""
        c = _warped(x, self.warp) - 0.5
        smooth = self.size**2 + LEVEL**2 + LINEAR**2 * c**2 + SQUARE**2 * c**4
        if self.rough is None:
            return np.asarray(smooth)
        middle, width, _, size = self.rough
        return np.asarray(smooth + size**2 * np.exp(-(((x - middle) / width) ** 2)))


def _warped(x: np.ndarray, warp: float) -> np.ndarray:
    return np.expm1(warp * x) / np.expm1(warp) if warp else x


def _correlation(family: str, distance: np.ndarray) -> np.ndarray:
    if family == "squared exponential":
        return np.asarray(np.exp(-0.5 * distance**2))
    if family == "Matern 5/2":
        d = np.sqrt(5) * distance
        return np.asarray((1 + d + d**2 / 3) * np.exp(-d))
    d = np.sqrt(3) * distance
    return np.asarray((1 + d) * np.exp(-d))


@lru_cache(maxsize=64)
def shapes(t: tuple[float, ...], cells: tuple[int, ...]) -> tuple[list[Shape], np.ndarray, np.ndarray]:
    """(shapes, their covariances at the points t, the logarithms of their chances).

    cells: where the zero may lie; a rough stretch is in one of them.
    """
    points, gaps = np.array(t), np.diff(t)
    families = [(family, length) for family, lengths in LENGTHS.items() for length in lengths]
    stationary = [Shape(*each, size, warp) for each in families for size in SIZES for warp in WARPS]
    chance = np.array([SIZES[each.size] * WARPS[each.warp] for each in stationary])
    rough = [
        Shape("squared exponential", 0.7, 0.1, 0.0, ((t[k] + t[k + 1]) / 2, w * gaps[k], length * gaps[k], size))
        for k in (cells if len(cells) < MANY else ())
        for w in ROUGH_WIDTHS
        for length in ROUGH_LENGTHS
        for size in ROUGH_SIZES
    ]
    chance = np.concatenate([(1 - ROUGH) * chance / chance.sum(), np.full(len(rough), ROUGH / max(len(rough), 1))])
    every = [*stationary, *rough]
    return every, np.stack([each.covariance(points, points) for each in every]), np.log(chance)
