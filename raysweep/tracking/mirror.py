"""The mirror of a sweep in MLflow, written in the background and mended by replay.

The ledger is the truth; what is written here can be written again from it (`raysweep sync`) and comes out the same. So
no failure of MLflow ever stops a sweep: it is remembered, tried again, and in the end becomes one line of warning.

The writer is one thread of the driver. It alone imports MLflow (two seconds) and creates the database, the experiment
and the runs: one per cell, or per pack of cells where a run for each would be too many.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from raysweep.phrases import counted
from raysweep.tracking import mirror_runs
from raysweep.tracking.mirror_content import of_cell, of_pack
from raysweep.tracking.mirror_runs import Runs
from raysweep.tracking.server import NotLetIn, Unreachable, check, connect, is_absent, is_server, reason

__all__ = ["Mirror", "NotLetIn", "Unreachable", "check", "forget", "is_absent", "settle"]

LONGEST_WAIT = 30.0
"""Seconds between two attempts while the sweep runs, at most."""
PATIENCE = 15.0
"""Seconds without a single success after which `finish` gives up."""
LAST_SECONDS = 5.0
"""Seconds that an interrupted sweep gives its mirror."""
ATTEMPTS = 4
"""After so many failures a cell is given up at the end, so that one that MLflow refuses holds up no other."""
KEEP_EVERY = 1.0
"""Seconds between two times that what is written so far is kept."""
FINISHED, KILLED = "FINISHED", "KILLED"

Keep = Callable[[dict[str, str], str | None, str | None], None]


@dataclass
class _Task:
    work: Callable[[Runs], None]
    run: str = ""
    mark: str = ""
    cells: int = 0
    failures: int = 0


class Mirror:
    """Writes one sweep to MLflow in the background; the same calls again write nothing twice.

    tracking_uri: as `check` accepts it. artifact_location: folder or URI of a new experiment's artifacts; a tracking
    server is asked for its own instead. space: the resolved space (`name`, `axes`, `fixed`, `workload` are used).
    sweep, sweep_id: its name, and the identity by which its runs are found again. folder: where it lies, with its logs.
    known: what was kept last, the mark of each run that is written, and with it the status of the sweep's own run.
    keep: told of both, and of the experiment's number, as they change, by the thread that writes: once in KEEP_EVERY
    seconds, and at the end.
    """

    def __init__(
        self,
        tracking_uri: str,
        artifact_location: str | Path | None,
        space: Mapping[str, Any],
        sweep: str,
        sweep_id: str,
        code_version: str,
        folder: str = "",
        known: Mapping[str, str] | None = None,
        status: str | None = None,
        keep: Keep = lambda written, status, experiment: None,
    ) -> None:
        self._uri = tracking_uri
        self._written, self._status = dict(known or {}), status
        self._keep, self._kept, self._news = keep, float("-inf"), False
        self._handed: dict[str, int] = {}
        self._axes = list(space.get("axes") or {})
        location = None if artifact_location is None or is_server(tracking_uri) else _location(artifact_location)
        self._open = partial(_open, tracking_uri, location, dict(space), sweep, sweep_id, code_version, folder)
        self._runs: Runs | None = None
        self._tasks: deque[_Task] = deque([_Task(lambda runs: None)])  # opens before the first cell comes
        self._given_up: list[_Task] = []
        self._error = ""
        self._changed = threading.Condition()
        self._end: partial[None] | None = None
        self._ending_since = float("inf")
        self._deadline = float("inf")
        self._ended = False
        self._over = threading.Event()  # not Thread.join: one that Ctrl-C cut short takes the thread for dead
        threading.Thread(target=self._run, name="raysweep-mirror", daemon=True).start()

    def cell(
        self,
        cell_id: str,
        params: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]],
        stage_ids: Sequence[str] | None,
        mark: str = "",
    ) -> None:
        """Hand over one complete cell: all its parameters, and one row per draw with seed, status, metrics, seconds.

        stage_ids: None where they cannot be told; a run of the same rows that is there keeps its own then. mark: what
        tells these rows from others of the same cell.
        """
        params, rows, stages = dict(params), list(rows), list(stage_ids or ())

        def work(runs: Runs) -> None:
            if stage_ids is None and cell_id in runs.children and mark and self._written.get(cell_id) == mark:
                return
            mirror_runs.write_cell(runs, cell_id, of_cell(cell_id, self._axes, params, rows, stages))

        self._hand_over(_Task(work, cell_id, mark, 1))

    def pack(
        self, pack_id: str, cells: Sequence[tuple[int, Mapping[str, Any], Sequence[Mapping[str, Any]]]], mark: str = ""
    ) -> None:
        """Hand over many complete cells as one run: (position in the plan, parameters, rows) each."""
        cells = list(cells)

        def work(runs: Runs) -> None:
            mirror_runs.write_cell(runs, pack_id, of_pack(pack_id, self._axes, cells))

        self._hand_over(_Task(work, pack_id, mark, len(cells)))

    def _hand_over(self, task: _Task) -> None:
        with self._changed:
            self._tasks.append(task)
            self._handed[task.run] = task.cells
            self._changed.notify()

    @property
    def pending(self) -> int:
        """Cells handed over and not seen to be in MLflow yet."""
        with self._changed:  # by run: the rows of a cell that was handed over may be replaced before it is written
            return sum({task.run: task.cells for task in (*self._tasks, *self._given_up)}.values())

    @property
    def missing(self) -> int:
        """Cells handed over that MLflow does not have, as far as is known: those that are pending, without the ones
        that an earlier driver wrote."""
        with self._changed:
            return sum(
                {
                    task.run: task.cells
                    for task in (*self._tasks, *self._given_up)
                    if not task.mark or self._written.get(task.run) != task.mark
                }.values()
            )

    @property
    def handed(self) -> int:
        """Cells handed over so far."""
        with self._changed:
            return sum(self._handed.values())

    def finish(
        self,
        status: Literal["FINISHED", "FAILED", "KILLED"],
        artifacts: Mapping[str, str | Path],
        summary: Mapping[str, Any],
    ) -> str | None:
        """Write what is left, the parent's artifacts, summary and status. Returns a warning if something is missing.

        artifacts: top-level name -> file or folder. KILLED means somebody is waiting: it takes ten seconds at most.
        """
        paths = {name: Path(path) for name, path in artifacts.items()}
        with self._changed:
            if self._end is None or status == "KILLED":  # somebody lost patience with an end that was under way
                self._end = partial(mirror_runs.close_parent, status=status, artifacts=paths, summary=dict(summary))
                self._ending_since = time.monotonic()
                self._deadline = self._ending_since + LAST_SECONDS if status == "KILLED" else float("inf")
            self._changed.notify()
        self._over.wait(2 * LAST_SECONDS if status == "KILLED" else None)
        return self.shortfall()

    def shortfall(self) -> str | None:
        """What MLflow does not have by now, in one line; None if nothing is missing."""
        missing = self.missing
        untouched = self._status == FINISHED and self._end is not None and self._end.keywords["status"] == KILLED
        if not missing and (self._ended or untouched):
            return None
        what = f"{counted(missing, 'cell')} not written" if missing else "the sweep's own run not completed"
        notes = [*([f"of {self.handed:,}"] if missing else []), *([self._error] if self._error else [])]
        return f"mirror incomplete: {what}" + (f" ({'; '.join(notes)})" if notes else "")

    def _run(self) -> None:
        try:
            self._write()
        finally:
            self._over.set()

    def _write(self) -> None:
        """The thread: one task after the other; one that fails goes to the back and everything waits a moment."""
        failures, success = 0, time.monotonic()
        while True:
            due = self._kept + KEEP_EVERY - time.monotonic()
            if self._news and due <= 0:
                self._tell()
            with self._changed:
                self._changed.wait_for(lambda: self._tasks or self._end, due if self._news else None)
                if not self._tasks and self._end:
                    break
                if not self._tasks:  # idle, with something that is not kept yet
                    continue
                if self._end and time.monotonic() > self._deadline:
                    break
                task = self._tasks[0]
            if self._attempt(task.work):
                failures, success = 0, time.monotonic()
                with self._changed:
                    self._tasks.popleft()
                    if task.mark:
                        self._written[task.run] = task.mark
                self._news = True
                continue
            failures, task.failures = failures + 1, task.failures + 1
            with self._changed:
                self._tasks.rotate(-1)
                ending = self._end is not None
                if ending and time.monotonic() - max(success, self._ending_since) > PATIENCE:
                    break
                if ending and self._runs is not None and task.failures >= ATTEMPTS:
                    self._tasks.remove(task)
                    self._given_up += [task] if task.cells else []
                    continue
                wait = min(0.25 * 2.0 ** min(failures, 10), 2.0 if ending else LONGEST_WAIT)
                if ending:
                    self._changed.wait(wait)
                else:  # long while the sweep runs, but not once its end is asked for
                    self._changed.wait_for(lambda: self._end is not None, wait)
        if self._news:  # whoever interrupts waits for this, and perhaps not for what follows
            self._tell()
        self._complete()

    def _complete(self) -> None:
        """The parent's end, tried again for as long as `finish` has patience (once, where a deadline has passed)."""
        started = time.monotonic()
        for attempt in range(10):
            if self._attempt(self._settle_and_end):
                self._ended = True
                self._tell()
                return
            if time.monotonic() + 0.5 * 2**attempt > min(started + PATIENCE, self._deadline):
                return
            time.sleep(0.5 * 2**attempt)

    def _settle_and_end(self, runs: Runs) -> None:
        if self._error or is_server(self._uri):  # where an answer was lost, a run may be there half, or twice
            mirror_runs.settle_children(runs)
        assert self._end is not None
        self._end(runs, missing=self.missing)
        self._status = self._end.keywords["status"]

    def _tell(self) -> None:
        """Have it kept what is written."""
        self._kept, self._news = time.monotonic(), False
        with self._changed:
            written = dict(self._written)
        self._keep(written, self._status, self._runs.experiment_id if self._runs else None)

    def _attempt(self, work: Callable[[Runs], None]) -> bool:
        try:
            if self._runs is None:
                self._runs = runs = self._open()
                with self._changed:  # whoever opens a sweep's run makes it RUNNING; runs that are gone are not known
                    self._status = None
                    self._written = {run: mark for run, mark in self._written.items() if run in runs.children}
            work(self._runs)
        except Exception as error:  # whatever MLflow, its database or its server come up with must not stop a sweep
            self._error = reason(error)
            return False
        return True


