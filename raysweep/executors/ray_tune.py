"""Computes packs on Ray Tune: one trial per pack. One Searcher takes the packs from the queue.

Trials write rows to ledger segments and do not send them through `tune.report`, so that finished rows are safe before
the driver hears of them. Tune's own loggers, result files and checkpoints are off; resuming reads the ledger.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from raysweep import terminal
from raysweep.errors import Halted, InputError, RaysweepError
from raysweep.executors import local_ray, machines, shipping
from raysweep.executors.retry_policy import RetryPolicy
from raysweep.plan.pack import Pack, PackQueue
from raysweep.space.resources import Resources
from raysweep.training import devices
from raysweep.trial.pack import Job, died, lost_rows, publish
from raysweep.trial.run import Ended, content, is_done, lost_stages, run_pack

_ENVIRONMENT = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # raysweep handles Ctrl-C: stop, keep the rows, say how to resume
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the newer reporter prints boxes even with verbose=0
    "RAY_USAGE_STATS_ENABLED": "0",
}


@dataclass(frozen=True)
class Capacity:
    """How many trials a cluster can run at a time, with the machines that the autoscaler may add and on those that are
    up, and how many workers of these trials may share the memory of one machine."""

    trials: int
    now: int
    per_machine: int


def is_connected() -> bool:
    """Whether this process is connected to a Ray, which a fork of it cannot use."""
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


def connect(workers: int | None, needs: Sequence[Resources], say: Callable[[str], None]) -> Capacity:
    """Join the cluster that RAY_ADDRESS names, or start Ray on this machine. Returns how many trials it can run. Raises
    InputError if some trial can never fit; on this machine before Ray is started.

    workers: trials at a time; None for as many as fit. needs: the resources of each kind of trial.
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
    counts = (max(map(count, needs)) for count in (there.trials, up.trials, there.per_machine))
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
            why = f"{os.environ['RAY_ADDRESS']} cannot be joined: {error}"
            advice = "a cluster that asks for a token wants RAY_AUTH_MODE=token here too"
            raise InputError("RAY_ADDRESS", f"{why} ({advice})") from None
        return
    # never join another user's cluster that happens to run on this machine
    cpus = max(os.cpu_count() or 1, workers or 1)
    machines.check(machines.of_resources([local_ray.machine(cpus)]), needs)
    say("starting Ray")
    # closing a terminal sends SIGHUP to all processes it started; Ray's processes inherit the blocked signal
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        local_ray.start(cpus, **options)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def run(
    source: PackQueue, job: Job, on_done: Callable[[Pack, Ended], Pack | None], *, workers: int, scratch: Path
) -> None:
    """Compute every pack of `source` on the connected cluster, `workers` trials at a time. on_done: as in `inline.run`.
    scratch: a folder for Tune's files, which is deleted afterwards."""
    from ray import tune

    retries, problems = RetryPolicy(), list[BaseException]()
    with shipping.by_value(job.function.code) if job.function else contextlib.nullcontext():
        trainable = tune.with_resources(tune.with_parameters(_trainable, job=job, home=os.getcwd()), _placement)

    class Halt(tune.Stopper):
        """Makes Tune stop all running trials, within seconds and by force, once the driver has to end."""

        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            return False

        def stop_all(self) -> bool:
            return bool(problems)

    order = {"num_samples": -1, "max_concurrent_trials": workers, "reuse_actors": True, "metric": "rows", "mode": "max"}
    while True:
        scratch.mkdir(exist_ok=True)
        how = tune.TuneConfig(search_alg=_searcher(source, job, on_done, retries, problems), **order)
        where = tune.RunConfig(name="tune", storage_path=str(scratch.resolve()), verbose=0, stop=Halt())
        tuner = tune.Tuner(trainable, tune_config=how, run_config=where)
        try:
            with local_ray.watched(terminal.say):
                tuner.fit()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if problems:
            raise problems[0]
        if not source.wait():  # Tune has ended meanwhile: it would keep a worker, and its cores, for the next trial
            return


@dataclass(frozen=True)
class _Sent:
    """What a trial gets, as one object, since Tune would take mappings apart. changes: fields of the job for this pack,
    or that changed since the job was sent to the workers."""

    pack: Pack
    changes: dict[str, Any]
    apart: bool


def _placement(config: dict[str, Any]) -> Any:
    """The placement group of a trial: one bundle, or for a gang an empty bundle for the trial and one per worker."""
    from ray import tune

    needs = config["sent"].pack.needs
    return tune.PlacementGroupFactory([{}] * (needs.gang > 1) + [needs.share] * needs.gang)


