"""Writes a sweep to MLflow in the background.

The ledger holds the data. MLflow can be written again from it (`raysweep sync`), with the same result. So no failure of
MLflow stops a sweep: the write is tried again, and what still fails at the end becomes one line of warning.

The writer is one thread of the driver. Only this thread creates the database, the experiment and the runs: one per
cell, or one per pack of cells if there are too many cells. It imports MLflow only for a server (two seconds).
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from raysweep.ledger.segments import Row
from raysweep.phrases import counted
from raysweep.storage.signs import Mirrored
from raysweep.tracking.cell_run import Cell, Content, of_cell, of_pack
from raysweep.tracking.runs import Runs, SweepRun
from raysweep.tracking.server import is_server, reason

LONGEST_WAIT = 30.0
"""The most seconds between two attempts while the sweep runs."""
PATIENCE = 15.0
"""Seconds without a success after which `finish` gives up."""
LAST_SECONDS = 5.0
"""Seconds that an interrupted sweep still has to write to MLflow."""
ATTEMPTS = 4
"""Failures after which `finish` gives up a cell, so that a cell that MLflow refuses does not block the others."""
HEAD_START = 10.0
"""Seconds that the rows have to themselves, since importing MLflow takes two seconds of a processor. A sweep that ends
sooner is written at its end."""
KEEP_EVERY = 1.0
"""Seconds between two calls of `keep`."""

Status = Literal["FINISHED", "FAILED", "KILLED"]


@dataclass
class _Task:
    """content: what a run is to have; None if it has it already."""

    content: Callable[[Runs], Content | None]
    run: str = ""
    mark: str = ""
    cells: int = 0
    failures: int = 0


@dataclass(frozen=True)
class _End:
    """How the sweep's own run is to end, since when, and until when it may take (as time.monotonic)."""

    status: Status
    artifacts: Mapping[str, Path]
    summary: Mapping[str, Any]
    since: float
    deadline: float


