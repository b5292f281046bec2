"""One worker of a gang: a process that computes some rows of a pack, or trains all of them with the other workers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import traceback
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

import numpy as np
import ray

from raysweep.errors import InputError, RaysweepError
from raysweep.ledger.segments import Row
from raysweep.phrases import counted
from raysweep.plan.pack import Pack
from raysweep.redaction import error_text
from raysweep.space.resources import Resources
from raysweep.storage import leases
from raysweep.training import devices
from raysweep.trial import log, threads
from raysweep.trial.pack import Job, attempt
from raysweep.trial.run import compute_directly, content, put_stages

MEETING = 300.0  # seconds that all workers have to start and find each other


class Outcome(StrEnum):
    """How the work of one worker ended."""

    ROWS = "rows"
    FAILED = "failed"  # the workload raised an error
    HELD = "held"  # somebody else computes a stage that it needs
    HALTED = "halted"  # for a reason other than the rows: a full disk, a missing text
    REFUSED = "refused"  # the same for bad input: a stage gave back what does not fit its declaration
    WAITED = "waited"  # the worker waited in vain for another one
    LOST = "lost"  # the process died


@dataclass(frozen=True)
class Answer:
    """The rows of one worker, or the problem (for HELD the stage) and the kept stages that it could not compute."""

    outcome: Outcome
    rows: list[Row] = field(default_factory=list)
    problem: str = ""
    stages: list[str] = field(default_factory=list)


class Worker:
    """One process of a gang. rank: 0 for the first worker. needs: the resources of the whole trial. patience, in_step:
    seconds that it waits for the others where one of them may be late, and elsewhere while they train together."""

    def __init__(self, rank: int, needs: Resources, patience: float, in_step: float) -> None:
        self._rank, self._needs = rank, needs
        self._patience, self._in_step = timedelta(seconds=patience), timedelta(seconds=in_step)
        self._store: Any = None
        self._waiting: Any = None  # the process group for waiting for the stage store
        devices.show_only(ray.get_gpu_ids() if needs.gpus else [])

    def invite(self) -> tuple[str, int]:
        """Open the TCPStore where the workers meet, as the first worker. Returns its address and port."""
        from torch.distributed import TCPStore

        here, patience = ray.util.get_node_ip_address(), timedelta(seconds=MEETING)
        with socket.create_server((here, 0)) as door:  # TCPStore itself would open all interfaces
            port, opened = door.getsockname()[1], {"wait_for_workers": False, "master_listen_fd": door.detach()}
        self._store = TCPStore(here, port, self._needs.gang, True, patience, **opened)
        return here, port

    def meet(self, address: str, port: int) -> None:
        """Join the other workers in a new process group at this address. A previous process group is left first."""
        import torch
        import torch.distributed as dist
        import torch.distributed.nn.functional  # imported later, its defaults would keep this process group open

        from raysweep.executors import gang_stages
        from raysweep.training import parallel

        _leave()
        if interface := _interface(ray.util.get_node_ip_address()):  # gloo would resolve the host's name to 127.0.1.1
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        if self._rank:
            self._store = dist.TCPStore(address, port, self._needs.gang, False, timedelta(seconds=MEETING))
        with devices.granted(self._needs.gpus // self._needs.gang):
            self._store.set(str(self._rank), "GPU" if devices.usable() else "CPU")
        names = [str(rank) for rank in range(self._needs.gang)]
        self._store.wait(names, timedelta(seconds=MEETING))
        gpu = None
        # where one of them sees no GPU, it says so in `compute`, and no other may wait for it in NCCL
        if all(self._store.get(name) == b"GPU" for name in names):
            gpu = torch.device("cuda", 0)  # NCCL itself would take GPU number `rank` of those that it sees
            torch.cuda.set_device(gpu)
        place = {"store": self._store, "rank": self._rank, "world_size": self._needs.gang, "device_id": gpu}
        dist.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo", timeout=self._in_step, **place)
        parallel.meet_in(dist.new_group(backend="gloo", timeout=self._patience))
        self._waiting = gang_stages.waiting_group()

    def compute(self, job: Job, pack: Pack, seeds: np.ndarray, together: bool) -> Answer:
        """Compute the rows of a job that has one cell for each row, or put the stages of the pack that they need into
        the store. together: whether all workers train the same rows together. Only the first worker returns the rows
        then."""
        cells, what = np.arange(len(seeds)), content(pack) if pack.stages else counted(len(seeds), "row")
        before = {stage: len(tracebacks) for stage, tracebacks in job.errors.items()}
        with (
            threads.limited(job.cpus),
            devices.granted(job.gpus),
            log.recorded(job.log(pack.id, self._rank), pack.id, what, capture=True),
        ):
            try:
                if not together:
                    return Answer(Outcome.ROWS, compute_directly(job, pack, cells, seeds))
                from raysweep.executors.gang_stages import GangStages
                from raysweep.training import parallel

                parallel.meet()  # libraries are loaded by now

                def view(store: Any) -> GangStages:
                    return GangStages(store, self._waiting)

                if pack.stages:
                    put_stages(job, pack.stages, cells, seeds, view, workers=self._needs.gang)
                    return Answer(Outcome.ROWS)
                rows = attempt(job, cells, seeds, view)
                return Answer(Outcome.ROWS, rows if self._rank == 0 else [])
            except leases.Held as other:
                return Answer(Outcome.HELD, problem=other.stage)
            except RaysweepError as error:
                self._forsake()
                outcome = Outcome.REFUSED if isinstance(error, InputError) else Outcome.HALTED
                return Answer(outcome, problem=str(error))
            except Exception as error:  # the trial records the problem with the rows
                self._forsake()
                problem = error_text(traceback.format_exc())
                log.LOGGER.error("%s", problem)
                stages = [stage for stage, tracebacks in job.errors.items() if len(tracebacks) > before.get(stage, 0)]
                # gloo's error for a worker that did not come (with GPUs, NCCL ends the process instead)
                waited = isinstance(error, RuntimeError) and "Timed out waiting" in str(error)
                outcome = Outcome.WAITED if waited else Outcome.FAILED
                return Answer(outcome, problem=problem, stages=stages)

    def _forsake(self) -> None:
        """Leave the process group after a failure, so that the workers that wait for this one end too and give back
        their leases. With GPUs, leaving could itself wait for the others; the gang is killed there instead."""
        if not self._needs.gpus:
            _leave()


def _leave() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def _interface(address: str) -> str | None:
    """The network interface that has this IPv4 address; None if it cannot be found."""
    for _, name in socket.if_nameindex():
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            get_address = 0x8915  # SIOCGIFADDR of Linux
            answer = fcntl.ioctl(probe.fileno(), get_address, struct.pack("256s", name.encode()[:15]))
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None
