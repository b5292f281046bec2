"""Computes a pack of rows inside one trial, and publishes it as one segment of the ledger.

Needs only numpy and the workload, neither Ray nor MLflow. If a pack fails, because memory is short or because one row
cannot be computed, it is halved until the failing row is alone. That row is tried once more and then recorded as failed
with its traceback. The other rows are kept.
"""

from __future__ import annotations

import gc
import re
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep import workloads
from raysweep.errors import Halted, RaysweepError
from raysweep.ledger import segments
from raysweep.ledger.segments import Row
from raysweep.phrases import counted
from raysweep.redaction import redact
from raysweep.storage import paths
from raysweep.storage.paths import AnyPath
from raysweep.training import devices
from raysweep.trial import log, threads
from raysweep.trial.compute import compute
from raysweep.workloads.declaration import FAILED, Columns, Workload

_OUT_OF_MEMORY = re.compile("MemoryError|out of memory|allocate memory|ALLOC_FAILED", re.IGNORECASE)
"""Matches tracebacks of short memory, as Python, NumPy, torch, CUDA's libraries or a gang write them."""


@dataclass(frozen=True)
class Job:
    """What all trials of one sweep share.

    workload: the name of the workload.
    columns, cell_ids: the table of cells; packs hold positions in it.
    ledger, logs: the folders for segments and logs.
    store: the address of the stage store.
    sweep: the name under which the sweep refers to its stages.
    attempt: the number of this attempt at the rows, from 1.
    code_version: the version of the workload's code.
    cpus, gpus: cores and GPUs of a trial that this process may use.
    keep: the stages that the space keeps in addition to those that always are.
    """

    workload: str
    columns: Columns
    cell_ids: list[str]
    ledger: str
    logs: str
    store: str
    sweep: str
    attempt: int
    code_version: str
    cpus: int
    gpus: int = 0
    keep: tuple[str, ...] = ()

    def declaration(self) -> Workload:
        """The declaration of the workload."""
        return workloads.get(self.workload)

    def segment(self, pack: str) -> AnyPath:
        """The path of the segment with the rows of a pack."""
        return segments.segment_path(paths.locate(self.ledger), pack, self.attempt)

    def log(self, pack: str, worker: int | None = None) -> AnyPath:
        """The path of the log of a pack's trial, or of one worker of its gang."""
        suffix = "" if worker is None else f".worker{worker}"
        return paths.locate(self.logs) / f"{pack}-{self.attempt}.log{suffix}"


class WorkerLost(Exception):
    """A process that computed a part of this trial died. Its rows may not be the cause."""


def run_pack(
    job: Job,
    pack: str,
    cells: np.ndarray,
    seeds: np.ndarray,
    capture: bool = False,
    by: Callable[[Job, str, np.ndarray, np.ndarray], list[Row]] | None = None,
) -> AnyPath:
    """Compute the rows (cells[i], seeds[i]) and publish them. Returns the path of their segment.

    job: what all trials of the sweep share.
    pack: the id of the pack.
    cells: positions in the job's table of cells.
    seeds: one seed for each row.
    capture: whether stdout and stderr go to the trial's log.
    by: computes the rows instead of this process, for example with a gang.

    Raises Halted if the rows cannot be written.
    """
    path = job.segment(pack)
    if not path.exists():
        with (
            threads.limited(job.cpus),
            devices.granted(job.gpus),
            log.recorded(job.log(pack), pack, len(seeds), capture),
        ):
            publish(job, pack, by(job, pack, cells, seeds) if by else compute_rows(job, cells, seeds))
    return path


def publish(job: Job, pack: str, rows: list[Row]) -> None:
    """Write rows to the ledger. Adds to each row its pack (which names its log), the host, and when it was finished
    (seconds of the epoch). Raises Halted if the ledger cannot be written."""
    host, now = socket.gethostname(), round(time.time(), 3)
    try:
        segments.write_segment(
            job.segment(pack), [{**row, "pack": pack, "host": host, "finished": now} for row in rows]
        )
    except OSError as error:
        raise Halted(job.ledger, f"the ledger cannot be written ({error.strerror})") from None


