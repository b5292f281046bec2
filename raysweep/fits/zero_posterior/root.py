"""The interval of a sign change: where the posterior of the curve does not decide its sign."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from raysweep.fits.crossing import reach, sign_changes
from raysweep.fits.statistics import normal_quantile
from raysweep.fits.zero_posterior.mixture import Mixture

PER_CELL, FINER = 8, 33  # samples in a cell of the grid; in the stretch that is looked at again
CERTAIN = 5.0  # in normal standard deviations: samples beyond it need not be finer
SMALLEST = 1e-15  # chance


@dataclass(frozen=True, eq=False)
class Root:
    """A sign change of a curve between points with opposite clear signs, along t from 0 to 1.

    curve: the posterior. rising: whether the curve is negative before and positive after.
    t: (samples,), fine where the sign is not clear.
    score: (samples,), the normal quantile of the chance that the curve has the sign that it has after the root.
    inside: the indices of the samples between the two points.
    """

    curve: Mixture
    rising: bool
    t: np.ndarray
    score: np.ndarray
    inside: np.ndarray

    @property
    def places(self) -> np.ndarray:
        """Where both signs are equally likely; empty if there is no such place inside."""
        return sign_changes(self.t[self.inside], self.score[self.inside])

    def interval(self, level: float) -> tuple[float, float]:
        """(low, high): the t around the root at which neither sign has a chance of (1 + level) / 2 or more."""
        margin = normal_quantile(level) - np.abs(self.score)
        return reach(self.t, margin, self.inside, self.places)


def score(curve: Mixture, t: np.ndarray, rising: bool) -> np.ndarray:
    """The normal quantile of the chance that the curve is positive (negative unless `rising`) at t."""
    chance = np.clip(curve.positive(t), SMALLEST, 1 - SMALLEST)
    return np.asarray(ndtri(chance) if rising else -ndtri(chance))


def samples(t: np.ndarray) -> np.ndarray:
    """PER_CELL places in each cell of the grid, and its last point."""
    steps = np.arange(PER_CELL) / PER_CELL
    return np.append((t[:-1, None] + np.diff(t)[:, None] * steps).ravel(), t[-1])


def root_between(curve: Mixture, j: int, k: int, rising: bool) -> Root | None:
    """The root between points j and k; None if no place between them is likely on one side and then on the other."""
    t = samples(curve.t)
    scores = score(curve, t, rising)
    for _ in range(2):
        inside = np.flatnonzero((t >= curve.t[j]) & (t <= curve.t[k]))
        unclear = inside[np.abs(scores[inside]) < CERTAIN]
        if len(unclear):
            first, last = max(unclear[0] - 1, 0), min(unclear[-1] + 1, len(t) - 1)
        else:
            change = int(inside[np.argmax(scores[inside] > 0)])
            first, last = max(change - 1, 0), change
        finer = np.linspace(t[first], t[last], FINER)[1:-1]
        t, order = np.unique(np.concatenate([t, finer]), return_index=True)
        scores = np.concatenate([scores, score(curve, finer, rising)])[order]
    inside = np.flatnonzero((t >= curve.t[j]) & (t <= curve.t[k]))
    root = Root(curve, rising, t, scores, inside)
    return root if len(root.places) else None
