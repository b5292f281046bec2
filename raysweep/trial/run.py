"""Runs one trial: it computes a pack of rows, or puts a pack of stages into the store, and says how it ended.

The rows of a plain function are computed one by one, until that has taken long enough, and in a child process where a
row may kill its process. A stage that cannot be computed is tried once more and is then an error of every row that
needs it. The driver tells the trials after it, which do not try it again.
"""

from __future__ import annotations

import functools
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from raysweep.errors import RaysweepError
from raysweep.ledger.segments import Row
from raysweep.phrases import counted
from raysweep.plan.pack import Pack
from raysweep.plan.row_stages import RowStages
from raysweep.storage import leases
from raysweep.training import devices
from raysweep.trial import child_process, log, short_memory, threads
from raysweep.trial.chain import Errors, Walk
from raysweep.trial.pack import (
    Failed,
    Job,
    compute_rows,
    died,
    errors_of_rows,
    failed_row,
    lost,
    lost_rows,
    outcomes,
    publish,
)

LONG_ENOUGH = 20.0
"""Seconds after which a pack begins no further part, so that a kill loses no more than these and one part."""


@dataclass(frozen=True)
class Ended:
    """How a trial ended. Without any of these, its rows are in the ledger, or its stages in the store.

    held: a stage that it needs and that somebody else computes. The trial is to be run again once nobody does; what it
        has put into the store stays there.
    failed: stages of its pack that cannot be computed, each with its error.
    seconds: how long the trial took.
    """

    held: str = ""
    failed: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0


By = Callable[[Job, Pack, np.ndarray, np.ndarray], list[Row]]
"""Computes some rows of a pack, or puts its stages into the store for these rows (and returns none)."""


def run_pack(job: Job, pack: Pack, capture: bool = False, by: By | None = None, apart: bool = False) -> Ended:
    """Compute a pack: publish its rows as one segment of the ledger, or put its stages into the store. If the rows take
    too long, the segment has only the first of them. A trial never waits for a stage that somebody else computes: it
    ends and says so. Raises Halted if the rows cannot be written.

    capture: whether stdout and stderr go to the trial's log.
    by: computes instead of this process, for example with a gang.
    apart: whether a child process computes, with one thread, because rows may kill it.
    """
    started = time.perf_counter()
    if is_done(job, pack):
        return Ended()
    needed = [stage for stage in pack.needed if stage not in job.failed]
    if needed and (held := job.open_store().held_elsewhere(needed)):
        return Ended(held)
    failed: dict[str, str] = {}
    apart = apart and by is None and child_process.possible()
    compute = by or functools.partial(compute_parts, apart=apart)
    try:
        with (
            threads.limited(1 if apart else job.cpus),
            devices.granted(job.gpus),
            log.recorded(job.log(pack.id), pack.id, content(pack), capture),
        ):
            if pack.stages:
                failed = _compute_stages(job, pack, compute)
            else:
                publish(job, pack.id, _compute_pack(job, pack, compute))
    except leases.Held as other:
        return Ended(other.stage)
    return Ended(failed=failed, seconds=time.perf_counter() - started)


def content(pack: Pack) -> str:
    return counted(len(pack.stages), "stage") if pack.stages else counted(len(pack), "row")


def is_done(job: Job, pack: Pack) -> bool:
    """Whether the rows of a pack are in the ledger, or its stages in the store."""
    if not pack.stages:
        return bool(job.segment(pack.id).exists())
    store = job.open_store()
    return all(store.look(stage) is not None for stage in pack.stages)


def _compute_pack(job: Job, pack: Pack, by: By) -> list[Row]:
    """The rows of a pack, or the first of them. Those that need a stage which failed before have its error."""
    errors = _earlier_errors(job, pack)
    left = np.asarray([not error for error in errors])
    computed = iter(by(job, pack, pack.cells[left], pack.seeds[left]) if left.any() else [])
    rows: list[Row] = []
    for cell, seed, error in zip(pack.cells, pack.seeds, errors, strict=True):
        row = failed_row(job, cell, seed, error) if error else next(computed, None)
        if row is None:
            break
        rows.append(row)
    return rows


def _compute_stages(job: Job, pack: Pack, by: By) -> dict[str, str]:
    """Put the stages of a pack into the store. Returns those that cannot be computed, each with its error."""

    def put(job: Job, cells: np.ndarray, seeds: np.ndarray) -> list[Failed]:
        by(job, pack, cells, seeds)
        return [Failed("")] * len(seeds)

    errors = np.asarray(_earlier_errors(job, pack), dtype=object)
    if (left := errors == "").any():
        ended = outcomes(replace(job, errors={}), pack.cells[left], pack.seeds[left], put, "stage")
        errors[left] = [one.error for one in ended]
    failed: dict[str, str] = {}
    for error in dict.fromkeys(errors[errors != ""]):
        failed |= dict.fromkeys(_lacking(job, pack, pack.cells[errors == error], pack.seeds[errors == error]), error)
    return failed


