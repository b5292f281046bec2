"""What happens inside one trial: a pack of rows is computed, and published as one segment of the ledger.

Needs numpy and the workload, no Ray and no MLflow. A pack that fails, for want of memory or because one of its rows
cannot be computed, is halved until the row at fault stands alone; that row is tried once more and then recorded as
failed with its traceback, and the others are kept.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import re
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from raysweep import workloads
from raysweep.errors import Halted, RaysweepError, as_typed, shown
from raysweep.ledger import segments
from raysweep.plan.identity import code_version
from raysweep.redaction import redact
from raysweep.storage import paths
from raysweep.storage.paths import AnyPath
from raysweep.trial import trial_log
from raysweep.workloads import devices
from raysweep.workloads.declaration import FAILED, STATUSES, Columns

_WANT_OF_MEMORY = re.compile("MemoryError|out of memory|allocate memory|ALLOC_FAILED", re.IGNORECASE)
"""In the traceback of a failure that memory was the reason of: in Python, NumPy, torch, CUDA's libraries, or a gang."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Job:
    """What all trials of one sweep share. columns, cell_ids: the table of cells that packs point into; ledger, logs:
    the folders segments and logs go to; store: where stages are shared; sweep: the name under which it refers to them;
    attempt: which try at these rows this is; cpus, gpus: cores and GPUs that this process may use of a trial's."""

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


class WorkerLost(Exception):
    """A process that computed a part of this trial died: nothing is known of its rows, or held against them."""


def run_pack(
    job: Job,
    pack: str,
    cells: np.ndarray,
    seeds: np.ndarray,
    capture: bool = False,
    by: Callable[[Job, str, np.ndarray, np.ndarray], list[segments.Row]] | None = None,
) -> AnyPath:
    """Compute the rows (cells[i], seeds[i]) and publish them; returns the path of their segment. Halted if they cannot
    be written. capture: whether what is printed meanwhile goes to the trial's log; by: who computes them, if not this
    process."""
    path = segments.segment_path(paths.locate(job.ledger), pack, job.attempt)
    if not path.exists():
        log = trial_log.log_path(paths.locate(job.logs), pack, job.attempt)
        with threads(job.cpus), devices.granted(job.gpus), trial_log.kept(log, pack, len(seeds), capture):
            found = by(job, pack, cells, seeds) if by else rows(job, cells, seeds)
            try:
                segments.write_segment(path, signed(found, pack))
            except OSError as error:
                raise Halted(job.ledger, f"the ledger cannot be written ({error.strerror})") from None
    return path


def signed(rows: list[segments.Row], pack: str) -> list[segments.Row]:
    """Rows with where and when they were computed: pack (which names their log), host, finished (s of the epoch)."""
    origin = {"pack": pack, "host": socket.gethostname(), "finished": round(time.time(), 3)}
    return [{**row, **origin} for row in rows]


