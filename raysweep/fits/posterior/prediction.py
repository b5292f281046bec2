"""How wide the interval of a place would be with other numbers of draws, from one posterior."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from raysweep.fits.posterior.conditional import conditional, sample_paths
from raysweep.fits.posterior.curve import KEPT, PATHS, SEED, CurvePosterior, curve_particles
from raysweep.fits.posterior.places import Places, interval, minimum_places
from raysweep.fits.posterior.prior import curve_parameters

AHEAD = 16.0  # times the draws at which the future is simulated
FUTURES, CURVES = 1, KEPT  # simulated futures, and particles of each kind of curve in each


@dataclass(frozen=True)
class ExpectedWidth:
    """The expected width of an interval as a function of the draws: the root of grid**2 + noise**2 / times.

    grid: the part that no number of draws reduces: the curve between its points is not known.
    noise: the part that is noise, now.
    """

    grid: float
    noise: float

    def width(self, times: float) -> float:
        """The expected width with `times` the present draws."""
        return float(np.sqrt(self.grid**2 + self.noise**2 / times))


def expected_width(posterior: CurvePosterior, places: Places, level: float) -> ExpectedWidth:
    """How the width of the interval of the minimum would change with more draws, in the units of x.

    places: the places under the posterior.
    level: the confidence level of the interval.

    The present width and the one of a simulated future with AHEAD times the draws fix the two parts. A future takes the
    curve near the middle of the posterior as the truth, draws the mean of its draws, and computes its posterior anew.
    """
    now = interval_width(places, level)
    index = np.argsort(np.abs(places.at - np.median(places.at)), kind="stable")[:FUTURES]
    then = np.mean([interval_width(minimum_places(future(posterior, int(k))), level) ** 2 for k in index])
    grid = np.sqrt(np.clip((AHEAD * then - now**2) / (AHEAD - 1), 0.0, now**2))
    size = posterior.high - posterior.low
    return ExpectedWidth(float(size * grid), float(size * np.sqrt(now**2 - grid**2)))


def interval_width(places: Places, level: float) -> float:
    """The width of the interval of a place, as a share of the grid."""
    low, _, high = interval(places, level)
    return high - low


def future(posterior: CurvePosterior, path: int) -> CurvePosterior:
    """The posterior after AHEAD times the draws, if the path with this number is the true curve."""
    data, shown, given = posterior.data, posterior.shown, posterior.given
    rng = np.random.default_rng([path, SEED])
    particle, which = divmod(path, PATHS)
    truth = sample_paths(given, data.t[None], posterior.normal(len(data.t)))[particle, which]
    structure = int(rng.integers(len(shown.covariance)))
    variance, directions = np.linalg.eigh(
        shown.covariance[structure] / AHEAD
    )  # may have a rank of one, but for rounding
    noise = directions @ (np.sqrt(np.clip(variance, 0, None)) * rng.standard_normal(len(variance)))
    mean = data.contrasts @ (truth - data.mean) + noise
    seen = replace(
        shown,
        estimate=np.tile(mean, (len(shown.covariance), 1)),
        covariance=shown.covariance / AHEAD,
        freedom=shown.freedom * AHEAD,
        hidden=shown.hidden / AHEAD,
    )
    particles = curve_parameters(*curve_particles(data, seen, CURVES))
    return replace(posterior, shown=seen, given=conditional(particles, data, seen))
