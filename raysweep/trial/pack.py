"""Computes the rows of a pack inside one trial, and publishes them as one segment of the ledger.

Needs only numpy and the workload, neither Ray nor MLflow. If memory is short, less is computed at a time
(short_memory.py). If a pack fails otherwise, or if that does not help, it is halved until the failing row is alone.
That row is tried once more and then recorded as failed with its traceback. The other rows are kept.
"""

from __future__ import annotations

import gc
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter, time
from typing import Any, NamedTuple

import numpy as np

from raysweep import workloads
from raysweep.errors import Halted, RaysweepError
from raysweep.ledger import segments
from raysweep.ledger.segments import Row
from raysweep.phrases import counted
from raysweep.plan.row_stages import RowStages, lacking
from raysweep.redaction import error_text
from raysweep.storage import leases, paths
from raysweep.storage.paths import AnyPath
from raysweep.training.sizes import Halvings
from raysweep.trial import child_process, log, short_memory
from raysweep.trial.chain import TRIES, Errors
from raysweep.trial.compute import compute, open_store
from raysweep.trial.early_stopping import Rule
from raysweep.trial.function import Function
from raysweep.workloads.declaration import FAILED, Columns, Workload

DEADLY = "the process computing "
"""How the errors begin of rows that were lost with the process that computed them."""


@dataclass(frozen=True)
class Job:
    """What all trials of one sweep share.

    columns, cell_ids: the table of cells; packs hold positions in it.
    ledger, logs: the folders for segments and logs.
    store: the address of the stage store.
    sweep: the name under which the sweep refers to its stages.
    attempt: the number of this attempt at the rows, from 1.
    cpus, gpus: cores and GPUs of a trial that this process may use.
    keep: the stages that the space keeps in addition to those that always are.
    failed: for this trial, the stages that it needs and that failed before, each with its error.
    expired: for this trial, the leases of stages that are known to have expired, as in `Store`.
    function: the Python function that the workload is; None for any other.
    rule: how rows are stopped early; None if none is. Its tables are those of the round that is computed now.
    halvings: for this attempt, how much less is computed at a time than at first, because memory was short.
    errors: for the rows that are computed now, as in `chain.Walk`.
    asked: as in `Cells`; each row keeps the entry of its cell. If there is one, the table grows while the sweep runs.
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
    failed: Mapping[str, str] = field(default_factory=dict)
    expired: Mapping[str, bytes] = field(default_factory=dict)
    function: Function | None = None
    asked: list[dict[str, Any]] | None = None
    rule: Rule | None = None
    halvings: Halvings = field(default_factory=Halvings)
    errors: Errors = field(default_factory=dict, compare=False)

    def declaration(self) -> Workload:
        return self.function.declaration if self.function else workloads.get(self.workload)

    def table(self, cells: np.ndarray) -> dict[str, Any]:
        """The fields of a job that has, instead of all cells, only these in this order."""
        return {
            "columns": {name: values[cells] for name, values in self.columns.items()},
            "cell_ids": [self.cell_ids[cell] for cell in cells.tolist()],
            "asked": None if self.asked is None else [self.asked[cell] for cell in cells.tolist()],
        }

    def open_store(self) -> Any:
        """The stage store, which raises leases.Held where it would wait for somebody else; None if no stage is kept."""
        store = open_store(self.declaration(), self.store, self.sweep, self.keep)
        if store is not None:
            store.waits, store.expired = False, self.expired
        return store

    def segment(self, pack: str) -> AnyPath:
        return segments.segment_path(paths.locate(self.ledger), pack, self.attempt)

    def log(self, pack: str, worker: int | None = None) -> AnyPath:
        """The path of the log of a pack's trial, or of one worker of its gang."""
        suffix = "" if worker is None else f".worker{worker}"
        return paths.locate(self.logs) / f"{pack}-{self.attempt}.log{suffix}"


class WorkerLost(Exception):
    """A process that computed a part of this trial died. Its rows may not be the cause."""


