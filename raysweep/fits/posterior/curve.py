"""The posterior of one curve: `curve_posterior` gives particles, and these give joint sample paths at any points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import expit

from raysweep.fits.posterior.conditional import Conditional, conditional, sample_paths
from raysweep.fits.posterior.noise import NOISE, CurveData, Seen, curve_data, noise_parameters, seen
from raysweep.fits.posterior.prior import CURVE, TURNING, curve_parameters
from raysweep.fits.posterior.sampler import sample

SEED = 20240229  # the same numbers every time
NOISES, CURVES = 128, 300  # particles of the noise, and of each kind of curve
REDRAWN = 3  # times that the noise of each particle is drawn again
KEPT, PATHS = 180, 8  # particles of the curve from which paths are drawn, and paths of each


@dataclass(frozen=True, eq=False)
class CurvePosterior:
    """The posterior of the mean curve of some draws."""

    low: float  # low, high: the ends of x
    high: float
    data: CurveData  # the scaled draws
    mirrored: bool  # whether the scaled draws run from the upper end of x to the lower one
    shown: Seen  # what they say of the mean curve, for each of NOISES structures of the noise
    given: Conditional  # the curve given the draws, for each of KEPT particles

    def paths(self, t: np.ndarray) -> np.ndarray:
        """Joint sample paths of the mean curve, scaled, at t (particles or 1, n), a row of points for each particle:
        (particles, PATHS, n). The levels of the draws are removed: the level of a path means nothing."""
        return sample_paths(self.given, t, standard_normal(len(self.given.root), PATHS, t.shape[1]))


@lru_cache(maxsize=16)
def standard_normal(*shape: int) -> np.ndarray:
    """Standard normal numbers of a shape, the same every time."""
    numbers = np.random.default_rng(SEED).standard_normal(shape)
    numbers.setflags(write=False)
    return numbers


def curve_posterior(x: np.ndarray, values: np.ndarray) -> CurvePosterior:
    """The posterior of the mean curve of draws.

    x: (points,), increasing: x or its logarithm.
    values: (draws, points), at least two draws; NaN where missing.

    The last results are kept, because reports ask the same curve at several levels; and the particles of many more,
    which are small: two analyses of a report may fit the same curves.
    """
    return _curve_posterior(x.astype(float).tobytes(), values.astype(float).tobytes(), len(x))


@lru_cache(maxsize=16)
def _curve_posterior(x_bytes: bytes, values_bytes: bytes, points: int) -> CurvePosterior:
    x, data, mirrored = _scaled(x_bytes, values_bytes, points)
    noises, z, turning = _particles(x_bytes, values_bytes, points)
    shown = seen(noise_parameters(noises, data), data)
    given = conditional(curve_parameters(z, turning), data, shown)
    return CurvePosterior(float(x[0]), float(x[-1]), data, mirrored, shown, given)


def _scaled(x_bytes: bytes, values_bytes: bytes, points: int) -> tuple[np.ndarray, CurveData, bool]:
    """(x, the scaled draws, whether they are mirrored)."""
    x, values = np.frombuffer(x_bytes), np.frombuffer(values_bytes).reshape(-1, points)
    data = curve_data(x, values)
    if np.argmin(data.mean) > (points - 1) / 2:  # a mirrored curve gets the mirrored answer, to the last digit
        return x, curve_data(-x[::-1], values[:, ::-1]), True
    return x, data, False


@lru_cache(maxsize=1000)  # about 40 kB each
def _particles(x_bytes: bytes, values_bytes: bytes, points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The coordinates of the noise, of the curve, and whether each curve turns where its law changes."""
    _, data, _ = _scaled(x_bytes, values_bytes, points)
    rng = np.random.default_rng(SEED)
    noises = sample(lambda z: seen(noise_parameters(z, data), data).evidence, len(NOISE), rng, NOISES)[0]
    return noises, *curve_particles(data, seen(noise_parameters(noises, data), data))


def curve_particles(data: CurveData, shown: Seen, particles: int = CURVES) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of the curve, and whether each turns where its law changes, given what the draws say of it."""

    def evidence(z: np.ndarray, turning: bool) -> np.ndarray:
        return conditional(curve_parameters(z, np.full(len(z), turning)), data, shown).evidence

    rng = np.random.default_rng(SEED)
    z, turning = sample_kinds(evidence, rng, particles, KEPT)
    # The curve says little of the size of the noise; but each resampling left fewer different sizes than before.
    now = conditional(curve_parameters(z, turning), data, shown).evidence
    for name in ("tail", "choice") * REDRAWN:
        proposal = z.copy()
        proposal[:, CURVE.index(name)] = rng.standard_normal(len(z))
        then = conditional(curve_parameters(proposal, turning), data, shown).evidence
        taken = np.log(rng.random(len(z))) < then - now
        z, now = np.where(taken[:, None], proposal, z), np.where(taken, then, now)
    return z, turning


def sample_kinds(
    log_likelihood: Callable[[np.ndarray, bool], np.ndarray], rng: np.random.Generator, particles: int, kept: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw coordinates (kept, CURVE), and whether each curve turns where its law changes, (kept,).

    log_likelihood: of coordinates and of whether the curve turns where its law changes.

    The two kinds have `particles` of their own, and as many of each are kept as their evidence says. In one sample the
    narrower kind would be found by chance, or not at all.
    """
    plain, plain_evidence = sample(lambda z: log_likelihood(z, False), len(CURVE), rng, particles)
    turning, turning_evidence = sample(lambda z: log_likelihood(z, True), len(CURVE), rng, particles)
    share = expit(turning_evidence - plain_evidence + np.log(TURNING / (1 - TURNING)))
    count = int(share * kept + rng.random())
    chosen = [rng.choice(plain, kept - count, replace=False), rng.choice(turning, count, replace=False)]
    return np.concatenate(chosen), np.arange(kept) >= kept - count
