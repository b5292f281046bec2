"""How often the interval of `fit_boundary` holds the zero of a curve that is known, smooth or with a kink.

Every curve has a random seed of its own, so that any part of the benchmark has the same curves as the whole.
`boundaries_before.csv` has the width of the interval of each curve by the method of commit ea618fe, which was Student's
t test inverted on interpolations (made by `python -m benchmarks.boundaries before 10` and `python -m
benchmarks.held_out_lines before 3` with these two files at that commit, whose result has no interval at 68 %).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.shares import Bar, markdown
from raysweep.fits.boundary import fit_boundary
from raysweep.fits.zero import find_zero

SIZES = (0.003, 0.02, 0.1)  # of one row's noise, of the curve's own range of about 1
DRAWS, POINTS = (4, 8, 20), (8, 12, 20)
KINDS = ("independent", "growing", "shift", "shift and slope")
OWN = KINDS[:2]  # where each point has noise of its own
REPEATS, HELD_OUT_REPEATS = 5, 2
SLICES, AT_ONCE = 9, 300
SHARED = (0.0, 0.7, 1.0)  # of the variance of the noise: one draw's at all slices
BEFORE = Path(__file__).with_name("boundaries_before.csv")

Curve = Callable[[np.ndarray, float, float], np.ndarray]


class Line(NamedTuple):
    """One curve of the benchmark with its draws; `before` is the line of `boundaries_before.csv` that it belongs to."""

    x: np.ndarray
    values: np.ndarray
    root: float
    size: float
    draws: int
    kind: str
    before: int


def kink(steeper: float, beside: float = 0.0) -> Curve:
    """A falling line, `steeper` times as steep from its zero on, or from up to `beside` cells before or after it."""

    def curve(x: np.ndarray, root: float, where: float) -> np.ndarray:
        at = root + beside * where * (x[1] - x[0])
        bent = np.where(x < at, at - x, steeper * (at - x))
        return np.asarray(bent - (at - root if root < at else steeper * (at - root)))

    return curve


CURVES: dict[str, Curve] = {
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


def lines(name: str, repeats: int) -> Iterator[Line]:
    """The curves of one name: every size, number of draws and points and kind of noise, `repeats` times."""
    settings = itertools.product(SIZES, DRAWS, POINTS, KINDS)
    for number, (size, draws, points, kind) in enumerate(settings):
        for repeat in range(repeats):
            rng = np.random.default_rng([7, list(CURVES).index(name), number, repeat])
            x, root = np.linspace(0, 1, points), rng.uniform(0.2, 0.8)
            values = CURVES[name](x, root, rng.uniform(-1, 1)) + size * noise_of(kind, rng, draws, x)
            if rng.random() < 0.5:
                values, root = -values[:, ::-1], 1 - root
            yield Line(x, values, root, size, draws, kind, 10 * number + repeat)


def found(each: Callable[[str, int], Iterator[Line]], name: str, repeats: int) -> list[dict[str, Any]]:
    """One row per curve: whether its zero was located, whether the intervals hold it, how many cells they are wide."""
    rows = []
    for line in each(name, repeats):
        zero = find_zero(line.x, line.values, 0.95)
        narrow = zero.located.interval(0.68) if zero.located else (np.nan, np.nan)
        rows.append(
            {
                "curve": name,
                "noise": line.size,
                "kind": line.kind,
                "draws": line.draws,
                "points": len(line.x),
                "before": line.before,
                "located": zero.status == "located",
                "covers": zero.low <= line.root <= zero.high,
                "covers at 68 %": narrow[0] <= line.root <= narrow[1],
                "cells": (zero.high - zero.low) / (np.ptp(line.x) / (len(line.x) - 1)),
            }
        )
    return rows


def measure(each: Callable[[str, int], Iterator[Line]], names: list[str], repeats: int, workers: int) -> pd.DataFrame:
    """The rows of `found` for every name, beside the widths of before (at most 10 repeats have one)."""
    one = partial(found, each, repeats=repeats)
    if workers == 1:
        table = pd.DataFrame([row for name in names for row in one(name)])
    else:
        with ProcessPoolExecutor(workers) as pool:
            table = pd.DataFrame([row for rows in pool.map(one, names) for row in rows])
    if BEFORE.exists():
        before = pd.read_csv(BEFORE, index_col=0).stack().rename_axis(["before", "curve"]).rename("width").reset_index()
        width = table.merge(before, how="left", on=["before", "curve"], validate="one_to_one")["width"]
        table["ratio"] = (table["cells"] / width).where(np.isfinite(width) & np.isfinite(table["cells"]))
    return table


def summary(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """How often zeros were located, coverage at 95 and 68 %, median width and its ratio to that of before."""
    rows = []
    for key, part in table.groupby(by, sort=False) if by else [((), table)]:
        held = part[part["located"]]
        rows.append(
            {
                **dict(zip(by, key, strict=True)),
                "curves": len(part),
                "located": part["located"].mean(),
                "coverage": held["covers"].mean(),
                "coverage at 68 %": held["covers at 68 %"].mean(),
                "median width": held["cells"].median(),
                "median ratio to before": held["ratio"].median() if "ratio" in held else np.nan,
            }
        )
    return pd.DataFrame(rows)


TEXT = """## Zero lines: `fit_boundary`

