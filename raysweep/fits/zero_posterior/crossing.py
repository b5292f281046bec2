"""A sign change of the posterior as a `Crossing`, and its interval at other levels and with more draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raysweep.fits.crossing import METHODS, Crossing, between, interpolated, unresolved
from raysweep.fits.draws import Axis
from raysweep.fits.zero_posterior.mixture import Mixture
from raysweep.fits.zero_posterior.root import Root, root_between

# A rise this many times that of both cells beside it is a jump: nothing says where in its cell the root lies.
JUMP = 20.0
MANY = 1e4  # times the draws: no noise is left


@dataclass(frozen=True, eq=False)
class Located:
    """A root of the posterior with its place along x.

    first, last: the ends of the grid in the coordinate of `axis`. cell: the ends of the cell of a jump in t, else None.
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

    def expected(self, level: float, times: float) -> tuple[float, float]:
        """The interval that is expected with `times` as many draws, in units of x; the estimate stays what it is.

        That shapes which the curve does not have become less likely is left out: with independent noise and 4 times the
        draws, intervals became 0.8 times what is expected (median of 16 straight lines).

        Each side of the present interval shrinks as that of a curve whose draws have the posterior mean. So with
        `times` of 1 it is the present interval. An open side takes that curve's own end.
        """
        middle, now = float(np.median(self.root.places)), self.root.interval(level)
        one, many = (self.root.expected(each) for each in (1.0, times))
        ends = []
        for end, before, after in zip(now, one.interval(level), many.interval(level), strict=True):
            at_one, at_many = (float(np.median(root.places)) if len(root.places) else middle for root in (one, many))
            shrink = (after - at_many) / (before - at_one) if before != at_one and np.isfinite(before) else np.nan
            ends.append(middle + shrink * (end - middle) if np.isfinite(end) and np.isfinite(shrink) else after)
        low, high = self._with_cell(*ends)
        return self.place(low), self.place(high)

    def noise_share(self) -> float:
        """Which share of the variance of the curve at the root is noise, which more draws would remove."""
        curve, place = self.root.curve, np.array([float(np.median(self.root.places))])
        variances = []
        for times in (1.0, MANY):
            mean, deviation = (each[:, 0] for each in curve.moments(place, times))
            variances.append(float(curve.weights @ (deviation**2 + (mean - curve.weights @ mean) ** 2)))
        return 1 - min(variances[1] / variances[0], 1.0)

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
    spread, note, cell = (max(places) - min(places) if places else 0.0), "", None
    if k == j + 1 and unresolved(mean, j, JUMP):
        note = "the grid does not resolve the step: it lies somewhere in one cell"
        cell = (float(curve.t[j]), float(curve.t[k]))
        spread = cell[1] - cell[0]
    found = Located(root, axis, float(u[0]), float(u[-1]), cell)
    (low, high), (low_strict, high_strict) = (found.interval(level) for level in levels)
    estimate = found.place(float(np.median(root.places)))
    spread *= found.last - found.first
    if axis.logarithmic:
        spread = estimate * float(np.expm1(spread))
    return Crossing(estimate, low, high, min(low, low_strict), max(high, high_strict), spread, rising, note), found
