"""Advice on the sample size: how many more draws or points would make the interval of an extremum half as wide."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from raysweep.fits.posterior.conditional import conditional
from raysweep.fits.posterior.curve import KEPT, PATHS, SEED, CurvePosterior, curve_particles
from raysweep.fits.posterior.places import Places, interval, minimum_places
from raysweep.fits.posterior.prior import curve_parameters
from raysweep.fits.statistics import ROUNDING

HALF = 0.5  # the share of the width that is aimed at
MOST = 32  # more times the draws are not advised
NEARLY = 1.1  # if more points alone make the interval narrower than this times half its width, they are enough
AHEAD = 16.0  # times the draws at which the future is simulated


@dataclass(frozen=True)
class ExpectedWidth:
    """The expected width of an interval as a function of the draws: the root of grid**2 + noise**2 / times."""

    grid: float  # the part that no number of draws reduces: the curve between its points is not known
    noise: float  # the part that is noise, now

    def times(self, target: float) -> float:
        """How many times the present draws give an interval of the width `target`; inf if no number does."""
        left = target**2 - self.grid**2
        return max(self.noise**2 / left, 1.0) if left > 0 else np.inf


@dataclass(frozen=True)
class Advice:
    """What would halve an interval. A field is NaN if there is no advice."""

    draws_to_halve: float = np.nan  # how many draws in total; the present number if more draws do not help
    # how many more values of x, which halve the spacing of the grid there; 0 if not needed.
    points_to_halve: float = np.nan
    # points_from, points_to: the values of x between which these points lie; NaN if not needed.
    points_from: float = np.nan
    points_to: float = np.nan
    halved: bool = False  # whether both together are expected to halve the interval


NO_ADVICE = Advice()


def sample_size_advice(expected: ExpectedWidth, u: np.ndarray, index: int, draws: int) -> Advice:
    """How many draws and points would halve the interval of an extremum that is nearest the point `index` of u, with
    `draws` now.

    If more draws alone are enough, only draws are advised. Otherwise the advice is two more points, which halve the
    spacing beside the nearest point, and the number of draws that is then enough. This assumes that the uncertainty
    between grid points is proportional to the spacing.
    """
    width = float(np.sqrt(expected.grid**2 + expected.noise**2))
    target, finer = HALF * width, replace(expected, grid=HALF * expected.grid)
    times = expected.times(target)
    if times <= MOST:
        return Advice(int(np.ceil(times * draws - ROUNDING)), 0, np.nan, np.nan, True)
    width = float(np.sqrt(finer.grid**2 + finer.noise**2))
    times = 1.0 if width <= NEARLY * target else finer.times(target)
    enough = times <= MOST
    first, last = max(index - 1, 0), min(index + 1, len(u) - 1)
    total = int(np.ceil(times * draws - ROUNDING)) if enough else draws
    return Advice(total, last - first, float(u[first]), float(u[last]), enough)


def expected_width(posterior: CurvePosterior, places: Places, level: float) -> ExpectedWidth:
    """How the width of the interval of the minimum, under the posterior at these places, would change with more draws.

    The present width and the one of a simulated future with AHEAD times the draws fix the two parts. A future takes the
    curve near the middle of the posterior as the truth, draws the mean of its draws, and computes its posterior anew.
    """

    def width(places: Places) -> float:
        low, _, high = interval(places, level)
        return high - low

    now, middle = width(places), int(np.argmin(np.abs(places.at - np.median(places.at))))
    then = width(minimum_places(_future(posterior, middle))) ** 2
    grid = np.sqrt(np.clip((AHEAD * then - now**2) / (AHEAD - 1), 0.0, now**2))
    size = posterior.high - posterior.low
    return ExpectedWidth(float(size * grid), float(size * np.sqrt(now**2 - grid**2)))


def _future(posterior: CurvePosterior, path: int) -> CurvePosterior:
    """The posterior after AHEAD times the draws, if the path with this number is the true curve."""
    data, shown = posterior.data, posterior.shown
    rng = np.random.default_rng([path, SEED])
    particle, which = divmod(path, PATHS)
    truth = posterior.paths(data.t[None])[particle, which]
    structure = int(rng.integers(len(shown.covariance)))
    variance, directions = np.linalg.eigh(shown.covariance[structure] / AHEAD)  # its rank may be one, but for rounding
    noise = directions @ (np.sqrt(np.clip(variance, 0, None)) * rng.standard_normal(len(variance)))
    mean = data.contrasts @ (truth - data.mean) + noise
    seen = replace(
        shown,
        estimate=np.tile(mean, (len(shown.covariance), 1)),
        covariance=shown.covariance / AHEAD,
        freedom=shown.freedom * AHEAD,
        hidden=shown.hidden / AHEAD,
    )
    particles = curve_parameters(*curve_particles(data, seen, KEPT))
    return replace(posterior, shown=seen, given=conditional(particles, data, seen))