def settle(tracking_uri: str, space_name: str, sweep_id: str, status: str = "KILLED") -> bool:
    """Give the parent run of a sweep whose driver died its status, and drop the half of a child it was writing; False
    if it was not left RUNNING.

    Raises Unreachable, as `check` does, or if it is lost on the way.
    """
    with _reaching(tracking_uri):
        found = _find(tracking_uri, space_name)
        if found is None:
            return False
        client, experiment_id = found
        running = [run for run in mirror_runs.parents(client, experiment_id, sweep_id) if run.info.status == "RUNNING"]
        for run in running:
            mirror_runs.drop_halves(client, experiment_id, run.info.run_id)
            client.set_terminated(run.info.run_id, status)
        return bool(running)


def forget(tracking_uri: str, space_name: str, sweep_id: str) -> None:
    """Delete a sweep's parent and children from MLflow (as MLflow deletes: `mlflow gc` purges). Raises Unreachable."""
    with _reaching(tracking_uri):
        found = _find(tracking_uri, space_name)
        if found is not None:
            mirror_runs.delete_sweep(found[0], found[1], sweep_id)


@contextlib.contextmanager
def _reaching(tracking_uri: str) -> Iterator[None]:
    """What MLflow, its database or its server come up with, as one line without credentials."""
    try:
        yield
    except Unreachable:
        raise
    except Exception as error:
        raise Unreachable(f"cannot use {tracking_uri}: {reason(error)}") from None


def _find(tracking_uri: str, space_name: str) -> tuple[Any, str] | None:
    check(tracking_uri)
    if is_absent(tracking_uri):
        return None
    client = connect(tracking_uri)
    experiment = client.get_experiment_by_name(space_name)
    return None if experiment is None else (client, experiment.experiment_id)


def _open(
    tracking_uri: str,
    location: str | None,
    space: dict[str, Any],
    sweep: str,
    sweep_id: str,
    code_version: str,
    folder: str,
) -> Runs:
    return mirror_runs.open_runs(connect(tracking_uri), location, space, sweep, sweep_id, code_version, folder)


def _location(where: str | Path) -> str:
    return str(where) if "://" in str(where) else Path(where).absolute().as_uri()
