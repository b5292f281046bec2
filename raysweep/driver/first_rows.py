"""What only the first rows of a Python function tell: the names of its metrics, and what a row costs.

They are computed in the driver's process, or in a child of it, where each is a row of the sweep like any other, before
it is decided where the other rows are computed. Rows that take GPUs or a gang are not computed here: nothing is known
then until they are there, and a pack has few of them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from raysweep.errors import InputError, as_typed
from raysweep.ledger import segments, sweep_record
from raysweep.plan.cells import Cells
from raysweep.plan.identity import code_version
from raysweep.plan.pack import Pack
from raysweep.plan.packs import pack_of
from raysweep.query.state import State
from raysweep.space.schema import Space, validate
from raysweep.storage import signs
from raysweep.trial import child_process
from raysweep.trial.function import Unusable
from raysweep.trial.pack import Job
from raysweep.trial.run import run_pack
from raysweep.workloads import function_description
from raysweep.workloads.declaration import FAILED, STOPPED

TRIED = 3
"""Rows that are tried until one does not fail: the first, the last and the middle one of those that are missing."""
ENOUGH = 1.0  # seconds; if the first row took less, it was perhaps an import, and a second row is measured too
TOGETHER = 64  # rows of the first call of a vectorized function, whose cost is not that of single rows


def carried(space: Space, record: sweep_record.Record) -> Space:
    """The space with what the record of its sweep knows of its function, if that has the same source."""
    if space.function is None or record.space.get("function") is None:
        return space
    asked, recorded = function_description.read(space.function), function_description.read(record.space["function"])
    same = ("name", "version", "digest", "vectorized")
    if any(getattr(asked, name) != getattr(recorded, name) for name in same):
        return space
    return _with(space, recorded.returned, recorded.seconds)


def learned(space: Space, state: State) -> Space | None:
    """The space with what rows of the present code tell of its function, or of any code if no row is missing; None if
    there is no such row. InputError if the space names a metric that they do not have."""
    current = code_version(state.workload)
    whole = [row for row in state.rows.values() if row["status"] not in (FAILED, STOPPED)]
    good = [row for row in whole if row["code_version"] == current]
    if not good and not state.missing_rows:
        good = whole
    if not good:
        return None
    order = {seed: number for number, seed in enumerate(space.seeds)}
    first = min(good, key=lambda row: (state.position[row["cell"]], order[row["seed"]]))
    return _with(space, tuple(first["metrics"]), _seconds(first, good))


def learn(sweep: str, state: State, job: Job, say: Callable[[str], None], apart: bool) -> Space:
    """The space with what rows tell of its function. If there are none yet, the first ones are computed for it, where
    that can be done on this machine; the space stays as it is if it cannot. sweep: its name. apart: as in `measure`."""
    space = state.space
    present = learned(space, state)
    if present is None and state.missing_rows and can_measure(state.cells):
        where = f"{'a child of ' * apart}this process"
        say(f"{sweep}: what a row of {space.workload} costs is not known yet; the first ones are computed in {where}")
        measure(state, job, apart)
        lasted = max((row["seconds"] for row in state.failures()), default=0.0)
        present = learned(space, state) or _with(space, None, lasted)  # if all failed, the others may last as long
    return space if present is None else present


def learned_at_the_end(space: Space, state: State, say: Callable[[str], None]) -> Space | None:
    """The space with what rows tell that were not there at the beginning; None if there is nothing to learn."""
    if not space.declaration.measures_anything:
        return None
    try:
        return learned(space, state)
    except InputError as error:  # it names a metric that no row has
        say(str(error))
        return None


def _seconds(first: segments.Row, good: Sequence[segments.Row]) -> float:
    """What a row costs: by few rows the longest, by many the mean, perhaps without the first, which imports."""
    others = [row["seconds"] for row in good if row is not first]
    if 0 < len(others) < TRIED:
        return float(max(others))
    return float(np.mean([row["seconds"] for row in good]))


def _with(space: Space, returned: tuple[str, ...] | None, seconds: float | None) -> Space:
    description = replace(function_description.read(space.function), returned=returned, seconds=seconds)
    function_description.check_returned(description)
    return validate({**space.as_dict(), "function": description.plain()})


def measure(state: State, job: Job, apart: bool = False) -> None:
    """Compute first rows, into the ledger. apart: whether a child process does, because rows may kill it. InputError,
    which names the row, if the function returns what cannot be metrics before any row was good. A row with other
    metrics than the first good one has failed, as later ones have."""
    started, good, left = time.monotonic(), 0, deque(_candidates(state))
    if apart := apart and child_process.possible():
        job = replace(job, cpus=1)

    def enter(rows: list[segments.Row]) -> None:
        nonlocal good, job
        well = [row for row in rows if row["status"] != FAILED]
        for row in [] if good or well else rows:
            if (mark := f"{Unusable.__module__}.{Unusable.__qualname__}: ") in row.get("error", ""):
                cell = state.cells.parameters(state.position[row["cell"]])
                named = [f"{name} = {as_typed(cell[name])}" for name in state.space.axes]
                place = ", ".join([*named, f"seed = {row['seed']}"])
                raise InputError("workload", f"{row['error'].rpartition(mark)[2].strip()} (in the row {place})")
        job = _with_metrics(job, rows)
        state.add(rows)
        good += bool(well)

    def enough() -> bool:
        return good > 1 or (good > 0 and time.monotonic() - started > ENOUGH)

    with signs.computing(state.folder):
        while left and not enough():
            work = _one_by_one(job, tuple(left))  # in one child, where only the first row imports and compiles
            try:
                for rows in child_process.results(work) if apart else work:
                    left.popleft()
                    enter(rows)
                    if enough():
                        break
            except child_process.Died:
                run_pack(job, left[0], apart=True)
                enter(segments.read_segment(job.segment(left.popleft().id)))


def _one_by_one(job: Job, packs: Sequence[Pack]) -> Iterator[list[segments.Row]]:
    """Compute packs in this process; yields the rows of each."""
    for pack in packs:
        run_pack(job, pack)
        yield (rows := segments.read_segment(job.segment(pack.id)))
        job = _with_metrics(job, rows)


def _with_metrics(job: Job, rows: Sequence[segments.Row]) -> Job:
    """The job, with the metrics that the first good row tells."""
    well = next((row for row in rows if row["status"] != FAILED), None)
    if well and job.function and job.function.description.returned is None:
        description = replace(job.function.description, returned=tuple(well["metrics"]))
        return replace(job, function=replace(job.function, description=description))
    return job


def _candidates(state: State) -> Iterator[Pack]:
    pending = state.missing().indices
    if state.workload.function and state.workload.function.vectorized:
        seed, cells = next(iter(pending.items()))
        yield pack_of(state.cells, cells[:TOGETHER], seed)
        return
    rows = [(seed, cell) for seed, cells in pending.items() for cell in cells.tolist()]
    for place in dict.fromkeys([0, len(rows) - 1, len(rows) // 2][:TRIED]):
        seed, cell = rows[place]
        yield pack_of(state.cells, np.asarray([cell]), seed)


def can_measure(cells: Cells) -> bool:
    """Whether rows can be computed in this process: none takes a GPU or a gang."""
    return all(needs.gang == 1 and not needs.gpus for needs in cells.needs)
