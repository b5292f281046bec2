"""A trial of several workers: a gang inside the trial's own placement group, so that Tune sees all that it holds.

The group has one bundle a worker and is given out whole or not at all: gangs cannot wait for each other. The trial
itself takes nothing and sits beside the first worker. The workers compute a part of the rows each; those of a workload
that is data-parallel meet in torch.distributed (NCCL between GPUs, else gloo) and train together. When one dies, the
gang is over and the pack is tried again as a lost one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import time
import traceback
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from raysweep import workloads
from raysweep.errors import Halted, RaysweepError
from raysweep.ledger import segments
from raysweep.plan.resources import Resources
from raysweep.training import devices
from raysweep.trial import log, threads
from raysweep.trial.pack import Job, WorkerLost, attempt, compute_rows
from raysweep.workloads.declaration import Columns, Workload

MEETING = 300.0  # seconds for all workers to start and find each other
GRACE = 15.0  # seconds for the others to end by themselves when one has failed
PATIENCE = 1800.0
"""Seconds that workers which train together wait for one that does not come. What may keep one so long while the others
have nothing to do: gigabytes of text to tokenize that another machine has in its cache, or of a checkpoint that the
first alone writes to a bucket. Whether a worker lives is known from Ray at once: this is for one that is stuck."""
_ROWS, _FAILED, _INPUT, _LOST, _WAITED = "rows", "failed", "input", "lost", "waited"


class Worker:
    """One process of a gang: rank 0 is the first."""

    def __init__(self, rank: int, needs: Resources, patience: float = PATIENCE) -> None:
        self._rank, self._needs, self._patience = rank, needs, patience
        self._store: Any = None
        self._stages: Any = None  # the group of those who wait for the stage store
        devices.hide_unless(needs.gpus)

    def invite(self) -> tuple[str, int]:
        """Of the first worker: open the place where all meet; its address."""
        from torch.distributed import TCPStore

        here = ray.util.get_node_ip_address()
        with socket.create_server((here, 0)) as door:  # one of its own would be open on every interface
            port = door.getsockname()[1]
            self._store = TCPStore(
                here,
                port,
                self._needs.gang,
                True,
                timedelta(seconds=MEETING),
                wait_for_workers=False,
                master_listen_fd=door.detach(),
            )
        return here, port

    def meet(self, address: str, port: int) -> None:
        """Join the others there, once they have left where they met before."""
        import torch.distributed as dist

        from raysweep.executors import gang_stages

        self._leave()
        if interface := _interface(ray.util.get_node_ip_address()):  # gloo would look up the host's name: 127.0.1.1
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        if self._rank:
            self._store = dist.TCPStore(address, port, self._needs.gang, False, timedelta(seconds=MEETING))
        self._store.set(str(self._rank), "here")
        self._store.wait([str(rank) for rank in range(self._needs.gang)], timedelta(seconds=MEETING))
        with devices.granted(self._needs.gpus // self._needs.gang):
            backend = "cpu:gloo,cuda:nccl" if devices.usable() else "gloo"
        dist.init_process_group(
            backend,
            store=self._store,
            rank=self._rank,
            world_size=self._needs.gang,
            timeout=timedelta(seconds=self._patience),
        )
        self._stages = gang_stages.group()

    def compute(self, job: Job, pack: str, seeds: np.ndarray, together: bool) -> tuple[str, Any]:
        """The rows of a job whose cells are its rows, in order: (rows, them), or how it failed and why."""
        cells = np.arange(len(seeds))
        with (
            threads.limited(job.cpus),
            devices.granted(job.gpus),
            log.recorded(job.log(pack, self._rank), pack, len(seeds), capture=True),
        ):
            try:
                if not together:
                    return _ROWS, compute_rows(job, cells, seeds)
                from raysweep.executors.gang_stages import GangStages

                rows = attempt(job, cells, seeds, lambda store: GangStages(store, self._stages))
                return _ROWS, rows if self._rank == 0 else []
            except RaysweepError as error:
                self._forsake()
                return _INPUT, str(error)
            except Exception as error:  # as `compute_rows` would; it goes back as what the rows failed by
                self._forsake()
                problem = traceback.format_exc()
                log.LOGGER.error("%s", problem)
                return _WAITED if _waited(error) else _FAILED, problem

    def _forsake(self) -> None:
        """Having failed, let the others know who wait for this one: they end as well, and give back their leases. On
        GPUs leaving could itself wait for them; there the gang is taken down."""
        if not self._needs.gpus:
            self._leave()

    def _leave(self) -> None:
        import torch.distributed as dist

        if dist.is_initialized():
            dist.destroy_process_group()


class Gang:
    """The workers of this trial, kept for the packs that come after."""

    def __init__(self, needs: Resources, group: PlacementGroup) -> None:
        self.needs, self._group = needs, group
        self._workers: list[Any] = []
        self._met = False

    def rows(self, job: Job, pack: str, cells: np.ndarray, seeds: np.ndarray) -> list[segments.Row]:
        """The rows of a pack. WorkerLost if a worker died."""
        workload = workloads.get(job.workload)
        log.LOGGER.info("by %s workers, whose logs are beside this one (.worker0, ...)", self.needs.gang)
        if workload.data_parallel:
            return compute_rows(job, cells, seeds, lambda job, cells, seeds: self._together(job, pack, cells, seeds))
        columns = {name: values[cells] for name, values in job.columns.items()}
        parts = shares(workload, columns, seeds, self.needs.gang)
        self._start()
        started = time.perf_counter()
        found = self._ask([(job, pack, cells[part], seeds[part]) for part in parts], together=False)
        # a row's seconds are its share of the time that its trial, with all that it held, was busy
        share = (time.perf_counter() - started) / max(sum(row["seconds"] for own in found for row in own), 1e-9)
        rows: list[Any] = [None] * len(seeds)
        for part, own in zip(parts, found, strict=True):
            for index, row in zip(part.tolist(), own, strict=True):
                rows[index] = {**row, "seconds": row["seconds"] * share}
        return rows

    def _together(self, job: Job, pack: str, cells: np.ndarray, seeds: np.ndarray) -> list[segments.Row]:
        self._start()
        if not self._met:
            address, port = self._answers([self._workers[0].invite.remote()])[0]
            self._answers([worker.meet.remote(address, port) for worker in self._workers])
            self._met = True
        return self._ask([(job, pack, cells, seeds)] * self.needs.gang, together=True)[0]

    def _start(self) -> None:
        if self._workers:
            return
        actor, share = ray.remote(Worker), self.needs.share
        self._workers = [
            actor.options(
                num_cpus=share["CPU"],
                num_gpus=share.get("GPU", 0),
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, rank),
            ).remote(rank, self.needs, PATIENCE)
            for rank in range(self.needs.gang)
        ]

    def _ask(self, work: list[tuple[Job, str, np.ndarray, np.ndarray]], together: bool) -> list[Any]:
        """What each worker makes of its work: its rows. What one of them raised, if any did."""
        calls = []
        for worker, (job, pack, cells, seeds) in zip(self._workers, work, strict=False):
            columns = {name: values[cells] for name, values in job.columns.items()}
            own = replace(
                job,
                columns=columns,
                cell_ids=[job.cell_ids[cell] for cell in cells.tolist()],
                cpus=self.needs.threads,
                gpus=self.needs.gpus // self.needs.gang,
            )
            calls.append(worker.compute.remote(own, pack, seeds, together))
        answers: dict[Any, tuple[str, Any]] = {}
        waiting = list(calls)
        while waiting:
            failed = [word for word, _ in answers.values() if word != _ROWS]
            ready, waiting = ray.wait(waiting, timeout=GRACE if failed else None)
            if not ready:  # they wait for the one that failed
                break
            answers[ready[0]] = _answer(ready[0])
        told = [
            (f"worker {rank} of {len(calls)}", *answers[call]) for rank, call in enumerate(calls) if call in answers
        ]
        bad = [entry for entry in told if entry[1] != _ROWS]
        if not bad:
            return [answer for _, _, answer in told]
        self._met = False
        missed = _missed([answers[call][0] if call in answers else "" for call in calls])
        if waiting or self.needs.gpus or any(word == _LOST for _, word, _ in bad):
            self.end()
        for who, word, answer in bad:
            if word == _LOST:
                raise WorkerLost(f"{who} died: {answer}")
        if waiting and missed:
            raise WorkerLost(missed)
        for _, word, answer in bad:
            if word == _INPUT:
                raise Halted("", answer)
        raise RuntimeError("\n".join([*filter(None, [missed]), *(f"{who}: {answer}" for who, _, answer in bad)]))

    def _answers(self, calls: list[Any]) -> list[Any]:
        """What each returns, while all workers are to find each other; WorkerLost if one does not come."""
        try:
            return list(ray.get(calls, timeout=MEETING))
        except (RayActorError, GetTimeoutError) as error:
            self.end()
            raise WorkerLost(f"the workers could not all meet within {MEETING:g} s: {error}") from None

    def end(self) -> None:
        """Take every worker down; the next pack starts new ones."""
        for worker in self._workers:
            with contextlib.suppress(RayError):  # it is gone already, or so is the cluster
                ray.kill(worker)
        self._workers, self._met = [], False


def _answer(call: Any) -> tuple[str, Any]:
    try:
        word, answer = ray.get(call)
    except RayActorError as error:
        return _LOST, str(error)
    return word, answer


def _missed(words: list[str]) -> str:
    """Which workers did not come where others waited for them in vain; nothing if none did. words: what each answered,
    if anything."""
    late = [f"worker {rank} of {len(words)}" for rank, word in enumerate(words) if word != _WAITED]
    if len(late) in (0, len(words)):
        return ""
    return f"{' and '.join(late)} did not come where the others waited {PATIENCE:g} s"


def _waited(error: Exception) -> bool:
    """Whether it is gloo's way to say that another worker did not come. (On GPUs NCCL ends the process instead.)"""
    return isinstance(error, RuntimeError) and "Timed out waiting" in str(error)


