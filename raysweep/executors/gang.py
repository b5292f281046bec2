"""A trial with several workers: a gang inside the trial's own placement group, so that Tune sees all its resources.

The group has one bundle per worker. Ray grants the whole group or nothing, so gangs cannot block each other. The trial
itself takes no resources and runs next to the first worker. Each worker computes a part of the rows; if the workload is
data-parallel, the workers join in torch.distributed (NCCL between GPUs, else gloo) and train together. When one worker
dies, the gang ends, and the pack is tried again like one whose worker was lost.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from raysweep.errors import Halted, InputError
from raysweep.executors.gang_worker import MEETING, Answer, Outcome, Worker
from raysweep.ledger.segments import Row
from raysweep.plan.cost import shares
from raysweep.plan.pack import Pack
from raysweep.space.resources import Resources
from raysweep.storage import leases
from raysweep.trial import log, short_memory
from raysweep.trial.chain import Errors
from raysweep.trial.pack import Job, WorkerLost, compute_rows

GRACE = 15.0  # seconds that the other workers have to end by themselves when one has failed
PATIENCE = 1800.0
"""Seconds that workers which train together wait for a late one where it may be late (`parallel.meet`): because it
tokenizes gigabytes of text that another machine has cached, or because it, as the first worker, writes a large
checkpoint to a bucket. Ray reports a dead worker at once, so this limit is only for a worker that is stuck."""
IN_STEP = 600.0
"""The same between two such places, above all in a step of training. It allows for the first step, in which libraries
are loaded and kernels compiled."""


class Gang:
    """The workers of this trial. They are kept for the next packs."""

    def __init__(self, needs: Resources, group: PlacementGroup) -> None:
        self.needs, self._group = needs, group
        self._workers: list[Any] = []
        self._met = False

    def rows(self, job: Job, pack: Pack, cells: np.ndarray, seeds: np.ndarray) -> list[Row]:
        """Compute rows of a pack, or put its stages into the store. Raises WorkerLost if a worker died."""
        workload = job.declaration()
        log.LOGGER.info("by %s workers, whose logs are next to this one (.worker0, ...)", self.needs.gang)
        if workload.data_parallel:
            if pack.stages:
                return self._together(job, pack, cells, seeds)
            return compute_rows(job, cells, seeds, lambda job, cells, seeds: self._together(job, pack, cells, seeds))
        columns = {name: values[cells] for name, values in job.columns.items()}
        parts = shares(workload, columns, seeds, self.needs.gang)
        if pack.stages:
            parts = [np.arange(len(seeds))]  # one worker: the rows may have stages in common
        self._start()
        started = time.perf_counter()
        work = [(self._job_of_worker(job, cells[part]), seeds[part]) for part in parts]
        rows = list(itertools.chain.from_iterable(self._ask(pack, work, together=False)))
        if pack.stages:
            return rows
        # a row's seconds are its share of the time that the whole trial was busy
        share = (time.perf_counter() - started) / max(sum(row["seconds"] for row in rows), 1e-9)
        for row in rows:
            row["seconds"] *= share
        return [rows[index] for index in np.argsort(np.concatenate(parts)).tolist()]

    def _together(self, job: Job, pack: Pack, cells: np.ndarray, seeds: np.ndarray) -> list[Row]:
        self._start()
        if not self._met:
            address, port = self._answers([self._workers[0].invite.remote()])[0]
            self._answers([worker.meet.remote(address, port) for worker in self._workers])
            self._met = True
        work = [(self._job_of_worker(job, cells), seeds)] * self.needs.gang
        return self._ask(pack, work, together=True, errors=job.errors)[0]

    def _start(self) -> None:
        share = {"num_cpus": self.needs.share["CPU"], "num_gpus": self.needs.share.get("GPU", 0)}
        actor = ray.remote(**share, max_restarts=0, max_task_retries=0)(Worker)
        bundles = (PlacementGroupSchedulingStrategy(self._group, rank) for rank in range(self.needs.gang))
        self._workers = self._workers or [
            actor.options(scheduling_strategy=bundle).remote(rank, self.needs, PATIENCE, IN_STEP)
            for rank, bundle in enumerate(bundles)
        ]

    def _job_of_worker(self, job: Job, cells: np.ndarray) -> Job:
        """The job for a worker: it has one cell for each row that the worker computes."""
        return replace(job, **job.table(cells), cpus=self.needs.threads, gpus=self.needs.gpus // self.needs.gang)

    def _ask(
        self, pack: Pack, work: list[tuple[Job, np.ndarray]], together: bool, errors: Errors | None = None
    ) -> list[list[Row]]:
        """Let each worker compute its rows (a job and seeds); raises the problem if any had one. together: whether all
        train the same rows. errors: those of kept stages, to which those of this call are added."""
        given = zip(self._workers, work, strict=False)
        answers = _gather([worker.compute.remote(job, pack, seeds, together) for worker, (job, seeds) in given])
        outcomes = [answer.outcome if answer else "" for answer in answers]
        if all(outcome == Outcome.ROWS for outcome in outcomes):
            return [answer.rows for answer in answers if answer]
        if all(outcome in (Outcome.ROWS, Outcome.HELD) for outcome in outcomes):
            raise leases.Held(next(answer.problem for answer in answers if answer and answer.outcome == Outcome.HELD))
        self._met = False
        missed = _missed(outcomes)
        stuck = None in answers
        if stuck or self.needs.gpus or Outcome.LOST in outcomes:
            self.end()
        named = [(f"worker {rank} of {len(answers)}", answer) for rank, answer in enumerate(answers) if answer]
        failed = [(name, answer) for name, answer in named if answer.outcome not in (Outcome.ROWS, Outcome.HELD)]
        for name, answer in failed:
            if answer.outcome == Outcome.LOST:
                raise WorkerLost(f"{name} died: {answer.problem}")
        if stuck and missed:
            raise WorkerLost(missed)
        for _, answer in failed:
            if answer.outcome in (Outcome.REFUSED, Outcome.HALTED):
                raise (InputError if answer.outcome == Outcome.REFUSED else Halted)("", answer.problem)
        problems = [f"{name}: {answer.problem}" for name, answer in failed]
        problem = "\n".join([missed, *problems] if missed else problems)
        if errors is not None and not short_memory.is_short(problem):
            for stage in {stage for _, answer in failed for stage in answer.stages}:
                errors.setdefault(stage, []).append(problem)
        raise RuntimeError(problem)

    def _answers(self, calls: list[Any]) -> list[Any]:
        """The results of calls in which the workers find each other. Raises WorkerLost if they cannot in time."""
        try:
            return list(ray.get(calls, timeout=MEETING))
        except (RayActorError, GetTimeoutError) as error:
            self.end()
            raise WorkerLost(f"the workers could not all meet within {MEETING:g} s: {error}") from None

    def end(self) -> None:
        for worker in self._workers:
            with contextlib.suppress(RayError):  # the worker or the cluster is gone already
                ray.kill(worker)
        self._workers, self._met = [], False


def _gather(calls: list[Any]) -> list[Answer | None]:
    """The answer of each worker. After a failure, a worker that does not end within GRACE seconds has None."""
    answers: dict[Any, Answer] = {}
    waiting = calls
    while waiting:
        failed = any(answer.outcome not in (Outcome.ROWS, Outcome.HELD) for answer in answers.values())
        ready, waiting = ray.wait(waiting, timeout=GRACE if failed else None)
        if not ready:
            break
        try:
            answers[ready[0]] = ray.get(ready[0])
        except RayActorError as error:
            answers[ready[0]] = Answer(Outcome.LOST, problem=str(error))
    return [answers.get(call) for call in calls]


def _missed(outcomes: Sequence[str]) -> str:
    """A sentence that names the workers for which others waited in vain; "" if there are none."""
    late = [f"worker {rank} of {len(outcomes)}" for rank, outcome in enumerate(outcomes) if outcome != Outcome.WAITED]
    if len(late) in (0, len(outcomes)):
        return ""
    return f"{' and '.join(late)} did not come where the others waited"


_gang: Gang | None = None  # Tune reuses this process, with its placement group, for one trial after another


def rows(needs: Resources, job: Job, pack: Pack, cells: np.ndarray, seeds: np.ndarray) -> list[Row]:
    """Compute the rows of a pack with this trial's gang. The gang is kept for the next pack."""
    global _gang
    group = ray.util.get_current_placement_group()
    if group is None:
        raise RuntimeError("a gang lives in the placement group of a trial, and there is none here")
    if _gang is None or _gang.needs != needs:
        _gang = Gang(needs, group)
    return _gang.rows(job, pack, cells, seeds)
