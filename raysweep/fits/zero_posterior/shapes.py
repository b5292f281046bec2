"""Shapes of a mean curve a priori: Gaussian processes over the grid; rough stretches, kinks and jumps near the zero.

Curves are scaled so that the largest |mean| is 1, and x so that the grid goes from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
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
KINKED = 0.85  # the chance of a kink within a few cells of the zero, where there is no jump
KINK_SIZES = (0.7, 2.5, 8.0)  # standard deviations of the change of slope
JUMPED, JUMP = 0.15, 1.0  # the chance of a jump within a cell of the zero, and the standard deviation of its height
LARGEST = 20.0  # the correction of a weight for the place of a kink at most


@dataclass(frozen=True)
class Shape:
    """A Gaussian process: a parabola in warped x, a stationary process, and perhaps a rough stretch."""

    family: str
    length: float
    size: float
    warp: float
    rough: tuple[float, float, float, float] | None = None  # (middle, width, length, size) of the stretch

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


@dataclass(frozen=True, eq=False)
class Breaks:
    """Breaks of every size and cell, seen from the points.

    Right of a kink the curve has more slope, and is shifted by what the place of the kink makes of it. Right of a jump
    it is shifted, and the points do not say where in its cell the jump is.
    """

    # (breaks, points, 2), both of standard deviation 1: of a kink a change of slope in the middle of the cell, and a
    # shift; of a jump its height, and nothing.
    basis: np.ndarray
    # middle, width, size: (breaks,), of the cell, and the standard deviation of the change of slope or of the height.
    middle: np.ndarray
    width: np.ndarray
    size: np.ndarray
    jumps: np.ndarray  # (breaks,), whether it is a jump
    chance: np.ndarray  # (breaks,), a priori


@dataclass(frozen=True, eq=False)
class Drawn:
    """The break of each component, all (components,): the change of slope, the height of the jump, and the t of both.

    They are 0 without a break.
    """

    change: np.ndarray
    jump: np.ndarray
    place: np.ndarray

    def curve(self, t: np.ndarray) -> np.ndarray:
        """What the breaks add to the curves at t, (components, n)."""
        beyond = t - self.place[:, None]
        return np.asarray(self.change[:, None] * np.maximum(beyond, 0) + self.jump[:, None] * (beyond > 0))


def breaks(t: np.ndarray, kinked: Sequence[int], jumped: Sequence[int]) -> Breaks:
    """Kinks of every size in each of the cells `kinked`, and a jump in each of the cells `jumped`."""
    cell = np.concatenate([np.repeat(np.asarray(kinked), len(KINK_SIZES)), np.asarray(jumped)])
    size = np.concatenate([np.tile(KINK_SIZES, len(kinked)), np.full(len(jumped), JUMP)])
    jumps = np.arange(len(cell)) >= len(cell) - len(jumped)
    middle, width = (t[cell] + t[cell + 1]) / 2, t[cell + 1] - t[cell]
    beyond = t - middle[:, None]
    right, slope = (beyond > 0) * size[:, None], np.where(jumps[:, None], 1.0, beyond)
    shift = np.where(jumps, 0.0, width / np.sqrt(12))[:, None]
    chance = np.where(jumps, JUMPED / len(jumped), (1 - JUMPED) * KINKED / (len(cell) - len(jumped)))
    return Breaks(np.stack([right * slope, right * shift], axis=2), middle, width, size, jumps, chance)


def drawn(
    bent: Breaks, number: np.ndarray, precision: np.ndarray, total: np.ndarray, rng: np.random.Generator
) -> tuple[Drawn, np.ndarray]:
    """(the break of each component, its weight), drawn given the draws; the weight is 1 without a break.

    number: which break each component has, -1 for none.
    precision, total: (components with a break, 2, 2) and (…, 2), the posterior of what its basis adds.

    The shift at a kink is drawn as if it were independent of the change of slope; the weight corrects this to a place
    that is uniform over the cell, and is 0 for a place outside of it. The places of jumps divide their cell evenly.
    """
    change, jump, place, weight = *np.zeros((3, len(number))), np.ones(len(number))
    at = np.flatnonzero(number >= 0)
    if not len(at):
        return Drawn(change, jump, place), weight
    chosen = number[at]
    covariance = np.linalg.inv(precision)
    first, second = (
        (covariance @ total[..., None]) + np.linalg.cholesky(covariance) @ rng.standard_normal((len(at), 2, 1))
    )[..., 0].T
    size, middle, width = first * bent.size[chosen], bent.middle[chosen], bent.width[chosen]
    deviation = bent.size[chosen] * width / np.sqrt(12)
    offset = -second * deviation / size
    uniform = (np.abs(offset) <= width / 2) / (np.abs(size) * width)
    ratio = np.minimum(uniform * np.sqrt(2 * np.pi) * deviation * np.exp(0.5 * second**2), LARGEST)
    jumps = bent.jumps[chosen]
    for each in np.unique(chosen[jumps]):
        same = np.flatnonzero(chosen == each)
        offset[same] = width[same] * ((rng.permutation(len(same)) + 0.5) / len(same) - 0.5)
    change[at], jump[at] = np.where(jumps, 0.0, size), np.where(jumps, size, 0.0)
    place[at], weight[at] = middle + offset, np.where(jumps, 1.0, ratio)
    return Drawn(change, jump, place), weight
