"""How often the interval of `fit_regime` holds the slope of real sweeps' best rates: see `benchmarks/real_rows.py`.

    python -m benchmarks.real_slopes FILE.csv

writes one row per depth and group of seeds; about five minutes of one core.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.real_fits import groups, jackknifed
from benchmarks.real_rows import ROWS
from benchmarks.shares import Bar
from raysweep.fits.regime import FEWEST_LENGTHS, fit_regime
from raysweep.fits.result import Status

RATES = "linear networks: best rates"


def settings() -> list[tuple[float, float]]:
    """(depth, length) of each curve of best rates, from its label."""
    with np.load(ROWS, allow_pickle=False) as kept:
        labels = [str(label).split(", ") for label in kept[f"{RATES}, labels"]]
    return [(float(depth.split()[-1]), float(length.split()[-1])) for depth, length in labels]


def sweeps() -> Iterator[dict[str, Any]]:
    """Every group of seeds of a depth: its rows, and the log best rate of all other seeds at each length."""
    at = settings()
    curves = [each for each in groups() if each["set"] == RATES]
    curves.sort(key=lambda each: (each["seeds"], at[each["curve"]][0], each["group"], at[each["curve"]][1]))
    for (seeds, depth, group), part in itertools.groupby(
        curves, key=lambda each: (each["seeds"], at[each["curve"]][0], each["group"])
    ):
        parts, reference = [], {}
        for each in part:
            length, (draws, points) = at[each["curve"]][1], each["values"].shape
            reference[length] = each["reference"]
            parts.append(
                pd.DataFrame(
                    {
                        "rate": np.tile(each["x"], draws),
                        "length": length,
                        "seed": np.repeat(np.arange(draws), points),
                        "loss": each["values"].ravel(),
                    }
                )
            )
        rows = pd.concat(parts, ignore_index=True)
        yield {"depth": depth, "seeds": seeds, "group": group, "rows": rows, "reference": reference}


def judged(part: int, parts: int) -> pd.DataFrame:
    """What is said of every `parts`th group from `part` on; NaN where no slope is fitted."""
    found = []
    for each in itertools.islice(sweeps(), part, None, parts):
        regime = fit_regime(each.pop("rows"), "rate", "length", "loss", "seed")
        table = regime.optimum.table
        lengths = table["length"][table["status"] != Status.UNDETERMINED].to_numpy(float)
        reference, slope = each.pop("reference"), np.nan
        if len(lengths) >= FEWEST_LENGTHS:
            slope = float(np.polyfit(np.log(lengths), [reference[length] for length in lengths], 1)[0])
        low, high, said = regime.low, regime.high, str(regime.verdict)
        found.append(each | {"lengths": len(lengths), "reference": slope, "low": low, "high": high, "verdict": said})
    return pd.DataFrame(found)


def measure(workers: int) -> pd.DataFrame:
    """One row per depth and group."""
    with ProcessPoolExecutor(workers) as pool:
        table = pd.concat(pool.map(judged, range(workers), itertools.repeat(workers)))
    return table.sort_values(["depth", "seeds", "group"], kind="stable", ignore_index=True)


def bounded(table: pd.DataFrame) -> pd.DataFrame:
    """The groups whose slope has an interval with two ends, with the column covers."""
    part = table[np.isfinite(table["low"]) & np.isfinite(table["high"])]
    return part.assign(covers=(part["low"] <= part["reference"]) & (part["reference"] <= part["high"]))


def bar(table: pd.DataFrame) -> Bar:
    """What is asked for: the coverage that is asked of best rates of real rows."""
    found = bounded(table)
    return Bar("real rows, slope of the best rate: coverage", 0.92, np.inf, float(found["covers"].mean()))


def lines_of(table: pd.DataFrame) -> pd.DataFrame:
    """For each depth and size of group, and for all: how many slopes have two ends, their coverage and width."""
    rows = []
    for (depth, seeds), part in [*table.groupby(["depth", "seeds"]), (("all", ""), table)]:
        found = bounded(part)
        rows.append(
            {
                "depth": depth if depth == "all" else f"{depth:g}",
                "seeds": f"{seeds}",
                "groups": len(part),
                "with two ends": len(found) / len(part),
                "coverage": f"{found['covers'].mean():.3f} ± {jackknifed(found):.3f}".replace("nan", "–"),
                "median width": float((found["high"] - found["low"]).median()),
                "regime named": float((part["verdict"] != "undetermined").mean()),
            }
        )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    measure(1).to_csv(sys.argv[1], index=False, float_format="%.4f")
