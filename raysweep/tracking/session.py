"""What of a sweep goes to MLflow, and when: each cell once it is complete, the rest at the end."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from raysweep import workloads
from raysweep.errors import InputError
from raysweep.ledger import sweep_record
from raysweep.phrases import command, counted
from raysweep.plan.cells import Cells, plan_record
from raysweep.plan.identity import code_version
from raysweep.plan.stages import cell_stages
from raysweep.redaction import without_credentials
from raysweep.space import yaml_reader
from raysweep.space.schema import Space
from raysweep.storage import copies, files, paths, signs
from raysweep.storage.paths import AnyPath
from raysweep.tracking import grouping, server
from raysweep.tracking.grouping import Rows, mark
from raysweep.tracking.mirror import Mirror

NOWHERE = "none"
OF_DRIVER = "sqlite:///mlflow.db"
"""Where a sweep in a bucket is mirrored unless asked otherwise: in the working directory of whoever drives it."""
MANY, LONG = 20, 3.0
"""Cells that wait at the end, and seconds that it takes, beyond which one is told that nobody has to wait."""


def tracking(asked: str | None, record: sweep_record.Record | None, storage: AnyPath) -> str | None:
    """Where to mirror: as asked, else as before, else a database in the storage; None for nowhere.

    A bucket holds no database: it is ./mlflow.db then, of whatever machine drives the sweep, and whole there, because
    a mirror is replayed from the ledger.
    """
    if asked is not None:
        return None if asked == NOWHERE else asked
    if record is not None and record.tracking_uri != OF_DRIVER:
        return record.tracking_uri
    return f"sqlite:///{((storage if isinstance(storage, Path) else Path()) / 'mlflow.db').resolve()}"


def recorded(uri: str | None, storage: AnyPath) -> str | None:
    """What a sweep's record keeps of a tracking URI: no credentials, and no folder of a machine that is one of many."""
    if not isinstance(storage, Path) and uri == tracking(None, None, storage):
        return OF_DRIVER
    return without_credentials(uri) if uri else None


def check(uri: str | None, record: sweep_record.Record | None, storage: AnyPath, say: Callable[[str], None]) -> None:
    """InputError if there is somewhere to mirror to and it cannot be reached; only a word about it where the sweep was
    mirrored there before: it waits for no server, and the mirror is mended later."""
    if uri is None:
        return
    try:
        server.check(uri)
    except server.NotLetIn as error:  # a server that stays away is waited for, a wrong password is not
        raise InputError("--tracking-uri", str(error)) from None
    except server.Unreachable as error:
        if record is None:
            raise InputError(
                "--tracking-uri",
                f"{error} ({NOWHERE} runs without, and `raysweep sync SWEEP` with an address writes it later)",
            ) from None
        if record.tracking_uri not in (without_credentials(uri), OF_DRIVER):
            raise InputError("--tracking-uri", str(error)) from None
        say(
            f"--tracking-uri: {error}; going on, and trying again meanwhile; if it stays away: "
            f"{command('sync', record.sweep, storage)}, later"
        )


