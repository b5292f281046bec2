"""Curves with a known turn, and noise of many kinds: what the fits of raysweep.reporting are held against.

A curve runs over t in [0, 1] and is scaled to a range of 1 on it. Some shapes are kind to interpolation, some are not
(a corner, a curvature that jumps, an almost flat bottom); some noise is what the fits assume, most is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Shape = Callable[[np.ndarray], np.ndarray]


def bent_line(fall: float, rise: float, softness: float) -> Shape:
    """A broken power law seen in logarithms: slope -fall, then rise, turning at 0."""
    share = fall / (fall + rise)
    place = -softness * np.log(share / (1 - share))
    return lambda d: -fall * d + (fall + rise) * softness * np.logaddexp(0, (d - place) / softness)


# of the distance to the turn, with the grid 1 long
TURNING: dict[str, Shape] = {
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
}
# of t itself
NOT_TURNING: dict[str, Shape] = {
    "falling line": lambda t: -t,
    "rising line": lambda t: t,
    "decay": lambda t: np.exp(-5 * t),
    "power law": lambda t: (0.05 + t) ** -0.5,
    "fall, then level": lambda t: np.maximum(0.4 - t, 0),
    "sigmoid": lambda t: 1 / (1 + np.exp(12 * (t - 0.5))),
    "level, then rise": lambda t: t**3,
    "stairs": lambda t: -(t + np.sin(4 * np.pi * t) / (4 * np.pi)),
    "flat": lambda t: np.zeros_like(t),
}
NOISES = (
    "independent",
    "growing along the curve",
    "shrinking along the curve",
    "growing with height",
    "a turn of each seed's own",
    "a tilt of each seed's own",
    "correlated along the curve",
    "heavy tails",
    "rows missing",
)
TURNS = (0.07, 0.16, 0.31, 0.44, 0.5, 0.57, 0.69, 0.83, 0.94)
POINTS, SEEDS, SIZES = (7, 9, 13, 25), (3, 5, 10), (0.003, 0.01, 0.03, 0.1)
FINE = np.linspace(0, 1, 4001)


@dataclass(frozen=True)
class Sample:
    """t (points,), values (seeds, points) with NaN where a row is missing, and the place of the mean curve's turn."""

    t: np.ndarray
    values: np.ndarray
    turn: float


def sample(
    shape: str, turn: float, points: int, seeds: int, size: float, noise: str, rng: np.random.Generator
) -> Sample:
    """One curve as a sweep would see it: seeds differ by a large shift and by `noise`. turn: NaN for a curve of
    NOT_TURNING. size: of the noise of one row, in units of the curve's range."""
    turns = np.isfinite(turn)

    def raw(z: np.ndarray) -> np.ndarray:
        return TURNING[shape](z - turn) if turns else NOT_TURNING[shape](z)

    least, span = float(raw(FINE).min()), float(np.ptp(raw(FINE))) or 1.0

    def curve(z: np.ndarray) -> np.ndarray:
        return (raw(z) - least) / span

    t = np.linspace(0, 1, points)
    own, place = rng.standard_normal((seeds, points)), turn
    values = np.tile(curve(t), (seeds, 1))
    if noise == "a turn of each seed's own" and turns:
        shift = 0.6 * size
        nodes, weights = np.polynomial.hermite_e.hermegauss(31)
        mean = sum(w * curve(FINE - shift * z) for z, w in zip(nodes, weights, strict=True))
        place = float(FINE[np.argmin(mean)])
        values = np.stack([curve(t - shift * z) for z in rng.standard_normal(seeds)])
        own *= 0.2
    elif noise == "growing along the curve":
        own *= 0.3 + 1.4 * t
    elif noise == "shrinking along the curve":
        own *= 1.7 - 1.4 * t
    elif noise == "growing with height":
        own *= 0.5 + 2 * curve(t)
    elif noise == "a tilt of each seed's own":
        own = 2 * rng.standard_normal((seeds, 1)) * (t - 0.5) + 0.1 * own
    elif noise == "correlated along the curve":
        for k in range(1, points):
            own[:, k] = 0.7 * own[:, k - 1] + np.sqrt(1 - 0.49) * own[:, k]
    elif noise == "heavy tails":
        own = rng.standard_t(5, own.shape) * np.sqrt(3 / 5)
    values = values + size * own + 0.5 * rng.standard_normal((seeds, 1))
    if noise == "rows missing":
        values[rng.random(values.shape) < 0.08] = np.nan
        values[0, -1] = values[-1, -1] = np.nan  # the last length is where runs break first
    return Sample(t, values, place)
