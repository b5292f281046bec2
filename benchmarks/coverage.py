"""Does a 95 % interval of the fits hold the truth 95 times of 100? Measured on curves whose turn is known.

    python -m benchmarks.coverage > raysweep/fits/COVERAGE.md

takes a few minutes on two idle cores. The same numbers everywhere: every family has a random seed of its own.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.boundaries import boundary_table
from benchmarks.curves import NOISES, NOT_TURNING, POINTS, SEEDS, SIZES, TURNING, TURNS, Sample, sample
from benchmarks.regimes import regime_table
from raysweep.reporting import fit_inflection, fit_optimum

OCTAVES = 8.0  # the grids of lengths and rates are as long as O's 4B to 128B tokens and a half more
LEVEL = 0.95
LOWEST, REGIMES, ZEROS = 6, 20, 10  # curves measured again; sweeps of each slope; zeros of each setting


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


Truth = tuple[str, float, int]  # family, turn (NaN: does not turn), how often in each setting


def measured(kind: str, truth: Truth, seed: int) -> list[dict[str, Any]]:
    """One row per curve of one truth: family, turn, seeds, points, noise, its size, and what the fit said."""
    shape, turn, count = truth
    place = 0 if np.isnan(turn) else TURNS.index(turn)
    rng = np.random.default_rng([seed, [*TURNING, *NOT_TURNING].index(shape), place])
    rows = []
    for points, seeds, _ in itertools.product(POINTS, SEEDS, range(count)):
        size, noise = float(rng.choice(SIZES)), str(rng.choice(NOISES))
        one = sample(shape, turn, points, seeds, size, noise, rng)
        about = {"family": shape, "turn": turn, "points": points, "seeds": seeds, "size": size, "noise": noise}
        rows.append(about | fitted(kind, one))
    return rows


def measure(kind: str, truths: list[Truth], seed: int) -> pd.DataFrame:
    """All rows of these truths, on all cores."""
    with ProcessPoolExecutor() as pool:
        each = pool.map(measured, itertools.repeat(kind), truths, itertools.repeat(seed))
        return pd.DataFrame([row for rows in each for row in rows])


def every_truth(repeats: int) -> list[Truth]:
    """All families, turning ones at all places."""
    turning = [(shape, turn, repeats) for shape, turn in itertools.product(TURNING, TURNS)]
    return turning + [(shape, float("nan"), 6 * repeats) for shape in NOT_TURNING]


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


def lowest(table: pd.DataFrame, count: int) -> list[tuple[str, float]]:
    """The curves (family and turn) with the lowest coverage with 9 points or more, of those located often enough."""
    lines = lines_of(table[table["turn"].notna() & (table["points"] >= 9)], ["family", "turn"])
    found = lines["curves"] * lines["located"]
    lines = lines[found >= min(10, found.max())].sort_values("coverage", kind="stable").head(count)
    return list(zip(lines["family"], lines["turn"], strict=True))


def markdown(table: pd.DataFrame) -> str:
    """A table of shares and widths as Markdown."""
    shown = table.copy()
    for name in shown:
        if name in ("located", "coverage", "right", "wrong", "undetermined"):
            shown[name] = [f"{value:.3f}" if np.isfinite(value) else "–" for value in table[name]]
        elif name in ("octaves", "median width"):
            shown[name] = [f"{value:.2f}" if np.isfinite(value) else "–" for value in table[name]]
    shown = shown.rename(columns={"octaves": "median width (octaves)"})
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [list(shown), *shown.to_numpy().tolist()]]
    return "\n".join([lines[0], "|" + "---|" * len(shown.columns), *lines[1:]])


def summary(table: pd.DataFrame) -> str:
    """The figures that matter, in a paragraph."""
    turning, straight = table[table["turn"].notna()], table[table["turn"].isna()]
    found = turning[turning["status"] == "located"]
    bounded = turning[turning["status"].isin(["censored_low", "censored_high"])]
    return (
        f"{len(turning):,} curves that turn: located {len(found) / len(turning):.3f}, coverage pooled "
        f"**{found['covers'].mean():.3f}**, median width {found['octaves'].median():.2f} of 8 octaves. Bounds where it "
        f"is censored hold in {bounded['covers'].mean():.3f} of {len(bounded):,}. {len(straight):,} curves that do not "
        f"turn: located **{(straight['status'] == 'located').mean():.4f}**."
    )


def again(kind: str, table: pd.DataFrame, repeats: int) -> pd.DataFrame:
    """The lowest curves of a table measured once more, by chance alone no longer the lowest: with 9 points or more."""
    fresh = measure(kind, [(shape, turn, repeats) for shape, turn in lowest(table, LOWEST)], 2)
    return lines_of(fresh[fresh["points"] >= 9], ["family", "turn"]).sort_values("coverage", kind="stable")


def document(repeats: int, repeats_again: int) -> str:
    """The whole measurement as Markdown."""
    text = [
        "# How often the intervals of the fits hold the truth",
        "",
        "Measured by `python -m benchmarks.coverage`; the curves are in `benchmarks/curves.py`. Lengths and rates run "
        "over 8 octaves; noise of one row is 0.003 to 0.1 of the curve's range, of nine kinds, most of which break an "
        "assumption of the fits. Coverage is that of 95 % intervals of located turns, interpolation included. Asked "
        "for: 0.92 pooled, 0.88 on the worst curve with 9 points or more, and located on less than 0.05 of the curves "
        "that do not turn. A curve is a family with its turn at one place of the grid (0 to 1).",
        "",
    ]
    for kind, over in (("inflection", "length"), ("optimum", "rate")):
        table = measure(kind, every_truth(repeats), 1)
        turning, straight = table[table["turn"].notna()], table[table["turn"].isna()]
        text += [f"## `fit_{kind}`, over log {over}", "", summary(table), ""]
        text += [f"The {LOWEST} curves with the lowest coverage, measured again with other draws:", ""]
        text += [markdown(again(kind, table, repeats_again)), ""]
        text += [markdown(lines_of(turning, ["points", "seeds"])), ""]
        text += [markdown(lines_of(turning, ["noise"])), ""]
        text += [markdown(lines_of(turning, ["turn"])), ""]
        text += ["Curves that do not turn:", ""]
        text += [markdown(lines_of(straight, ["family"]).drop(columns=["coverage", "octaves"])), ""]
        text += ["By family, seeds and points:", "", markdown(lines_of(turning, ["family", "seeds", "points"])), ""]
    text += [
        "## `fit_regime`",
        "",
        f"{REGIMES} sweeps of each true slope d log rate / d log length: 6 lengths over two decades, 9 to 27 rates "
        "over four, 3 to 10 seeds, five shapes, noise of 0.003 to 0.03 of the curve's range, in half of them mostly "
        "shared by all lengths. A regime is named only where the whole 95 % interval of the slope lies in it.",
        "",
        markdown(regime_table(REGIMES)),
        "",
        "## `fit_boundary`",
        "",
        f"Lines with one zero at a random place: 8, 12 or 20 points, 4, 8 or 20 draws, four kinds of noise, {ZEROS} of "
        "each; the noise of one row is given in units of the line's range (about 1). Width is in cells of the grid. A "
        "kink is where the slope jumps: nothing between the points shows where, so that the interval also holds for "
        "the straight lines on both sides prolonged, if the curve bends far more in the cell of its zero than beside "
        "it. Not covered: a line that does more between two points than bend once, and a kink that noise hides.",
        "",
        markdown(boundary_table(ZEROS)),
        "",
    ]
    return "\n".join(text)


if __name__ == "__main__":
    print(document(1, 6))
