"""How often the posterior of a surface covers the best value, with one run per cell: families that it is not made of.

{ python -m benchmarks.surfaces; python -m benchmarks.laws; } > raysweep/fits/surface/COVERAGE.md
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd

from benchmarks.shares import markdown
from raysweep.fits.result import Status
from raysweep.fits.surface.best import best
from raysweep.fits.surface.posterior import Cells, fit_surface

TEXT = """# One run per cell: how often the interval holds the best value

Measured by `python -m benchmarks.surfaces {repeats}`. Simulated surfaces of families that the model is not made of
(`benchmarks/surfaces.py`): 6 slices of 7 values or 24 of 12, over 8 octaves, 1 to 5 draws a cell. Best values follow a
line over the slices, with scatter. Noise is normal, Student's t with 3 degrees of freedom, or grows by a tenth of the
height; its size is 5, 10, 30 or 100 % of the height one octave from the best value.

Coverage is that of all slices that are decided (located, or bounded on one side); width is in octaves, the median of
those that are located, and as a ratio to that of an oracle who knows the family and the noise (Cramér and Rao's bound
in each slice, whose level and size are unknown too). A ratio of 3 was asked for; large noise, plateaus and kinks have
it, and cusps nearly. With little noise an oracle's width goes to 0, and ours to what a curve may do between two
values of the grid. From where a cliff stands an oracle even knows the best value. Smooth families are covered in more
than they say. Kinks, a hinge (level on one side, steep on the other) and the edge of stability are best at their
bend, which smooth draws miss: many are moved towards it (`MOVED`; `STRAIGHT` tells a bend from a wall farther away).

Regret: the mean expected regret of the value chosen, over how much worse it really is. Curves are moved for it as their
best places are. It is right over all families, with much noise and with little, but not in each: half the real one at
kinks and knees and beside rates that diverged in most slices, three times that at a cliff and the edge of stability.
"""
ORACLE, REGRET = "width / oracle's", "regret, expected / real"
SPAN = 8.0
"""Octaves of the axis."""
SHAPES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "power": lambda u: np.abs(u) ** 1.7,
    "exponential": lambda u: np.exp(0.6 * u) - 0.6 * u - 1,
    "cliff": lambda u: 0.15 * u**2 + np.exp(4 * (u - 2.2)),
    "knee": lambda u: np.where(u < 0, 0.25 * np.abs(u), 1.2 * u) + 0.15 * u**2,
    "kink": lambda u: np.where(u < 0, -0.5, 1.0) * u,
    "cusp": lambda u: np.sqrt(u**2 + 0.05) - np.sqrt(0.05),
    "plateau": lambda u: 1 - np.exp(-0.5 * u**2),
    "asymmetric": lambda u: np.where(u < 0, 0.08, 0.5) * u**2,
    "hinge": lambda u: np.where(u < 0, -0.05, 0.8) * u,
    "steep fall, weak rise": lambda u: np.where(u < 0, -1.5, 0.1) * u,
    "edge of stability": lambda u: np.where(u < 0, 0.02 * u**2, np.expm1(np.clip(u, 0, 9))),
}
"""The loss above its lowest value, at 0, over octaves from the best value."""
NEAR, PARTS = 0.1, (0.3, 0.5, 0.7)
"""Of the usual distances of best values from the middle, where runs diverge; the shares of slices in which they do so
next to the best value."""
LEVEL_SHAPES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "falls and stays": lambda u: np.log1p(np.exp(-2 * u)) / 2,
    "falls": lambda u: -0.3 * u,
    "noise alone": lambda u: 0.0 * u,
}
"""Curves without a best value inside."""
NOISES = ("normal", "t3", "growing")
SHARES = (0.05, 0.1, 0.3, 1.0)
"""The size of the noise, in heights one octave from the best value."""
SIZES = ((6, 7), (24, 12))
"""Slices and values of the axis."""
DRAWS = (1, 2, 3, 5)


def bound(curve: Callable[..., np.ndarray], information: np.ndarray, axes: int) -> np.ndarray:
    """Cramér and Rao's bound on the covariance of a place, where level and size of the curve are unknown too.

    curve: of a move along each axis, at the cells of a slice.
    """
    moves = 1e-3 * np.eye(axes)
    slopes = [(curve(*move) - curve(*-move)) / 2e-3 for move in moves]
    columns = np.stack([*slopes, curve(*np.zeros(axes)), np.ones_like(information)], axis=-1)
    fisher = columns.T @ (columns * information[:, None])
    return np.asarray(np.linalg.inv(fisher + 1e-3 * np.eye(len(fisher)))[:axes, :axes])


def simulated(
    shape: str,
    noise: str,
    share: float,
    size: tuple[int, int],
    draws: int,
    rng: np.random.Generator,
    spread: float = 1.0,
) -> tuple[Cells, np.ndarray, np.ndarray, np.ndarray]:
    """(cells, the best value of each slice; NaN where it has none, what its heights are multiplied by, the standard
    error of its best value for an oracle). Best values follow a line over slices, with scatter, times `spread`; heights
    and levels differ by slice."""
    count, values = size
    x = np.linspace(0, SPAN, values)
    away = np.linspace(-1, 1, count) * rng.uniform(0.3, 1.5) + 0.3 * rng.standard_normal(count)
    truth = SPAN / 2 + spread * away
    level, gain = 3 + 0.2 * np.arange(count), 0.05 * np.exp(0.3 * rng.standard_normal(count))
    turns = shape in SHAPES
    curve = (SHAPES | LEVEL_SHAPES)[shape](x - truth[:, None]) * gain[:, None]
    sd = 0.05 * share
    e = (
        rng.standard_t(3, (draws, count, values)) / np.sqrt(3)
        if noise == "t3"
        else rng.standard_normal((draws, count, values))
    )
    growth = 1 + 0.1 * np.maximum(curve, 0) / sd if noise == "growing" else np.ones_like(curve)
    y = level[:, None] + curve + sd * growth * e
    information = draws * (2.0 if noise == "t3" else 1.0) / (sd * growth) ** 2
    errors = [
        bound(lambda move, s=s: gain[s] * SHAPES[shape](x - truth[s] - move), information[s], 1)[0, 0] ** 0.5
        for s in range(count if turns else 0)
    ]
    mean = y.mean(0)
    slices = np.repeat(np.arange(count), values)
    cells = Cells(
        x=np.tile(x, count)[:, None],
        y=mean.ravel(),
        slices=slices,
        draws=np.full(mean.size, draws),
        scatter=((y - mean) ** 2).sum(0).ravel(),
        error=np.full(mean.size, np.nan),
        diverged=np.zeros(mean.size, dtype=bool),
    )
    unknown = np.full(count, np.nan)
    return cells, truth if turns else unknown, gain, np.array(errors) if turns else unknown


def measured(job: tuple[str, str, float, tuple[int, int], int, int], near: float = 0.0) -> pd.DataFrame:
    """One surface: one row per slice. near: the share of slices in which the value next to the middle one diverges, and
    all above it; in the others only these do. Then the middle one is nearly the best of all slices. 0: none diverges.
    """
    shape, noise, share, size, draws, number = job
    rng = np.random.default_rng([number, sum(map(ord, shape + noise)), *size, draws])
    cells, truth, gain, errors = simulated(shape, noise, share, size, draws, rng, NEAR if near else 1.0)
    x, wall = np.linspace(0, SPAN, size[1]), np.full(size[0], size[1])
    if near:
        wall = size[1] // 2 + np.where(rng.random(size[0]) < near, 1, 2)
        ok = cells.x[:, 0] < x[wall[cells.slices]]
        cells = Cells(**{name: values[ok] for name, values in vars(cells).items()})
    surface, walls = fit_surface(cells), np.append(x, np.inf)[wall]
    found = [
        best(surface, s, low=0.0, high=x[wall[s] - 1], values=int(wall[s]), wall=float(walls[s]))
        for s in range(size[0])
    ]
    low, high = (np.array([getattr(one, end) for one in found]) for end in ("low", "high"))
    choice, expected = (np.array([getattr(one, part) for one in found]) for part in ("choice", "regret"))
    return pd.DataFrame(
        {
            "shape": shape,
            "noise": noise,
            "noise size": share,
            "diverge next to the best": near,
            "size": f"{size[0]}x{size[1]}",
            "draws": draws,
            "located": [one.status == Status.LOCATED for one in found],
            "decided": [one.status != Status.UNDETERMINED for one in found],
            "inside": (low <= truth) & (truth <= high),
            "width": high - low,
            "ratio": (high - low) / (2 * 1.96 * errors),
            "turns": np.isfinite(truth),
            "expected": expected,
            "real": gain * (SHAPES | LEVEL_SHAPES)[shape](choice - truth),
        }
    )


def summary(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Slices, share located, coverage of the decided ones, median width of the located ones (octaves; over that of an
    oracle), and the mean expected regret of the choice over its real one."""
    groups = table.groupby(by, sort=False) if by else [((), table)]
    lines = []
    for key, part in groups:
        decided = part[part["decided"]]
        names = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
        covered = decided["inside"].mean() if part["turns"].any() else np.nan
        width, ratio = part.loc[part["located"], ["width", "ratio"]].median()
        shares = {"slices": len(part), "located": part["located"].mean(), "coverage": covered, "width": width}
        shares |= {ORACLE: ratio} if part["turns"].any() else {}
        lines.append(names | shares | {REGRET: part["expected"].mean() / part["real"].mean()})
    return pd.DataFrame(lines)


