"""Which cells share a run in MLflow: every cell has its own run, neighbours in the plan share one, or cells have none.

The groups depend only on positions in the plan and not on the order of computing, so that a replay finds the same runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from raysweep.errors import InputError, unknown
from raysweep.ledger.segments import Curve, Row
from raysweep.ledger.sweep_record import Record
from raysweep.plan.cells import Cells

CELLS_PER_RUN = {"cell": 1, "pack": 250, "sweep": 0}
"""How many cells share a run, by the user's choice; 0 if only the sweep has a run."""
RUN_PER_CELL_UP_TO = 5000  # cells; a run takes about 20 ms, so more could take longer than the sweep


class Rows(Protocol):
    """The rows of a sweep, by the position of their cell in the plan."""

    def is_complete(self, cell: int) -> bool: ...

    def complete(self) -> Iterator[int]: ...

    def of_cell(self, cell: int) -> list[Row]: ...

    def curves(self, row: Row) -> dict[str, Curve]: ...


def check_runs_per(asked: str | None, record: Record | None, cells: Cells) -> None:
    """InputError for an unknown choice, or not the recorded one: the sweep would be in MLflow twice."""
    if asked is None:
        return
    if asked not in CELLS_PER_RUN:
        raise unknown("runs_per", "choice", asked, CELLS_PER_RUN)
    if asked == "pack" and cells.asked is not None:
        raise InputError("--runs-per", "expected cell or sweep: cells within a range have no fixed neighbours")
    if record is not None and record.runs_per not in (None, asked):
        why = f"{record.sweep} is mirrored per {record.runs_per} since it was started; --name starts another sweep"
        raise InputError("--runs-per", why)


def default_runs_per(cells: Cells) -> str:
    if cells.most <= RUN_PER_CELL_UP_TO:
        return "cell"
    return "pack" if cells.asked is None else "sweep"  # cells that a search asks for have no fixed neighbours


def cells_per_run(record: Record, cells: Cells) -> int:
    """How many cells of a sweep share a run; 0 if cells have no runs."""
    return CELLS_PER_RUN[record.runs_per or default_runs_per(cells)]


def complete_members(group: int, size: int, cells: Cells, rows: Rows) -> list[int]:
    """The positions of the complete cells in the group of this number, if `size` cells share a run."""
    return [cell for cell in range(group * size, min((group + 1) * size, len(cells))) if rows.is_complete(cell)]


def groups(size: int, cells: Cells) -> range:
    """The numbers of all groups if `size` cells share a run; empty for size 0."""
    return range(-(-len(cells) // size)) if size else range(0)


def run_name(group: int, size: int, cells: Cells) -> str:
    """The name by which a run is found again: the id of its only cell, or the number of its group."""
    return cells.ids[group] if size == 1 else f"pack-{group}"


def mark(rows: Sequence[Row]) -> str:
    """A hash that identifies these rows among others of the same cells. It changes if a row is computed again."""
    origins = repr([(row["seed"], row["attempt"], row.get("finished")) for row in rows])
    return hashlib.sha256(origins.encode()).hexdigest()[:16]


def unwritten(record: Record, cells: Cells, rows: Rows, written: Mapping[str, str]) -> int:
    """How many complete cells MLflow lacks. written: maps the runs in MLflow to the marks of their rows."""
    size, missing = cells_per_run(record, cells), 0
    for group in groups(size, cells):
        members = complete_members(group, size, cells, rows)
        draws = [row for cell in members for row in rows.of_cell(cell)]
        if members and written.get(run_name(group, size, cells)) != mark(draws):
            missing += len(members)
    return missing
