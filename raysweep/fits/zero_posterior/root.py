"""The sign change of a curve and its interval: where the posterior of the curve does not decide its sign."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from raysweep.fits.crossing import METHODS, Bracket, Crossing, interpolated_root, reach, sign_changes
from raysweep.fits.draws import Axis
from raysweep.fits.reasons import Reason, because
from raysweep.fits.statistics import normal_quantile
from raysweep.fits.zero_posterior.mixture import Mixture

PER_CELL, FINER = 8, 33  # samples in a cell of the grid; in the stretch that is looked at again
CERTAIN = 5.0  # in normal standard deviations: samples beyond it need not be finer
SMALLEST = 1e-15  # chance
# If a jump in a cell has more than this chance, the zero may lie anywhere in the cell, at every level. At 0.2 the
# intervals of steps (benchmarks/steps.py) cover 0.96 instead of 0.98, at 0.5 0.95, and of one kind of steps below 0.9.
POSSIBLE = 0.1


@dataclass(frozen=True, eq=False)
class Root:
    """A sign change of a curve between points with opposite clear signs, along t from 0 to 1."""

    curve: Mixture  # the posterior
    t: np.ndarray  # (samples,), fine where the sign is not clear
    # (samples,), the normal quantile of the chance that the curve has the sign that it has after the root.
    score: np.ndarray
    inside: np.ndarray  # the indices of the samples between the two points
    places: np.ndarray  # where both signs are equally likely
    cell: tuple[float, float]  # the ends in t of the cell with a possible jump; infinitely far from it without
    axis: Axis  # axis, first, last: x is `axis.place(first + (last - first) * t)`
    first: float
    last: float

    def interval(self, level: float) -> tuple[float, float]:
        """(low, high), in units of x: around the root neither sign has a chance of (1 + level) / 2 or more there."""
        margin = normal_quantile(level) - np.abs(self.score)
        low, high = reach(self.t, margin, self.inside, self.places)
        return self.place(min(low, self.cell[0])), self.place(max(high, self.cell[1]))

    def place(self, t: float) -> float:
        """The x of t."""
        return self.axis.place(self.first + (self.last - self.first) * t)

    def noise_share(self) -> float:
        """Which share of the variance of the curve at the root is noise, which more draws would remove."""
        return self.curve.noise_share(float(np.median(self.places)))


def in_posterior(curve: Mixture, bracket: Bracket, axis: Axis) -> tuple[Crossing, Root] | None:
    """The root in a bracket, in units of x. None if no place in it is likely on one side and then on the other.

    curve: the posterior of the mean curve at t = (u - u[0]) / (u[-1] - u[0]), u the coordinate of `axis`.
    """
    j, k, rising, u = bracket.j, bracket.k, bracket.rising, bracket.u
    t, scores = _samples(curve, j, k, rising)
    inside = np.flatnonzero((t >= curve.t[j]) & (t <= curve.t[k]))
    places = sign_changes(t[inside], scores[inside])
    if not len(places):
        return None
    mean = curve.data.mean.mean(axis=0)
    near = slice(max(j - 1, 0), k + 2)
    about = Bracket(curve.t[near], mean[None, near], j - near.start, k - near.start, rising, bracket.levels)
    drawn = [part.estimate for method in METHODS if (part := interpolated_root(method, about))]
    spread, reason, cell = (max(drawn) - min(drawn) if drawn else 0.0), Reason.NONE, (np.inf, -np.inf)
    jumped = np.flatnonzero(curve.jump_chances() > POSSIBLE)
    jumped = jumped[(jumped >= j - 1) & (jumped <= k)]  # a zero beside a jump of the next cell may lie at their point
    if len(jumped):
        first, last = np.clip([jumped[0], jumped[-1] + 1], j, k)
        reason, cell = Reason.STEP, (float(curve.t[first]), float(curve.t[last]))
        spread = max(spread, cell[1] - cell[0])
    root = Root(curve, t, scores, inside, places, cell, axis, float(u[0]), float(u[-1]))
    (low, high), (low_strict, high_strict) = (root.interval(level) for level in bracket.levels)
    estimate = root.place(float(np.median(places)))
    spread *= root.last - root.first
    if axis.logarithmic:
        spread = estimate * float(np.expm1(spread))
    strict = min(low, low_strict), max(high, high_strict)
    return Crossing(estimate, low, high, *strict, spread, rising, **because(reason)), root


def _samples(curve: Mixture, j: int, k: int, rising: bool) -> tuple[np.ndarray, np.ndarray]:
    """(places along the whole curve, the scores there), finer where the sign changes between points j and k."""

    def score(t: np.ndarray) -> np.ndarray:
        chance = np.clip(curve.positive(t), SMALLEST, 1 - SMALLEST)
        return np.asarray(ndtri(chance) if rising else -ndtri(chance))

    steps = np.arange(PER_CELL) / PER_CELL
    t = np.append((curve.t[:-1, None] + np.diff(curve.t)[:, None] * steps).ravel(), curve.t[-1])
    scores = score(t)
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
        scores = np.concatenate([scores, score(finer)])[order]
    return t, scores
