"""Curves with a known turn, and noise of many kinds: what the fits of raysweep are held against.

A curve runs over t in [0, 1] and is scaled to a range of 1 on it. Some shapes are kind to interpolation, some are not
(a corner, a curvature that jumps, an almost flat bottom); some noise is what the fits assume, most is not. The curves
on which nothing was ever adjusted stand in `benchmarks/held_out_curves.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Shape = Callable[[np.ndarray], np.ndarray]
Deviations = Callable[[Shape, np.ndarray, int, np.random.Generator], np.ndarray]
Displacement = Callable[[np.ndarray, float], np.ndarray]
Grid = Callable[[int, np.random.Generator], np.ndarray]

TURNS = (0.07, 0.16, 0.31, 0.44, 0.5, 0.57, 0.69, 0.83, 0.94)
POINTS, SEEDS, SIZES = (7, 9, 13, 25), (3, 5, 10), (0.003, 0.01, 0.03, 0.1)
CYCLE, STRAIGHT_CYCLE = len(TURNS) * len(POINTS) * len(SEEDS), len(POINTS) * len(SEEDS)
FINE = np.linspace(0, 1, 8001)


@dataclass(frozen=True)
class Collection:
    """Families of curves, with the noise and the grids that they are seen with.

    turning: of the distance to the turn, with the grid 1 long.
    straight: of t itself; curves that do not turn.
    deviations: noise (seeds, points) of size about 1, from the mean curve, t, the number of seeds.
    displacements: where on the mean curve a seed is at t; the second argument is its own, of size about 1 times `size`.
    grids: t (points,), the first 0 and the last 1.
    seed: the random seed of the collection.
    """

    turning: Mapping[str, Shape]
    straight: Mapping[str, Shape]
    deviations: Mapping[str, Deviations]
    displacements: Mapping[str, Displacement]
    grids: Mapping[str, Grid]
    seed: int

    @property
    def families(self) -> tuple[str, ...]:
        """The names of all families."""
        return (*self.turning, *self.straight)

    @property
    def noises(self) -> tuple[str, ...]:
        """The names of all kinds of noise."""
        return (*self.deviations, *self.displacements)


@dataclass(frozen=True)
class Sample:
    """One curve as a sweep would see it.

    t: (points,). values: (seeds, points), NaN where a row is missing.
    turn: the place of the mean curve's lowest point; NaN for a curve that does not turn.
    centre: the turn asked for, one of TURNS (NaN likewise). size: of the noise of one row, in the curve's range.
    """

    family: str
    t: np.ndarray
    values: np.ndarray
    turn: float
    centre: float
    size: float
    noise: str
    grid: str


def sample(collection: Collection, family: str, number: int) -> Sample:
    """The curve `number` of a family, always the same: numbers up to CYCLE (STRAIGHT_CYCLE for a curve that does not
    turn) go through all turns, points and seeds, the next ones again with other draws. Seeds differ by a large shift
    and by noise."""
    rng = np.random.default_rng([collection.seed, collection.families.index(family), number])
    turns = family in collection.turning
    settings = list(itertools.product(TURNS if turns else (np.nan,), POINTS, SEEDS))
    centre, points, seeds = settings[number % len(settings)]
    size, noise, grid = rng.choice(SIZES), str(rng.choice(collection.noises)), str(rng.choice(list(collection.grids)))

    def raw(z: np.ndarray) -> np.ndarray:
        return collection.turning[family](z - centre) if turns else collection.straight[family](np.clip(z, 0, 1))

    least, span = float(raw(FINE).min()), float(np.ptp(raw(FINE))) or 1.0

    def curve(z: np.ndarray) -> np.ndarray:
        return (raw(z) - least) / span

    t, mean = collection.grids[grid](points, rng), curve(FINE)
    if noise in collection.displacements:
        moved = collection.displacements[noise]
        values = np.stack([curve(moved(t, 0.6 * size * z)) for z in rng.standard_normal(seeds)])
        values += 0.2 * size * rng.standard_normal(values.shape)
        nodes, weights = np.polynomial.hermite_e.hermegauss(31)
        each = [w * curve(moved(FINE, 0.6 * size * z)) for z, w in zip(nodes, weights, strict=True)]
        mean = np.sum(each, axis=0)
    else:
        values = curve(t) + size * collection.deviations[noise](curve, t, seeds, rng)
    values += 0.5 * rng.standard_normal((seeds, 1))
    turn = float(FINE[np.argmin(mean)]) if turns else np.nan
    return Sample(family, t, values, turn, float(centre), float(size), noise, grid)


def bent_line(fall: float, rise: float, softness: float) -> Shape:
    """A broken power law seen in logarithms: slope -fall, then rise, turning at 0."""
    share = fall / (fall + rise)
    place = -softness * np.log(share / (1 - share))
    return lambda d: -fall * d + (fall + rise) * softness * np.logaddexp(0, (d - place) / softness)


def own(seeds: int, t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Independent standard normal noise (seeds, points)."""
    return rng.standard_normal((seeds, len(t)))


def correlated(_: Shape, t: np.ndarray, seeds: int, rng: np.random.Generator) -> np.ndarray:
    """Noise of which neighbouring points share 0.7, however far apart they are."""
    noise = own(seeds, t, rng)
    for k in range(1, len(t)):
        noise[:, k] = 0.7 * noise[:, k - 1] + np.sqrt(1 - 0.49) * noise[:, k]
    return noise


