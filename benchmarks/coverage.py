"""Does a 95 % interval of the fits hold the truth 95 times of 100? Measured where the truth is known, or nearly.

    python -m benchmarks.coverage FOLDER [--workers 2] [--part PART] > raysweep/fits/COVERAGE.md

keeps what it measures in FOLDER, so that a run which was ended goes on, and prints the document when all is there. With
--part and one of PARTS it measures only that and prints nothing; with --part written it prints what is there and names
what is missing. The same numbers everywhere: every curve has a random seed of its own.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import boundaries, edges, held_out_lines, real_fits, real_slopes, regimes, steps
from benchmarks.shares import Bar, interval_of_share, line_of, lines_of, markdown, stretched, width_ratio
from benchmarks.turns import COLLECTIONS, PASSES, described, everything, measure, turns_of_all_passes, with_before

REGIMES = 20  # sweeps of each slope
PARTS = ("turns", "edges", "real", "regimes", "few", "slopes", "zeros", "steps")
NOISES = sum(len(collection.noises) for collection in COLLECTIONS.values())
STRETCHES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
INNER = (0.16, 0.83)  # turns with at least a sixth of the axis on either side

HELD_OUT = (held_out_lines.lines, list(held_out_lines.CURVES))


def share_inside(part: pd.DataFrame, low: str, high: str) -> float:
    """The share of curves whose turn lies between two columns."""
    return float(((part[low] <= part["turn"]) & (part["turn"] <= part[high])).mean())


def narrow_coverage(turning: pd.DataFrame) -> float:
    """The coverage of the 68 % intervals, of the curves that are located at 95 %."""
    part = turning[(turning["status"] == "located") & turning["narrow_low"].notna()]
    return share_inside(part, "narrow_low", "narrow_high")


def is_inner(table: pd.DataFrame) -> pd.Series:
    """Whether a curve turns well inside the axis."""
    return table["centre"].between(*INNER)


def bars_of_turns(table: pd.DataFrame) -> list[Bar]:
    """What is asked of turns, on all known curves."""
    turning, straight = table[table["turn"].notna()], table[table["turn"].isna()]
    found = turning[turning["status"] == "located"]
    low, high = interval_of_share(int(found["covers"].sum()), len(found))
    families = lines_of(turning[turning["points"] >= 9], ["family"])
    worst = families.loc[families["coverage"].idxmin()]
    inner = turning[is_inner(turning)]
    return [
        Bar(
            *("turns: coverage at 95 %, pooled", 0.94, 0.97, float(found["covers"].mean())),
            f"of {len(found):,}; {low:.3f} to {high:.3f}",
        ),
        Bar("turns: coverage at 68 %, pooled", 0.65, 0.72, narrow_coverage(turning)),
        Bar(
            *("turns: the lowest family with 9 points or more", 0.90, np.inf, float(worst["coverage"])),
            f"{worst['family']}; {worst['its 95 % interval']}",
        ),
        Bar("curves that do not turn: located", -np.inf, 0.01, float((straight["status"] == "located").mean())),
        Bar(
            *("turns a sixth of the axis or more from its ends: located", 0.80, np.inf),
            float((inner["status"] == "located").mean()),
            f"before {line_of(inner)['located before']:.3f}; of all turns {line_of(turning)['located']:.3f}",
        ),
        Bar("turns: width / width before, where both locate, median", -np.inf, 0.6, width_ratio(turning)),
    ]


def pooled(table: pd.DataFrame) -> pd.DataFrame:
    """One line for each collection and fit, of the curves that turn, with the narrow intervals and the bounds; and the
    share of the others that is located."""
    rows = []
    for (collection, kind), part in table.groupby(["collection", "kind"], sort=False):
        turning, straight = part[part["turn"].notna()], part[part["turn"].isna()]
        bounded = turning[turning["status"].isin(["censored_low", "censored_high", "monotone"])]
        rows.append(
            {
                "curves of": collection,
                "fit": f"`fit_{kind}`",
                **line_of(turning),
                "at 68 %": narrow_coverage(turning),
                "bounds hold": share_inside(bounded, "low", "high"),
                "located of those that do not turn": float((straight["status"] == "located").mean()),
            }
        )
    return pd.DataFrame(rows)


def text_of_turns(table: pd.DataFrame) -> list[str]:
    """What is said of the turns of known curves."""
    turning, straight = table[table["turn"].notna()], table[table["turn"].isna()]
    families = lines_of(turning[turning["points"] >= 9], ["collection", "family"])
    groups = [("all", turning), *turning.groupby("collection", sort=False)]
    stretches = [
        {"both sides times": factor} | {str(name): stretched(part, factor) for name, part in groups}
        for factor in STRETCHES
    ]
    text = ["## Turns: `fit_inflection` and `fit_optimum`", "", markdown(pooled(table)), ""]
    text += ["Families with 9 points or more, the lowest coverage first:", ""]
    text += [markdown(families.sort_values("coverage", kind="stable")), ""]
    text += ["Coverage against width: all intervals longer or shorter about their estimates.", ""]
    text += [markdown(pd.DataFrame(stretches)), ""]
    for by, words in (
        ("points", "points"),
        ("seeds", "seeds"),
        ("size", "noise of a row, of the range"),
        ("centre", "turn, of the axis"),
        ("grid", "grid"),
        ("noise", "noise"),
    ):
        lines = lines_of(turning.sort_values(by, kind="stable"), [by]).rename(columns={by: words})
        text += [markdown(lines.assign(**{words: lines[words].map(lambda value: f"{value}")})), ""]
    text += ["Curves that do not turn:", ""]
    text += [markdown(lines_of(straight, ["collection", "family"])[["collection", "family", "curves", "located"]]), ""]
    return text


def bars_of_regimes(table: pd.DataFrame) -> list[Bar]:
    """What is asked of the slope of the best rate."""
    line = regimes.lines_of(table).iloc[-1]
    return [
        Bar("regime: coverage of the slope at 95 %", 0.93, 0.98, float(line["coverage"])),
        Bar("regime: width of the slope / width before, median", -np.inf, 0.5, float(line["width / before"])),
        Bar("regime: verdict right", 0.80, np.inf, float(line["right"])),
        Bar("regime: verdict wrong", -np.inf, 0.03, float(line["wrong"])),
    ]


INTRODUCTION = f"""# How often the intervals of the fits hold the truth

