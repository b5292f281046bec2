"""Two axes that are best together, on surfaces whose lowest point is known, and what an oracle would know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from benchmarks.surfaces import ORACLE, REGRET, SPAN, bound
from raysweep.fits.result import Status
from raysweep.fits.surface.slice_places import slice_places

TEXT = """
# Two axes: how often the interval holds the joint optimum

5 slices of 9 rates and 7 batches over 8 and 6 octaves, with the same noises. The lowest point is known: it is the 0 of
`PAIRS`. Coverage is that of decided axes; width is in octaves, the ratio that to an oracle's, as above. In a third of
the sweeps a quarter of the cells is missing. Regret: that of the pair chosen. A fifth too large over all families:
up to twice the real one where the surface is smooth, half of it at a kink, three times that at an edge of stability.

Intervals of smooth families are too wide. What an oracle gains is that it knows the form of the curve. An edge of
stability that the other axis moves is off alike in all slices, as it is along one axis.
"""
PAIR, PAIR_SPAN = (9, 7), (SPAN, 6.0)
"""Values and octaves of the rate and of the batch."""
Surface = Callable[[np.ndarray, np.ndarray], np.ndarray]


def turned(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates along axes that are not those of the grid."""
    return 0.8 * a - 0.6 * b, 0.6 * (0.6 * a + 0.8 * b)


def edge(u: np.ndarray) -> np.ndarray:
    """Hardly a slope below 0, a wall above."""
    return np.where(u < 0, 0.03 * u**2, np.expm1(np.clip(u, 0, 9)))


PAIRS: Mapping[str, Surface] = {
    "tilted quadratic": lambda a, b: 0.5 * (a**2 + b**2 - a * b),
    "power": lambda a, b: np.hypot(*turned(a, b)) ** 1.7,
    "exponentials": lambda a, b: sum(np.exp(0.6 * u) - 0.6 * u - 1 for u in turned(a, b)),
    "bent valley": lambda a, b: 0.3 * a**2 + 0.3 * (b - 0.5 * a - 0.1 * a**2) ** 2,
    "plateau": lambda a, b: 1 - np.exp(-0.4 * np.hypot(*turned(a, b)) ** 2),
    "asymmetric": lambda a, b: np.where(a < 0, 0.08, 0.5) * a**2 + 0.2 * (b - 0.4 * a) ** 2,
    "kink in the rate": lambda a, b: np.where(a < 0, -0.3, 0.8) * a + 0.2 * (b - 0.4 * a) ** 2,
    "edge of stability": lambda a, b: edge(a - 0.3 * b) + 0.1 * b**2,
}
"""The loss above its lowest value, at 0, over octaves from the best rate and batch."""
OPEN_PAIRS: Mapping[str, Surface] = {
    "level along the batch": lambda a, b: 0.4 * a**2 + 0 * b,
    "falls along the batch": lambda a, b: 0.4 * a**2 - 0.2 * b,
}
"""Surfaces without a best batch inside."""


def with_noise(curve: np.ndarray, noise: str, draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(draws of a curve, the Fisher information of a cell's mean): shapes (draws, …) and (…)."""
    sd = 0.05 * rng.choice([0.05, 0.1, 0.3]) * np.ones_like(curve)
    if noise == "growing":
        sd = sd + 0.1 * np.maximum(curve, 0)
    shape = (draws, *curve.shape)
    e = rng.standard_t(3, shape) / np.sqrt(3) if noise == "t3" else rng.standard_normal(shape)
    return curve + sd * e, draws * (2.0 if noise == "t3" else 1.0) / sd**2


def measured(shape: str, noise: str, draws: int, number: int) -> pd.DataFrame:
    """Slices of two axes: a row per slice and axis."""
    rng = np.random.default_rng([number, sum(map(ord, shape + noise)), draws, 2])
    surface = (PAIRS | OPEN_PAIRS)[shape]
    u, v = (grid.ravel() for grid in np.meshgrid(*map(np.linspace, (0, 0), PAIR_SPAN, PAIR), indexing="ij"))
    moves = np.linspace(-1, 1, 5)[:, None] * rng.uniform(-1, 1, 2) + 0.2 * rng.standard_normal((5, 2))
    truth = np.array(PAIR_SPAN) / 2 + moves
    gain = 0.05 * np.exp(0.3 * rng.standard_normal((5, 1)))
    values, information = with_noise(gain * surface(u - truth[:, :1], v - truth[:, 1:]), noise, draws, rng)
    here = rng.random((5, len(u))) > 0.25 * (rng.random() < 1 / 3)
    seed, s, k = np.nonzero(np.broadcast_to(here, values.shape))
    frame = pd.DataFrame(
        {"size": s, "rate": 2 ** u[k], "batch": 2 ** v[k], "seed": seed, "loss": 3 + values[seed, s, k]}
    )
    found = slice_places(frame, ["rate", "batch"], "loss", ["size"], turn="min")
    lines = []
    for s, pair in enumerate(found.pairs):
        assert pair is not None
        own = here[s]

        def moved(a: float, b: float, s: int = s, own: np.ndarray = own) -> np.ndarray:
            return np.asarray(gain[s] * surface(u[own] - truth[s, 0] - a, v[own] - truth[s, 1] - b))

        real = gain[s, 0] * surface(*(np.array(pair.choice) / np.log(2) - truth[s])[:, None])[0]
        errors = np.sqrt(np.diag(bound(moved, information[s][own], 2)))
        for axis, one in enumerate(pair.axes):
            low, high = one.low / np.log(2), one.high / np.log(2)
            located = one.status == Status.LOCATED
            lines.append(
                {
                    "shape": shape,
                    "noise": noise,
                    "draws": draws,
                    "axis": ("rate", "batch")[axis],
                    "turns": axis == 0 or shape in PAIRS,
                    "located": located,
                    "decided": one.status != Status.UNDETERMINED,
                    "inside": low <= truth[s, axis] <= high,
                    "width": high - low if located else np.nan,
                    "ratio": (high - low) / (2 * 1.96 * errors[axis]) if located else np.nan,
                    "expected": pair.regret.min(),
                    "real": real,
                }
            )
    return pd.DataFrame(lines)


def lines_of(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """What was measured of pairs, by group."""
    lines = []
    for key, part in table.groupby(by, sort=False):
        done = part[part["decided"]]
        names = dict(zip(by, key, strict=True)) | {"slices": len(part), "located": part["located"].mean()}
        covered = done["inside"].mean() if part["turns"].all() else np.nan
        widths = {"width": part["width"].median(), ORACLE: part["ratio"].median()}
        lines.append(names | {"coverage": covered} | widths | {REGRET: part["expected"].mean() / part["real"].mean()})
    return pd.DataFrame(lines)
