"""Advice on the sample size: how many more draws or points would make an interval half as wide."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from raysweep.fits.posterior.prediction import ExpectedWidth
from raysweep.fits.statistics import ROUNDING

HALF = 0.5  # the share of the width that is aimed at
MOST = 32  # more times the draws are not advised
NEARLY = 1.1  # if more points alone make the interval narrower than this times half its width, they are enough


@dataclass(frozen=True)
class Advice:
    """What would halve an interval. A field is NaN if there is no advice.

    draws_to_halve: how many draws in total; the present number if more draws do not help.
    points_to_halve: how many more values of x, which halve the spacing of the grid there; 0 if not needed.
    points_from, points_to: the values of x between which these points lie; NaN if not needed.
    halved: whether both together are expected to halve the interval.
    """

    draws_to_halve: float = np.nan
    points_to_halve: float = np.nan
    points_from: float = np.nan
    points_to: float = np.nan
    halved: bool = False


NO_ADVICE = Advice()


def sample_size_advice(expected: ExpectedWidth, u: np.ndarray, index: int, draws: int) -> Advice:
    """Compute how many draws and points would halve the interval of an extremum.

    expected: its width as a function of the draws.
    u: (points,), the coordinate.
    index: the index of the point nearest the extremum.
    draws: the present number of draws.

    If more draws alone are enough, only draws are advised. Otherwise the advice is two more points, which halve the
    spacing beside the nearest point, and the number of draws that is then enough. This assumes that the uncertainty
    between grid points is proportional to the spacing.
    """
    target = HALF * expected.width(1)
    times = times_for(target, expected)
    if times <= MOST:
        return Advice(int(np.ceil(times * draws - ROUNDING)), 0, np.nan, np.nan, True)
    finer = replace(expected, grid=HALF * expected.grid)
    times = 1.0 if finer.width(1) <= NEARLY * target else times_for(target, finer)
    enough = times <= MOST
    first, last = max(index - 1, 0), min(index + 1, len(u) - 1)
    total = int(np.ceil(times * draws - ROUNDING)) if enough else draws
    return Advice(total, last - first, float(u[first]), float(u[last]), enough)


def times_for(target: float, expected: ExpectedWidth) -> float:
    """How many times the present draws give an interval of the width `target`; inf if no number does."""
    left = target**2 - expected.grid**2
    return max(expected.noise**2 / left, 1.0) if left > 0 else np.inf