class Session:
    """Logs one sweep to MLflow in the background while its driver works: every cell that is complete now, each further
    one that `complete` is told of, and at the end what belongs to the sweep as a whole.

    folder, record, space, cells: the sweep, or the part of it that is asked for.
    rows: reads the draws of a cell as the driver knows them.
    """

    def __init__(
        self, uri: str, folder: AnyPath, record: sweep_record.Record, space: Space, cells: Cells, rows: Rows
    ) -> None:
        self._folder, self._record, self._space, self._cells, self._rows = folder, record, space, cells, rows
        self._size = grouping.cells_per_run(record, cells)
        workload = workloads.get(space.workload)
        self._stages = cell_stages(workload, cells, space.seeds)
        self._handed_over: set[int] = set()
        self.closed = False
        storage = folder.parent if isinstance(folder, Path) else Path()
        blank = signs.Mirrored(record.sweep_id, recorded(uri, folder.parent))
        known = signs.mirrored(folder)
        if known is None or (known.sweep_id, known.tracking_uri) != (blank.sweep_id, blank.tracking_uri):
            known = blank
            signs.leave_mirrored(folder, known)
        self.mirror = Mirror(
            uri,
            # a server has a place of its own for artifacts
            (storage.resolve() / "mlflow-artifacts").as_uri() if uri.startswith("sqlite:") else None,
            space.as_dict(),
            record.sweep,
            record.sweep_id,
            code_version(workload),
            paths.absolute(folder),
            known.runs,
            known.status,
            lambda written, status, experiment: signs.leave_mirrored(
                folder, replace(blank, runs=written, status=status, experiment=experiment)
            ),
        )
        for cell in rows.complete():
            self.complete(cell)

    def complete(self, cell: int) -> None:
        """The last draw of a cell is there: its run is written once all cells that share it are complete."""
        if self._size:
            group = cell // self._size
            first = group * self._size
            if all(map(self._rows.is_complete, range(first, min(first + self._size, len(self._cells))))):
                self._hand_over(group)

    def _hand_over(self, group: int) -> None:
        if group in self._handed_over:
            return
        self._handed_over.add(group)
        name = grouping.run_name(group, self._size, self._cells)
        members = grouping.complete_members(group, self._size, self._cells, self._rows)
        cells = [(cell, self._cells.parameters(cell), self._rows.of_cell(cell)) for cell in members]
        if self._size > 1 and cells:
            self.mirror.pack(name, cells, mark([row for _, _, rows in cells for row in rows]))
        for cell, parameters, rows in cells if self._size == 1 else ():
            try:
                stages = self._stages(cell)
            except InputError:  # a text that is gone; the rows that were computed from it are there
                stages = None
            self.mirror.cell(name, parameters, rows, stages, mark(rows))

    def close(
        self,
        results: bytes,
        statuses: Counter[str],
        status: Literal["FINISHED", "KILLED"],
        shown: contextlib.AbstractContextManager[object],
        say: Callable[[str], None],
    ) -> str | None:
        """Log what belongs to the sweep as a whole, wait until all is written, and end the sweep's own run.

        Returns what MLflow lacks then, in one line.

        results: the table of all rows, as CSV.
        statuses: how many rows ended how.
        status: that of the sweep's run.
        shown: what is open while it waits, to show how far it is (see `counts`).
        say: told once that nobody has to wait, where it takes long.
        """
        # a search leaves cells out, which will never be complete; they may share a run with cells that are
        for group in grouping.groups(self._size, self._cells):
            self._hand_over(group)
        written = {
            "space.yaml": yaml_reader.dump(self._space.as_dict()).encode(),
            "plan.json": json.dumps(plan_record(self._space, self._cells), indent=1).encode(),
            "results.csv": results,
        }
        for name, content in written.items():
            files.replace(self._folder / name, content)
        summary = {"rows": sum(statuses.values()), **{f"rows_{word}": count for word, count in statuses.items()}}
        with (
            self._telling_that_nobody_has_to_wait(say),
            copies.copied(self._folder, (*written, "report")) as home,
            shown,
        ):
            artifacts = {name: home / name for name in (*written, "report")}
            artifacts["figures"] = artifacts["report"] / "figures"
            artifacts = {name: path for name, path in artifacts.items() if path.exists()}
            warning = self.mirror.finish(status, artifacts, summary)
        self.closed = True
        return self._with_remedy(warning)

    def stop(self, status: Literal["KILLED", "FAILED"]) -> str | None:
        """End a sweep that was interrupted, within seconds. Returns what MLflow lacks of it, in one line."""
        try:
            lacks = self.mirror.finish(status, {}, {})
        except KeyboardInterrupt:  # not even these seconds
            lacks = self.mirror.shortfall()
        return self._with_remedy(lacks)

    def _with_remedy(self, lacks: str | None) -> str | None:
        return f"{lacks}; run `{command('sync', self._record.sweep, self._folder.parent)}`" if lacks else None

    def counts(self) -> tuple[int, int]:
        """How many of how many cells that were handed over are in MLflow."""
        waiting = self.mirror.pending  # looked at first, because both may grow meanwhile
        of = self.mirror.handed
        return of - waiting, of

    @contextlib.contextmanager
    def _telling_that_nobody_has_to_wait(self, say: Callable[[str], None]) -> Iterator[None]:
        """Say that Ctrl-C is safe now, if that is worth a line: at once where many cells wait, else where it takes
        long."""

        def tell() -> None:
            waiting = self.mirror.pending
            last = f"the last {counted(waiting, 'cell')}" if waiting else "the end of the sweep's own run"
            say(
                f"writing {last} to MLflow; all rows are kept: Ctrl-C is safe here, and "
                f"`{command('sync', self._record.sweep, self._folder.parent)}` writes what is missing then"
            )

        if self.mirror.pending > MANY:
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