def publish(job: Job, pack: str, rows: list[Row]) -> None:
    """Write rows to the ledger, each with its pack (which names its log), the host, and when it was finished (seconds
    of the epoch). Raises Halted if the ledger cannot be written."""
    host, now = socket.gethostname(), round(time(), 3)
    try:
        finished: list[Row] = [{**row, "pack": pack, "host": host, "finished": now} for row in rows]
        segments.write_segment(job.segment(pack), finished)
    except OSError as error:
        raise Halted(job.ledger, f"the ledger cannot be written ({error.strerror})") from None


def attempt(job: Job, cells: np.ndarray, seeds: np.ndarray, view: Callable[[Any], Any] | None = None) -> list[Row]:
    """Compute rows together. Errors of the workload are not caught. view: turns the store into what is used instead."""
    started = perf_counter()
    columns = {name: values[cells] for name, values in job.columns.items()}
    with short_memory.less(job.halvings):
        if job.function:
            computation = job.function.compute(columns, seeds, job.rule)
        else:
            store = job.open_store()
            store = view(store) if view and store else store
            computation = compute(job.declaration(), columns, seeds, store, job.keep, rule=job.rule, errors=job.errors)
    seconds = (perf_counter() - started) / len(seeds)
    lists = {name: values.tolist() for name, values in computation.metrics.items()}
    rows = []
    for i, (cell, seed) in enumerate(zip(cells, seeds, strict=True)):
        metrics = {name: values[i] for name, values in lists.items() if name not in computation.lacking.get(i, ())}
        row = new_row(job, cell, seed, str(computation.status[i]), seconds, metrics)
        if row["status"] == FAILED:
            row["error"] = f"{job.workload} gave the status failed, and no error"
        if computation.stages[i]:
            row["stages"] = computation.stages[i]
        if i in computation.other_code:
            row["other_code"] = sorted(computation.other_code[i])
        if computation.identities:
            row["identity"] = computation.identities[i]
        if computation.curves[i]:
            row["curves"] = computation.curves[i]
        rows.append(row)
    if computation.shared_curves:
        rows[0]["shared_curves"] = computation.shared_curves
    return rows


class Failed(NamedTuple):
    """How a row ended that cannot be computed. seconds: of the last attempt."""

    error: str
    seconds: float = 0.0


def compute_rows(
    job: Job,
    cells: np.ndarray,
    seeds: np.ndarray,
    attempt: Callable[[Job, np.ndarray, np.ndarray], list[Row]] = attempt,
) -> list[Row]:
    """Compute all rows together; if that fails, compute each half by itself, down to single rows. A single row that
    fails twice is recorded as failed. If a kept stage has failed twice, all rows that need it have failed with its
    error, and the others go on. attempt: computes rows together and raises any error."""
    if job.function and not job.function.vectorized and len(seeds) > 1:  # one that fails must not repeat the others
        parts = [slice(i, i + 1) for i in range(len(seeds))]
        return [row for part in parts for row in compute_rows(job, cells[part], seeds[part], attempt)]
    computed = outcomes(job if job.function else replace(job, errors={}), cells, seeds, attempt, "row")
    rows = zip(cells, seeds, computed, strict=True)
    return [failed_row(job, cell, seed, *one) if isinstance(one, Failed) else one for cell, seed, one in rows]


