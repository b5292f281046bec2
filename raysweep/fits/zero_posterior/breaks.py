"""Breaks of a mean curve, in a cell near the zero each: a kink, where the slope changes, or a jump.

Scaled as in `shapes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

KINKED = 0.85  # the chance of a kink within a few cells of the zero, where there is no jump
KINK_SIZES = (0.7, 2.5, 8.0)  # standard deviations of the change of slope
JUMPED, JUMP = 0.15, 1.0  # the chance of a jump within a cell of the zero, and the standard deviation of its height
LARGEST = 20.0  # the correction of a weight for the place of a kink at most


@dataclass(frozen=True, eq=False)
class Breaks:
    """Breaks of every size and cell, seen from the points.

    Right of a kink the curve has more slope, and is shifted by what the place of the kink makes of it. Right of a jump
    it is shifted, and the points do not say where in its cell the jump is.

    basis: (breaks, points, 2), both of standard deviation 1: of a kink a change of slope in the middle of the cell, and
        a shift; of a jump its height, and nothing.
    middle, width, size: (breaks,), of the cell, and the standard deviation of the change of slope or of the height.
    jumps: (breaks,), whether it is a jump.
    chance: (breaks,), a priori.
    """

    basis: np.ndarray
    middle: np.ndarray
    width: np.ndarray
    size: np.ndarray
    jumps: np.ndarray
    chance: np.ndarray


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
