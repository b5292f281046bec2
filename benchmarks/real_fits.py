"""What the fits say of groups of a few real seeds, held against all the others: see `benchmarks/real_rows.py`.

    python -m benchmarks.real_fits FILE.csv

writes one row per group; about a quarter of an hour of one core.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.real_rows import ROWS, SETS, groups_of
from benchmarks.shares import Bar, width_ratio
from raysweep.fits import fit_inflection, fit_optimum
from raysweep.fits.zero import find_zero

BEFORE = Path(__file__).with_name("real_before.csv.gz")  # what raysweep said of the same groups at commit ea618fe
LEVEL = 0.95


def groups() -> Iterator[dict[str, Any]]:
    """Every group of every curve: set, curve, size, group, kind, x, values (seeds, points), reference."""
    with np.load(ROWS, allow_pickle=False) as kept:
        for name, curves in SETS.items():
            part = {key: kept[f"{name}, {key}"] for key in ("x", "mean", "scale", "deviations")}
            values = part["mean"][:, None] + part["scale"][:, None, None] * part["deviations"].astype(np.float64)
            for size in curves.groups:
                references = kept[f"{name}, reference {size}"]
                for k, g in itertools.product(*map(range, references.shape)):
                    yield {
                        "set": name,
                        "curve": k,
                        "seeds": size,
                        "group": g,
                        "x": part["x"],
                        "values": values[k, groups_of(values.shape[1], size, curves.most)[g]],
                        "reference": float(references[k, g]),
                    }


def said(kind: str, logarithmic: bool, x: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    """What the fits say of one group: status, low and high in octaves or in the units of x."""
    if kind == "zero":
        zero = find_zero(x, values, LEVEL)
        return {"status": str(zero.status), "low": zero.low, "high": zero.high}
    seeds, points = values.shape
    rows = pd.DataFrame({"x": np.tile(x, seeds), "seed": np.repeat(np.arange(seeds), points), "y": values.ravel()})
    if kind == "optimum":
        fit = fit_optimum(rows, "x", "y", None, "seed", LEVEL, logarithmic=logarithmic, advise=False)
    else:
        fit = fit_inflection(rows, "x", "y", "seed", LEVEL, logarithmic=logarithmic, advise=False)
    ends = [end if not logarithmic or not 0 < end < np.inf else np.log2(end) for end in (fit.low, fit.high)]
    return {"status": str(fit.status), "low": float(ends[0]), "high": float(ends[1])}


def fitted(part: int, parts: int) -> pd.DataFrame:
    """One row per group of the curves that are fitted, of every `parts`th from `part` on: what the fits say of it, and
    the reference in the same units."""
    rows = []
    chosen = (each for each in groups() if each["curve"] % SETS[each["set"]].apart == 0)
    for each in itertools.islice(chosen, part, None, parts):
        curves = SETS[each["set"]]
        found = said(curves.kind, curves.logarithmic, each.pop("x"), each.pop("values"))
        place = each["reference"] / np.log(2) if curves.logarithmic else each["reference"]
        rows.append(each | {"reference": place} | found)
    return pd.DataFrame(rows)


def measure(workers: int) -> pd.DataFrame:
    """One row per group."""
    with ProcessPoolExecutor(workers) as pool:
        table = pd.concat(pool.map(fitted, range(workers), itertools.repeat(workers)))
    return table.sort_values(["set", "seeds", "curve", "group"], kind="stable", ignore_index=True)


def with_before(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the columns before_status, before_low, before_high of the same groups."""
    before = pd.read_csv(BEFORE).drop(columns="reference")
    before = before.rename(columns={name: f"before_{name}" for name in ("status", "low", "high")})
    return table.merge(before, on=["set", "curve", "seeds", "group"], how="left", validate="one_to_one")


def turning(table: pd.DataFrame) -> pd.DataFrame:
    """The groups of curves whose mean has a lowest place inside the grid, or a zero, whichever seeds are left out."""
    known = table.groupby(["set", "curve"])["reference"].transform(lambda reference: reference.notna().all())
    return table[known]


def jackknifed(part: pd.DataFrame) -> float:
    """The standard error of the coverage: the curves of one group share their seeds, so that groups are what varies."""
    sums = part.groupby("group")["covers"].agg(["sum", "count"])
    left = (sums["sum"].sum() - sums["sum"]) / (sums["count"].sum() - sums["count"])
    count = len(left)
    return float(np.sqrt((count - 1) / count * ((left - left.mean()) ** 2).sum())) if count > 1 else np.nan


def lines_of(table: pd.DataFrame) -> pd.DataFrame:
    """For each set of curves and size of group: located shares, coverage and median widths, now and before."""
    rows = []
    for (name, seeds), part in turning(table).groupby(["set", "seeds"], sort=False):
        line = {"curves": name, "number": part["curve"].nunique(), "seeds": seeds, "groups": len(part)}
        for when in ("", "before_"):
            low, high = part[f"{when}low"], part[f"{when}high"]
            covers = (low <= part["reference"]) & (part["reference"] <= high)
            found = part.assign(covers=covers)[part[f"{when}status"] == "located"]
            word = " before" if when else ""
            line |= {
                f"located{word}": len(found) / len(part),
                f"coverage{word}": f"{found['covers'].mean():.3f} ± {jackknifed(found):.3f}".replace("nan", "–"),
                f"width{word}": float((found[f"{when}high"] - found[f"{when}low"]).median()),
            }
        line["width / before"] = width_ratio(part)
        rows.append(line)
    return pd.DataFrame(rows)


def bars(table: pd.DataFrame) -> list[Bar]:
    """What is asked for, of each set of curves."""
    found = []
    for name, part in turning(table).groupby("set", sort=False):
        covers = (part["low"] <= part["reference"]) & (part["reference"] <= part["high"])
        located, before = part["status"] == "located", part["before_status"] == "located"
        found += [
            Bar(f"real rows, {name}: coverage", 0.92, np.inf, float(covers[located].mean())),
            Bar(f"real rows, {name}: width / before", -np.inf, 1.0, width_ratio(part)),
            Bar(f"real rows, {name}: located / before", 1.0, np.inf, float(located.sum() / before.sum())),
        ]
    return found


if __name__ == "__main__":
    measure(1).to_csv(sys.argv[1], index=False, float_format="%.4f")