def measure_some(
    sizes: tuple[tuple[int, int], ...] = SIZES, draws: tuple[int, ...] = DRAWS, repeats: int = 1, workers: int = 1
) -> pd.DataFrame:
    """All families and noises of these sizes and draws, each `repeats` times."""
    every = itertools.product([*SHAPES, *LEVEL_SHAPES], NOISES, SHARES, sizes, draws, range(repeats))
    if workers == 1:
        return pd.concat(map(measured, every), ignore_index=True)
    with ProcessPoolExecutor(workers) as pool:
        return pd.concat(pool.map(measured, every), ignore_index=True)


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repeats", type=int, nargs="?", default=2)
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    table = measure_some(SIZES, DRAWS, asked.repeats, asked.workers)
    turning = table[table["turns"]]
    print(TEXT.format(repeats=asked.repeats))
    for by in ([], ["shape"], ["noise"], ["noise size"], ["size", "draws"]):
        print(markdown(summary(turning, by)), "\n")
    print("Rates that diverge next to the best one in a share of 12 slices of 9 values, one run per cell:\n")
    jobs = list(itertools.product(SHAPES, NOISES[:2], SHARES[:3], [(12, 9)], [1], range(asked.repeats)))
    walls = pd.concat([measured(job, near) for near in PARTS for job in jobs], ignore_index=True)
    print(markdown(summary(walls, ["diverge next to the best"]).drop(columns=[ORACLE])), "\n")
    print("Curves that do not turn:\n")
    print(markdown(summary(table[~table["turns"]], ["shape", "draws"]).drop(columns=["coverage", REGRET])))


if __name__ == "__main__":
    main()
