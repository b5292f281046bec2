"""How often the pooled error of a single run covers, and how often the best cell is kept among those like it.

python -m benchmarks.single_runs [REPEATS] > raysweep/fits/surface/RUN_ERRORS.md
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pandas as pd

from benchmarks.shares import markdown
from benchmarks.surfaces import NOISES, SHAPES, SIZES, SPAN
from raysweep.fits.surface.noise import run_errors

TEXT = """# The error of one run

Measured by `python -m benchmarks.single_runs {repeats}`, on the families of COVERAGE.md, with one run a cell and
slices whose levels differ by about a standard deviation. Intervals are the run ± 1.96 errors. Near: cells within 6
standard deviations of the best one. Kept: the truly best cell is not called worse than the cell with the lowest run, by
the difference of two runs. That is less often than 95 %, because the lowest of many runs is too low.
"""


def measured(shape: str, noise: str, size: tuple[int, int], number: int) -> dict[str, object]:
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
    alike = y - y.min() <= 1.96 * np.hypot(errors, errors[y.argmin()])
    return {
        "shape": shape,
        "noise": noise,
        "size": f"{slices}x{values}",
        "grids": 1,
        "coverage": inside.mean(),
        "near": inside[near].mean(),
        "kept": alike[f.argmin()],
    }


def report(repeats: int) -> str:
    """The tables, as Markdown."""
    table = pd.DataFrame([measured(*job) for job in itertools.product(SHAPES, NOISES, SIZES, range(repeats))])
    how = {"grids": "sum", "coverage": "mean", "near": "mean", "kept": "mean"}
    parts = [table.assign(all="all").groupby("all")] + [
        table.groupby(by, sort=False) for by in ("shape", "noise", "size")
    ]
    return "\n\n".join([TEXT.format(repeats=repeats), *(markdown(part.agg(how).reset_index()) for part in parts)])


if __name__ == "__main__":
    print(report(int(sys.argv[1]) if len(sys.argv) > 1 else 10))
