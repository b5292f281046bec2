"""Computes a pack part by part: the rows of a plain function one by one, until that has taken long enough; and in child
processes where a row may kill its process."""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from raysweep.errors import RaysweepError
from raysweep.ledger.segments import Row
from raysweep.phrases import counted
from raysweep.plan.pack import Pack
from raysweep.storage import leases
from raysweep.trial import chain, child_process, log, short_memory
from raysweep.trial.chain import Errors
from raysweep.trial.pack import Job, compute_rows, lost, lost_rows

LONG_ENOUGH = 20.0
"""Seconds after which a pack begins no further part, so that a kill loses no more than these and one part."""


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
        chain.reach(job.declaration(), columns, seeds, view(store), job.keep, stages, job.errors)


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
