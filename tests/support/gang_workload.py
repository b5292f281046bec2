"""A staged, data-parallel workload for tests, brought by entry point: all workers of a gang add up one number together.

Whole numbers, so that the sum does not depend on who adds what. The sum is kept in the stage store, with a checkpoint
after every step; the row is made from it.
"""

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import ray
import torch
import torch.distributed as dist
from sandbox_workload import first

from raysweep.trial import context as trial_context
from raysweep.workloads.declaration import Cost, Metric, Parameter, Stage, Workload
from raysweep.workloads.rows import Result

STEPS, TERMS = 4, 12
LATE = 6.0  # seconds


def add_up(rows, parent, context):
    """The sum 4 · 78 · (x + seed); what else happens is said by `behaviour`, and `folder` remembers what happened."""
    with mock.patch.object(trial_context, "CHECKPOINT_SECONDS", 0.0):
        return Result({"total": _learn(rows.row(), context)})


def _learn(row, context):
    rank, last, seed = context.rank, context.workers - 1, row["seed"]
    mark = Path(row["folder"]) / f"{row['behaviour']}-{row['x']:g}-{seed}"
    deaths = {"die_twice": [last, 0], "lose_nodes": [last, 0]}
    doomed = deaths.get(row["behaviour"], [])
    died = sum(mark.with_suffix(f".death{number}").exists() for number in range(len(doomed)))
    state = context.restored() or {"total": np.zeros(1), "step": 0}  # all workers meet here: all have counted the dead
    total, step = state["total"], state["step"]
    if row["behaviour"] == "late":
        deadline = time.monotonic() + LATE
        while rank == last and time.monotonic() < deadline:
            time.sleep(0.01)  # it reads gigabytes of text meanwhile
        context.meet()
    if rank == last and row["behaviour"] == "memory" and first(mark):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")
    while step < STEPS:
        if step == 2 and died < len(doomed) and rank == doomed[died]:
            if row["behaviour"] == "lose_nodes":
                (here := mark.with_suffix(".node")).write_text(ray.get_runtime_context().get_node_id())
                here.rename(mark.with_suffix(f".death{died}"))
                threading.Event().wait()  # until its node has gone, and so it
            mark.with_suffix(f".death{died}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 2 and rank == last and row["behaviour"] == "stopped" and first(mark):
            os.kill(os.getpid(), signal.SIGSTOP)
        if rank == last and row["behaviour"] == "raise":
            with mark.with_suffix(".tries").open("a") as stream:
                stream.write("once\n")
            raise ArithmeticError(f"x = {row['x']:g} cannot be computed")
        part = torch.tensor(
            [sum(term * (row["x"] + seed) for term in range(1 + rank, TERMS + 1, context.workers))]
        ).double()
        if last:
            dist.all_reduce(part)
        total, step = total + part.numpy(), step + 1
        if rank == 0:
            with mark.with_suffix(".steps").open("a") as stream:
                stream.write(f"{step}\n")
        context.log(step, total=total[0])
        context.checkpoint({"total": total, "step": step})
    return total


def tell(rows, parent, context):
    """The sum as a metric of the row, and how many workers there are."""
    return Result(metrics={"y": parent.tensors()["total"][0], "workers": context.workers})


def cost(name, columns):
    return Cost(float(np.sum(columns[name])), 1.0)


BEHAVIOURS = ("compute", "raise", "die_twice", "lose_nodes", "stopped", "late", "memory")
WORKLOAD = Workload(
    name="together",
    summary="a sum that all workers add up together",
    identity_version=1,
    parameters=(
        Parameter("x", float, 0.0, "a number", stage="sum"),
        Parameter("behaviour", str, "compute", "what happens in the row", choices=BEHAVIOURS, stage="sum"),
        Parameter("folder", str, "/nonexistent", "where marks are left", stage="sum"),
        Parameter("said_seconds", float, 0.0, "what a row is said to cost", unit="s", minimum=0, stage="sum"),
        Parameter("again", int, 0, "a number of rows that share a sum", stage="tell"),
        Parameter("tell_seconds", float, 0.0, "what each of these is said to cost", unit="s", minimum=0, stage="tell"),
    ),
    metrics=(Metric("y", "4 · 78 · (x + seed)"), Metric("workers", "how many there were")),
    stages=(
        Stage("sum", "gang_workload:add_up", keeps=True, cost=partial(cost, "said_seconds")),
        Stage("tell", "gang_workload:tell", after="sum", cost=partial(cost, "tell_seconds")),
    ),
    sources=("gang_workload",),
    data_parallel=True,
)
