"""The rows of a sweep as a tidy table, in plan order and then by seed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from raysweep import plain_json as json
from raysweep.lazy import pd
from raysweep.ledger import segments
from raysweep.plan.cells import Cells
from raysweep.storage import files
from raysweep.storage.paths import AnyPath
from raysweep.storage.sealed import encode
from raysweep.workloads.declaration import Workload


def in_order(cells: Cells, seeds: Sequence[int], rows: Mapping[tuple[str, int], segments.Row]) -> Iterator[Any]:
    """(position of the cell, row) in plan order, then by seed."""
    keys = ((index, cells.ids[index], seed) for index in cells.in_order() for seed in sorted(seeds))
    yield from ((index, rows[cell, seed]) for index, cell, seed in keys if (cell, seed) in rows)


def frame(
    sweep: str, workload: Workload, cells: Cells, seeds: list[int], rows: dict[tuple[str, int], segments.Row]
) -> pd.DataFrame:
    """One line per row in the ledger: sweep, cell, seed, status, parameters, metrics, code_version, seconds."""
    entries = list(in_order(cells, seeds, rows))
    indices = np.asarray([index for index, _ in entries], dtype=np.int64)
    listed = [row for _, row in entries]
    names = workload.metric_names()
    extra = sorted({name for row in listed for name in row["metrics"]}.difference(names))
    columns: dict[str, Any] = {
        "sweep": np.full(len(entries), sweep, dtype=object),
        "cell": [row["cell"] for row in listed],
        "seed": np.asarray([row["seed"] for row in listed], dtype=np.int64),
        "status": [row["status"] for row in listed],
        **cells.take(indices),
    }
    for name in (*names, *extra):
        columns[name] = np.asarray([row["metrics"].get(name, np.nan) for row in listed], dtype=np.float64)
    columns["code_version"] = [row["code_version"] for row in listed]
    columns["seconds"] = np.asarray([row["seconds"] for row in listed], dtype=np.float64)
    table = pd.DataFrame(columns)
    flags = [one.name for one in workload.parameters if one.type is bool and table[one.name].map(type).eq(bool).all()]
    return table.astype(dict.fromkeys(flags, bool))  # of objects, ~ would make -1 and -2


def dump(table: pd.DataFrame, kind: str) -> bytes:
    """A table as csv, json (a list of objects; NaN is null, infinities are words) or parquet, in full precision."""
    if kind == "csv":
        return table.to_csv(index=False, lineterminator="\n").encode()
    if kind == "json":
        records = ({name: _json(value) for name, value in record.items()} for record in table.to_dict("records"))
        lines = [json.dumps(record, allow_nan=False) for record in records]
        return ("[\n" + ",\n".join(lines) + "\n]\n").encode()
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()


def write(table: pd.DataFrame, kind: str, path: AnyPath) -> None:
    """Write a table to a file, whole or not at all. A device or a pipe is written to; a link keeps its place."""
    content = dump(table, kind)
    if isinstance(path, Path):
        path = Path(os.path.realpath(path)) if path.is_file() else path
        if path.exists() and not path.is_file() and not path.is_dir():
            with open(path, "wb", buffering=0) as stream:
                stream.write(content)
            return
    files.replace(path, content)


def _json(value: Any) -> Any:
    if isinstance(value, float):
        return None if value != value else encode(value)
    return value
