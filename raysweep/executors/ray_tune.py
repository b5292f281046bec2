"""Packs on Ray Tune: one trial a pack, fed by one Searcher over the queue of packs.

Rows travel by ledger segment, not through `tune.report`: what a trial has finished is safe before the driver hears of
it. Tune's own loggers, result files and checkpoints are off; resuming reads the ledger.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import signal
from collections.abc import Callable, Sequence, Set
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from raysweep import terminal
from raysweep.errors import Halted, InputError, RaysweepError
from raysweep.executors import local_ray, machines, ray_alive
from raysweep.phrases import counted
from raysweep.plan.packs import Pack, halves
from raysweep.plan.queue import PackQueue
from raysweep.plan.resources import Resources
from raysweep.storage.paths import AnyPath
from raysweep.training import devices
from raysweep.trial.pack import Job, lost_rows, publish, run_pack

_ENVIRONMENT = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C is ours: stop, keep the rows, say how to resume
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the newer reporter prints its boxes even when told to be silent
    "RAY_USAGE_STATS_ENABLED": "0",
}
WORKER_RETRIES = 3
"""A worker that dies may not be the fault of its rows: the pack is tried again, then in halves, and a single row so
many times."""
NODE_RETRIES = 20
"""A machine that goes is the fault of none of its rows: a pack that was on it is tried again as it is, so often."""


@dataclass(frozen=True)
class Capacity:
    """What a cluster can run at once.

    trials: how many trials, with the machines that its autoscaler may add.
    now: how many of them on machines that are up.
    beside: how many workers of them may share the memory of one machine.
    """

    trials: int
    now: int
    beside: int


def connect(workers: int | None, needs: Sequence[Resources], say: Callable[[str], None]) -> Capacity:
    """Join the cluster that RAY_ADDRESS names, or start Ray on this machine, and see how many trials of these needs
    it can run.

    InputError if some trial can never fit: what it asks for and what is there; on this machine before Ray is started.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    joined = ray.is_initialized()
    if not joined:
        _join_or_start(workers, needs, say)
    there = machines.of_cluster(ray.get_runtime_context().gcs_address, ray.nodes(), say)
    try:
        machines.check(there, needs)
    except InputError:
        if not joined:
            ray.shutdown()
        raise
    up = machines.Machines(there.up)
    counts = (max(map(count, needs)) for count in (there.trials, up.trials, there.beside))
    return Capacity(*(min(count, workers or count) for count in counts))


def _join_or_start(workers: int | None, needs: Sequence[Resources], say: Callable[[str], None]) -> None:
    import ray

    logging.getLogger("ray").setLevel(logging.ERROR)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # tracebacks of workers that are tried again
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    if os.environ.get("RAY_ADDRESS"):
        try:
            ray.init(**options)
        except ConnectionError as error:
            raise InputError(
                "RAY_ADDRESS",
                f"{os.environ['RAY_ADDRESS']} cannot be joined: {error} (a cluster "
                "that asks for a token wants RAY_AUTH_MODE=token here too)",
            ) from None
        return
    # never somebody else's cluster that happens to run on this machine
    cpus = max(os.cpu_count() or 1, workers or 1)
    machines.check(machines.of_resources([local_ray.machine(cpus)]), needs)
    say("starting Ray")
    # a terminal that is closed hangs up on all it has started: Ray's processes inherit that they do not hear it
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        local_ray.start(cpus, **options)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


class RetryPolicy:
    """Decides what becomes of packs whose worker was lost, by how often each was lost and to what.

    A loss belongs to a machine if one was found dead before the pack's next start, because a worker that is cut off is
    often missed seconds before its machine. dead: the machines known to be gone, by their names.
    """

    def __init__(self) -> None:
        self._starts: dict[str, list[Set[str]]] = {}  # by pack: the machines known to be gone at each start

    def begin(self, pack: str, dead: Set[str]) -> None:
        """A pack is started."""
        self._starts.setdefault(pack, []).append(dead)

    def count(self, pack: str, dead: Set[str]) -> tuple[int, int]:
        """A pack is lost once more: how often that may have been caused by its rows, and how often by a machine."""
        seen = [*self._starts[pack], dead]
        by_machines = sum(bool(later - earlier) for earlier, later in pairwise(seen))
        return len(seen) - 1 - by_machines, by_machines

    def again(self, pack: Pack, cell_ids: Sequence[str], dead: Set[str]) -> list[Pack]:
        """What to try again after a pack is lost: itself, or its halves, since one row may have killed the worker;
        nothing once it was lost too often."""
        by_rows, by_machines = self.count(pack.id, dead)
        parts = halves(pack, cell_ids) if by_rows > 1 else [pack]
        if by_machines > NODE_RETRIES or (by_rows > WORKER_RETRIES and len(parts) == 1):
            return []
        for part in parts:
            if part is not pack:  # its last loss is that of its halves too
                self._starts[part.id] = self._starts[pack.id][-1:]
        return parts

    def losses(self, pack: str) -> int:
        """How often a pack was lost, after its last start."""
        return len(self._starts[pack])


