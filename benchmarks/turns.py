"""What the fits say of the turns of curves that are known: one line per curve, as CSV.

    python -m benchmarks.turns FOLDER [--passes 1] [--workers 2]

writes a file for each pass over a family; those that are there stay, so that a run which was ended goes on. Places are
octaves from the start of the axis.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.curves import BENCHMARK, CYCLE, STRAIGHT_CYCLE, Sample, sample
from benchmarks.held_out_curves import HELD_OUT
from benchmarks.seen_curves import SEEN
from raysweep.fits import fit_inflection, fit_optimum

BEFORE = Path(__file__).with_name("turns_before.csv.gz")  # what raysweep said of the same curves at commit ea618fe
OCTAVES = 8.0  # the grids of lengths and rates are as long as O's 4B to 128B tokens and a half more
LEVEL, NARROW = 0.95, 0.68
COLLECTIONS = {"benchmark": BENCHMARK, "seen": SEEN, "held_out": HELD_OUT}
PASSES = 5  # every fifth curve of each family in one pass; 5 shares no factor with a cycle's length
PASSES_OF = {"inflection": PASSES, "optimum": 1}
STRAIGHT_CYCLES = 6  # curves that do not turn are seen as often as this, at each number of points and seeds


def frame_of(one: Sample, name: str) -> pd.DataFrame:
    """The rows of one curve over `name`, from 1 over 8 octaves."""
    seeds, points = one.values.shape
    rows = pd.DataFrame(
        {
            name: np.tile(2 ** (OCTAVES * one.t), seeds),
            "seed": np.repeat(np.arange(seeds), points),
            "loss": one.values.ravel(),
        }
    )
    return rows[rows["loss"].notna()]


def fitted(kind: str, one: Sample, level: float) -> dict[str, Any]:
    """What a fit says of one curve: status, estimate, low and high in octaves."""
    if kind == "inflection":
        fit = fit_inflection(frame_of(one, "length"), "length", "loss", "seed", level, logarithmic=True, advise=False)
    else:
        fit = fit_optimum(frame_of(one, "rate"), "rate", "loss", None, "seed", level, logarithmic=True, advise=False)
    places = {"estimate": fit.estimate, "low": fit.low, "high": fit.high}
    octaves = {name: float(np.log2(x)) if 0 < x < np.inf else float(x) for name, x in places.items()}
    return {"status": str(fit.status), **octaves}


def measured(collection: str, family: str, numbers: Sequence[int], kind: str, narrow: bool = True) -> pd.DataFrame:
    """One row per curve: which it is, and what the fit says of it; with `narrow` of some the interval of the lower
    level too."""
    rows = []
    for number in numbers:
        one = sample(COLLECTIONS[collection], family, number)
        row = {"collection": collection, "kind": kind, "family": family, "number": number}
        row |= fitted(kind, one, LEVEL)
        if narrow and number // PASSES % PASSES < 2 and np.isfinite(one.turn):
            inner = fitted(kind, one, NARROW)
            row |= {"narrow_low": inner["low"], "narrow_high": inner["high"]}
        rows.append(row)
    return pd.DataFrame(rows)


def keep(folder: Path, collection: str, family: str, kind: str, number: int) -> None:
    """Measure one pass over a family into a file of its own, unless the file is there."""
    families = COLLECTIONS[collection]
    path = folder / f"{collection}-{kind}-{number}-{families.families.index(family):02d}.csv"
    if not path.exists():
        count = CYCLE if family in families.turning else STRAIGHT_CYCLES * STRAIGHT_CYCLE
        table = measured(collection, family, range(number, count, PASSES), kind)
        partial = path.with_suffix(".part")
        table.to_csv(partial, index=False, float_format="%.4f")
        partial.rename(path)


def described(table: pd.DataFrame) -> pd.DataFrame:
    """The table with what is known of each curve: points, seeds, noise, grid, size, turn in octaves, whether the
    interval holds it."""
    curves = [sample(COLLECTIONS[row["collection"]], row["family"], row["number"]) for row in table.to_dict("records")]
    known = pd.DataFrame(
        {
            "points": [one.values.shape[1] for one in curves],
            "seeds": [one.values.shape[0] for one in curves],
            "centre": [one.centre for one in curves],
            "noise": [one.noise for one in curves],
            "grid": [one.grid for one in curves],
            "size": [one.size for one in curves],
            "turn": [OCTAVES * one.turn for one in curves],
        },
        index=table.index,
    )
    table = pd.concat([table, known], axis=1)
    table["covers"] = (table["low"] <= table["turn"]) & (table["turn"] <= table["high"])
    return table


def measure(folder: Path, workers: int, passes: int = PASSES) -> None:
    """Measure what is not in the folder yet, pass after pass."""
    tasks = [
        (folder, name, family, kind, number)
        for number, kind, name in itertools.product(range(passes), PASSES_OF, COLLECTIONS)
        for family in COLLECTIONS[name].families
        if number < PASSES_OF[kind]
    ]
    with ProcessPoolExecutor(workers) as pool:
        list(pool.map(keep, *zip(*tasks, strict=True)))


def turns_of_all_passes() -> int:
    """How many curves there are to measure, each fit counted."""
    return sum(
        len(range(number, CYCLE if family in collection.turning else STRAIGHT_CYCLES * STRAIGHT_CYCLE, PASSES))
        for collection in COLLECTIONS.values()
        for family in collection.families
        for count in PASSES_OF.values()
        for number in range(count)
    )


def everything(folder: Path) -> pd.DataFrame:
    """All that was measured into a folder."""
    files = [path for kind in PASSES_OF for name in COLLECTIONS for path in folder.glob(f"{name}-{kind}-*.csv")]
    table = pd.concat([pd.read_csv(path) for path in sorted(files)], ignore_index=True)
    order = {family: k for collection in COLLECTIONS.values() for k, family in enumerate(collection.families)}
    table = table.assign(order=table["family"].map(order))
    table = table.sort_values(["kind", "collection", "order", "number"], kind="stable", ignore_index=True)
    return table.drop(columns="order")


def with_before(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the columns before_status, before_estimate, before_low, before_high of the same curves."""
    keys, found = ["collection", "kind", "family", "number"], ["status", "estimate", "low", "high"]
    before = pd.read_csv(BEFORE)[keys + found].rename(columns={name: f"before_{name}" for name in found})
    return table.merge(before, on=keys, how="left", validate="one_to_one")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--passes", type=int, default=PASSES)
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    measure(asked.folder, asked.workers, asked.passes)
