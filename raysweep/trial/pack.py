"""What happens inside one trial: a pack of rows is computed, and published as one segment of the ledger.

Needs numpy and the workload, no Ray and no MLflow. A pack that fails, because memory is short or because one of its
rows cannot be computed, is halved until the row that fails is alone; that row is tried once more and then recorded as
failed with its traceback. The other rows are kept.
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
from raysweep.workloads.declaration import FAILED, Columns

_OUT_OF_MEMORY = re.compile("MemoryError|out of memory|allocate memory|ALLOC_FAILED", re.IGNORECASE)
"""What a traceback says where memory was short: that of Python, NumPy, torch, CUDA's libraries, or a gang."""


@dataclass(frozen=True)
class Job:
    """What all trials of one sweep share.

    columns, cell_ids: the table of cells that packs point into.
    ledger, logs: the folders that segments and logs go to.
    store: where stages are shared.
    sweep: the name under which the sweep refers to these stages.
    attempt: which try at these rows this is.
    cpus, gpus: cores and GPUs of a trial that this process may use.
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

    def segment(self, pack: str) -> AnyPath:
        """Where the rows of a pack go."""
        return segments.segment_path(paths.locate(self.ledger), pack, self.attempt)

    def log(self, pack: str, worker: int | None = None) -> AnyPath:
        """Where the trial of a pack keeps its log; beside it each worker of a gang keeps its own."""
        suffix = "" if worker is None else f".worker{worker}"
        return paths.locate(self.logs) / f"{pack}-{self.attempt}.log{suffix}"


class WorkerLost(Exception):
    """A process that computed a part of this trial died: nothing is known of its rows, and they may be good."""


def run_pack(
    job: Job,
    pack: str,
    cells: np.ndarray,
    seeds: np.ndarray,
    capture: bool = False,
    by: Callable[[Job, str, np.ndarray, np.ndarray], list[Row]] | None = None,
) -> AnyPath:
    """Compute the rows (cells[i], seeds[i]) and publish them; returns the path of their segment. Halted if they cannot
    be written.

    capture: whether what is printed meanwhile goes to the trial's log.
    by: who computes them, if not this process.
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
    """Write rows to the ledger, with where and when they were computed: pack (which names their log), host, finished
    (seconds of the epoch). Halted if the ledger cannot be written."""
    host, now = socket.gethostname(), round(time.time(), 3)
    try:
        segments.write_segment(
            job.segment(pack), [{**row, "pack": pack, "host": host, "finished": now} for row in rows]
        )
    except OSError as error:
        raise Halted(job.ledger, f"the ledger cannot be written ({error.strerror})") from None


def attempt(job: Job, cells: np.ndarray, seeds: np.ndarray, view: Callable[[Any], Any] | None = None) -> list[Row]:
    """Rows computed together; whatever their workload raises is not caught. view: as in `compute`."""
    started = time.perf_counter()
    columns = {name: values[cells] for name, values in job.columns.items()}
    metrics, status = compute(job.workload, columns, seeds, job.store, job.sweep, view)
    seconds = (time.perf_counter() - started) / len(seeds)
    lists = {name: values.tolist() for name, values in metrics.items()}
    return [
        _row(job, int(cell), int(seed), str(status[i]), seconds, {name: v[i] for name, v in lists.items()})
        for i, (cell, seed) in enumerate(zip(cells, seeds, strict=True))
    ]


def compute_rows(
    job: Job,
    cells: np.ndarray,
    seeds: np.ndarray,
    attempt: Callable[[Job, np.ndarray, np.ndarray], list[Row]] = attempt,
    is_half: bool = False,
) -> list[Row]:
    """Rows by attempts at all of them, at halves, and at single ones; what cannot be computed is recorded as failed."""
    # the log has the whole traceback where all rows failed and where a single one does; of the halves between, it has
    # only how many fit the memory: each line waits for the thread that logs to MLflow, and there may be thousands
    brief = is_half and len(seeds) > 1
    for _ in range(2 if len(seeds) == 1 else 1):
        started = time.perf_counter()
        try:
            return attempt(job, cells, seeds)
        except (
            RaysweepError,
            WorkerLost,
        ):  # not caused by the rows: a full disk, a text that is missing, a lost process
            raise
        except Exception:  # whatever a workload raises is recorded with its rows and does not end the sweep
            found = traceback.format_exc(limit=0 if brief else None)
        problem = redact(found)  # it may quote an address with a password; rows are kept and shown
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
    """Rows whose worker died every time, recorded as failed."""
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
        torch.cuda.empty_cache()  # nothing where CUDA was never used