Measured by `python -m benchmarks.coverage`. *Before* is raysweep at commit ea618fe on the same curves
(`benchmarks/*before.csv`). Widths of turns are in octaves of a grid of 8, those of 95 % intervals of located turns.

Known curves: `benchmarks/curves.py` and `benchmarks/seen_curves.py`, on which fits may be adjusted, and
`benchmarks/held_out_curves.py`, on which nothing was. 7 to 25 points, even or uneven; 3 to 10 seeds; noise of one row
0.003 to 0.1 of the curve's range, of {NOISES} kinds; turns at 0.07 to 0.94 of the axis. A turn at 0.07 lies in the
first cell of a grid of 7 points, so that not all can be located. Intervals of 68 % are those of curves that are located
at 95 %.
"""
REAL = """## Real rows

Sweeps with many seeds (`benchmarks/real_rows.py`): best rates of linear networks of depth 1 to 3 and of a small
language model, turns of a linear network's losses under noise on its weights, zeros of transferability over the angle.
A group of 3 to 20 seeds is fitted; the truth is the place of the mean of all seeds outside the group, on a grid four
times as fine (of the language model on the same one). This reference has an error of its own: a perfect 95 % interval
holds it in 0.944 to 0.949, of the language model's in 0.923 (3 seeds) and 0.896 (5). ± is one standard error over
groups, as the curves of one group share their seeds. Widths are in octaves; of zeros in degrees.
"""
REGIME = f"""## The slope of the best rate: `fit_regime`

{REGIMES} sweeps of each true slope d log rate / d log length: 6 lengths over two decades, 9 to 27 rates over four, 3 to
10 seeds, five shapes, noise of 0.003 to 0.03 of the curve's range, in half of them mostly shared by all lengths. A
regime is named only where the whole 95 % interval of the slope lies in it.
"""

EDGES = f"""## Edges: best rates beside divergence, and curves that stay level

