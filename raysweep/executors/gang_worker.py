"""One worker of a gang: a process that computes a part of a pack's rows, or trains all of them with the others."""

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

from raysweep.errors import RaysweepError
from raysweep.ledger.segments import Row
from raysweep.plan.resources import Resources
from raysweep.training import devices
from raysweep.trial import log, threads
from raysweep.trial.pack import Job, attempt, compute_rows

MEETING = 300.0  # seconds for all workers to start and find each other


class Outcome(StrEnum):
    """How the work of one worker ended."""

    ROWS = "rows"
    FAILED = "failed"  # by what the workload raised
    HALTED = "halted"  # by something that is not caused by the rows: a full disk, a text that is missing
    WAITED = "waited"  # in vain for another worker
    LOST = "lost"  # the process died


@dataclass(frozen=True)
class Answer:
    """What became of the work of one worker: its rows, or the problem in words."""

    outcome: Outcome
    rows: list[Row] = field(default_factory=list)
    problem: str = ""


class Worker:
    """One process of a gang: rank 0 is the first. patience: seconds that it waits for the others while they train."""

    def __init__(self, rank: int, needs: Resources, patience: float) -> None:
        self._rank, self._needs, self._patience = rank, needs, patience
        self._store: Any = None
        self._waiting: Any = None  # the process group of those who wait for the stage store
        devices.hide_unless(needs.gpus)

    def invite(self) -> tuple[str, int]:
        """Open the place where all meet, as the first worker; returns its address."""
        from torch.distributed import TCPStore

        here = ray.util.get_node_ip_address()
        with socket.create_server((here, 0)) as door:  # one that TCPStore opens would listen on every interface
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
        """Join the others at this address, once they have left where they met before."""
        import torch.distributed as dist

        from raysweep.executors import gang_stages

        _leave()
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
        self._waiting = gang_stages.waiting_group()

    def compute(self, job: Job, pack: str, seeds: np.ndarray, together: bool) -> Answer:
        """The rows of a job whose cells are its rows, in order; those of work that is done together come from the first
        worker alone."""
        cells = np.arange(len(seeds))
        with (
            threads.limited(job.cpus),
            devices.granted(job.gpus),
            log.recorded(job.log(pack, self._rank), pack, len(seeds), capture=True),
        ):
            try:
                if not together:
                    return Answer(Outcome.ROWS, compute_rows(job, cells, seeds))
                from raysweep.executors.gang_stages import GangStages

                rows = attempt(job, cells, seeds, lambda store: GangStages(store, self._waiting))
                return Answer(Outcome.ROWS, rows if self._rank == 0 else [])
            except RaysweepError as error:
                self._forsake()
                return Answer(Outcome.HALTED, problem=str(error))
            except Exception as error:  # the trial records it with the rows
                self._forsake()
                problem = traceback.format_exc()
                log.LOGGER.error("%s", problem)
                return Answer(Outcome.WAITED if _waited_in_vain(error) else Outcome.FAILED, problem=problem)

    def _forsake(self) -> None:
        """Having failed, let the others know who wait for this one: they end as well, and give back their leases. On
        GPUs leaving could itself wait for them; there the gang is taken down."""
        if not self._needs.gpus:
            _leave()


def _leave() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def _waited_in_vain(error: Exception) -> bool:
    """Whether it is gloo's way to say that another worker did not come. (On GPUs NCCL ends the process instead.)"""
    return isinstance(error, RuntimeError) and "Timed out waiting" in str(error)


def _interface(address: str) -> str | None:
    """The network interface that has this IPv4 address; None where that cannot be said."""
    for _, name in socket.if_nameindex():
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            get_address = 0x8915  # SIOCGIFADDR of Linux
            answer = fcntl.ioctl(probe.fileno(), get_address, struct.pack("256s", name.encode()[:15]))
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None