_gang: Gang | None = None  # of this process: Tune runs one trial after another in it, in one placement group


def rows(needs: Resources, job: Job, pack: str, cells: np.ndarray, seeds: np.ndarray) -> list[segments.Row]:
    """The rows of a pack by the gang of this trial, which stays for the next."""
    global _gang
    group = ray.util.get_current_placement_group()
    if group is None:
        raise RuntimeError("a gang lives in the placement group of a trial, and there is none here")
    if _gang is None or _gang.needs != needs:
        _gang = Gang(needs, group)
    return _gang.rows(job, pack, cells, seeds)


def shares(workload: Workload, columns: Columns, seeds: np.ndarray, count: int) -> list[np.ndarray]:
    """Row numbers for each of `count` workers (fewer if there are not so many rows), about equal in cost.

    Rows that share their costly part stay together; only where there are too few such groups they are halved.
    """
    keys = [seeds, *(columns[name] for name in workload.shared)]
    found: dict[tuple[Any, ...], list[int]] = {}
    for index in range(len(seeds)):
        found.setdefault(tuple(values[index] for values in keys), []).append(index)
    groups = [(_seconds(workload, columns, members), members) for members in found.values()]
    while len(groups) < min(count, len(seeds)):
        seconds, members = max((group for group in groups if len(group[1]) > 1), key=lambda group: group[0])
        groups.remove((seconds, members))
        half = len(members) // 2
        groups += [(_seconds(workload, columns, part), part) for part in (members[:half], members[half:])]
    parts: list[list[int]] = [[] for _ in range(min(count, len(seeds)))]
    loads = [0.0] * len(parts)
    for seconds, members in sorted(groups, key=lambda group: -group[0]):
        least = min(range(len(parts)), key=lambda part: (loads[part], len(parts[part])))
        parts[least] += members
        loads[least] += seconds
    return [np.asarray(sorted(part), dtype=np.int64) for part in parts]


def _seconds(workload: Workload, columns: Columns, members: list[int]) -> float:
    return workload.cost({name: values[members] for name, values in columns.items()}).seconds


def _interface(address: str) -> str | None:
    """The network interface that has this IPv4 address; None where that cannot be said."""
    for _, name in socket.if_nameindex():
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            get_address = 0x8915  # SIOCGIFADDR of Linux
            answer = fcntl.ioctl(probe.fileno(), get_address, struct.pack("256s", name.encode()[:15]))
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None
