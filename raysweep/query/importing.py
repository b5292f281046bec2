"""Makes a sweep of runs that were computed elsewhere. Reports, comparisons and MLflow take it as any other."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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

Made = tuple[Space, Given | None]
PACK = 10_000
"""Rows of a segment."""


def create(table: Table, storage: str | AnyPath = "sweeps", made: Made | None = None) -> Sweep:
    """A new sweep of the rows of a table, whose space names it. Its record is written last. made: by `space_of`. Raises
    InputError if there is a sweep of this name, or if the storage cannot be written."""
    name = plain_name(table.space["name"], "NAME")
    folder = paths.storage(storage) / name
    if sweep_record.load(folder) is not None:
        raise InputError(name, f"there is a sweep of this name in {place(paths.locate(storage))}; name another")
    if reason := files.why_not_writable(paths.storage(storage)):
        raise InputError("--storage", f"{place(storage)} cannot be written ({reason})")
    space, function = made or space_of(table)
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


def space_of(table: Table, sets: Mapping[str, Any] | None = None, workload: str | None = None) -> Made:
    """The space of the rows of a table, and the function if `workload`, which computes the missing cells, is the
    FILE.py:NAME of one. sets: changes, by dotted key. Raises InputError for a part that does not fit, such as an
    analysis, and for an axis or a metric that the workload does not have."""
    data = copy.deepcopy(table.space)
    if workload is None:
        for key, value in (sets or {}).items():
            if key.partition(".")[0] in ("axes", "seeds"):
                raise InputError(f"--set {key}", "these are those of the table; --workload computes others")
            space_files.apply_set(data, key, value)
        return validate({**data, "search": {"imported": {"cells": max(1, table.rows["cell"].nunique())}}}), None
    metrics = data.pop("function")["metrics"]
    data |= {"workload": workload, "description": f"{len(table.rows):,} rows {data['description']}"}
    if function_files.is_named(workload):  # called as when it runs by itself, so that it extends the sweep
        data = {**data, "metrics": metrics}
        del data["name"]
    space, function = space_files.read_with_function(data, sets)
    measured = space.declaration.metric_names()
    if unmeasured := [name for name in metrics if function is None and name not in measured]:
        raise unknown("--metric", f"metric of {workload}", unmeasured[0], measured)
    return space, function


def rows_of(table: Table, space: Space) -> list[segments.Row]:
    workload, cells = space.declaration, enumerate_cells(space, check=False)
    metrics = [name for name in table.rows if name.removesuffix(ERROR) in table.space["function"]["metrics"]]
    version, now = code_version(workload) if space.imported else ELSEWHERE, time.time()
    rows: list[segments.Row] = []
    for values in table.rows.to_dict("records"):
        axes: dict[str, Any] = {name: values[name] for name in space.axes}
        at = cells.place(space, axes) if space.open else cells.position.get(cell_id(workload, space.fixed | axes))
        if at is None:  # `exclude` leaves it out
            continue
        row: Any = {"cell": cells.ids[at], "seed": int(values["seed"]), "status": values["status"], "attempt": 1}
        row |= {"seconds": 0.0, "code_version": version, "metrics": {name: float(values[name]) for name in metrics}}
        row |= {"finished": now} | ({} if cells.asked is None else {"asked": cells.asked[at]})
        rows.append(row)
    return rows