Lines with one zero at a random place: 8, 12 or 20 points, 4, 8 or 20 draws, four kinds of noise, {repeats} of each; the
noise of one row is given in units of the line's range (about 1). Width is in cells of the grid, the ratio is that to
the width before on the same curve. A kink is where the slope jumps. Not covered: a line that bends several times
between two points, and a kink that noise hides.
"""
HELD_OUT = """
Lines on which nothing was tuned (`benchmarks/held_out_lines.py`), {repeats} of each setting: grids that are even or
not, noise of six kinds, and in a third of the slices twice as many draws near the zero as elsewhere.
"""
ALL_AT_ONCE = f"""
{AT_ONCE} sweeps of {SLICES} smooth lines of 12 points, noise 0.05, of which a part is one draw's at all slices. How
often an interval holds its zero, how often low_simultaneous and high_simultaneous hold all of them, and how much wider
they are. Bonferroni would be wider by 1.41 (normal noise).
"""


def at_once(number: int) -> dict[str, Any]:
    """One sweep of SLICES lines: whether all intervals hold, pointwise and at once, and how wide they are."""
    rng = np.random.default_rng([9, number])
    shared, draws, x = SHARED[number % len(SHARED)], DRAWS[number // len(SHARED) % len(DRAWS)], np.linspace(0, 1, 12)
    names = list(CURVES)[:3]
    common = noise_of("shift and slope", rng, draws, x)
    frames, roots = [], rng.uniform(0.3, 0.7, SLICES)
    for label, root in enumerate(roots):
        noise = np.sqrt(shared) * common + np.sqrt(1 - shared) * noise_of("shift", rng, draws, x)
        values = CURVES[names[label % 3]](x, root, 0.0) + 0.05 * noise
        columns = {"x": np.tile(x, draws), "seed": np.repeat(np.arange(draws), len(x)), "value": values.ravel()}
        frames.append(pd.DataFrame({**columns, "label": label}))
    table = fit_boundary(pd.concat(frames), "x", "label", "value", "seed").table
    found = table["status"] == "located"
    held = (table["low_simultaneous"] <= roots) & (roots <= table["high_simultaneous"])
    width = (table["high_simultaneous"] - table["low_simultaneous"]) / (table["high"] - table["low"])
    pointwise = ((table["low"] <= roots) & (roots <= table["high"]))[found]
    one = {"shared": shared, "draws": draws, "located": found.mean(), "pointwise": pointwise.mean()}
    return {**one, "all at once": held[found].all(), "wider by": width[found & np.isfinite(width)].median()}


def at_once_table(count: int, workers: int) -> pd.DataFrame:
    """`at_once` of `count` sweeps."""
    if workers == 1:
        return pd.DataFrame([at_once(number) for number in range(count)])
    with ProcessPoolExecutor(workers) as pool:
        return pd.DataFrame(list(pool.map(at_once, range(count))))


Lines = tuple[Callable[[str, int], Iterator[Line]], list[str]]
"""What makes lines, and the names of their curves."""


def tables(folder: Path, workers: int, held_out: Lines) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The measured rows of the lines of this file and of the held out ones, kept in `folder` and reused from there."""
    found = []
    for name, each, names, repeats in (
        ("zeros.csv", lines, list(CURVES), REPEATS),
        ("zeros_held_out.csv", *held_out, HELD_OUT_REPEATS),
    ):
        path = folder / name
        if not path.exists():
            measure(each, names, repeats, workers).to_csv(path, index=False, float_format="%.4g")
        found.append(pd.read_csv(path))
    return found[0], found[1]


