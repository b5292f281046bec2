"""Makes a sweep of runs that were computed elsewhere. Reports, comparisons and MLflow take it as any other."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from raysweep.analyses.rows import ERROR
from raysweep.errors import InputError
from raysweep.ledger import segments, sweep_record
from raysweep.phrases import place
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.identity import code_version
from raysweep.query.sweep import Sweep, open_sweep
from raysweep.query.table import Table
from raysweep.space.schema import Space, plain_name, validate
from raysweep.storage import files, paths
from raysweep.storage.paths import AnyPath

PACK = 10_000
"""Rows of a segment."""


def create(table: Table, storage: str | AnyPath = "sweeps") -> Sweep:
    """A new sweep of the rows of a table, whose space names it. Its record is written last.

    Raises InputError if there is a sweep of this name, or if the storage cannot be written.
    """
    name = plain_name(table.space["name"], "NAME")
    folder = paths.storage(storage) / name
    if sweep_record.load(folder) is not None:
        raise InputError(name, f"there is a sweep of this name in {place(paths.locate(storage))}; name another")
    if reason := files.why_not_writable(paths.storage(storage)):
        raise InputError("--storage", f"{place(storage)} cannot be written ({reason})")
    space = space_of(table)
    found = rows_of(table, space)
    if isinstance(folder, Path):
        (folder / sweep_record.LEDGER).mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, len(found), PACK)):
        path = segments.segment_path(folder / sweep_record.LEDGER, f"imported{number:04d}", 1)
        segments.write_segment(path, found[first : first + PACK])
    sweep_record.create(folder, name, space.as_dict(), None, "cell")
    return open_sweep(name, storage)


def space_of(table: Table) -> Space:
    """The space of the rows of a table. Raises InputError for a part that does not fit, such as an analysis."""
    return validate({**table.space, "search": {"imported": {"cells": max(1, table.rows["cell"].nunique())}}})


def rows_of(table: Table, space: Space) -> list[segments.Row]:
    """The rows of a table as the ledger keeps them."""
    workload, cells = space.declaration, enumerate_cells(space, check=False)
    metrics = [metric.name for metric in workload.metrics]
    metrics += [name for name in table.rows if name.removesuffix(ERROR) in metrics and name not in metrics]
    version, now = code_version(workload), time.time()
    found: list[segments.Row] = []
    for row in table.rows.to_dict("records"):
        values: dict[str, Any] = {name: row[name] for name in space.axes}
        position = cells.place(space, values)
        assert position is not None  # an imported space leaves no cell out
        assert cells.asked is not None
        found.append(
            {
                "cell": cells.ids[position],
                "seed": int(row["seed"]),
                "status": row["status"],
                "attempt": 1,
                "seconds": 0.0,
                "code_version": version,
                "metrics": {name: float(row[name]) for name in metrics},
                "asked": cells.asked[position],
                "finished": now,
            }
        )
    return found
