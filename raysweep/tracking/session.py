"""Decides what is logged to MLflow and when: each cell once it is complete, the rest at the end.

Every cell has its own run in MLflow, neighbours in the plan share one, or cells have none. The groups depend only on
positions in the plan and not on the order of computing, so that a replay finds the same runs.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from raysweep import plain_json as json
from raysweep.errors import InputError, unknown
from raysweep.ledger.segments import Curve, Row
from raysweep.ledger.sweep_record import Record
from raysweep.phrases import command, counted
from raysweep.plan.cells import Cells, plan_record
from raysweep.plan.identity import code_version
from raysweep.plan.row_stages import cell_stages
from raysweep.space import yaml_reader
from raysweep.space.schema import Space
from raysweep.storage import copies, files, paths, signs
from raysweep.storage.paths import AnyPath
from raysweep.tracking import address
from raysweep.tracking.mirror import HEAD_START, Mirror
from raysweep.tracking.runs import SweepRun

MANY, LONG = 20, 3.0
"""The user is told at the end that waiting is not necessary: at once if more than MANY cells are left, else after LONG
seconds."""
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


def answers(report: Path) -> dict[str, str]:
    """The sentence of each finding of a report.json, by the name of its tag `finding.NAME`; empty if there is none."""
    if not report.is_file():
        return {}
    findings = json.loads(report.read_text(encoding="utf-8"))["findings"]
    return {f"finding.{one['name']}": one["answer"] for one in findings if "answer" in one}


class Session:
    """Logs one sweep to MLflow in the background while its driver works: every cell that is complete already, each cell
    that `complete` is called for, and at the end what belongs to the whole sweep.

    uri: the MLflow to log to.
    rows: gives access to the rows of complete cells.
    """

    def __init__(self, uri: str, folder: AnyPath, record: Record, space: Space, cells: Cells, rows: Rows) -> None:
        self._folder, self._record, self._space, self._cells, self._rows = folder, record, space, cells, rows
        self._size = cells_per_run(record, cells)
        workload = space.declaration
        self._stages = cell_stages(workload, cells, space.keep)
        self._handed_over: set[int] = set()
        self.closed = False
        mirrored = signs.mirrored(folder)
        recorded_uri = address.recorded(uri, folder.parent)
        if mirrored is None or (mirrored.sweep_id, mirrored.tracking_uri) != (record.sweep_id, recorded_uri):
            mirrored = signs.Mirrored(record.sweep_id, recorded_uri)
            signs.leave_mirrored(folder, mirrored)
        artifacts, place, code = address.artifacts(uri, folder.parent), paths.absolute(folder), code_version(workload)
        run = SweepRun(space.as_dict(), record.sweep, record.sweep_id, code, artifacts, place)
        self.mirror = Mirror(uri, run, mirrored, functools.partial(signs.leave_mirrored, folder), HEAD_START)
        for cell in rows.complete():
            self.complete(cell)

    def complete(self, cell: int) -> None:
        """Record that a cell is complete. Its run is written once all cells that share the run are complete."""
        if self._size:
            group = cell // self._size
            members = range(group * self._size, min((group + 1) * self._size, len(self._cells)))
            if group not in self._handed_over and all(map(self._rows.is_complete, members)):
                self._hand_over(group)

    def _hand_over(self, group: int) -> None:
        if group in self._handed_over:
            return
        self._handed_over.add(group)
        name = run_name(group, self._size, self._cells)
        members = complete_members(group, self._size, self._cells, self._rows)
        cells = [(cell, self._cells.parameters(cell), self._rows.of_cell(cell)) for cell in members]
        if self._size > 1 and cells:
            self.mirror.pack(name, cells, mark([row for _, _, rows in cells for row in rows]))
        for cell, parameters, rows in cells if self._size == 1 else ():
            try:
                stages = self._stages(cell, [row["seed"] for row in rows])
            except InputError:  # a text was deleted after its rows were computed
                stages = None
            logged: list[Row] = [{**row, "curves": self._rows.curves(row)} for row in rows]
            self.mirror.cell(name, parameters, logged, stages, mark(rows))

    def close(
        self,
        results: bytes,
        statuses: Counter[str],
        status: Literal["FINISHED", "KILLED"],
        shown: contextlib.AbstractContextManager[object],
        say: Callable[[str], None],
    ) -> str | None:
        """Log what belongs to the whole sweep, wait until everything is written, and end the sweep's own run. Returns a
        line about what MLflow lacks then, or None.

        results: the table of all rows, as CSV. statuses: how many rows have which status.
        shown: a context manager that is open during the wait and shows the progress (see `counts`).
        say: called with a line that says that Ctrl-C is safe, if the wait is long.
        """
        # cells that a search left out never become complete, but may share a run with complete cells
        for group in groups(self._size, self._cells):
            self._hand_over(group)
        written = {
            "space.yaml": yaml_reader.dump(self._space.as_dict()).encode(),
            "plan.json": json.dumps(plan_record(self._space, self._cells), indent=1).encode(),
            "results.csv": results,
        }
        for name, content in written.items():
            files.replace(self._folder / name, content)
        summary: dict[str, Any] = {f"rows_{word}": count for word, count in statuses.items()}
        summary["rows"] = sum(statuses.values())
        with self._reassuring(say), copies.copied(self._folder, (*written, "report")) as home, shown:
            artifacts = {name: home / name for name in (*written, "report")}
            artifacts["figures"] = artifacts["report"] / "figures"
            warning = self.mirror.finish(status, artifacts, summary | answers(home / "report" / "report.json"))
        self.closed = True
        return self._with_remedy(warning)

    def stop(self, status: Literal["KILLED", "FAILED"]) -> str | None:
        """End the runs of an interrupted sweep, within seconds. Returns a line about what MLflow lacks, or None."""
        try:
            lacks = self.mirror.finish(status, {}, {})
        except KeyboardInterrupt:  # the user does not want to wait for it
            lacks = self.mirror.shortfall()
        return self._with_remedy(lacks)

    def _with_remedy(self, lacks: str | None) -> str | None:
        return f"{lacks}; run `{command('sync', self._record.sweep, self._folder.parent)}`" if lacks else None

    def counts(self) -> tuple[int, int]:
        """How many of the cells that were handed over are in MLflow, and how many were handed over."""
        waiting = self.mirror.pending  # read before `handed`, because both may grow meanwhile
        handed = self.mirror.handed
        return handed - waiting, handed

    @contextlib.contextmanager
    def _reassuring(self, say: Callable[[str], None]) -> Iterator[None]:
        """Say that Ctrl-C is safe: at once if more than MANY cells are left, else after LONG seconds."""

        def tell() -> None:
            waiting, sync = self.mirror.missing, command("sync", self._record.sweep, self._folder.parent)
            last = f"the last {counted(waiting, 'cell')}" if waiting else "the end of the sweep's own run"
            safe = f"all rows are kept: Ctrl-C is safe here, and `{sync}` writes what is missing then"
            say(f"writing {last} to MLflow; {safe}")

        if self.mirror.missing > MANY:
            tell()
            yield
            return
        later = threading.Timer(LONG, tell)
        later.daemon = True
        later.start()
        try:
            yield
        finally:
            later.cancel()
