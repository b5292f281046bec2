"""How often what single runs say of slopes, exponents, differences and factors holds, and how often it is false.

The last part of raysweep/fits/surface/RUN_ERRORS.md: see `benchmarks/single_runs.py`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import raysweep
from benchmarks.real_rows import SETS
from benchmarks.shares import markdown
from benchmarks.single_runs import GRIDS, NOISE_SIZES, real_runs
from benchmarks.surfaces import NOISES, SHAPES, SPAN
from raysweep.analyses.finding import Outcome
from raysweep.fits.comparison import HIGHER, LOWER, over_cells, paired, per_cell
from raysweep.fits.surface.posterior import DEGREES
from raysweep.fits.surface.single_runs import run_errors
from raysweep.fits.trend import slope_weights

TEXT = """# Slopes with one run per point

Measured by `python -m benchmarks.single_effects {repeats}`: 4 to 12 slices of 8 to 20 points over two decades, with
noise of 2, 5 or 10 % of their range. Slope and exponent are coverages of `trend` and of `power_law`; wider is the
median width of a slope's interval over that of one who knows the noise. False: sweeps in which a level curve rises or
falls, one that goes one way turns back, or one with a level part changes throughout. Last come the real curves of
`benchmarks/real_rows.py`, with a seed of its own for every cell; the mean of all seeds stands for the truth.
"""
TEXT_OF_DIFFERENCES = """# Differences of two sweeps with one run per cell

Two sweeps of 4 to 12 slices of 8 to 20 cells with a best value inside, noise of 2, 5 or 10 % of their range. The
second one is equal, lower by half a standard deviation of a run, or lower on one side only. Mean and cell are coverages
of the mean difference and of that of a cell; wider is the width of the mean's interval over that of one who knows the
noise. False: sweeps in which a cell without a difference is higher or lower.
"""
TEXT_OF_SHIFTS = """# Factors of best values with one run per cell

The families of COVERAGE.md, 3 or 6 slices of 7 or 10 cells in both of two settings, whose best values differ by a
factor. Both are of one form or of two: nothing tells the fit which. Noise is 5 or 30 % of the height one octave from
the best value. Said: the factor has an interval; width in gaps of the grid.
"""
CURVES: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "level": lambda u, _: 1 + 0 * u,
    "power": lambda u, b: 100 ** (-b * u),
    "power above a floor": lambda u, b: 0.3 + 0.7 * 100 ** (-2 * b * u),
    "saturating": lambda u, b: 1 - 0.7 * np.exp(-6 * b * u),
    "level, then falling": lambda u, b: 1 - np.maximum(u - b, 0),
    "turning": lambda u, b: 0.4 + (u - 0.3 - b) ** 2,
}
ONE_WAY = ("power", "power above a floor", "saturating", "level, then falling")


def measured(name: str, noise: str, size: float, grid: tuple[int, int], number: int) -> pd.DataFrame:
    """One simulated sweep: a row per slice."""
    rng = np.random.default_rng([4, number, sum(map(ord, name + noise)), *grid, int(1000 * size)])
    slices, points = grid
    u = np.linspace(0, 1, points)
    truth = np.array([CURVES[name](u, b) for b in rng.uniform(0.2, 0.5, slices)])
    truth *= np.exp(0.3 * rng.standard_normal((slices, 1)))
    unit = rng.standard_t(3, truth.shape) / np.sqrt(3) if noise == "t3" else rng.standard_normal(truth.shape)
    sd = size * (np.ptp(truth, axis=1).mean() or 0.5) * (0.3 + truth / truth.mean() if noise == "growing" else 1.0)
    out, trend = slopes_of(100**u, np.maximum(truth + sd * unit, 0.02), truth, logarithmic=True)
    known = np.sqrt((np.broadcast_to(sd, truth.shape) ** 2) @ slope_weights(2 * u) ** 2)
    false = trend["outcome"].isin([Outcome.RISES, Outcome.FALLS]).any() if name == "level" else False
    false |= name in ("level", *ONE_WAY) and trend["turns_back"].to_numpy(bool).any()
    false |= name == "level, then falling" and trend["throughout"].to_numpy(bool).any()
    out["wider"] = (trend["high"] - trend["low"]) / (2 * 1.96 * known)
    out["false"] = np.where(np.arange(slices) == 0, float(false), np.nan)
    return out.assign(curve=name, noise=noise, size=size, grid=f"{slices}x{points}")


def slopes_of(
    x: np.ndarray, values: np.ndarray, truth: np.ndarray, *, logarithmic: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(whether intervals hold the slope and, of positive values, the exponent of each slice; the table of trends).
    values, truth: (slices, points), one run each."""
    slices, points = values.shape
    frame = pd.DataFrame({"slice": np.repeat(np.arange(slices), points), "x": np.tile(x, slices), "y": values.ravel()})
    asked, scale = [{"trend": {"x": "x"}}, {"power_law": {"x": "x"}}], {"x": "log" if logarithmic else "linear"}
    trend, power = (one.table for one in raysweep.analyse(frame, "y", "x", "slice", asked, scale=scale))
    slope, out = truth @ slope_weights(np.log10(x) if logarithmic else x), pd.DataFrame()
    out["slope"] = (trend["low"] <= slope) & (slope <= trend["high"])
    if (truth > 0).all():
        exponent = np.log(truth) @ slope_weights(np.log(x))
        held = (power["low"] <= exponent) & (exponent <= power["high"])
        out["exponent"] = held.astype(float).where(power["low"].notna())
    return out, trend


