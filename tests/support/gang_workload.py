"""A data-parallel workload for tests, brought by entry point: all workers of a gang add up one number together.

Whole numbers, so that the sum does not depend on who adds what; it is kept in the stage store as a checkpoint would be.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from sandbox_workload import first

from raysweep.executors.gang_worker import Answer, Outcome
from raysweep.plan.identity import content_id
from raysweep.workloads.declaration import OK, Columns, Cost, Metric, Parameter, Stage, Workload

STEPS, TERMS = 4, 12


def compute(columns: Columns, seeds: np.ndarray, store: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """y = 4 · 78 · (x + seed); what else happens is said by `behaviour`, and `folder` remembers what happened."""
    y = np.empty(len(seeds))
    for index in range(len(seeds)):
        row = {name: values[index] for name, values in columns.items()}
        stage = stages(row, int(seeds[index]))[0].id
        found = store.fetch(stage) or store.once(
            stage, lambda progress, row=row, seed=int(seeds[index]): _learn(row, seed, progress), describe={}
        )
        y[index] = found.tensors()["total"][0]
    size = dist.get_world_size() if dist.is_initialized() else 1
    return {"y": y, "workers": np.full(len(seeds), float(size))}, np.full(len(seeds), OK, dtype=object)


def _learn(row: Mapping[str, Any], seed: int, progress: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    rank, size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    begun, last = progress.load(), size - 1
    total, step = (begun.tensors()["total"], int(begun.meta["step"])) if begun else (np.zeros(1), 0)
    mark = Path(row["folder"]) / f"{row['behaviour']}-{row['x']:g}-{seed}"
    while step < STEPS:
        if (
            rank == last
            and step == 2
            and row["behaviour"] == "die_twice"
            and any(first(mark.with_suffix(f".death{number}")) for number in (1, 2))
        ):
            os.kill(os.getpid(), signal.SIGKILL)
        deadline = time.monotonic() + 900
        while rank == last and step == 2 and row["behaviour"] == "stuck" and time.monotonic() < deadline:
            time.sleep(0.01)  # it is taken down meanwhile
        if rank == last and row["behaviour"] == "raise":
            raise ArithmeticError(f"x = {row['x']:g} cannot be computed")
        part = torch.tensor([sum(term * (row["x"] + seed) for term in range(1 + rank, TERMS + 1, size))]).double()
        if size > 1:
            dist.all_reduce(part)
        total, step = total + part.numpy(), step + 1
        if rank == 0:
            with mark.with_suffix(".steps").open("a") as stream:
                stream.write(f"{step}\n")
        progress.save({"total": total}, {"step": step})
    return {"total": total}, {"step": step}


def stages(row: Mapping[str, Any], seed: int) -> list[Stage]:
    """One stage a row."""
    return [Stage(content_id([str(row["behaviour"]), float(row["x"]), seed]), "sum", Cost(float(row["seconds"]), 1.0))]


class Told:
    """In place of a worker of a gang: it ends as the id of its pack says, such as waited-lost of two workers."""

    def __init__(self, rank: int, needs: Any, patience: float) -> None:
        self._rank = rank

    def invite(self) -> tuple[str, int]:
        """Nowhere."""
        return "", 0

    def meet(self, address: str, port: int) -> None:
        """No need to."""

    def compute(self, job: Any, pack: str, seeds: np.ndarray, together: bool) -> Answer:
        """The word at its place; without one it is stuck."""
        word = pack.split("-")[self._rank]
        if not word:
            threading.Event().wait()
        if word == "lost":
            os.kill(os.getpid(), signal.SIGKILL)
        return Answer(Outcome(word), problem=f"this one {word}")


WORKLOAD = Workload(
    name="together",
    summary="a sum that all workers add up together",
    identity_version=1,
    parameters=(
        Parameter("x", float, 0.0, "a number", pretraining=True),
        Parameter(
            "behaviour",
            str,
            "compute",
            "what happens in the row",
            choices=("compute", "raise", "die_twice", "stuck"),
            pretraining=True,
        ),
        Parameter("folder", str, "/nonexistent", "where marks are left"),
        Parameter("seconds", float, 0.0, "what a row is said to cost", unit="s", minimum=0),
    ),
    metrics=(Metric("y", "4 · 78 · (x + seed)"), Metric("workers", "how many there were")),
    compute="gang_workload:compute",
    cost=lambda columns: Cost(float(np.sum(columns["seconds"])), 1.0),
    sources=("gang_workload",),
    stored=True,
    stages="gang_workload:stages",
    data_parallel=True,
)
