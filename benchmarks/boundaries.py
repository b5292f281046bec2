"""How often the interval of `fit_boundary` holds the zero of a curve that is known, smooth or with a kink."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from raysweep.fits.boundary import find_zero

SIZES = (0.003, 0.02, 0.1)  # of one row's noise, of the curve's own range of about 1
DRAWS, POINTS = (4, 8, 20), (8, 12, 20)


def kink(steeper: float, beside: float = 0.0) -> Callable[[np.ndarray, float, float], np.ndarray]:
    """A falling line, `steeper` times as steep from its zero on, or from up to `beside` cells before or after it."""

    def curve(x: np.ndarray, root: float, where: float) -> np.ndarray:
        at = root + beside * where * (x[1] - x[0])
        bent = np.where(x < at, at - x, steeper * (at - x))
        return np.asarray(bent - (at - root if root < at else steeper * (at - root)))

    return curve


CURVES: dict[str, Callable[[np.ndarray, float, float], np.ndarray]] = {
    "straight": lambda x, root, _: root - x,
    "cosine": lambda x, root, _: 2 * (np.cos(np.pi / 2 * x) - np.cos(np.pi / 2 * root)),
    "exponential": lambda x, root, _: np.exp(-4 * x) - np.exp(-4 * root),
    "steep step": lambda x, root, _: np.tanh((root - x) / 0.07),
    "kink at the zero, 2 times as steep": kink(2),
    "kink at the zero, 5 times": kink(5),
    "kink at the zero, 10 times": kink(10),
    "kink up to a cell away, 5 times": kink(5, 1.0),
}


def noise_of(kind: str, rng: np.random.Generator, draws: int, x: np.ndarray) -> np.ndarray:
    """Noise (draws, points) of size 1: of every row, growing along x, or mostly shared by the points of a draw."""
    own, (shift, slope) = rng.standard_normal((draws, len(x))), rng.standard_normal((2, draws, 1))
    kinds = {
        "independent": own,
        "growing": own * (0.3 + 2 * x),
        "shift": shift + 0.1 * own,
        "shift and slope": shift + slope * (2 * x - 1) + 0.1 * own,
    }
    return np.asarray(kinds[kind])


def placed(name: str, repeats: int) -> list[dict[str, Any]]:
    """One row per curve: whether its zero was located, whether the interval holds it, how many cells that is wide."""
    rng = np.random.default_rng([7, list(CURVES).index(name)])
    rows = []
    kinds = ("independent", "growing", "shift", "shift and slope")
    for size, draws, points, kind, _ in itertools.product(SIZES, DRAWS, POINTS, kinds, range(repeats)):
        x, root = np.linspace(0, 1, points), rng.uniform(0.2, 0.8)
        values = CURVES[name](x, root, rng.uniform(-1, 1)) + size * noise_of(kind, rng, draws, x)
        mirrored = rng.random() < 0.5
        zero = find_zero(x, -values[:, ::-1] if mirrored else values, 0.95)
        place = 1 - root if mirrored else root
        rows.append(
            {
                "curve": name,
                "noise": size,
                "located": zero.status == "located",
                "covers": zero.low <= place <= zero.high,
                "cells": (zero.high - zero.low) * (points - 1),
            }
        )
    return rows


def boundary_table(repeats: int) -> pd.DataFrame:
    """For each curve and size of noise: how often the zero was located, coverage and median width of the intervals."""
    with ProcessPoolExecutor() as pool:
        each = pool.map(placed, CURVES, itertools.repeat(repeats))
        table = pd.DataFrame([row for rows in each for row in rows])
    lines = []
    for (name, size), part in table.groupby(["curve", "noise"], sort=False):
        found = part[part["located"]]
        lines.append(
            {
                "curve": name,
                "noise": size,
                "curves": len(part),
                "located": part["located"].mean(),
                "coverage": found["covers"].mean(),
                "median width": found["cells"].median(),
            }
        )
    return pd.DataFrame(lines)
