"""One sweep driven to its end: what is missing in the ledger is computed, mirrored and counted.

Start, resume, extension and retry are one thing here: the plan says which rows there should be, the ledger which there
are, and the difference is cut into packs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from raysweep import plan, trial, workloads
from raysweep.errors import InputError
from raysweep.identity import code_version
from raysweep.plan import Cells, Pack, Packing
from raysweep.progress import Progress, duration
from raysweep.records import ledger, sweep_record
from raysweep.search.grid import Grid
from raysweep.space import Space
from raysweep.workloads.declaration import FAILED, Workload

EXECUTORS = ("ray", "inline")
ON_CODE_CHANGE = ("reuse", "recompute", "refuse")
INLINE_UP_TO = 20.0  # estimated seconds of one core below which starting Ray (about 15 s) does not pay
PACK_FLOOR = {"ray": 2.0, "inline": 0.5}  # seconds; a new trial costs Ray 0.1 to 2 s, this process nothing


@dataclass(frozen=True)
class Options:
    """How to run, as the user said it; None leaves the choice to us."""

    executor: str | None = None
    workers: int | None = None
    on_code_change: str = "reuse"
    retry_failed: bool = False


@dataclass
class Work:
    """What is to be done: pending rows as {seed: cell indices}, what the ledger has, and what is to be said first."""

    pending: dict[int, np.ndarray]
    contents: ledger.Contents
    attempt: int
    seconds: float
    peak_bytes: float
    notes: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many rows are to be computed."""
        return sum(len(indices) for indices in self.pending.values())


def missing(space: Space, cells: Cells, folder: Path, options: Options) -> Work:
    """The rows that the plan has and the ledger has not (or has from code that is to be replaced)."""
    workload = workloads.get(space.workload)
    contents = ledger.read(folder / sweep_record.LEDGER) if folder.is_dir() else ledger.Contents()
    notes = [f"{path.name} is damaged; its rows are computed again" for path in contents.damaged]
    current = code_version(workload)
    planned = {(cell, seed) for cell in cells.ids for seed in space.seeds} if contents.rows else set()
    older = {key for key, row in contents.rows.items() if key in planned and row["code_version"] != current}
    if older:
        said = f"the code of {workload.name} changed since {len(older):,} rows were computed"
        if options.on_code_change == "refuse":
            raise InputError("--on-code-change", f"{said}; reuse keeps them, recompute replaces them")
        notes.append(f"{said}, its identity_version did not: "
                     + ("computing them again" if options.on_code_change == "recompute" else "reusing them "
                        "(--on-code-change recompute replaces them)"))
    redo = older if options.on_code_change == "recompute" else set()
    if options.retry_failed:
        redo |= {key for key, row in contents.rows.items() if key in planned and row["status"] == FAILED}
    done = contents.rows.keys() - redo
    pending = {seed: np.asarray([i for i, cell in enumerate(cells.ids) if (cell, seed) not in done], dtype=np.int64)
               for seed in space.seeds}
    pending = {seed: indices for seed, indices in pending.items() if len(indices)}
    attempt = 1 + max((contents.rows[key]["attempt"] for key in redo), default=0)
    seconds, peak = plan.estimate(workload, cells, pending)
    return Work(pending, contents, attempt, seconds, peak, notes)


def choose_executor(options: Options, work: Work, space: Space) -> str:
    """Ray, unless the work is so small that it is done here before Ray would have started."""
    if options.executor:
        return options.executor
    small = work.seconds <= INLINE_UP_TO and not space.resources["gpus_per_trial"] and not options.workers
    return "inline" if small else "ray"