def smooth(t: np.ndarray, length: float, seeds: int, rng: np.random.Generator) -> np.ndarray:
    """A smooth function of t for each seed, of standard deviation 1: a Gaussian process of correlation `length`."""
    correlation = np.exp(-0.5 * ((t[:, None] - t) / length) ** 2) + 1e-10 * np.eye(len(t))
    return own(seeds, t, rng) @ np.linalg.cholesky(correlation).T


def smooth_and_growing(_: Shape, t: np.ndarray, seeds: int, rng: np.random.Generator) -> np.ndarray:
    """What one seed is like, smooth along t, a hundred times larger at the end than at the start; almost nothing is
    independent. So are the draws of real sweeps over the fine-tuning rate."""
    return 3 * 100 ** (t - 1) * (smooth(t, 0.4, seeds, rng) + 0.01 * own(seeds, t, rng))


def missing(_: Shape, t: np.ndarray, seeds: int, rng: np.random.Generator) -> np.ndarray:
    """Independent noise with rows missing, more of them at the end: the last length is where runs break first."""
    noise = own(seeds, t, rng)
    noise[rng.random(noise.shape) < 0.08] = np.nan
    noise[0, -1] = noise[-1, -1] = np.nan
    return noise


def even(points: int, _: np.random.Generator) -> np.ndarray:
    """Equal steps."""
    return np.linspace(0, 1, points)


def jittered(points: int, rng: np.random.Generator) -> np.ndarray:
    """Inner points moved by up to 0.4 of a step."""
    t = np.linspace(0, 1, points)
    t[1:-1] += rng.uniform(-0.4, 0.4, points - 2) / (points - 1)
    return t


def denser(points: int, rng: np.random.Generator) -> np.ndarray:
    """Steps that grow towards one end, by up to a factor of about 3."""
    t = np.linspace(0, 1, points) ** rng.uniform(1.2, 1.6)
    return np.asarray(t if rng.random() < 0.5 else 1 - t[::-1])


BENCHMARK = Collection(
    turning={
        "parabola": lambda d: d**2,
        "cubic skew, gentle rise": lambda d: d**2 * (1 - 0.6 * d),
        "cubic skew, gentle fall": lambda d: d**2 * (1 + 0.6 * d),
        "sum of powers": lambda d: np.exp(-4 * d) / 4 + np.exp(1.5 * d) / 1.5,
        "steep fall, slow rise": lambda d: np.exp(-10 * d) / 10 + np.exp(2 * d) / 2,
        "slow fall, wall": lambda d: np.exp(8 * d) / 8 - d,
        "wall, slow rise": lambda d: np.exp(-12 * d) / 12 + d,
        "broken power law": bent_line(1.0, 2.0, 0.08),
        "sharply broken power law": bent_line(2.0, 1.0, 0.02),
        "cusp": lambda d: np.abs(d),
        "uneven cusp": lambda d: np.where(d < 0, -1.0, 3.0) * d,
        "uneven power 3/2": lambda d: np.where(d < 0, 2.0, 1.0) * np.abs(d) ** 1.5,
        "uneven parabola": lambda d: np.where(d < 0, 4.0, 1.0) * d**2,
        "flat bottom, power 3": lambda d: np.abs(d) ** 3,
        "flat bottom, power 4": lambda d: d**4,
        "dip in a plateau": lambda d: 1 - np.exp(-((d / 0.18) ** 2)),
    },
    straight={
        "falling line": lambda t: -t,
        "rising line": lambda t: t,
        "decay": lambda t: np.exp(-5 * t),
        "power law": lambda t: (0.05 + t) ** -0.5,
        "fall, then level": lambda t: np.maximum(0.4 - t, 0),
        "sigmoid": lambda t: 1 / (1 + np.exp(12 * (t - 0.5))),
        "level, then rise": lambda t: t**3,
        "stairs": lambda t: -(t + np.sin(4 * np.pi * t) / (4 * np.pi)),
        "flat": lambda t: np.zeros_like(t),
    },
    deviations={
        "independent": lambda curve, t, seeds, rng: own(seeds, t, rng),
        "growing along the curve": lambda curve, t, seeds, rng: own(seeds, t, rng) * (0.3 + 1.4 * t),
        "shrinking along the curve": lambda curve, t, seeds, rng: own(seeds, t, rng) * (1.7 - 1.4 * t),
        "growing with height": lambda curve, t, seeds, rng: own(seeds, t, rng) * (0.5 + 2 * curve(t)),
        "a tilt of each seed's own": lambda curve, t, seeds, rng: (
            2 * rng.standard_normal((seeds, 1)) * (t - 0.5) + 0.1 * own(seeds, t, rng)
        ),
        "correlated along the curve": correlated,
        "heavy tails": lambda curve, t, seeds, rng: rng.standard_t(5, (seeds, len(t))) * np.sqrt(3 / 5),
        "rows missing": missing,
        "smooth in each seed, growing a hundredfold": smooth_and_growing,
    },
    displacements={"a turn of each seed's own": lambda t, amount: t - amount},
    grids={"even": even, "jittered": jittered, "denser at one end": denser},
    seed=1,
)
TURNING, NOT_TURNING = BENCHMARK.turning, BENCHMARK.straight