def real_slopes(name: str, number: int) -> pd.DataFrame:
    """The slopes of real curves, with a seed of its own for every cell."""
    x, truth, values = real_runs(name, number)
    return slopes_of(x, values, truth, logarithmic=SETS[name].logarithmic)[0].assign(curves=name)


def compared(kind: str, noise: str, size: float, grid: tuple[int, int], number: int) -> dict[str, Any]:
    """Two simulated sweeps."""
    rng = np.random.default_rng([5, number, sum(map(ord, kind + noise)), *grid, int(1000 * size)])
    slices, points = grid
    u = np.linspace(0, 1, points)
    truth = 3 + 4 * (u - rng.uniform(0.3, 0.7, (1, slices, 1))) ** 2 + 0.2 * rng.standard_normal((1, slices, 1))
    sd = size * np.ptp(truth, axis=2).mean()
    lower = {"equal": 0 * u, "lower": 0.5 + 0 * u, "lower on one side": np.maximum(4 * u - 2, 0)}[kind]
    truth = np.concatenate([truth, truth - sd * lower])
    unit = rng.standard_t(3, truth.shape) / np.sqrt(3) if noise == "t3" else rng.standard_normal(truth.shape)
    unit *= 0.5 + truth - truth.min() if noise == "growing" else 1.0
    values = dict(zip(("sweep", "slice", "x"), (each.ravel() for each in np.indices(truth.shape)), strict=True))
    cells = pd.DataFrame({**values, "mean": (truth + sd * unit).ravel(), "draws": 1, "standard_error": np.nan})
    errors = run_errors(cells, "x", ["sweep", "slice", "x"], turn="min", logarithmic=False)
    rows = cells.assign(error=errors, status="ok", seed=0)
    same, one, other = ["slice", "x"], rows[rows["sweep"] == 0], rows[rows["sweep"] == 1]
    pairs = paired(one, other, same, "mean", "error")
    table = per_cell(pairs, same, error="error", degrees=DEGREES).sort_values(same)
    whole, difference = over_cells(pairs, same, error="error"), (truth[1] - truth[0]).ravel()
    known = sd * np.sqrt(2 * (((0.5 + truth - truth.min()) ** 2).mean() if noise == "growing" else 1) / len(table))
    said = table["status"].isin([HIGHER, LOWER]).to_numpy()
    return {
        "sweeps": 1,
        "mean": whole.low <= difference.mean() <= whole.high,
        "cell": ((table["low"] <= difference) & (difference <= table["high"])).mean(),
        "wider": (whole.high - whole.low) / (2 * 1.96 * known),
        "false": float((said & (difference == 0)).any()),
        "kind": kind,
        "noise": noise,
        "size": size,
        "grid": f"{slices}x{points}",
    }


