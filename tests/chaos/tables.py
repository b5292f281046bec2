"""What comes out of sweeps, disturbed and undisturbed: rows, learning curves, runs in MLflow, and how they differ."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Container
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Table:
    """What came out: rows by (cell, seed), learning curves, children of MLflow by cell with their metrics, and what
    should not be."""

    rows: dict[tuple[str, str], dict[str, str]]
    children: dict[str, dict[tuple[str, int], float]]
    curves: Counter[tuple[str, ...]] = field(default_factory=Counter)
    doubled: int = 0
    orphans: int = 0
    parents: list[str] = field(default_factory=list)


def read_mlflow(database: Path, sweep_id: str, found: Table) -> None:
    """Enter what MLflow's database holds of a sweep, read without MLflow."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=60)) as db:
        runs = db.execute(
            "SELECT r.run_uuid, r.status, r.lifecycle_stage FROM runs r JOIN tags t ON "
            "t.run_uuid = r.run_uuid AND t.key = 'raysweep.sweep_id' AND t.value = ?",
            (sweep_id,),
        ).fetchall()
        for run, status, stage in runs:
            tags = dict(db.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (run,)))
            if status == "RUNNING":
                found.orphans += 1
            if stage != "active":
                continue
            if tags.get("raysweep.kind") == "sweep":
                found.parents.append(status)
            elif (cell := tags.get("raysweep.cell")) is None or status not in ("FINISHED", "FAILED"):
                found.orphans += 1
            else:
                found.doubled += cell in found.children
                found.children[cell] = {
                    (key, step): value
                    for key, value, step in db.execute(
                        "SELECT key, value, step FROM metrics WHERE run_uuid = ?", (run,)
                    )
                    if key != "seconds"
                }


def compare(found: Table, expected: Table, tolerance: float, damaged: Container[tuple[str, str]] = ()) -> Counter[str]:
    """How the one differs from the other: lost, doubled, changed and orphaned things, none if all is well.

    damaged: stages, each with its seed, of which some may have no learning curve: they were damaged, and what continues
        them was not, so that nobody computed them again.
    """
    differences = Counter(doubled=found.doubled, orphans=found.orphans)
    differences["lost rows"] = len(expected.rows.keys() - found.rows.keys())
    differences["strange rows"] = len(found.rows.keys() - expected.rows.keys())
    differences["lost runs"] = len(expected.children.keys() - found.children.keys())
    differences["strange runs"] = len(found.children.keys() - expected.children.keys())
    differences["parents amiss"] = found.parents != ["FINISHED"]
    lost = sum(times for line, times in (expected.curves - found.curves).items() if line[:2] not in damaged)
    differences["changed curves"] = lost + (found.curves - expected.curves).total()
    for key in expected.rows.keys() & found.rows.keys():
        one, other = found.rows[key], expected.rows[key]
        differences["changed rows"] += one.keys() != other.keys() or any(
            not _same(one[name], value, tolerance) for name, value in other.items()
        )
    # Where a damaged stage has no learning curve, the mean over draws that MLflow shows of it is one over the others.
    without = any(line[:2] in damaged for line in expected.curves - found.curves)
    for cell in expected.children.keys() & found.children.keys():
        ours, theirs = (
            {key: value for key, value in of[cell].items() if not (without and "/" in key[0])}
            for of in (found.children, expected.children)
        )
        differences["changed runs"] += ours.keys() != theirs.keys() or any(
            not math.isclose(ours[key], value, rel_tol=max(tolerance, 1e-12), abs_tol=tolerance * 1e-4)
            for key, value in theirs.items()
        )
    return +differences


def _same(one: str, other: str, tolerance: float) -> bool:
    if one == other:
        return True
    try:
        return tolerance > 0 and math.isclose(float(one), float(other), rel_tol=tolerance, abs_tol=tolerance * 1e-4)
    except ValueError:
        return False