def run(
    source: PackQueue, job: Job, on_segment: Callable[[Pack, AnyPath], None], *, workers: int, scratch: Path
) -> None:
    """Compute every pack of `source` on the connected cluster; `on_segment` is told of each published segment."""
    from ray import tune

    trainable = tune.with_resources(tune.with_parameters(_trainable, job=job), _placement)
    scratch.mkdir(exist_ok=True)
    problems: list[BaseException] = []

    class Halt(tune.Stopper):
        """What runs when the driver is to end may run for hours: Tune takes it down, by force within seconds."""

        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            return False

        def stop_all(self) -> bool:
            return bool(problems)

    tuner = tune.Tuner(
        trainable,
        tune_config=tune.TuneConfig(
            search_alg=_searcher(source, job, on_segment, problems),
            num_samples=-1,
            max_concurrent_trials=workers,
            reuse_actors=True,
            metric="rows",
            mode="max",
        ),
        run_config=tune.RunConfig(name="tune", storage_path=str(scratch.resolve()), verbose=0, stop=Halt()),
    )
    try:
        with ray_alive.watched(terminal.say):
            tuner.fit()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if problems:
        raise problems[0]


def _placement(config: dict[str, Any]) -> Any:
    """The placement group of a trial: itself, or for a gang nothing for itself and a bundle for every worker."""
    from ray import tune

    needs = Resources(**config["needs"])
    return tune.PlacementGroupFactory([{}] * (needs.gang > 1) + [needs.share] * needs.gang)


def _trainable(config: dict[str, Any], job: Job) -> None:
    from ray import tune

    cells, seeds = (np.frombuffer(bytes.fromhex(config[name]), dtype=np.int64) for name in ("cells", "seeds"))
    needs = Resources(**config["needs"])
    gpus, by = needs.gpus, None
    if needs.gang > 1:
        from raysweep.executors import gang

        gpus, by = 0, functools.partial(gang.rows, needs)  # its workers hold them
    devices.hide_unless(gpus)
    try:
        run_pack(replace(job, cpus=needs.threads, gpus=gpus), config["pack"], cells, seeds, capture=True, by=by)
    except RaysweepError as error:  # no fault of the rows, nor of this worker: the driver is to end
        tune.report({"rows": 0, "halted": str(error)})
    else:
        tune.report({"rows": len(seeds)})


def _dead_nodes() -> set[str]:
    """Machines that the cluster had and lost."""
    import ray

    return {node["NodeID"] for node in ray.nodes() if not node["Alive"]}


def _searcher(
    source: PackQueue, job: Job, on_segment: Callable[[Pack, AnyPath], None], problems: list[BaseException]
) -> Any:
    """A Tune Searcher over the queue of packs. (Made here because its base class needs Ray.)"""
    from ray.tune.search import Searcher

    class PackSearcher(Searcher):
        def __init__(self) -> None:
            super().__init__(metric="rows", mode="max")
            self.running: dict[str, Pack] = {}
            self.retries = RetryPolicy()

        def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
            if problems:
                return Searcher.FINISHED
            pack = source.next()
            if pack is None:  # a running pack may yet come back or start a round, so the end is when none runs
                return None if source.running else Searcher.FINISHED
            self.running[trial_id] = pack
            self.retries.begin(pack.id, _dead_nodes())
            return {
                "pack": pack.id,
                "cells": pack.cells.astype(np.int64).tobytes().hex(),
                "seeds": pack.seeds.astype(np.int64).tobytes().hex(),
                "needs": asdict(pack.needs),
            }

        def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
            pack = self.running.pop(trial_id)
            if problems:  # it was taken down; if it had ended, its rows are in the ledger
                return
            try:
                if result and "halted" in result:
                    raise Halted("", result["halted"])
                path = job.segment(pack.id)
                if not path.exists():  # it may be there even if the worker died right after
                    if parts := self.retries.again(pack, job.cell_ids, _dead_nodes()):
                        terminal.say(f"lost a worker; trying its pack of {counted(len(pack), 'row')} again")
                        source.hand_back(parts)
                        return
                    lost = lost_rows(job, pack.cells, pack.seeds, self.retries.losses(pack.id))
                    publish(job, pack.id, lost)
                on_segment(pack, path)
                source.done()
            except Exception as problem:  # Tune would swallow it; the driver must hear of it
                problems.append(problem)

        def __reduce__(self) -> tuple[type, tuple[str]]:
            return str, ("Tune saves its searcher; this queue is not to be saved, the ledger is the state",)

        def save(self, checkpoint_path: str) -> None:
            Path(checkpoint_path).touch()

        def restore(self, checkpoint_path: str) -> None:
            raise RuntimeError("a sweep resumes from its ledger, never from Tune's state")

    return PackSearcher()