def _earlier_errors(job: Job, pack: Pack) -> list[str]:
    """For each row of a pack, the error of a stage that it needs and that failed before, or ""."""
    if not job.failed:
        return [""] * len(pack.seeds)
    needed = set(pack.needed)
    return errors_of_rows(job, pack.cells, pack.seeds, job.failed, lambda stage: stage not in needed)


def _lacking(job: Job, pack: Pack, cells: np.ndarray, seeds: np.ndarray) -> list[str]:
    stages, store = RowStages(job.declaration(), job.columns, job.keep), job.open_store()
    rows = zip(cells.tolist(), seeds.tolist(), strict=True)
    needed = dict.fromkeys(stage.id for row in rows for stage in stages.of_row(*row) if stage.id in pack.stages)
    return [stage for stage in needed if store.look(stage) is None]


def lost_stages(job: Job, pack: Pack, times: int) -> dict[str, str]:
    """The stages of a pack whose worker died every time, with the error of the rows that need them."""
    reason = lost("a stage of this row", died(times))
    return dict.fromkeys(_lacking(job, pack, pack.cells, pack.seeds), reason)


def compute_parts(job: Job, pack: Pack, cells: np.ndarray, seeds: np.ndarray, apart: bool = False) -> list[Row]:
    """Compute rows of a pack, or put its stages into the store. If there are many parts, only the first rows.

    apart: whether a child process computes. If it dies, the part that it was at is tried again, in halves if it has
        several rows. A row that kills two of them has failed, and the others go on in a new one.
    """
    if pack.stages:
        (_put_stages_apart if apart else compute_directly)(job, pack, cells, seeds)
        return []
    one_by_one = job.function is not None and not job.function.vectorized
    left = deque(np.array_split(np.arange(len(seeds)), len(seeds) if one_by_one else 1))
    rows: list[Row] = []
    suspect: np.ndarray | None = None
    started = time.monotonic()

    def over() -> bool:
        return bool(rows) and time.monotonic() - started > LONG_ENOUGH

    while left and not over():
        work = (compute_rows(job, cells[part], seeds[part]) for part in tuple(left))
        try:
            for computed in child_process.results(work) if apart else work:
                rows += computed
                left.popleft()
                if over():
                    break
        except child_process.Died as death:
            part = left.popleft()
            log.LOGGER.error("the process computing %s %s", counted(len(part), "row"), death)
            if len(part) > 1:
                left.extendleft(reversed(np.array_split(part, 2)))
            elif suspect is not part:
                suspect = part
                left.appendleft(part)
            else:
                rows += lost_rows(job, cells[part], seeds[part], str(death))
    return rows


def compute_directly(job: Job, pack: Pack, cells: np.ndarray, seeds: np.ndarray) -> list[Row]:
    if not pack.stages:
        return compute_rows(job, cells, seeds)
    put_stages(job, pack.stages, cells, seeds)
    return []


def put_stages(
    job: Job,
    stages: Collection[str],
    cells: np.ndarray,
    seeds: np.ndarray,
    view: Callable[[Any], Any] = lambda store: store,
    workers: int = 1,
) -> None:
    """Put those of these stages that some rows need into the store. Errors of the workload are not caught. view: as in
    `attempt`. workers: how many compute each stage together."""
    columns, store = {name: values[cells] for name, values in job.columns.items()}, job.open_store()
    store.provenance["trial"] = {"cpus": job.cpus * workers, "gpus": job.gpus * workers}  # no row has its time
    with short_memory.less(job.halvings):
        Walk(job.declaration(), columns, seeds, view(store), job.keep, errors=job.errors, only=stages).through()


def _put_stages_apart(job: Job, pack: Pack, cells: np.ndarray, seeds: np.ndarray) -> None:
    """The same in a child process, whose errors are raised here."""

    def work() -> Iterator[tuple[str, Errors]]:
        try:
            put_stages(job, pack.stages, cells, seeds)
        except (RaysweepError, leases.Held):
            raise
        except Exception:
            yield traceback.format_exc(), job.errors

    try:
        for problem, errors in child_process.results(work()):
            job.errors.update(errors)
            raise child_process.Raised(problem)
    except child_process.Died as death:
        raise child_process.Died(lost("a stage of this row", str(death))) from None
