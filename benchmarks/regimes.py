"""How often `fit_regime` names the right regime, on optima that move by a known power of the length.

python -m benchmarks.regimes REPEATS FILE.csv

`measure_few` measures sweeps of 3 and 5 seeds, in some of which the form of the curve drifts with the length.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.curves import TURNING
from raysweep.fits.regime import fit_regime, verdict

BEFORE = Path(__file__).with_name("regimes_before.csv")  # what raysweep said of the same sweeps at commit ea618fe
SLOPES = (0.3, 0.05, 0.0, -0.05, -0.25, -0.4, -0.6, -0.9)
SHAPES = ("parabola", "sum of powers", "slow fall, wall", "uneven parabola", "cusp")
LENGTHS = np.geomspace(1, 100, 6)
DECADES = 4.0  # of rates
FORMS: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {  # of the distance, and of the length from -1/2 to 1/2
    "parabola": lambda d, s: d**2,
    "steep on the right": lambda d, s: np.exp(4 * d) / 4 - d,
    "uneven parabola": lambda d, s: np.where(d < 0, 1.0, 3.0) * d**2,
    "narrower with length": lambda d, s: np.exp(1.2 * s) * d**2 * (1 + 0.6 * d),
    "steeper on the right with length": lambda d, s: np.exp((5 + 4 * s) * d) / (5 + 4 * s) - d,
}
FEW = (3, 5)  # seeds


def rows_of(slope: float, shape: str, seeds: int, rates: int, size: float, shared: float, seed: int) -> pd.DataFrame:
    """Rows over length and rate; `shared` of the noise's variance is one draw's at all lengths."""
    rng = np.random.default_rng([seed, SHAPES.index(shape), seeds, rates])
    t = np.linspace(0, 1, rates)
    common, level = rng.standard_normal((seeds, rates)), rng.standard_normal((seeds, 1))
    centre = rng.uniform(0.42, 0.58)
    parts = []
    for length in LENGTHS:
        turn = centre + slope * np.log10(length / 10) / DECADES
        curve = TURNING[shape](t - turn)
        noise = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.standard_normal((seeds, rates))
        values = curve / np.ptp(curve) + level + size * noise
        parts.append(
            pd.DataFrame(
                {
                    "rate": np.tile(10 ** (DECADES * t - 5), seeds),
                    "length": length,
                    "seed": np.repeat(np.arange(seeds), rates),
                    "loss": values.ravel(),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def few_rows_of(slope: float, form: str, seeds: int, rng: np.random.Generator) -> pd.DataFrame:
    """Rows over length and rate of few seeds."""
    rates, size, shared = int(rng.choice([9, 13])), float(rng.choice([0.005, 0.015, 0.05])), float(rng.choice([0, 0.6]))
    t, fine, centre = np.linspace(0, 1, rates), np.linspace(0, 1, 801), rng.uniform(0.42, 0.58)
    common, level = rng.standard_normal((seeds, rates)), rng.standard_normal((seeds, 1))
    parts = []
    for length in LENGTHS:
        along, turn = np.log10(length / 10) / 2, centre + slope * np.log10(length / 10) / DECADES
        curve = FORMS[form](t - turn, along) / np.ptp(FORMS[form](fine - turn, along))
        noise = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.standard_normal((seeds, rates))
        draws = np.repeat(np.arange(seeds), rates)
        values = (curve + level + size * noise).ravel()
        rate = np.tile(10 ** (DECADES * t - 5), seeds)
        parts.append(pd.DataFrame({"rate": rate, "length": length, "seed": draws, "loss": values}))
    return pd.concat(parts, ignore_index=True)


def few_judged(slope: float, form: str, seeds: int, number: int = 0) -> dict[str, Any]:
    """What is said of one simulated sweep of few seeds."""
    rng = np.random.default_rng([SLOPES.index(slope), list(FORMS).index(form), seeds, *[number] * (number > 0)])
    return {"form": form, "seeds": seeds} | told(few_rows_of(slope, form, seeds, rng), slope)


def measure_few(workers: int) -> pd.DataFrame:
    """What is said of one sweep of each slope, form and number of seeds."""
    tasks = list(itertools.product(SLOPES, FORMS, FEW))
    with ProcessPoolExecutor(workers) as pool:
        return pd.DataFrame(list(pool.map(few_judged, *zip(*tasks, strict=True), chunksize=4)))


def few_lines_of(table: pd.DataFrame) -> pd.DataFrame:
    """For each form and number of seeds: what `lines_of` says of all slopes."""
    rows = []
    for (form, seeds), part in table.groupby(["form", "seeds"], sort=False):
        rows.append({"form": form, "seeds": seeds} | shares_of(part))
    return pd.DataFrame([*rows, {"form": "all", "seeds": ""} | shares_of(table)])


def judged(slope: float, repeat: int) -> dict[str, Any]:
    """What is said of one simulated sweep."""
    rng = np.random.default_rng([repeat, SLOPES.index(slope)])
    seeds, rates = int(rng.choice([3, 5, 10])), int(rng.choice([9, 13, 27]))
    size, shape = float(rng.choice([0.003, 0.01, 0.03])), str(rng.choice(SHAPES))
    rows = rows_of(slope, shape, seeds, rates, size, float(rng.choice([0.0, 0.6])), repeat)
    return {"repeat": repeat} | told(rows, slope)


def told(rows: pd.DataFrame, slope: float) -> dict[str, Any]:
    """What is said of the rows of a sweep whose best rate has a slope."""
    found = fit_regime(rows, "rate", "length", "loss", "seed")
    return {
        "slope": slope,
        "regime": verdict(slope, slope),
        "said": found.verdict,
        "covers": found.low <= slope <= found.high,
        "width": found.high - found.low,
    }


def measure(repeats: int, workers: int) -> pd.DataFrame:
    """What is said of `repeats` sweeps of each slope."""
    tasks = list(itertools.product(SLOPES, range(repeats)))
    with ProcessPoolExecutor(workers) as pool:
        return pd.DataFrame(list(pool.map(judged, *zip(*tasks, strict=True), chunksize=4)))


def with_before(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the column before_width of the same sweeps."""
    before = pd.read_csv(BEFORE)[["slope", "repeat", "width"]].rename(columns={"width": "before_width"})
    return table.merge(before, on=["slope", "repeat"], how="left", validate="one_to_one")


def lines_of(table: pd.DataFrame) -> pd.DataFrame:
    """For each true slope, and for all: how often the right regime was named, a wrong one, none; the interval's
    coverage, its width, and the median ratio to its width before."""
    rows = []
    for slope, part in [*table.groupby("slope", sort=False), ("all", table)]:
        names = {"true slope": str(slope), "regime": part["regime"].iloc[0] if slope != "all" else ""}
        ratio = (part["width"] / part["before_width"]).median()
        rows.append(names | shares_of(part) | {"width / before": ratio})
    return pd.DataFrame(rows)


def shares_of(part: pd.DataFrame) -> dict[str, float]:
    """Of some sweeps: how often the right regime was named, a wrong one, none; coverage and width of the interval."""
    right, none = part["said"] == part["regime"], part["said"] == "undetermined"
    return {
        "sweeps": len(part),
        "right": right.mean(),
        "undetermined": none.mean(),
        "wrong": (~right & ~none).mean(),
        "coverage": part["covers"].mean(),
        "median width": part["width"].median(),
    }


if __name__ == "__main__":
    measure(int(sys.argv[1]), 1).to_csv(sys.argv[2], index=False, float_format="%.4f")