def _trainable(config: dict[str, Any], job: Job, home: str) -> None:
    """Compute a pack in a trial. home: the driver's working directory."""
    import ray
    from ray import tune

    with contextlib.suppress(OSError):  # another machine may lack it; a relative path in a space means the same here
        os.chdir(home)
    sent: _Sent = config["sent"]
    pack, needs = sent.pack, sent.pack.needs
    gpus, by = needs.gpus, None
    if needs.gang > 1:
        from raysweep.executors import gang

        gpus, by = 0, functools.partial(gang.rows, needs)  # the workers hold the GPUs
    devices.show_only(ray.get_gpu_ids() if gpus else [])
    local_ray.refuse_nested_tasks()
    trial_job = replace(job, cpus=needs.threads, gpus=gpus, **sent.changes)
    if "columns" in sent.changes:
        pack = replace(pack, cells=np.arange(len(pack)))
    try:
        ended = run_pack(trial_job, pack, capture=True, by=by, apart=sent.apart)
    except RaysweepError as error:  # caused neither by the rows nor by this worker: the driver has to end
        tune.report({"rows": 0, "halted": str(error), "bad_input": isinstance(error, InputError)})
    else:
        tune.report({"rows": len(pack), "ended": ended})


def _sent(pack: Pack, job: Job, failed: Mapping[str, str], apart: bool) -> _Sent:
    expired = {stage: job.expired[stage] for stage in pack.needed if stage in job.expired}
    changes = {"failed": dict(failed), "expired": expired, "rule": job.rule}
    if job.asked is not None:  # the table grows
        changes |= job.table(pack.cells)
    return _Sent(pack, changes, apart)


def _dead_nodes() -> set[str]:
    import ray

    return {node["NodeID"] for node in ray.nodes() if not node["Alive"]}


def _searcher(
    source: PackQueue,
    job: Job,
    on_done: Callable[[Pack, Ended], Pack | None],
    retries: RetryPolicy,
    problems: list[BaseException],
) -> Any:
    """A Tune Searcher over the queue of packs. problems: receives the first error, which ends the driver."""
    from ray.tune.search import Searcher

    class PackSearcher(Searcher):
        def __init__(self) -> None:
            super().__init__(metric="rows", mode="max")
            self.running: dict[str, Pack] = {}

        def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
            if problems:
                return Searcher.FINISHED
            try:
                pack = source.next()
            except Exception as problem:
                problems.append(problem)
                return Searcher.FINISHED
            if pack is None:  # Tune asks again within 0.1 s, and at once when a trial ends
                return None if source.running else Searcher.FINISHED
            self.running[trial_id] = pack
            dead = _dead_nodes()
            apart = retries.is_suspect(pack.id, dead) and pack.needs.cpus == pack.needs.gang == 1
            retries.begin(pack.id, dead)
            return {"sent": _sent(pack, job, source.errors(pack), apart)}

        def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
            pack = self.running.pop(trial_id)
            if problems:  # the trial was stopped; if it had finished, its rows are in the ledger
                return
            try:
                if result and "halted" in result:
                    raise (InputError if result["bad_input"] else Halted)("", result["halted"])
                ended = result["ended"] if result and "ended" in result else None
                if ended is None:
                    ended = self._after_loss(pack)
                elif ended.held:
                    retries.take_back(pack.id)
                    source.hold_back(pack, ended.held)
                    return
                if ended is None:
                    return
                if rest := on_done(pack, ended):
                    source.hand_back(pack, [rest])
                else:
                    source.done(pack, ended.failed)
            except Exception as problem:  # Tune would ignore it, but the driver must know it
                problems.append(problem)

        def _after_loss(self, pack: Pack) -> Ended | None:
            """How a pack ended whose worker was lost; None if it is tried again."""
            if is_done(job, pack):  # the worker died afterwards
                return Ended()
            dead = _dead_nodes()
            lost = "a machine" if retries.by_machine(pack.id, dead) else "a worker"
            if parts := retries.again(pack, job.cell_ids, dead):
                terminal.say(f"lost {lost}; trying its pack of {content(pack)} again")
                source.hand_back(pack, parts)
                return None
            if pack.stages:
                return Ended(failed=lost_stages(job, pack, retries.losses(pack.id)))
            publish(job, pack.id, lost_rows(job, pack.cells, pack.seeds, died(retries.losses(pack.id))))
            return Ended()

        def __reduce__(self) -> tuple[type, tuple[str]]:
            return str, ("Tune saves its searcher; this queue is not to be saved, the ledger is the state",)

        def save(self, checkpoint_path: str) -> None:
            Path(checkpoint_path).touch()

        def restore(self, checkpoint_path: str) -> None:
            raise RuntimeError("a sweep resumes from its ledger, never from Tune's state")

    return PackSearcher()