def attempt(job: Job, cells: np.ndarray, seeds: np.ndarray, view: Callable[[Any], Any] | None = None) -> list[Row]:
    """Compute rows together. Errors of the workload are not caught. view: as in `compute`."""
    started = time.perf_counter()
    columns = {name: values[cells] for name, values in job.columns.items()}
    found = compute(job.declaration(), columns, seeds, job.store, job.sweep, view, job.keep)
    seconds = (time.perf_counter() - started) / len(seeds)
    lists = {name: values.tolist() for name, values in found.metrics.items()}
    rows = []
    for i, (cell, seed) in enumerate(zip(cells, seeds, strict=True)):
        row = _row(job, int(cell), int(seed), str(found.status[i]), seconds, {name: v[i] for name, v in lists.items()})
        if found.stages[i]:
            row["stages"] = found.stages[i]
        if found.curves[i]:
            row["curves"] = found.curves[i]
        rows.append(row)
    if found.shared_curves:
        rows[0]["shared_curves"] = found.shared_curves
    return rows


def compute_rows(
    job: Job,
    cells: np.ndarray,
    seeds: np.ndarray,
    attempt: Callable[[Job, np.ndarray, np.ndarray], list[Row]] = attempt,
    is_half: bool = False,
) -> list[Row]:
    """Compute all rows together; if that fails, compute each half by itself, down to single rows.

    A single row that fails twice is recorded as failed.

    job, cells, seeds: as in `run_pack`.
    attempt: computes rows together and raises any error.
    is_half: whether the rows are a part of a pack that failed before.
    """
    # the log has the whole traceback if all rows fail together or a single row fails. For the halves between, it says
    # only if memory was short: each line waits for the thread that logs to MLflow, and there may be thousands
    brief = is_half and len(seeds) > 1
    for _ in range(2 if len(seeds) == 1 else 1):
        started = time.perf_counter()
        try:
            return attempt(job, cells, seeds)
        except (RaysweepError, WorkerLost):  # not caused by the rows: a full disk, a missing text, a lost process
            raise
        except Exception:  # errors of a workload are recorded with its rows and do not end the sweep
            found = traceback.format_exc(limit=0 if brief else None)
        problem = redact(found)  # it may quote an address with a password, and rows are stored and shown
        out_of_memory = _OUT_OF_MEMORY.search(found) is not None
        if out_of_memory or not brief:
            together = f"{counted(len(seeds), 'row')} cannot be computed together"
            log.LOGGER.error("%s:\n%s", together if len(seeds) > 1 else "a row cannot be computed", problem)
        if out_of_memory:
            _free_memory()
    if len(seeds) == 1:
        row = _row(job, int(cells[0]), int(seeds[0]), FAILED, time.perf_counter() - started, {})
        return [{**row, "error": problem}]
    middle = len(seeds) // 2
    return [
        *compute_rows(job, cells[:middle], seeds[:middle], attempt, is_half=True),
        *compute_rows(job, cells[middle:], seeds[middle:], attempt, is_half=True),
    ]


def lost_rows(job: Job, cells: np.ndarray, seeds: np.ndarray, times: int) -> list[Row]:
    """Failed rows for a pack whose worker died every time. times: how often it died."""
    reason = f"the worker computing this row died {times} times (out of memory, killed from outside, or stuck)"
    return [
        {**_row(job, int(cell), int(seed), FAILED, 0.0, {}), "error": reason}
        for cell, seed in zip(cells, seeds, strict=True)
    ]


def _row(job: Job, cell: int, seed: int, status: str, seconds: float, metrics: dict[str, float]) -> Row:
    return {
        "cell": job.cell_ids[cell],
        "seed": seed,
        "status": status,
        "attempt": job.attempt,
        "seconds": seconds,
        "code_version": job.code_version,
        "metrics": metrics,
    }


def _free_memory() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.cuda.empty_cache()  # does nothing if CUDA was never used
