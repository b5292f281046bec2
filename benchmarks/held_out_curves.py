"""Curves that judge and are never looked at while a fit is made: no constant of raysweep was adjusted on them.

Whoever changes a fit looks at `benchmarks/curves.py`, `benchmarks/seen_curves.py` and real rows
(`benchmarks/real_rows.py`), and at these only once, at the end. When a fit has been changed because of what was seen
here, the collection moves to `seen_curves.py` and new families are written, before they are measured.
"""

from __future__ import annotations

import numpy as np

from benchmarks.curves import Collection, Shape, even, own


def uneven_points(_: Shape, t: np.ndarray, seeds: int, rng: np.random.Generator) -> np.ndarray:
    """Independent noise; each point has a deviation of its own, from about 0.4 to 2.5."""
    return own(seeds, t, rng) * np.exp(0.5 * rng.standard_normal(len(t)))


def waves(_: Shape, t: np.ndarray, seeds: int, rng: np.random.Generator) -> np.ndarray:
    """Each seed adds two slow waves of its own."""
    phases = np.stack([wave(np.pi * k * t) for k in (1, 2) for wave in (np.sin, np.cos)])
    return 0.7 * rng.standard_normal((seeds, 4)) @ phases + 0.2 * own(seeds, t, rng)


def loud_around_one_place(_: Shape, t: np.ndarray, seeds: int, rng: np.random.Generator) -> np.ndarray:
    """Independent noise, up to eight times larger around a place that is the curve's own."""
    return own(seeds, t, rng) * (0.3 + 2 * np.exp(-(((t - rng.uniform()) / 0.1) ** 2)))


def dense_in_the_middle(points: int, _: np.random.Generator) -> np.ndarray:
    """Steps at the ends about three times as long as those in the middle."""
    s = np.linspace(-1, 1, points)
    return (1 + (0.5 * s + 0.5 * s**3)) / 2


def a_long_last_step(points: int, rng: np.random.Generator) -> np.ndarray:
    """Steps that grow by the same factor each, the last one 2 to 5 times as long as the first."""
    steps = rng.uniform(2, 5) ** np.linspace(0, 1, points - 1)
    t = np.concatenate([[0.0], np.cumsum(steps) / steps.sum()])
    t[-1] = 1.0
    return t


HELD_OUT = Collection(
    turning={
        "two exponentials": lambda d: np.exp(-14 * d) / 14 + np.exp(3 * d) / 3,
        "tilted power 1.2": lambda d: np.abs(d) ** 1.2 + 0.3 * d,
        "Morse potential": lambda d: (1 - np.exp(-2.5 * d)) ** 2,
        "a well on a ramp": lambda d: 0.5 * d - np.exp(-((d / 0.12) ** 2)),
        "an arc, a corner, a rise to a level": lambda d: np.where(d < 0, 2 * d**2 - 0.8 * d, 1 - np.exp(-4 * d)),
        "a ratio of polynomials": lambda d: (d**2 - 0.03 * d) / (0.06 + d**2 + 0.1 * (d + 1) ** 3),
        "a second, shallower valley": lambda d: (
            1 - np.exp(-((d / 0.15) ** 2)) - 0.5 * np.exp(-(((d - 0.4) / 0.12) ** 2))
        ),
        "a wide floor": lambda d: np.maximum(np.abs(d) - 0.1, 0) ** 1.5 + 0.15 * d**2,
        "logarithm of a hyperbolic cosine, tilted": lambda d: np.log(np.cosh(8 * d)) - 2.5 * d,
        "a logarithm, a corner, a line": lambda d: np.where(d < 0, np.log1p(6 * np.abs(d)) / 3, 1.2 * d),
        "a notch in a plateau": lambda d: 1 - np.exp(-np.abs(d) / 0.12),
        "a fall in two steps, then a rise": lambda d: (
            np.exp(-8 * (d + 0.3)) / 4 + np.maximum(-d, 0) ** 2 + 0.8 * np.maximum(d, 0)
        ),
    },
    straight={
        "arc tangent": lambda t: -np.arctan(8 * (t - 0.3)),
        "two drops": lambda t: 1 / (1 + np.exp((t - 0.25) / 0.04)) + 1 / (1 + np.exp((t - 0.75) / 0.04)),
        "a broken line that rises": lambda t: np.minimum(3 * t, 0.6 + t),
    },
    deviations={
        "Laplace": lambda curve, t, seeds, rng: rng.laplace(size=(seeds, len(t))) / np.sqrt(2),
        "loud around one place": loud_around_one_place,
        "points of different noise": uneven_points,
        "slow waves of each seed's own": waves,
    },
    displacements={"an axis bent in the middle": lambda t, amount: t + amount * np.sin(np.pi * t)},
    grids={"even": even, "dense in the middle": dense_in_the_middle, "a long last step": a_long_last_step},
    seed=3,
)
