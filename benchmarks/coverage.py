"""Does a 95 % interval of the fits hold the truth 95 times of 100? Measured on curves whose turn is known.

    python -m benchmarks.coverage > raysweep/reporting/COVERAGE.md

takes some ten minutes on one core; --quick a tenth of it. One random seed, so the same numbers everywhere.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.curves import NOISES, NOT_TURNING, POINTS, SEEDS, SIZES, TURNING, TURNS, Sample, sample
from raysweep.reporting import fit_inflection, fit_optimum

OCTAVES = 8.0  # the grids of lengths and rates are as long as O's 4B to 128B tokens and a half more
LEVEL = 0.95


def frame_of(one: Sample, name: str) -> pd.DataFrame:
    """The rows of one curve over `name`, geometric from 1 over 8 octaves."""
    seeds, points = one.values.shape
    rows = pd.DataFrame(
        {
            name: np.tile(2 ** (OCTAVES * one.t), seeds),
            "seed": np.repeat(np.arange(seeds), points),
            "loss": one.values.ravel(),
        }
    )
    return rows[rows["loss"].notna()]


def fitted(kind: str, one: Sample) -> dict[str, Any]:
    """What a fit says of one curve, places as shares of the grid."""
    if kind == "inflection":
        fit = fit_inflection(frame_of(one, "length"), "length", "loss", "seed", LEVEL)
    else:
        fit = fit_optimum(frame_of(one, "rate"), "rate", "loss", None, "seed", LEVEL)
    low, high = (float(np.log2(end)) / OCTAVES if 0 < end < np.inf else float(end) for end in (fit.low, fit.high))
    return {"status": fit.status, "covers": low <= one.turn <= high, "octaves": OCTAVES * (high - low)}


def measure(kind: str, repeats: int, seed: int) -> pd.DataFrame:
    """One row per curve: family, turn, seeds, points, noise, its size, and what the fit said."""
    rng = np.random.default_rng(seed)
    rows = []
    truths = [(shape, turn, repeats) for shape, turn in itertools.product(TURNING, TURNS)]
    truths += [(shape, np.nan, 6 * repeats) for shape in NOT_TURNING]
    for shape, turn, count in truths:
        for points, seeds, _ in itertools.product(POINTS, SEEDS, range(count)):
            size, noise = float(rng.choice(SIZES)), str(rng.choice(NOISES))
            one = sample(shape, turn, points, seeds, size, noise, rng)
            rows.append(
                {"family": shape, "turn": turn, "points": points, "seeds": seeds, "size": size, "noise": noise}
                | fitted(kind, one)
            )
    return pd.DataFrame(rows)


def lines_of(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Coverage, located share and median width for each setting of `by`."""
    rows = []
    for values, part in table.groupby(by, sort=False):
        found = part[part["status"] == "located"]
        rows.append(
            {
                **dict(zip(by, values, strict=True)),
                "curves": len(part),
                "located": len(found) / len(part),
                "coverage": found["covers"].mean() if len(found) else np.nan,
                "octaves": found["octaves"].median() if len(found) else np.nan,
            }
        )
    return pd.DataFrame(rows)


def worst(table: pd.DataFrame) -> pd.Series:
    """The curve (family and turn) with the lowest coverage with 9 points or more, of those located often enough."""
    lines = lines_of(table[table["turn"].notna() & (table["points"] >= 9)], ["family", "turn"])
    found = lines["curves"] * lines["located"]
    lines = lines[found >= min(20, found.max())]
    return lines.loc[lines["coverage"].idxmin()]


def markdown(table: pd.DataFrame) -> str:
    """A table of shares and widths as Markdown."""
    shown = table.copy()
    for name in shown:
        if name in ("located", "coverage"):
            shown[name] = [f"{value:.3f}" if np.isfinite(value) else "–" for value in table[name]]
        elif name == "octaves":
            shown[name] = [f"{value:.2f}" if np.isfinite(value) else "–" for value in table[name]]
    shown = shown.rename(columns={"octaves": "median width (octaves)"})
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [list(shown), *shown.to_numpy().tolist()]]
    return "\n".join([lines[0], "|" + "---|" * len(shown.columns), *lines[1:]])


def summary(table: pd.DataFrame) -> str:
    """The figures that matter, in a paragraph."""
    turning, straight = table[table["turn"].notna()], table[table["turn"].isna()]
    found = turning[turning["status"] == "located"]
    bounded = turning[turning["status"].isin(["censored_low", "censored_high"])]
    low = worst(table)
    return (
        f"{len(turning):,} curves that turn: located {len(found) / len(turning):.3f}, coverage pooled "
        f"**{found['covers'].mean():.3f}**, median width {found['octaves'].median():.2f} of 8 octaves; worst curve "
        f"with 9 points or more **{low['coverage']:.3f}** ({low['family']}, turn at {low['turn']:g} of the grid, "
        f"{round(low['curves'] * low['located'])} times located). Bounds where it is censored hold in "
        f"{bounded['covers'].mean():.3f} of {len(bounded):,}. {len(straight):,} curves that do not turn: located "
        f"**{(straight['status'] == 'located').mean():.4f}**."
    )


def document(repeats: int) -> str:
    """The whole measurement as Markdown."""
    text = [
        "# How often the intervals of the fits hold the truth",
        "",
        f"Measured by `python -m benchmarks.coverage` (seed 1, {repeats} repeats of every setting); the curves are in "
        "`benchmarks/curves.py`. Lengths and rates run over 8 octaves; noise of one row is 0.003 to 0.1 of the "
        "curve's range, of nine kinds, most of which break an assumption of the fits. Coverage is that of 95 % "
        "intervals of located turns, interpolation included; the requirement is 0.92 pooled, 0.88 on the worst curve "
        "with 9 points or more, and located on less than 0.05 of the curves that do not turn.",
        "",
    ]
    for kind, over in (("inflection", "length"), ("optimum", "rate")):
        table = measure(kind, repeats, 1)
        turning, straight = table[table["turn"].notna()], table[table["turn"].isna()]
        text += [f"## `fit_{kind}`, over log {over}", "", summary(table), ""]
        text += [markdown(lines_of(turning, ["points", "seeds"])), ""]
        text += [markdown(lines_of(turning, ["noise"])), ""]
        text += [markdown(lines_of(turning, ["turn"])), ""]
        text += [markdown(lines_of(straight, ["family"]).drop(columns=["coverage", "octaves"])), ""]
        text += ["By family, seeds and points:", "", markdown(lines_of(turning, ["family", "seeds", "points"])), ""]
    return "\n".join(text)


if __name__ == "__main__":
    print(document(1 if "--quick" in sys.argv else 6))