def outcomes(
    job: Job,
    cells: np.ndarray,
    seeds: np.ndarray,
    attempt: Callable[[Job, np.ndarray, np.ndarray], list[Any]],
    noun: str,
    is_half: bool = False,
) -> list[Any]:
    """What `attempt` gives for each row, or how the row failed. attempt: works for rows together and raises any error.
    noun: what it works on, for the log. is_half: whether the rows are a part of others for which it failed."""
    # the log has the whole traceback if all rows fail together or a single row fails. For the halves between, it says
    # only if memory was short: each line waits for the thread that logs to MLflow, and there may be thousands
    brief = is_half and len(seeds) > 1
    tries = 2 if len(seeds) == 1 else 1
    while tries:
        started = perf_counter()
        try:
            return attempt(job, cells, seeds)
        except (RaysweepError, WorkerLost, leases.Held):  # not caused by the rows: a full disk, a lost process
            raise
        except (child_process.Died, child_process.Raised) as error:
            trace = str(error)
        except Exception:  # errors of a workload are recorded with its rows and do not end the sweep
            trace = traceback.format_exc(limit=0 if brief else None)
        if out_of_memory := short_memory.is_short(trace):
            gc.collect()
            if torch := sys.modules.get("torch"):
                torch.cuda.empty_cache()  # does nothing if CUDA was never used
        if smaller := short_memory.smaller(job.halvings, trace):
            job = replace(job, halvings=smaller)
            continue
        tries, problem = tries - 1, error_text(trace)
        if out_of_memory or not brief:
            what = f"{counted(len(seeds), noun)} cannot be computed together"
            log.LOGGER.error("%s:\n%s", what if len(seeds) > 1 else f"a {noun} cannot be computed", problem)
        if any(errors := errors_of_stages(job, cells, seeds)):
            left = np.asarray([not error for error in errors])
            others = iter(outcomes(job, cells[left], seeds[left], attempt, noun, True) if left.any() else [])
            return [Failed(error) if error else next(others) for error in errors]
    if len(seeds) == 1:
        return [Failed(problem, perf_counter() - started)]
    halves = zip(np.array_split(cells, [len(seeds) // 2]), np.array_split(seeds, [len(seeds) // 2]), strict=True)
    return [one for half in halves for one in outcomes(job, *half, attempt, noun, is_half=True)]


def errors_of_stages(job: Job, cells: np.ndarray, seeds: np.ndarray) -> list[str]:
    """For each row the error of a kept stage that it needs and that has failed as often as it is tried, or ""."""
    failed = {stage: error_text(tracebacks[-1]) for stage, tracebacks in job.errors.items() if len(tracebacks) >= TRIES}
    if not failed:
        return []
    look = job.open_store().look
    return errors_of_rows(job, cells, seeds, failed, lambda stage: stage not in failed and look(stage) is not None)


def errors_of_rows(
    job: Job, cells: np.ndarray, seeds: np.ndarray, failed: Mapping[str, str], is_there: Callable[[str], bool]
) -> list[str]:
    """For each row the error in `failed` of a kept stage that it needs and that is not there, or ""."""
    workload = job.declaration()
    stages = RowStages(workload, job.columns, job.keep)
    errors = []
    for cell, seed in zip(cells.tolist(), seeds.tolist(), strict=True):
        chain = stages.of_row(cell, seed)
        needed = lacking(workload, chain, {stage.id for stage in chain if is_there(stage.id)})
        errors.append(next((failed[stage.id] for stage in needed if stage.id in failed), ""))
    return errors


def lost(what: str, ending: str) -> str:
    """The error of a row that was lost with its process. what: what was computed. ending: how the process ended."""
    return f"{DEADLY}{what} {ending}"


def died(times: int) -> str:
    return f"died {times} times (out of memory, killed from outside, or stuck)"


def lost_rows(job: Job, cells: np.ndarray, seeds: np.ndarray, ending: str) -> list[Row]:
    """Failed rows for a pack whose process died every time. ending: as in `lost`."""
    return [failed_row(job, cell, seed, lost("this row", ending)) for cell, seed in zip(cells, seeds, strict=True)]


def failed_row(job: Job, cell: int, seed: int, error: str, seconds: float = 0.0) -> Row:
    return {**new_row(job, cell, seed, FAILED, seconds, {}), "error": error}


def new_row(job: Job, cell: int, seed: int, status: str, seconds: float, metrics: dict[str, float]) -> Row:
    """A row as the ledger keeps it. cell: its position in the job's table."""
    row: Any = {"cell": job.cell_ids[cell], "seed": int(seed), "status": status, "attempt": job.attempt}
    row |= {"seconds": seconds, "code_version": job.code_version, "metrics": metrics}
    if job.function and job.function.description.version != 1:
        row["version"] = job.function.description.version
    return row if job.asked is None else row | {"asked": job.asked[cell]}
