"""Sweeps whose surfaces are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd


def sweep(
    curve: Callable[[np.ndarray, int], np.ndarray],
    slices: int = 6,
    rates: int = 9,
    runs: int = 1,
    noise: float = 0.02,
    seed: int = 0,
) -> pd.DataFrame:
    """Rows over rate = 2**t, t in [0, 8], of loss = curve(t, slice) with normal noise and levels of draws."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 8, rates)
    parts = []
    for s in range(slices):
        for run in range(runs):
            loss = curve(t, s) + noise * rng.standard_normal(rates) + rng.standard_normal()
            parts.append(pd.DataFrame({"slice": s + 1, "rate": 2**t, "seed": run, "loss": loss}))
    return pd.concat(parts, ignore_index=True)


def parabola(t: np.ndarray, s: int) -> np.ndarray:
    """Best at t = 3 + s / 4."""
    return 0.1 * (t - 3 - s / 4) ** 2