def local_workers(space: Space) -> int:
    """How many trials this machine can run at a time, as far as one can tell without asking Ray."""
    return max(1, (os.cpu_count() or 1) // space.resources["cpus_per_trial"])


def packing(executor: str, workers: int) -> Packing:
    """How to cut packs: for this executor, this many workers, and the memory of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Packing(workers=workers, floor=PACK_FLOOR[executor], memory=memory / 2 / workers)


class Books:
    """What the driver knows while packs come in: all rows, and which cells are complete."""

    def __init__(self, cells: Cells, seeds: list[int], contents: ledger.Contents) -> None:
        wanted = set(seeds)
        self.rows = contents.rows
        self._seeds, self._position = seeds, {cell: i for i, cell in enumerate(cells.ids)}
        self._have = Counter(cell for cell, seed in self.rows if seed in wanted and cell in self._position)

    def complete(self) -> Iterator[int]:
        """Cells whose every draw is in the ledger, in plan order."""
        return (i for cell, i in self._position.items() if self._have[cell] == len(self._seeds))

    def add(self, rows: list[ledger.Row]) -> list[int]:
        """Enter rows; returns the cells that are complete and that these rows touched."""
        touched = {}
        for row in rows:
            key = (row["cell"], row["seed"])
            known = self.rows.get(key)
            if known is None:
                self._have[row["cell"]] += 1
            if known is None or row["attempt"] > known["attempt"]:
                self.rows[key] = row
                touched[row["cell"]] = True
        return [self._position[cell] for cell in touched if self._have[cell] == len(self._seeds)]

    def of_cell(self, cell: str) -> list[ledger.Row]:
        """All draws of a cell, by seed."""
        return [self.rows[(cell, seed)] for seed in self._seeds]

    def statuses(self) -> Counter[str]:
        """How many planned rows ended how."""
        wanted = set(self._seeds)
        return Counter(row["status"] for (cell, seed), row in self.rows.items()
                       if seed in wanted and cell in self._position)


def compute(space: Space, cells: Cells, work: Work, folder: Path, options: Options, books: Books,
            on_complete: Callable[[int], None], say: Callable[[str], None]) -> None:
    """Compute what is missing; `on_complete` is told of every cell whose last draw arrived."""
    workload = workloads.get(space.workload)
    for path in work.contents.damaged:
        ledger.set_aside(path)
    executor = choose_executor(options, work, space)
    workers = 1
    if executor == "ray":
        from raysweep.executors import ray_tune

        say("starting Ray")
        workers = ray_tune.connect(options.workers, space.resources)
    packs = plan.make_packs(workload, cells, work.pending, packing(executor, workers))
    job = _job(workload, space, cells, folder, work.attempt)
    say(where(executor, workers, len(packs), work, options))
    with Progress(work.rows, work.seconds) as progress:
        def on_segment(pack: Pack, path: Path) -> None:
            for cell in books.add(ledger.read_segment(path)):
                on_complete(cell)
            progress.advance(len(pack), pack.seconds)

        if executor == "ray":
            ray_tune.run(Grid(packs), job, on_segment, workers=workers, resources=space.resources,
                         scratch=folder / "tune")
        else:
            from raysweep.executors import inline

            inline.run(Grid(packs), job, on_segment)


def where(executor: str, workers: int, packs: int, work: Work, options: Options) -> str:
    """One line: how many rows, where they are computed, how long that should take."""
    size = f"{work.rows:,} rows in {packs:,} pack{'s' if packs != 1 else ''}"
    if executor == "inline":
        hint = "" if options.executor else "; --executor ray for Ray Tune"
        return f"{size}, in this process, estimated {duration(work.seconds)}{hint}"
    busy = min(workers, packs)
    return f"{size}, Ray Tune with {workers} worker{'s' if workers != 1 else ''}, estimated " \
           f"{duration(work.seconds / max(busy, 1))}"


def _job(workload: Workload, space: Space, cells: Cells, folder: Path, attempt: int) -> trial.Job:
    return trial.Job(workload.name, cells.columns, cells.ids, str((folder / sweep_record.LEDGER).resolve()), attempt,
                     code_version(workload), space.resources["cpus_per_trial"])


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Let SIGTERM stop the sweep as Ctrl-C does: what is done is kept, and the record is closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def to_stderr(line: str) -> None:
    """Where the driver speaks: stderr, so that stdout holds results only."""
    print(line, file=sys.stderr, flush=True)