def compute(
    workload_name: str,
    columns: Columns,
    seeds: np.ndarray,
    store: str,
    sweep: str = "",
    view: Callable[[Any], Any] | None = None,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Metrics (closed forms included, as NAME_theory) and status of a table of rows, by its workload.

    store: where the stages of a workload that keeps them are shared; sweep: who computes those that are not there;
    view: what the workload is given in place of that store.
    """
    workload = workloads.get(workload_name)
    module, _, function = workload.compute.partition(":")
    arguments: list[Any] = [columns, seeds]
    if workload.stored:
        from raysweep.stages.store import Store

        stages = Store(store, provenance={"sweep": sweep, "code_version": code_version(workload)})
        arguments.append(view(stages) if view else stages)
    metrics, status = getattr(importlib.import_module(module), function)(*arguments)
    if workload.closed_form is not None:
        metrics = {**metrics, **{f"{name}_theory": values for name, values in workload.closed_form(columns).items()}}
    metrics = {name: one_number_a_row(workload_name, name, values, columns, seeds) for name, values in metrics.items()}
    if isinstance(status, str) or len(status) != len(seeds):
        raise RuntimeError(f"{workload_name}: expected {len(seeds)} words as the status, got {shown(status)}")
    for word in status:
        if word not in STATUSES:
            raise RuntimeError(f"{workload_name} returned the status {shown(word)}; known: {', '.join(STATUSES)}")
    return metrics, status


def one_number_a_row(workload_name: str, metric: str, values: Any, columns: Columns, seeds: np.ndarray) -> np.ndarray:
    """A metric as an array of numbers; RuntimeError names the metric, and the row whose value is no number."""
    with contextlib.suppress(ValueError, TypeError):  # lists of unequal lengths are no array
        array = np.asarray(values)
        if array.shape == (len(seeds),) and array.dtype.kind in "fiub":
            return array
    said = f"{workload_name}: expected {len(seeds)} numbers as the metric {metric}, one for each row, got"
    try:
        listed = None if isinstance(values, (str, bytes, Mapping)) else list(values)
    except TypeError:
        listed = None
    if listed is None:
        raise RuntimeError(f"{said} {shown(values)}")
    if len(listed) != len(seeds):
        raise RuntimeError(f"{said} {len(listed)}")
    for i, value in enumerate(listed):
        if not isinstance(value, Real):
            row = ", ".join(f"{name} = {as_typed(column[i])}" for name, column in columns.items())
            raise RuntimeError(
                f"{workload_name}: expected one number as the metric {metric}, got {shown(value)} in "
                f"the row {row}, seed = {seeds[i]}"
            )
    return np.asarray(listed, dtype=np.float64)


def attempt(
    job: Job, cells: np.ndarray, seeds: np.ndarray, view: Callable[[Any], Any] | None = None
) -> list[segments.Row]:
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


def rows(
    job: Job,
    cells: np.ndarray,
    seeds: np.ndarray,
    attempt: Callable[[Job, np.ndarray, np.ndarray], list[segments.Row]] = attempt,
    half: bool = False,
    again: bool = True,
) -> list[segments.Row]:
    """Rows by attempts at all of them, at halves, and at single ones; what cannot be computed is recorded as failed."""
    started = time.perf_counter()
    try:
        return attempt(job, cells, seeds)
    except (RaysweepError, WorkerLost):  # of no row's making: a store that is full, a text that is not there, a kill
        raise
    except Exception:  # whatever a workload raises is data about its rows, not the end of the sweep
        # the log has where all of them failed and where the row at fault does; of the halves between, only what says
        # how many fit the memory: each line waits for the thread that mirrors, and there may be thousands
        brief = half and len(seeds) > 1
        found = traceback.format_exc(limit=0 if brief else None)
        wants_memory = _WANT_OF_MEMORY.search(found) is not None
        problem = redact(found)  # it may quote an address with a password; rows are kept and shown
        if wants_memory or not brief:
            them = f"{len(seeds):,} rows cannot be computed together" if len(seeds) > 1 else "a row cannot be computed"
            trial_log.LOGGER.error("%s:\n%s", them, problem)
    if wants_memory:
        _free_memory()
    if len(seeds) > 1:
        middle = len(seeds) // 2
        return [
            *rows(job, cells[:middle], seeds[:middle], attempt, half=True),
            *rows(job, cells[middle:], seeds[middle:], attempt, half=True),
        ]
    if again:
        return rows(job, cells, seeds, attempt, again=False)
    row = _row(job, int(cells[0]), int(seeds[0]), FAILED, time.perf_counter() - started, {})
    return [{**row, "error": problem}]


def lost_rows(job: Job, cells: np.ndarray, seeds: np.ndarray, times: int) -> list[segments.Row]:
    """Rows whose worker died every time, recorded as failed."""
    reason = f"the worker computing this row died {times} times (out of memory, killed from outside, or stuck)"
    return [
        {**_row(job, int(cell), int(seed), FAILED, 0.0, {}), "error": reason}
        for cell, seed in zip(cells, seeds, strict=True)
    ]


def _row(job: Job, cell: int, seed: int, status: str, seconds: float, metrics: dict[str, float]) -> segments.Row:
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


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Hold BLAS and torch to `count` threads: libraries loaded already, and those that a workload is yet to load."""
    from threadpoolctl import threadpool_limits

    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(count)))
    torch = sys.modules.get("torch")
    torch_before = torch.get_num_threads() if torch is not None else None
    if torch is not None:
        torch.set_num_threads(count)
    try:
        with threadpool_limits(limits=count):
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if torch is not None:
            torch.set_num_threads(torch_before)
