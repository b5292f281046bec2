"""A sign change of the posterior as a `Crossing`, and its interval at other levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raysweep.fits.crossing import METHODS, Crossing, between, interpolated
from raysweep.fits.draws import Axis
from raysweep.fits.reasons import Reason, because
from raysweep.fits.zero_posterior.mixture import Mixture
from raysweep.fits.zero_posterior.root import Root, root_between

# If a jump in a cell has more than this chance, the zero may lie anywhere in the cell, at every level. At 0.2 the
# intervals of steps (benchmarks/steps.py) cover 0.96 instead of 0.98, at 0.5 0.95, and of one kind of steps below 0.9.
POSSIBLE = 0.1


@dataclass(frozen=True, eq=False)
class Located:
    """A root of the posterior with its place along x.

    first, last: the ends of the grid in the coordinate of `axis`.
    cell: the ends in t of the cell with a possible jump; None without.
    """

    root: Root
    axis: Axis
    first: float
    last: float
    cell: tuple[float, float] | None = None

    def place(self, t: float) -> float:
        """The x of t."""
        return self.axis.place(self.first + (self.last - self.first) * t)

    def interval(self, level: float) -> tuple[float, float]:
        """(low, high) in units of x."""
        low, high = self._with_cell(*self.root.interval(level))
        return self.place(low), self.place(high)

    def noise_share(self) -> float:
        """Which share of the variance of the curve at the root is noise, which more draws would remove."""
        return self.root.curve.noise_share(float(np.median(self.root.places)))

    def _with_cell(self, low: float, high: float) -> tuple[float, float]:
        return (min(low, self.cell[0]), max(high, self.cell[1])) if self.cell else (low, high)


def in_posterior(
    curve: Mixture, u: np.ndarray, axis: Axis, j: int, k: int, rising: bool, levels: tuple[float, float]
) -> tuple[Crossing, Located] | None:
    """The root between points j and k with clear opposite signs, in units of x.

    curve: the posterior of the mean curve at t = (u - u[0]) / (u[-1] - u[0]), u the coordinate of `axis`.
    levels: of the interval, and of the one for all slices at once.
    """
    root = root_between(curve, j, k, rising)
    if root is None:
        return None
    mean = curve.data.mean.mean(axis=0)
    near = slice(max(j - 1, 0), k + 2)
    drawn = (interpolated(curve.t[near], mean[None, near], method, levels, "linear", True) for method in METHODS)
    places = [part.estimate for each in drawn if (part := between(each, j - near.start, k - near.start, rising))]
    spread, reason, cell = (max(places) - min(places) if places else 0.0), Reason.NONE, None
    jumped = np.flatnonzero(curve.jump_chances() > POSSIBLE)
    jumped = jumped[(jumped >= j - 1) & (jumped <= k)]  # a zero beside a jump of the next cell may lie at their point
    if len(jumped):
        first, last = np.clip([jumped[0], jumped[-1] + 1], j, k)
        reason, cell = Reason.STEP, (float(curve.t[first]), float(curve.t[last]))
        spread = max(spread, cell[1] - cell[0])
    located = Located(root, axis, float(u[0]), float(u[-1]), cell)
    (low, high), (low_strict, high_strict) = (located.interval(level) for level in levels)
    estimate = located.place(float(np.median(root.places)))
    spread *= located.last - located.first
    if axis.logarithmic:
        spread = estimate * float(np.expm1(spread))
    strict = min(low, low_strict), max(high, high_strict)
    return Crossing(estimate, low, high, *strict, spread, rising, **because(reason)), located
