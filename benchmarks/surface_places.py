"""Best values by the posterior of a surface (`raysweep.fits.surface`), on families that it is not made of.

python -m benchmarks.surface_places FILE.csv [--sweeps 4] measures into FILE.csv and prints tables as Markdown.

A sweep has 6 to 24 slices of 7 to 12 rates over 8 octaves, with 1 to 5 draws a cell and 5 % of the cells missing.
The best rate moves from slice to slice by a law with scatter; height and width of the curves vary. In some sweeps the
curves do not turn on the grid.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.curves import FINE, smooth
from benchmarks.shares import Bar, interval_of_share
from raysweep.fits.surface.surface import fit_surface

OCTAVES = 8.0
GRIDS, DRAWS = ((6, 7), (12, 9), (24, 12)), (1, 2, 3, 5)
SIZES = (0.003, 0.01, 0.03)  # noise of a run, of the range of a curve
FAMILIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # of the distance to the best rate, the grid 1 long
    "exponential, then a cliff": lambda d: np.exp(-3 * d) / 3 + np.exp(np.minimum(14 * d, 6)) / 14,
    "power 1.5": lambda d: np.abs(d) ** 1.5,
    "knee": lambda d: 0.04 * np.logaddexp(-2 * d / 0.08, d / 0.08),
    "dip in a plateau": lambda d: 1 - np.exp(-((d / 0.2) ** 2)),
    "cusp": lambda d: np.abs(d),
    "uneven parabola": lambda d: np.where(d < 0, 1.0, 4.0) * d**2,
    "slow fall, wall": lambda d: np.exp(np.minimum(8 * d, 6)) / 8 - d,
    "flat bottom": lambda d: np.abs(d) ** 3,
    "steep knee": lambda d: np.where(d < 0, -0.25, 1.2) * 8 * d + 0.15 * (8 * d) ** 2,
    "asymmetric": lambda d: np.where(d < 0, 0.08, 0.5) * (8 * d) ** 2,
}
STRAIGHT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "falling line": lambda t: -t,
    "decay": lambda t: np.exp(-5 * t),
    "fall, then level": lambda t: np.maximum(0.5 - t, 0),
    "level, then rise": lambda t: t**3,
    "sigmoid": lambda t: 1 / (1 + np.exp(12 * (t - 0.5))),
}
NOISES = ("normal", "Student's t, 3 degrees", "growing with height", "smooth in a draw")


def sweep(family: str, slices: int, rates: int, draws: int, size: float, noise: str, number: int) -> pd.DataFrame:
    """Rows of one sweep; of a family that turns with the column `place` of the true best t, within [0, 1]."""
    kinds = [*FAMILIES, *STRAIGHT]
    rng = np.random.default_rng([36, kinds.index(family), slices, draws, number])
    t, parts = np.linspace(0, 1, rates), []
    start, slope, scatter = rng.uniform(0.35, 0.65), rng.uniform(-0.3, 0.3), rng.uniform(0, 0.05)
    deviation = rng.standard_normal((slices, draws, rates))
    if noise.startswith("Student"):
        deviation = rng.standard_t(3, deviation.shape) / np.sqrt(3)
    for s in range(slices):
        wide, high = np.exp(0.15 * rng.standard_normal()), np.exp(0.3 * rng.standard_normal())
        centre = float(np.clip(start + slope * (s / (slices - 1) - 0.5) + scatter * rng.standard_normal(), 0.1, 0.9))

        def raw(z: np.ndarray, wide: float = wide, centre: float = centre) -> np.ndarray:
            return FAMILIES[family]((z - centre) / wide) if family in FAMILIES else STRAIGHT[family](z)

        curve = high * (raw(t) - raw(FINE).min()) / np.ptp(raw(FINE))
        each = deviation[s]
        if noise.startswith("growing"):
            each = each * (0.5 + 3 * curve)
        if noise.startswith("smooth"):
            each = 2 * smooth(t, 0.3, draws, rng) * (0.3 + 2 * curve) + 0.3 * each
        values = curve + size * each + 0.1 * rng.standard_normal((draws, 1))
        values[:, rng.random(rates) < 0.05] = np.nan
        part = {
            "rate": np.tile(2 ** (OCTAVES * t), draws),
            "seed": np.repeat(np.arange(draws), rates),
            "loss": values.ravel(),
        }
        parts.append(
            pd.DataFrame({"slice": s, **part, "place": FINE[raw(FINE).argmin()], "wide": wide, "centre": centre})
        )
    return pd.concat(parts, ignore_index=True).dropna()


def oracle_width(family: str, part: pd.DataFrame, size: float, draws: int) -> float:
    """Width in t of the 95 % interval of one who knows the family, its width and the noise, of one slice."""
    curve = part.groupby("rate")["loss"].mean()
    t, values = np.log2(curve.index.to_numpy(float)) / OCTAVES, curve.to_numpy()
    places = np.linspace(-0.2, 1.2, 701)
    shape = FAMILIES[family]((t - places[:, None]) / part["wide"].iloc[0])
    shape = shape / np.ptp(FAMILIES[family]((FINE - part["centre"].iloc[0]) / part["wide"].iloc[0]))
    shape, values = shape - shape.mean(axis=1, keepdims=True), values - values.mean()
    height = (shape @ values) / np.maximum(np.sum(shape**2, axis=1), 1e-12)
    misfit = np.sum((values - height[:, None] * shape) ** 2, axis=1)
    density = np.exp(-0.5 * (misfit - misfit.min()) / (size**2 / draws)) * (height > 0)
    low, high = np.interp([0.025, 0.975], np.cumsum(density) / density.sum(), places)
    return float(high - low)


def measured(setting: tuple[str, tuple[int, int], int, float, str, int]) -> pd.DataFrame:
    """What is said of each slice of one sweep; places and widths in octaves."""
    family, (slices, rates), draws, size, noise, number = setting
    rows = sweep(family, slices, rates, draws, size, noise, number)
    start = time.perf_counter()
    best = fit_surface(rows, ["rate"], "loss", ["slice"], "seed").best()
    out = best[["slice", "status"]].assign(
        family=family, grid=f"{slices} x {rates}", draws=draws, size=size, noise=noise
    )
    for name in ("estimate", "low", "high"):
        out[name] = np.log2(best[name].clip(lower=1e-9)).to_numpy()
    first = rows.groupby("slice").first()
    out["turn"] = OCTAVES * first["place"].loc[out["slice"]].to_numpy()
    if family in STRAIGHT:
        out["turn"] = np.nan
    else:
        out["oracle"] = [OCTAVES * oracle_width(family, part, size, draws) for _, part in rows.groupby("slice")]
    out["covers"] = (out["low"] <= out["turn"]) & (out["turn"] <= out["high"])
    return out.assign(seconds=(time.perf_counter() - start) / len(best), width=out["high"] - out["low"])


def settings(sweeps: int) -> list[tuple[str, tuple[int, int], int, float, str, int]]:
    """One for each grid, number of draws and number below `sweeps`, through families, sizes and noises in turn."""
    out, rng = [], np.random.default_rng(36)
    for grid, draws, family in itertools.product(GRIDS, DRAWS, [*FAMILIES, *STRAIGHT]):
        # a small sweep says little: more of them
        for number in range(sweeps * max(24 // grid[0] // 2, 1) // (1 if family in FAMILIES else 2)):
            out.append((family, grid, draws, float(rng.choice(SIZES)), str(rng.choice(NOISES)), number))
    return out


def line_of(part: pd.DataFrame) -> dict[str, Any]:
    """Shares of some slices: how many turn, the share located, coverage, widths, and the share located of those that
    do not turn."""
    turning, straight = part[part["turn"].notna()], part[part["turn"].isna()]
    found = turning[turning["status"] == "located"]
    hits, count = int(found["covers"].sum()), len(found)
    low, high = interval_of_share(hits, count) if count else (np.nan, np.nan)
    bounded = turning[turning["status"].isin(["censored_low", "censored_high"])]
    return {
        "slices": len(turning),
        "located": count / len(turning) if len(turning) else np.nan,
        "coverage": hits / count if count else np.nan,
        "its 95 % interval": f"{low:.3f} to {high:.3f}" if count else "–",
        "median width": float(found["width"].median()),
        "width / oracle": float((found["width"] / found["oracle"]).median()) if count else np.nan,
        "bounds hold": float(bounded["covers"].mean()),
        "located of those that do not turn": float((straight["status"] == "located").mean()),
    }


def tables(table: pd.DataFrame) -> list[pd.DataFrame]:
    """`line_of` by draws, grid, family, noise and size."""
    out = []
    for by in ("draws", "grid", "family", "noise", "size"):
        lines = [{by: f"{value}", **line_of(part)} for value, part in table.groupby(by, sort=False)]
        out.append(pd.DataFrame(lines))
    return out


def bars(table: pd.DataFrame) -> list[Bar]:
    """What is asked of best values by the surface."""
    every = line_of(table)
    families = {name: line_of(part) for name, part in table[table["turn"].notna()].groupby("family")}
    worst = min(families, key=lambda name: families[name]["coverage"])
    once = line_of(table[table["draws"] == 1])
    return [
        Bar(
            "surface: best values: coverage at 95 %, pooled", 0.93, 0.97, every["coverage"], every["its 95 % interval"]
        ),
        Bar("surface: one run per cell: coverage", 0.93, 0.97, once["coverage"], once["its 95 % interval"]),
        Bar("surface: the lowest family", 0.90, np.inf, families[worst]["coverage"], worst),
        Bar("surface: located where nothing turns", -np.inf, 0.03, every["located of those that do not turn"]),
        Bar("surface: width / that of an oracle, median", -np.inf, 3, every["width / oracle"]),
    ]


def measure(sweeps: int, workers: int) -> pd.DataFrame:
    """One row per slice of all sweeps."""
    every: Sequence[Any] = settings(sweeps)
    if workers == 1:
        return pd.concat(map(measured, every), ignore_index=True)
    with ProcessPoolExecutor(workers) as pool:
        return pd.concat(pool.map(measured, every, chunksize=4), ignore_index=True)


def main() -> None:
    """Measure and print."""
    from benchmarks.shares import markdown

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--sweeps", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    if not asked.file.exists():
        measure(asked.sweeps, asked.workers).to_csv(asked.file, index=False, float_format="%.4f")
    table = pd.read_csv(asked.file)
    print(markdown(pd.DataFrame([bar.row() for bar in bars(table)])))
    for part in tables(table):
        print(f"\n{markdown(part)}")


if __name__ == "__main__":
    main()
