"""What a sweep is and how far it is, in a few lines: how it shows itself in Python and in a notebook."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from raysweep.errors import RaysweepError
from raysweep.ledger import sweep_record
from raysweep.phrases import counted, place
from raysweep.storage import driver_lock

if TYPE_CHECKING:
    from raysweep.query.stored_sweep import StoredSweep


def phase(sweep: StoredSweep, left: int) -> str:
    """The phase of a sweep with so many rows left: running, finished or interrupted."""
    if driver_lock.is_held(sweep.folder):
        return "running"
    return "interrupted" if left else "finished"


def facts(sweep: StoredSweep) -> dict[str, str]:
    """Question, size, rows by status, last run and storage, in words; where rows cannot be read, it says so."""
    from raysweep.analyses.design import Design
    from raysweep.report.set_up import question

    space, rows = sweep.space, _rows(sweep)  # reading them also places the cells of an open space
    most = "up to " if space.precision else ""  # cells get seeds until an interval is as narrow as was asked
    return {
        "question": question(Design((space.as_dict(),), (sweep.name,)), sweep.workload),
        "workload": space.workload,
        "size": f"{counted(len(sweep.cells), 'cell')} x {most}{counted(len(space.seeds), 'seed')}",
        "rows": rows,
        "last run": _last_run(sweep),
        "storage": place(sweep.folder.parent),
    }


def title(sweep: StoredSweep) -> str:
    return f"sweep {sweep.name}" + (" (a part of it)" if sweep.is_part else "")


def _rows(sweep: StoredSweep) -> str:
    """How many rows are there, by status, and whether more will come."""
    try:
        state = sweep.state()
        done, left = len(state.rows), state.missing_rows
        now = phase(sweep, left)
    except (RaysweepError, OSError) as error:
        return f"cannot be read ({error})"
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(state.statuses().items()))
    return f"{done:,} of {done + left:,}{f' ({statuses})' if statuses else ''}, {now}"


def _last_run(sweep: StoredSweep) -> str:
    """When the newest rows were written, or else when the sweep was started; in UTC."""
    with contextlib.suppress(OSError):
        if isinstance(sweep.folder, Path):  # a bucket has no times of folders
            newest = (sweep.folder / sweep_record.LEDGER).stat().st_mtime
            return f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d %H:%M} UTC"
    return f"started {sweep.record.created}"
