"""Best rates beside divergence, and curves that fall and stay level: what `fit_optimum` says of them.

The best rate lies up to a cell below the limit of stability, from which all draws diverge, or all but one. A curve that
stays level has no turn; each seed's noise is a smooth function of the rate, which rises somewhere.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.curves import TURNING, smooth
from benchmarks.shares import Bar, interval_of_share, lines_of
from raysweep.fits.optimum import fit_optimum
from raysweep.fits.result import Status

POINTS, SEEDS = (9, 13, 25), (3, 5, 10)
BESIDE, LEVEL = 60, 240  # curves beside divergence, and curves that stay level
DECADES = 4.0
FALLING = ("parabola", "slow fall, wall", "sum of powers", "cusp", "uneven parabola")
STAYING = {
    "a ramp": lambda t: np.maximum(1 - t / 0.4, 0),
    "a late ramp": lambda t: np.maximum(1 - t / 0.7, 0),
    "an exponential": lambda t: np.exp(-8 * t),
    "a sigmoid": lambda t: 1 / (1 + np.exp(14 * (t - 0.4))),
    "a power": lambda t: 1 / (1 + 20 * t),
}


def rows_of(t: np.ndarray, values: np.ndarray) -> pd.DataFrame:
    """The rows of one curve, values (seeds, points), NaN where a draw diverged."""
    seeds, points = values.shape
    rates, names = 10 ** (DECADES * t - 5), np.repeat(np.arange(seeds), points)
    status = np.where(np.isnan(values), "diverged", "ok").ravel()
    return pd.DataFrame({"rate": np.tile(rates, seeds), "seed": names, "loss": values.ravel(), "status": status})


def setting(number: int) -> tuple[np.ndarray, int]:
    """(t, seeds): numbers go through points and seeds."""
    points, seeds = list(itertools.product(POINTS, SEEDS))[number % 9]
    return np.linspace(0, 1, points), seeds


def beside_divergence(number: int) -> dict[str, Any]:
    """What is said of one curve whose best rate lies beside divergence; places in cells of the grid."""
    rng = np.random.default_rng([4, number])
    family, (t, seeds) = FALLING[number % len(FALLING)], setting(number)
    limit, size = rng.uniform(0.55, 0.9), float(rng.choice([0.003, 0.01, 0.03]))
    place = limit - rng.uniform() * t[1]
    curve = TURNING[family](t - place)
    values = curve / np.ptp(curve[t < limit]) + size * rng.standard_normal((seeds, len(t)))
    values[: seeds - int(rng.integers(0, 2)), t >= limit] = np.nan
    values += 0.5 * rng.standard_normal((seeds, 1))
    return said(t, values, family, place) | {"seeds": seeds}


def stays_level(number: int) -> dict[str, Any]:
    """What is said of one curve that falls and stays level."""
    rng = np.random.default_rng([5, number])
    family, (t, seeds) = list(STAYING)[number % len(STAYING)], setting(number)
    size, length, own = (float(rng.choice(some)) for some in ([0.01, 0.03, 0.1], [0.15, 0.3, 0.5], [0.01, 0.1, 0.3]))
    noise = smooth(t, length, seeds, rng) + own * rng.standard_normal((seeds, len(t)))
    values = STAYING[family](t) + size * noise + 0.5 * rng.standard_normal((seeds, 1))
    return said(t, values, family, np.nan) | {"seeds": seeds}


def said(t: np.ndarray, values: np.ndarray, family: str, place: float) -> dict[str, Any]:
    """Status and interval of a curve, in cells of the grid, and whether the interval holds the place."""
    fit = fit_optimum(rows_of(t, values), "rate", "loss", None, "seed", logarithmic=True, advise=False)
    low, high = ((np.log10(end) + 5) / DECADES / t[1] if 0 < end < np.inf else end for end in (fit.low, fit.high))
    covers = low <= place / t[1] <= high
    return {"family": family, "status": str(fit.status), "low": low, "high": high, "covers": covers}


def measure(workers: int) -> pd.DataFrame:
    """One row per curve; `kind` says which of the two."""
    with ProcessPoolExecutor(workers) as pool:
        beside = pd.DataFrame(list(pool.map(beside_divergence, range(BESIDE)))).assign(kind="beside divergence")
        level = pd.DataFrame(list(pool.map(stays_level, range(LEVEL)))).assign(kind="stays level")
    return pd.concat([beside, level], ignore_index=True)


def tables(measured: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(best rates beside divergence by family, curves that stay level by seeds)."""
    beside, level = (measured[measured["kind"] == kind] for kind in ("beside divergence", "stays level"))
    return lines_of(beside, ["family"]), lines_of(level.sort_values("seeds"), ["seeds"])[["seeds", "curves", "located"]]


def bars(measured: pd.DataFrame) -> list[Bar]:
    """What is asked of both."""
    beside, level = (measured[measured["kind"] == kind] for kind in ("beside divergence", "stays level"))
    located = beside[beside["status"] == Status.LOCATED]
    wrong = int((level["status"] == Status.LOCATED).sum())
    low, high = interval_of_share(wrong, len(level))
    return [
        Bar("best rates beside divergence: located", 0.5, np.inf, len(located) / len(beside)),
        Bar("best rates beside divergence: coverage", 0.93, np.inf, float(located["covers"].mean())),
        Bar(
            *("curves that stay level, smooth noise: located", -np.inf, 0.01, wrong / len(level)),
            f"{wrong} of {len(level)}; {low:.3f} to {high:.3f}",
        ),
    ]
