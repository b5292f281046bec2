"""Computes packs on Ray Tune: one trial per pack. One Searcher takes the packs from the queue.

Trials write rows to ledger segments and do not send them through `tune.report`, so that finished rows are safe before
the driver hears of them. Tune's own loggers, result files and checkpoints are off; resuming reads the ledger.
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
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # raysweep handles Ctrl-C: stop, keep the rows, say how to resume
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the newer reporter prints boxes even with verbose=0
    "RAY_USAGE_STATS_ENABLED": "0",
}
WORKER_RETRIES = 3
"""How often a single row is tried again after its worker died. A larger pack is tried again once, then in halves. The
rows may not be the cause of the death. A row that raises is tried again elsewhere: trial/pack.py, compute_rows."""
NODE_RETRIES = 20
"""How often a pack is tried again, undivided, after its machine died. Rows do not cause the death of a machine."""


@dataclass(frozen=True)
class Capacity:
    """How many trials a cluster can run at a time.

    trials: the number of trials, including those on machines that the autoscaler may add.
    now: the number of trials on machines that are up.
    beside: how many workers of these trials may share the memory of one machine.
    """

    trials: int
    now: int
    beside: int


def connect(workers: int | None, needs: Sequence[Resources], say: Callable[[str], None]) -> Capacity:
    """Join the cluster that RAY_ADDRESS names, or start Ray on this machine. Returns how many trials it can run.

    workers: how many trials to run at a time; None for as many as fit.
    needs: the resources of each kind of trial.
    say: called with every line for the user.

    Raises InputError if some trial can never fit. On this machine it is raised before Ray is started.
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
    # never join another user's cluster that happens to run on this machine
    cpus = max(os.cpu_count() or 1, workers or 1)
    machines.check(machines.of_resources([local_ray.machine(cpus)]), needs)
    say("starting Ray")
    # closing a terminal sends SIGHUP to all processes it started; Ray's processes inherit the blocked signal
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        local_ray.start(cpus, **options)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


class RetryPolicy:
    """Decides whether a pack whose worker was lost is tried again, by the number and the causes of its losses.

    A loss counts as caused by a machine if a machine was found dead before the pack's next start, because the loss of
    a worker is often noticed seconds before the loss of its machine.

    The argument `dead` of the methods is the set of ids of all machines that are known to be dead.
    """

    def __init__(self) -> None:
        self._starts: dict[str, list[Set[str]]] = {}  # by pack: the machines known to be dead at each start

    def begin(self, pack: str, dead: Set[str]) -> None:
        """Record that a pack is started."""
        self._starts.setdefault(pack, []).append(dead)

    def count(self, pack: str, dead: Set[str]) -> tuple[int, int]:
        """How often a pack that is just lost may have been lost because of its rows, and how often because of a
        machine."""
        seen = [*self._starts[pack], dead]
        by_machines = sum(bool(later - earlier) for earlier, later in pairwise(seen))
        return len(seen) - 1 - by_machines, by_machines

    def again(self, pack: Pack, cell_ids: Sequence[str], dead: Set[str]) -> list[Pack]:
        """The packs to try after a pack is lost: the pack itself, or its halves because one of its rows may have killed
        the worker. Empty if it was lost too often."""
        by_rows, by_machines = self.count(pack.id, dead)
        parts = halves(pack, cell_ids) if by_rows > 1 else [pack]
        if by_machines > NODE_RETRIES or (by_rows > WORKER_RETRIES and len(parts) == 1):
            return []
        for part in parts:
            if part is not pack:  # the last loss counts for both halves too
                self._starts[part.id] = self._starts[pack.id][-1:]
        return parts

    def losses(self, pack: str) -> int:
        """The number of losses of a pack whose last start was lost too."""
        return len(self._starts[pack])


def run(
    source: PackQueue, job: Job, on_segment: Callable[[Pack, AnyPath], None], *, workers: int, scratch: Path
) -> None:
    """Compute every pack of `source` on the connected cluster.

    on_segment: called with each pack and the path of its published segment.
    workers: how many trials run at a time.
    scratch: a folder for Tune's files, which is deleted afterwards.
    """
    from ray import tune

    trainable = tune.with_resources(tune.with_parameters(_trainable, job=job), _placement)
    scratch.mkdir(exist_ok=True)
    problems: list[BaseException] = []

    class Halt(tune.Stopper):
        """Makes Tune stop all running trials, within seconds and by force, once the driver has to end."""

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
    """The placement group of a trial: one bundle, or for a gang an empty bundle for the trial and one per worker."""
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

        gpus, by = 0, functools.partial(gang.rows, needs)  # the workers hold the GPUs
    devices.hide_unless(gpus)
    try:
        run_pack(replace(job, cpus=needs.threads, gpus=gpus), config["pack"], cells, seeds, capture=True, by=by)
    except RaysweepError as error:  # caused neither by the rows nor by this worker: the driver has to end
        tune.report({"rows": 0, "halted": str(error)})
    else:
        tune.report({"rows": len(seeds)})


def _dead_nodes() -> set[str]:
    """The ids of machines that the cluster had and lost."""
    import ray

    return {node["NodeID"] for node in ray.nodes() if not node["Alive"]}


def _searcher(
    source: PackQueue, job: Job, on_segment: Callable[[Pack, AnyPath], None], problems: list[BaseException]
) -> Any:
    """A Tune Searcher that takes its trials from the queue of packs. (Its base class needs Ray, hence the inner class.)

    problems: receives the first error, which ends the driver.
    """
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
            if pack is None:  # a running pack may still be handed back or start a round
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
            if problems:  # the trial was stopped; if it had finished, its rows are in the ledger
                return
            try:
                if result and "halted" in result:
                    raise Halted("", result["halted"])
                path = job.segment(pack.id)
                if not path.exists():  # the segment may exist even if the worker died afterwards
                    if parts := self.retries.again(pack, job.cell_ids, _dead_nodes()):
                        terminal.say(f"lost a worker; trying its pack of {counted(len(pack), 'row')} again")
                        source.hand_back(parts)
                        return
                    lost = lost_rows(job, pack.cells, pack.seeds, self.retries.losses(pack.id))
                    publish(job, pack.id, lost)
                on_segment(pack, path)
                source.done()
            except Exception as problem:  # Tune would ignore it, but the driver must know it
                problems.append(problem)

        def __reduce__(self) -> tuple[type, tuple[str]]:
            return str, ("Tune saves its searcher; this queue is not to be saved, the ledger is the state",)

        def save(self, checkpoint_path: str) -> None:
            Path(checkpoint_path).touch()

        def restore(self, checkpoint_path: str) -> None:
            raise RuntimeError("a sweep resumes from its ledger, never from Tune's state")

    return PackSearcher()
