"""Curves that were held out once, until the prior of `raysweep/fits/posterior` was changed because of them.

A bend had one power for both sides, so that a hockey stick and two different powers were covered too rarely; later it
had no power below 1. Two kinds of noise came along that were looked at then. Most of what is here comes from what
sweeps show (a bump of double descent, a wall of divergence after a slow fall, a dip after a plateau), with noise and
grids of its own. Fits may be adjusted on them; `benchmarks/held_out_curves.py` has new ones.
"""

from __future__ import annotations

import numpy as np

from benchmarks.curves import Collection, Shape, even, own


def with_the_slope(curve: Shape, t: np.ndarray, seeds: int, rng: np.random.Generator) -> np.ndarray:
    """Independent noise, larger where the curve is steep."""
    steep = np.abs(curve(t + 1e-4) - curve(t - 1e-4))
    return own(seeds, t, rng) * (0.3 + steep / max(float(steep.mean()), 1e-12))


def random_walk(_: Shape, t: np.ndarray, seeds: int, rng: np.random.Generator) -> np.ndarray:
    """Each seed walks away from the mean curve, in independent steps."""
    return np.cumsum(own(seeds, t, rng) * np.sqrt(np.diff(t, prepend=0.0)), axis=1) + 0.1 * own(seeds, t, rng)


def few_bad_seeds(_: Shape, t: np.ndarray, seeds: int, rng: np.random.Generator) -> np.ndarray:
    """One seed of eight is four times as noisy as the others."""
    return own(seeds, t, rng) * np.where(rng.random((seeds, 1)) < 1 / 8, 4.0, 1.0)


def gap(points: int, rng: np.random.Generator) -> np.ndarray:
    """Equal steps, but somewhere inside two or more neighbouring points were left out."""
    left_out = max(2, points // 5)
    t, first = np.linspace(0, 1, points + left_out), int(rng.integers(1, points))
    return np.delete(t, np.arange(first, first + left_out))


def random_spacing(points: int, rng: np.random.Generator) -> np.ndarray:
    """Steps of random length, the longest at most about eight times the shortest."""
    steps = rng.uniform(0.25, 2, points - 1)
    return np.concatenate([[0.0], np.cumsum(steps) / steps.sum()])


def falling_steps(t: np.ndarray) -> np.ndarray:
    """Falls for ever, in steps that grow smaller: the derivative is -exp(-2t)(1 + cos 6πt)."""
    s, w = -2.0, 6 * np.pi
    return -np.exp(s * t) * (1 / s + (s * np.cos(w * t) + w * np.sin(w * t)) / (s**2 + w**2))


SEEN = Collection(
    turning={
        "a bump, then the minimum": lambda d: 1.5 * d**2 + 0.2 * np.exp(-(((d + 0.22) / 0.06) ** 2)),
        "logarithm of a sum of powers": lambda d: np.log1p(4 * (np.exp(-9 * d) / 9 + np.exp(5 * d) / 5)),
        "slow fall, sigmoid wall": lambda d: 1 / (1 + np.exp(-(d - 0.15) / 0.04)) - 0.5 * d,
        "plateau, fall, wall": lambda d: 1 / (1 + np.exp((d + 0.16) / 0.04)) + np.exp((d - 0.1) / 0.08) / 4,
        "powers 1.3 and 2.5": lambda d: np.where(d < 0, np.abs(d) ** 1.3, np.abs(d) ** 2.5),
        "ripples in a valley": lambda d: 2 * d**2 + 0.03 * (1 - np.cos(2 * np.pi * d / 0.31)),
        "hockey stick": lambda d: np.where(d < 0, 0.7 * d**2, 1.5 * d),
        "potential well": lambda d: (1 + 0.6 * d) ** -8 - 2 * (1 + 0.6 * d) ** -4,
        "a corner beside the minimum": lambda d: d**2 + 2 * np.maximum(d - 0.12, 0),
        "power law and a line": lambda d: 1 / np.maximum(1.05 + d, 0.05) + d / 1.05**2,
        "powers 0.8 and 1.6": lambda d: np.where(d < 0, np.abs(d) ** 0.8, 2 * np.abs(d) ** 1.6),
    },
    straight={
        "falling steps": falling_steps,
        "saturating logarithm": lambda t: -np.log1p(30 * t),
        "long plateau, then a drop": lambda t: 1 / (1 + np.exp((t - 0.85) / 0.05)),
        "two decays": lambda t: np.exp(-25 * t) + 0.6 * np.exp(-2 * t),
        "rise to a level": lambda t: t**4 / (t**4 + 0.3**4),
    },
    deviations={
        "growing with the slope": with_the_slope,
        "a random walk": random_walk,
        "chi-square": lambda curve, t, seeds, rng: (rng.chisquare(3, (seeds, len(t))) - 3) / np.sqrt(6),
        "few bad seeds": few_bad_seeds,
        "a height of each seed's own": lambda curve, t, seeds, rng: (
            2 * rng.standard_normal((seeds, 1)) * curve(t) + 0.3 * own(seeds, t, rng)
        ),
        "relative to the height": lambda curve, t, seeds, rng: own(seeds, t, rng) * (0.15 + 3 * curve(t)),
    },
    displacements={
        "a stretch of each seed's own": lambda t, amount: 0.5 + (t - 0.5) * np.exp(amount),
        "a shift that grows along the axis": lambda t, amount: t * (1 - amount),
    },
    grids={"even": even, "a gap": gap, "random spacing": random_spacing},
    seed=2,
)