def differences(repeats: int) -> str:
    """The tables of differences, as Markdown."""
    jobs = itertools.product(("equal", "lower", "lower on one side"), NOISES, NOISE_SIZES, GRIDS, range(repeats))
    table = pd.DataFrame([compared(*job) for job in jobs])
    how = {"sweeps": "sum", "mean": "mean", "cell": "mean", "wider": "median", "false": "mean"}
    parts = [table.assign(all="all").groupby("all")]
    parts += [table.groupby(by, sort=False) for by in ("kind", "noise", "size", "grid")]
    return "\n\n".join([TEXT_OF_DIFFERENCES, *(markdown(part.agg(how).reset_index()) for part in parts)])


def shifted(shape: str, forms: str, noise: str, share: float, grid: tuple[int, int], number: int) -> dict[str, Any]:
    """One simulated sweep of two settings."""
    rng = np.random.default_rng([6, number, sum(map(ord, shape + forms + noise)), *grid, int(100 * share)])
    slices, points = grid
    x, factor = np.linspace(0, SPAN, points), rng.normal(0, 0.5)
    best = SPAN / 2 + np.linspace(-1, 1, slices) * rng.uniform(0, 0.8) + factor * np.array([[-0.5], [0.5]])
    other = shape if forms == "one" else str(rng.choice([name for name in SHAPES if name != shape] or [shape]))
    height = np.stack([SHAPES[name](x - place[:, None]) for name, place in zip((shape, other), best, strict=True)])
    height *= np.exp(0.3 * rng.standard_normal((2, slices, 1)))
    unit = rng.standard_t(3, height.shape) / np.sqrt(3) if noise == "t3" else rng.standard_normal(height.shape)
    runs = 60 + height + share * unit * (1 + 2 * height * (noise == "growing"))
    setting, slice_, place = (each.ravel() for each in np.indices(runs.shape))
    frame = pd.DataFrame({"setting": setting, "slice": 2.0**slice_, "x": np.exp(x)[place], "y": runs.ravel()})
    asked = [{"shift": {"x": "x", "over": "slice"}}]
    found = raysweep.analyse(frame, "y", ["x", "slice"], "setting", asked, scale={"x": "log"}, labels=["setting"])
    low, high = np.log(found.table[["low", "high"]].iloc[0].to_numpy(float))
    said = bool(np.isfinite(high - low))
    held = {"coverage": float(low <= factor <= high) if said else np.nan, "width": (high - low) / (x[1] - x[0])}
    about = {"shape": shape, "forms": forms, "noise": noise, "noise size": share, "grid": f"{slices}x{points}"}
    return {"sweeps": 1, "said": said, **held, **about}


def shifts(repeats: int) -> str:
    """The tables of factors, as Markdown."""
    jobs = itertools.product(SHAPES, ("one", "two"), NOISES, (0.05, 0.3), ((3, 7), (6, 10)), range(repeats))
    table = pd.DataFrame([shifted(*job) for job in jobs])
    how = {"sweeps": "sum", "said": "mean", "coverage": "mean", "width": "median"}
    parts = [table.assign(all="all").groupby("all")]
    parts += [table.groupby(by, sort=False) for by in ("forms", "shape", "noise", "noise size", "grid")]
    return "\n\n".join([TEXT_OF_SHIFTS, *(markdown(part.agg(how).reset_index()) for part in parts)])


def report(repeats: int) -> str:
    """The tables, as Markdown."""
    jobs = itertools.product(CURVES, NOISES, NOISE_SIZES, GRIDS, range(repeats))
    table = pd.concat([measured(*job) for job in jobs], ignore_index=True)
    how = {"slices": ("slope", "size"), "slope": ("slope", "mean"), "exponent": ("exponent", "mean")}
    how |= {"wider": ("wider", "median"), "false": ("false", "mean")}
    parts = [table.assign(all="all").groupby("all")]
    parts += [table.groupby(by, sort=False) for by in ("curve", "noise", "size", "grid")]
    slopes = [markdown(part.agg(**how).reset_index()) for part in parts]
    real = pd.concat([real_slopes(*job) for job in itertools.product(SETS, range(10 * repeats))])
    few = {name: how[name] for name in ("slices", "slope", "exponent")}
    slopes.append(markdown(real.groupby("curves", sort=False).agg(**few).reset_index()))
    return "\n\n".join([TEXT.format(repeats=repeats), *slopes, differences(2 * repeats), shifts(-(-repeats // 2))])


if __name__ == "__main__":
    print(report(int(sys.argv[1]) if len(sys.argv) > 1 else 2))
