"""How often the pooled error of a single run covers.

{ for name in single_runs best_cells single_effects; do python -m benchmarks.$name; done; } > RUN_ERRORS.md

And how often zeros that are read with this error are covered.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pandas as pd

import raysweep
from benchmarks.boundaries import CURVES
from benchmarks.real_rows import ROWS, SETS
from benchmarks.shares import markdown
from benchmarks.surfaces import NOISES, SHAPES, SIZES, SPAN
from raysweep.analyses.finding import Outcome
from raysweep.fits.surface.single_runs import run_errors

TEXT = """# The error of one run

Measured by `python -m benchmarks.single_runs {repeats}`, on the families of COVERAGE.md, with one run a cell and
slices whose levels differ by about a standard deviation. Intervals are the run ± 1.96 errors. Near: cells within 6
standard deviations of the best one.
"""


TEXT_OF_ZEROS = """# Zeros with one run per point

The curves of `benchmarks/boundaries.py`, 4 to 12 slices of 8 to 20 points with noise of 2, 5 or 10 % of their range,
and the real zeros of `benchmarks/real_rows.py` with a seed of its own for every cell. Width is in cells of the grid. A
kink at the zero that the noise hides is covered least.
"""
GRIDS, NOISE_SIZES = ((4, 8), (6, 12), (12, 20)), (0.02, 0.05, 0.1)


def measured(shape: str, noise: str, size: tuple[int, int], number: int) -> dict[str, Any]:
    """One simulated grid."""
    rng = np.random.default_rng([number, sum(map(ord, shape + noise)), *size])
    slices, values = size
    x = np.linspace(0, SPAN, values)
    best = SPAN / 2 + np.linspace(-1, 1, slices) * rng.uniform(0.3, 1.5) + 0.3 * rng.standard_normal(slices)
    sd = 0.05 * rng.choice([0.05, 0.1, 0.3])
    height = SHAPES[shape](x - best[:, None]) * (0.05 * np.exp(0.3 * rng.standard_normal(slices)))[:, None]
    truth = 3 + sd * rng.standard_normal((slices, 1)) + height
    unit = rng.standard_t(3, truth.shape) / np.sqrt(3) if noise == "t3" else rng.standard_normal(truth.shape)
    runs = truth + unit * (sd + 0.1 * height * (noise == "growing"))
    frame = pd.DataFrame({"slice": np.repeat(np.arange(slices), values), "x": np.tile(x, slices)})
    frame = frame.assign(mean=runs.ravel(), draws=1, standard_error=np.nan)
    errors = run_errors(frame, "x", ["slice", "x"], turn="min", logarithmic=False)
    assert errors is not None
    y, f = runs.ravel(), truth.ravel()
    inside, near = np.abs(y - f) < 1.96 * errors, f < f.min() + 6 * sd
    return {
        "shape": shape,
        "noise": noise,
        "size": f"{slices}x{values}",
        "grids": 1,
        "coverage": inside.mean(),
        "near": inside[near].mean(),
    }


def zeros_of(x: np.ndarray, values: np.ndarray, roots: np.ndarray) -> pd.DataFrame:
    """What is said of zeros, one row per slice. values: (slices, points), one run each."""
    slices, points = values.shape
    frame = pd.DataFrame({"slice": np.repeat(np.arange(slices), points), "x": np.tile(x, slices), "y": values.ravel()})
    table = raysweep.analyse(frame, "y:maximize", "x", "slice", [{"boundary": {"x": "x"}}], scale={"x": "linear"}).table
    inside = (table["low"] <= roots) & (roots <= table["high"])
    width = (table["high"] - table["low"]) / (x[1] - x[0])
    located = table["outcome"] == Outcome.LOCATED
    return pd.DataFrame({"located": located, "coverage": inside.where(located).astype(float), "width": width[located]})


def simulated_zeros(name: str, noise: str, size: float, grid: tuple[int, int], number: int) -> pd.DataFrame:
    """One simulated sweep whose slices have a zero each."""
    rng = np.random.default_rng([3, number, sum(map(ord, name + noise)), *grid, int(1000 * size)])
    (slices, points), where = grid, rng.uniform(-1, 1)
    x = np.linspace(0, 1, points)
    roots = np.clip(rng.uniform(0.3, 0.7) + 0.1 * rng.standard_normal(slices), 0.15, 0.85)
    unit = rng.standard_t(3, (slices, points)) / np.sqrt(3) if noise == "t3" else rng.standard_normal((slices, points))
    unit = unit * (0.3 + 2 * x) if noise == "growing" else unit
    values = np.array([CURVES[name](x, root, where) for root in roots]) + size * unit
    if rng.random() < 0.5:
        values, roots = -values[:, ::-1], 1 - roots
    return zeros_of(x, values, roots).assign(curve=name, noise=noise, size=size, grid=f"{slices}x{points}")


def real_runs(name: str, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, the mean of all seeds, runs with a seed of its own for every cell) of real curves, (slices, points)."""
    with np.load(ROWS, allow_pickle=False) as kept:
        x, mean, scale, deviations = (kept[f"{name}, {key}"] for key in ("x", "mean", "scale", "deviations"))
    slices, draws, points = deviations.shape
    seeds = np.random.default_rng(number).integers(draws, size=(slices, points))
    noise = deviations.astype(np.float64)[np.arange(slices)[:, None], seeds, np.arange(points)]
    return x, mean, mean + scale[:, None] * noise


def real_zeros(number: int) -> pd.DataFrame:
    """Real zeros, with a seed of its own for every cell."""
    name = "linear networks: zeros"
    with np.load(ROWS, allow_pickle=False) as kept:
        roots = kept[f"{name}, reference {SETS[name].groups[0]}"].mean(axis=1)
    x, _, values = real_runs(name, number)
    return zeros_of(x, values, roots).assign(curve=name)


def zeros(repeats: int) -> str:
    """The tables of zeros, as Markdown."""
    jobs = itertools.product(CURVES, NOISES, NOISE_SIZES, GRIDS, range(repeats))
    table = pd.concat([simulated_zeros(*job) for job in jobs], ignore_index=True)
    real = pd.concat([real_zeros(number) for number in range(4 * repeats)])
    how = {"slices": ("located", "size"), "located": ("located", "mean"), "coverage": ("coverage", "mean")}
    how |= {"width": ("width", "median")}
    parts = [table.assign(all="all").groupby("all")]
    parts += [table.groupby(by, sort=False) for by in ("curve", "noise", "size", "grid")] + [real.groupby("curve")]
    return "\n\n".join([TEXT_OF_ZEROS, *(markdown(part.agg(**how).reset_index()) for part in parts)])


def report(repeats: int) -> str:
    """The tables, as Markdown."""
    table = pd.DataFrame([measured(*job) for job in itertools.product(SHAPES, NOISES, SIZES, range(repeats))])
    how = {"grids": "sum", "coverage": "mean", "near": "mean"}
    parts = [table.assign(all="all").groupby("all")] + [
        table.groupby(by, sort=False) for by in ("shape", "noise", "size")
    ]
    errors = [markdown(part.agg(how).reset_index()) for part in parts]
    return "\n\n".join([TEXT.format(repeats=repeats), *errors, zeros(-(-repeats // 5))])


if __name__ == "__main__":
    print(report(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
