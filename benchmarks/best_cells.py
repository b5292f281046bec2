"""How often the interval of the cell that `best` shows first holds what that cell gives on average.

python -m benchmarks.best_cells [REPEATS] >> raysweep/fits/surface/RUN_ERRORS.md
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pandas as pd

from benchmarks.shares import markdown
from benchmarks.surfaces import LEVEL_SHAPES, NOISES, SHAPES, SPAN
from raysweep.analyses.kinds.best import TAILS
from raysweep.analyses.rows import interval
from raysweep.fits.surface.single_runs import cell_values

TEXT = """# The cell shown first

Measured by `python -m benchmarks.best_cells {repeats}`: sweeps of the families above whose slices differ in level by a
standard deviation of a run, or rise by a fifth of the height one octave from the best value. Noise is 5, 30 or 100 % of
that height. Estimate and interval are those that `best` shows of its first cell; bias, its error and width are in
standard deviations of a run. Raw bias: of the lowest run. Lost: the truly best cell is called worse.

With one run a cell all are draws of the surface. `WIDER` in `single_runs.py` was chosen on other sweeps of these
families, so that at least nine tenths of each shape's intervals hold the truth: those of the seeds below `HELD_OUT`.
With given errors only a part of it is used.
"""
SEVERAL = """With several runs a cell the first cell has the lowest mean, with Student's t over its runs.
That is too low, and its interval holds less than 95 %:
"""
ALL_SHAPES = (*SHAPES, "noise alone")
HELD_OUT = 100
"""Sweeps of smaller numbers have chosen `WIDER`."""
SHARES, SIZES, DRAWS = (0.05, 0.3, 1.0), ((6, 7), (12, 12)), (2, 3, 5)


def measured(
    shape: str, noise: str, share: float, size: tuple[int, int], number: int, draws: int = 1, given: bool = False
) -> dict[str, object]:
    """One simulated sweep. given: whether the error of each run is known."""
    rng = np.random.default_rng([number, sum(map(ord, shape + noise)), *size, int(100 * share), draws, given])
    (slices, count), sd = size, 0.05 * share
    x = np.linspace(0, SPAN, count)
    best = SPAN / 2 + np.linspace(-1, 1, slices) * rng.uniform(0.3, 1.5) + 0.3 * rng.standard_normal(slices)
    gain = 0.05 * np.exp(0.3 * rng.standard_normal(slices))
    height = (SHAPES | LEVEL_SHAPES)[shape](x - best[:, None]) * gain[:, None]
    level = sd * rng.standard_normal(slices) if number % 2 else 0.01 * np.arange(slices)
    truth = (3 + level[:, None] + height).ravel()
    every = (draws, truth.size)
    unit = rng.standard_t(3, every) / np.sqrt(3) if noise == "t3" else rng.standard_normal(every)
    error = sd + 0.1 * height.ravel() * (noise == "growing")
    runs = truth + unit * error
    table = pd.DataFrame({"slice": np.repeat(np.arange(slices), count), "x": np.tile(x, slices), "mean": runs.mean(0)})
    table = table.assign(draws=draws, standard_error=runs.std(0, ddof=1) / np.sqrt(draws) if draws > 1 else np.nan)
    lowest, lost = int(table["mean"].argmin()), np.nan
    if draws == 1:
        known = error if given else None
        values = cell_values(table, "x", ["slice", "x"], turn="min", logarithmic=False, error=known)
        assert values is not None
        first = int(values.mean(0).argmin())
        estimate, (low, high) = values[:, first].mean(), np.quantile(values[:, first], TAILS)
        lost = np.quantile(values[:, truth.argmin()] - values[:, first], TAILS[0]) > 0
    else:
        first, estimate = lowest, table["mean"][lowest]
        low, high = (end[first] for end in interval(table, (-np.inf, np.inf)))
    return {
        "shape": shape,
        "noise": noise,
        "noise size": share,
        "size": f"{slices}x{count}",
        "draws": draws,
        "errors": "given" if given else "not given",
        "coverage": low <= truth[first] <= high,
        "bias": (estimate - truth[first]) / sd,
        "width": (high - low) / sd,
        "raw bias": (table["mean"][lowest] - truth[lowest]) / sd,
        "lost": lost,
    }


def summary(table: pd.DataFrame, by: str) -> str:
    """A table of some sweeps, as Markdown."""
    how = {"sweeps": ("bias", "size"), "coverage": ("coverage", "mean"), "bias": ("bias", "mean")}
    how |= {"its error": ("bias", "sem"), "width": ("width", "median"), "raw bias": ("raw bias", "mean")}
    return markdown(table.groupby(by, sort=False).agg(**how, lost=("lost", "mean")).reset_index())


def report(repeats: int) -> str:
    """The tables, as Markdown."""
    jobs = list(itertools.product(ALL_SHAPES, NOISES, SHARES, SIZES, range(HELD_OUT, HELD_OUT + repeats)))
    single = pd.DataFrame([measured(*job) for job in jobs]).assign(all="all")
    given = pd.DataFrame([measured(*job, given=True) for job in jobs[::4]])
    several = pd.DataFrame([measured(*job, draws=DRAWS[k % len(DRAWS)]) for k, job in enumerate(jobs)])
    families = single.assign(family=single["shape"] + ", " + single["noise"])
    parts = [summary(families, by) for by in ("all", "shape", "noise", "noise size", "size", "family")]
    return "\n\n".join(
        [TEXT.format(repeats=repeats), *parts, summary(given, "errors"), SEVERAL, summary(several, "draws")]
    )


if __name__ == "__main__":
    print(report(int(sys.argv[1]) if len(sys.argv) > 1 else 4))