{edges.BESIDE} curves whose best rate lies up to a cell below the rate from which all draws diverge, or all but one; and
{edges.LEVEL} curves that fall and stay level, with noise that is smooth within a seed. 3 to 10 seeds
(`benchmarks/edges.py`). Widths are in cells of the grid.
"""
FEW = """Sweeps of 3 and 5 seeds, one of each slope; in the last two forms the curve changes with the length:
"""
STEPS = """Steps sharper than half a cell of the grid (`benchmarks/steps.py`), whose zero lies anywhere in its cell, and
not always in the middle of the step; 9 or 13 points, 3 to 20 draws. Where nothing says where in its cell a zero lies,
the interval is the cell, at every level.
"""

REAL_SLOPES = """The same of real sweeps: groups of seeds of the linear networks above, 8 lengths, 10 rates; the truth
is the slope of the best rates of all seeds outside the group, over the same lengths. From depth 2 on these do not lie
on a line. An end is open where the best rate of a length lies beyond the grid or near its edge.
"""


def document(folder: Path, workers: int) -> str:
    """What was measured into the folder, as Markdown; of a part that is not there it says so."""
    turns = with_before(described(everything(folder)))
    bars, text = bars_of_turns(turns), text_of_turns(turns)
    if (folder / "edges.csv").exists():
        found = pd.read_csv(folder / "edges.csv")
        bars, text = bars + edges.bars(found), [*text, EDGES]
        text += [part for table in edges.tables(found) for part in (markdown(table), "")]
    if (folder / "real.csv").exists():
        real = real_fits.with_before(pd.read_csv(folder / "real.csv"))
        bars, text = bars + real_fits.bars(real), [*text, REAL, markdown(real_fits.lines_of(real)), ""]
    if (folder / "regimes.csv").exists():
        slopes = regimes.with_before(pd.read_csv(folder / "regimes.csv"))
        bars, text = bars + bars_of_regimes(slopes), [*text, REGIME, markdown(regimes.lines_of(slopes)), ""]
    if (folder / "few.csv").exists():
        text += [FEW, markdown(regimes.few_lines_of(pd.read_csv(folder / "few.csv"))), ""]
    if (folder / "real_slopes.csv").exists():
        slopes = pd.read_csv(folder / "real_slopes.csv")
        bars.append(real_slopes.bar(slopes))
        text += [REAL_SLOPES, markdown(real_slopes.lines_of(slopes)), ""]
    if (folder / "zeros_at_once.csv").exists():
        zeros, more = boundaries.section(folder, workers, HELD_OUT)
        bars, text = bars + more, [*text, zeros]
    if (folder / "steps.csv").exists():
        sharp = boundaries.summary(pd.read_csv(folder / "steps.csv"), ["curve"]).drop(columns="median ratio to before")
        bars.append(Bar("zeros on sharp steps: the lowest coverage", 0.90, np.inf, float(sharp["coverage"].min())))
        text += [STEPS, markdown(sharp), ""]
    parts = {
        "edges": "edges.csv",
        "real rows": "real.csv",
        "slopes of the best rate": "regimes.csv",
        "regimes of few seeds": "few.csv",
        "slopes of real sweeps": "real_slopes.csv",
        "zero lines": "zeros_at_once.csv",
        "sharp steps": "steps.csv",
    }
    missing = [name for name, file in parts.items() if not (folder / file).exists()]
    there = len(turns) / turns_of_all_passes()
    if there < 1:
        missing.insert(0, f"{1 - there:.0%} of the known curves")
    named = ["Not measured yet: " + ", ".join(missing) + ".", ""] if missing else []
    return "\n".join([INTRODUCTION, *named, markdown(pd.DataFrame([bar.row() for bar in bars])), "", *text])


def main() -> None:
    """Measure, and print the document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", choices=[*PARTS, "written"])
    parser.add_argument("--passes", type=int, default=PASSES, help="of five over the known curves")
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    folder, part = asked.folder, asked.part
    folder.mkdir(parents=True, exist_ok=True)
    if part in (None, "turns"):
        measure(folder, asked.workers, asked.passes)
    if part in (None, "edges") and not (folder / "edges.csv").exists():
        edges.measure(asked.workers).to_csv(folder / "edges.csv", index=False, float_format="%.4f")
    if part in (None, "real") and not (folder / "real.csv").exists():
        real_fits.measure(asked.workers).to_csv(folder / "real.csv", index=False, float_format="%.4f")
    if part in (None, "regimes") and not (folder / "regimes.csv").exists():
        regimes.measure(REGIMES, asked.workers).to_csv(folder / "regimes.csv", index=False, float_format="%.4f")
    if part in (None, "few") and not (folder / "few.csv").exists():
        regimes.measure_few(asked.workers).to_csv(folder / "few.csv", index=False, float_format="%.4f")
    if part in (None, "slopes") and not (folder / "real_slopes.csv").exists():
        real_slopes.measure(asked.workers).to_csv(folder / "real_slopes.csv", index=False, float_format="%.4f")
    if part in (None, "zeros"):
        boundaries.section(folder, asked.workers, HELD_OUT)
    if part in (None, "steps") and not (folder / "steps.csv").exists():
        sharp = boundaries.measure(steps.lines, list(steps.CURVES), 1, asked.workers)
        sharp.to_csv(folder / "steps.csv", index=False, float_format="%.4g")
    if part in (None, "written"):
        print(document(folder, asked.workers))


if __name__ == "__main__":
    main()