def section(folder: Path, workers: int, held_out_lines: Lines) -> tuple[str, list[Bar]]:
    """The part of COVERAGE.md on zero lines, and its bars."""
    known, held_out = tables(folder, workers, held_out_lines)
    path = folder / "zeros_at_once.csv"
    if not path.exists():
        at_once_table(AT_ONCE, workers).to_csv(path, index=False)
    together = pd.read_csv(path)
    rows = summary(known, ["curve", "noise"])
    everything, apart = summary(known, []).iloc[0], summary(held_out, []).iloc[0]
    kinked = rows[rows["curve"].str.startswith("kink")].sort_values("coverage").iloc[0]
    step = rows[(rows["curve"] == "steep step") & (rows["noise"] == SIZES[0])].iloc[0]
    own = float(summary(known[known["kind"].isin(OWN)], [])["median ratio to before"].iloc[0])
    bars = [
        Bar("zeros: coverage at 95 %, pooled", 0.94, 0.97, float(everything["coverage"])),
        Bar("zeros: coverage at 68 %, pooled", -np.inf, np.inf, float(everything["coverage at 68 %"])),
        Bar(
            *("zeros: kinked lines, the row with the lowest coverage", 0.90, np.inf, float(kinked["coverage"])),
            f"{kinked['curve']}, noise {kinked['noise']}",
        ),
        Bar("zeros: steep step at noise 0.003, coverage", 0.90, np.inf, float(step["coverage"]), "before 0.881"),
        Bar("zeros: width / width before, cells with noise of their own, median", -np.inf, 0.9, own),
        Bar("zeros held out: coverage at 95 %, pooled", 0.94, 0.97, float(apart["coverage"])),
        Bar("zeros: 9 slices at once, coverage", 0.94, 1.0, float(together["all at once"].mean())),
    ]
    text = [TEXT.format(repeats=REPEATS), markdown(rows), "", markdown(summary(known, ["kind", "draws"])), ""]
    text += [HELD_OUT.format(repeats=HELD_OUT_REPEATS), markdown(summary(held_out, ["curve", "noise"])), ""]
    together = together.astype({"all at once": float}).groupby(["shared", "draws"]).mean().reset_index()
    text += [markdown(summary(held_out, ["kind"])), "", ALL_AT_ONCE, markdown(together), ""]
    return "\n".join(text), bars


def main(each: Callable[[str, int], Iterator[Line]], names: list[str], arguments: list[str]) -> None:
    """`before [REPEATS]` adds the widths of the present method to BEFORE; `[REPEATS]` prints the tables."""
    repeats = int(arguments[-1]) if arguments and arguments[-1].isdigit() else 10
    table = measure(each, names, repeats, workers=1)
    if arguments[:1] == ["before"]:
        cells = table.assign(cells=[float(f"{width:.4g}") for width in table["cells"].where(table["located"])])
        wide = cells.pivot(index="before", columns="curve", values="cells")[names]
        old = [pd.read_csv(BEFORE, index_col=0)] if BEFORE.exists() else []
        pd.concat([*old, wide], axis=1).to_csv(BEFORE, index_label="line")
        return
    for by in ([], ["curve", "noise"], ["kind"], ["draws"], ["points"], ["kind", "draws"]):
        print(summary(table, by).round(3).to_string(), "\n")


if __name__ == "__main__":
    main(lines, list(CURVES), sys.argv[1:])