class Mirror:
    """Logs one sweep to MLflow in the background. Repeating the same calls writes nothing twice.

    tracking_uri: an address that `server.check` accepts.
    sweep: what the parent run says of the sweep.
    previous: what `keep` was given last, by this driver or an earlier one; None if there was none.
    keep: called by the writing thread with what MLflow has, at most every KEEP_EVERY seconds and at the end.
    head_start: seconds after which writing begins, or at the end of the sweep if that is sooner.
    """

    def __init__(
        self,
        tracking_uri: str,
        sweep: SweepRun,
        previous: Mirrored | None = None,
        keep: Callable[[Mirrored], None] = lambda mirrored: None,
        head_start: float = 0.0,
    ) -> None:
        self._head_start = head_start
        self._uri, self._sweep = tracking_uri, sweep
        self._previous = previous or Mirrored(sweep.sweep_id, tracking_uri)
        self._written, self._status = dict(self._previous.runs), self._previous.status
        self._keep, self._kept, self._news = keep, float("-inf"), False
        self._handed: dict[str, int] = {}
        self._axes = list(sweep.space.get("axes") or {})
        self._runs: Runs | None = None
        self._tasks: deque[_Task] = deque([_Task(lambda runs: None)])  # connects before the first cell comes
        self._given_up: list[_Task] = []
        self._error = ""
        self._changed = threading.Condition()
        self._end: _End | None = None
        self._ended = False
        self._over = threading.Event()  # not Thread.join: after Ctrl-C interrupts it, it reports the thread as dead
        threading.Thread(target=self._run, name="raysweep-mirror", daemon=True).start()

    def cell(
        self,
        cell_id: str,
        params: Mapping[str, Any],
        rows: Sequence[Row],
        stage_ids: Sequence[str] | None,
        mark: str = "",
    ) -> None:
        """Hand over one complete cell, with all its parameters.

        rows: one per draw, with seed, status, metrics, seconds and the learning curves of all stages.
        stage_ids: the ids of the cell's stages; None if they cannot be determined. A run of the same rows that is
            already in MLflow keeps its ids then.
        mark: a text that identifies these rows among others of the same cell.
        """

        def content(runs: Runs) -> Content | None:
            if stage_ids is None and cell_id in runs.children and mark and self._written.get(cell_id) == mark:
                return None
            return of_cell(cell_id, self._axes, params, rows, stage_ids or ())

        self._hand_over(_Task(content, cell_id, mark, 1))

    def pack(self, pack_id: str, cells: Sequence[Cell], mark: str = "") -> None:
        """Hand over many complete cells as one run. mark: as in `cell`."""
        self._hand_over(_Task(lambda runs: of_pack(pack_id, self._axes, cells), pack_id, mark, len(cells)))

    def _hand_over(self, task: _Task) -> None:
        with self._changed:
            self._tasks.append(task)
            self._handed[task.run] = task.cells
            self._changed.notify()

    @property
    def pending(self) -> int:
        """How many cells were handed over and are not yet confirmed to be in MLflow."""
        return self._waiting(lambda task: True)

    @property
    def missing(self) -> int:
        """How many pending cells MLflow lacks, as far as is known: cells that an earlier driver wrote do not count."""
        return self._waiting(lambda task: not task.mark or self._written.get(task.run) != task.mark)

    def _waiting(self, counts: Callable[[_Task], bool]) -> int:
        with self._changed:  # by run: a cell may be handed over again, with other rows, before it is written
            waiting = filter(counts, (*self._tasks, *self._given_up))
            return sum({task.run: task.cells for task in waiting}.values())

    @property
    def handed(self) -> int:
        with self._changed:
            return sum(self._handed.values())

    def finish(self, status: Status, artifacts: Mapping[str, str | Path], summary: Mapping[str, Any]) -> str | None:
        """Write the remaining cells and the parent run's artifacts, summary and status. Returns a warning if something
        is missing, else None.

        status: KILLED means that somebody is waiting; it takes ten seconds at most then.
        artifacts: maps top-level names to files or folders.
        summary: numbers and texts for the parent run.
        """
        killed = status == "KILLED"
        with self._changed:
            if self._end is None or killed:  # KILLED replaces a slower end that is under way
                now = time.monotonic()
                paths = {name: Path(path) for name, path in artifacts.items()}
                self._end = _End(status, paths, dict(summary), now, now + LAST_SECONDS if killed else float("inf"))
            self._changed.notify()
        self._over.wait(2 * LAST_SECONDS if killed else None)
        return self.shortfall()

    def shortfall(self) -> str | None:
        missing = self.missing
        untouched = self._status == "FINISHED" and self._end is not None and self._end.status == "KILLED"
        if not missing and (self._ended or untouched):
            return None
        what = f"{counted(missing, 'cell')} not written" if missing else "the sweep's own run not completed"
        notes = [*([f"of {self.handed:,}"] if missing else []), *([self._error] if self._error else [])]
        return f"mirror incomplete: {what}" + (f" ({'; '.join(notes)})" if notes else "")

    def _run(self) -> None:
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._end, self._head_start)
            self._write()
        finally:
            self._over.set()

    def _write(self) -> None:
        """One step after another. If one of several tasks fails, they go one by one; one that fails goes to the
        back."""
        failures, success, alone, away = 0, time.monotonic(), 0, False
        while not away and (tasks := self._next(1 if alone or self._runs is None else self._runs.together)):
            if self._attempt(functools.partial(_write, tasks)):
                failures, success, alone = 0, time.monotonic(), max(0, alone - 1)
                with self._changed:
                    for task in tasks:
                        self._tasks.popleft()
                        if task.mark:
                            self._written[task.run] = task.mark
                self._news = True
            elif len(tasks) > 1:
                alone = len(tasks)
            else:
                failures, tasks[0].failures = failures + 1, tasks[0].failures + 1
                away = not self._put_off(tasks[0], failures, success)
        if self._news:  # an interrupted driver waits for this, but perhaps not for the next step
            self._tell()
        if not away:
            self._complete()

    def _next(self, most: int) -> list[_Task]:
        """Wait for tasks and return the next ones; none if the end was asked for and no task or no time is left."""
        while True:
            due = self._kept + KEEP_EVERY - time.monotonic()
            if self._news and due <= 0:
                self._tell()
            with self._changed:
                self._changed.wait_for(lambda: self._tasks or self._end, due if self._news else None)
                if self._end and (not self._tasks or time.monotonic() > self._end.deadline):
                    return []
                if self._tasks:
                    return list(itertools.islice(self._tasks, most))

    def _put_off(self, task: _Task, failures: int, success: float) -> bool:
        """Put a failed task to the back and pause; after the end was asked for, give it up after ATTEMPTS failures.
        Returns False if `finish` has waited PATIENCE seconds since the last success."""
        with self._changed:
            self._tasks.rotate(-1)
            wait = 0.25 * 2.0 ** min(failures, 10)
            if self._end is None:  # asking for the end interrupts this wait, which may be long
                self._changed.wait_for(lambda: self._end is not None, min(wait, LONGEST_WAIT))
                return True
            if time.monotonic() - max(success, self._end.since) > PATIENCE:
                return False
            if self._runs is not None and task.failures >= ATTEMPTS:
                self._tasks.remove(task)
                self._given_up += [task] if task.cells else []
            else:
                self._changed.wait(min(wait, 2.0))
            return True

    def _complete(self) -> None:
        """End the parent run. Tries again for PATIENCE seconds, or until the deadline, but at least once."""
        started = time.monotonic()
        for attempt in range(10):
            if self._attempt(self._settle_and_end):
                self._ended = True
                self._tell()
                return
            deadline = self._end.deadline if self._end else float("inf")
            if time.monotonic() + 0.5 * 2**attempt > min(started + PATIENCE, deadline):
                return
            time.sleep(0.5 * 2**attempt)

    def _settle_and_end(self, runs: Runs) -> None:
        if self._error or is_server(self._uri):  # after a lost answer, a run may be there in part, or twice
            runs.settle()
        end = self._end
        assert end is not None
        runs.close(end.status, end.artifacts, end.summary, self.missing)
        self._status = end.status

    def _tell(self) -> None:
        self._kept, self._news = time.monotonic(), False
        with self._changed:
            written = dict(self._written)
        experiment = self._runs.experiment_id if self._runs else None
        self._keep(replace(self._previous, runs=written, status=self._status, experiment=experiment))

    def _attempt(self, work: Callable[[Runs], None]) -> bool:
        try:
            if self._runs is None:
                self._runs = runs = Runs(self._uri, self._sweep)
                with self._changed:  # opening the sweep's run makes it RUNNING; forget runs that are gone
                    self._status = None
                    self._written = {run: mark for run, mark in self._written.items() if run in runs.children}
            work(self._runs)
        except Exception as error:  # no error of MLflow, its database or its server may stop a sweep
            self._error = reason(error)
            return False
        return True


def _write(tasks: Sequence[_Task], runs: Runs) -> None:
    contents = {task.run: task.content(runs) for task in tasks}
    runs.write({run: content for run, content in contents.items() if content})
