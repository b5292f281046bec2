"""Makes a sweep of runs that were computed elsewhere. Reports, comparisons and MLflow take it as any other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raysweep.analyses import registry
from raysweep.analyses.rows import ERROR
from raysweep.errors import InputError, unknown
from raysweep.ledger import segments, sweep_record
from raysweep.phrases import place
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.identity import ELSEWHERE, cell_id, code_version
from raysweep.query.sweep import Sweep, open_sweep
from raysweep.query.table import Table
from raysweep.space import function_files, space_files, user_files
from raysweep.space.function_files import Given
from raysweep.space.schema import Space, plain_name, validate
from raysweep.storage import files, paths
from raysweep.storage.paths import AnyPath

PACK = 10_000
"""Rows of a segment."""


def create(
    table: Table, storage: str | AnyPath = "sweeps", space: Space | None = None, function: Given | None = None
) -> Sweep:
    """A new sweep of the rows of a table, whose space names it. Its record is written last.

    space: of the workload that computes the missing cells, by `space_of_workload`, and the function that it names; None
        if nothing does.

    Raises InputError if there is a sweep of this name, or if the storage cannot be written.
    """
    name = plain_name(table.space["name"], "NAME")
    folder = paths.storage(storage) / name
    if sweep_record.load(folder) is not None:
        raise InputError(name, f"there is a sweep of this name in {place(paths.locate(storage))}; name another")
    if reason := files.why_not_writable(paths.storage(storage)):
        raise InputError("--storage", f"{place(storage)} cannot be written ({reason})")
    space = space or space_of(table)
    rows = rows_of(table, space)
    if not rows:
        raise InputError(name, "no row has a setting of the space; leave its axes as they are")
    if isinstance(folder, Path):
        (folder / sweep_record.LEDGER).mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, len(rows), PACK)):
        path = segments.segment_path(folder / sweep_record.LEDGER, f"imported{number:04d}", 1)
        segments.write_segment(path, rows[first : first + PACK])
    record = sweep_record.create(folder, name, space.as_dict(), None, "cell")
    if function is not None:
        user_files.remember(record.sweep_id, function)
    return open_sweep(name, storage)


def space_of(table: Table) -> Space:
    """The space of the rows of a table. Raises InputError for a part that does not fit, such as an analysis."""
    return validate({**table.space, "search": {"imported": {"cells": max(1, table.rows["cell"].nunique())}}})


def questions(entries: Sequence[Any], table: Table) -> list[Any]:
    """Analyses, about the first metric of a table where their kind asks for one and they name none."""
    first = next(iter(table.space["function"]["metrics"]))

    def about(kind: Any, options: Any) -> Any:
        options = {} if options is None else options
        if kind not in registry.names() or not isinstance(options, Mapping) or {"metric", "metrics"} & {*options}:
            return options
        analysis = registry.get(kind)
        return {"metric": first, **options} if "metric" in {**analysis.required, **analysis.optional} else options

    return [
        {kind: about(kind, options) for kind, options in entry.items()} if isinstance(entry, Mapping) else entry
        for entry in entries
    ]


def space_of_workload(table: Table, workload: str, sets: Mapping[str, Any]) -> tuple[Space, Given | None]:
    """The space of a table whose missing cells a workload computes, and the function FILE.py:NAME that it may be.

    sets: changes, by dotted key. Raises InputError for an axis or a metric that the workload does not have.
    """
    data = {name: table.space[name] for name in ("name", "axes", "scale", "zip", "fixed", "seeds", "analysis")}
    data |= {"workload": workload, "description": f"{len(table.rows):,} rows {table.space['description']}"}
    metrics = table.space["function"]["metrics"]
    if function_files.is_named(workload):  # called as when it runs by itself, so that it extends the sweep
        data = {key: value for key, value in data.items() if key != "name"} | {"metrics": metrics}
    space, function = space_files.read_with_function(data, sets)
    measured = space.declaration.metric_names()
    if unmeasured := [name for name in metrics if function is None and name not in measured]:
        raise unknown("--metric", f"metric of {workload}", unmeasured[0], measured)
    return space, function


def rows_of(table: Table, space: Space) -> list[segments.Row]:
    """The rows of a table as the ledger keeps them."""
    workload, cells = space.declaration, enumerate_cells(space, check=False)
    metrics = list(table.space["function"]["metrics"])
    metrics += [name for name in table.rows if name.removesuffix(ERROR) in metrics and name not in metrics]
    version, now = code_version(workload) if space.imported else ELSEWHERE, time.time()
    rows: list[segments.Row] = []
    for values in table.rows.to_dict("records"):
        setting: dict[str, Any] = {str(name): values[name] for name in space.axes}
        if cells.asked is None:
            position = cells.position.get(cell_id(workload, {**space.fixed, **setting}))
        else:
            position = cells.place(space, setting)
        if position is None:  # `exclude` leaves it out
            continue
        row: segments.Row = {
            "cell": cells.ids[position],
            "seed": int(values["seed"]),
            "status": values["status"],
            "attempt": 1,
            "seconds": 0.0,
            "code_version": version,
            "metrics": {name: float(values[name]) for name in metrics},
            "finished": now,
        }
        if cells.asked is not None:
            row["asked"] = cells.asked[position]
        rows.append(row)
    return rows
