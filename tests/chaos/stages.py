"""The staged workload of disturbed sweeps: a trunk that several lengths share, pretrain, finetune, evaluate.

`marks/begun` has one line for everything that happens to a stage that is kept, of all processes, in order. A stage that
begins although it is there, or although a living process has begun it, says so in a line "twice".
"""

import json
import os
import time
from pathlib import Path

import numpy as np

from raysweep.storage import processes
from raysweep.trial import context as trial_context
from raysweep.workloads.declaration import ANY, Cost, Metric, Parameter, Stage, Workload
from raysweep.workloads.rows import Result

STEPS = 3
trial_context.CHECKPOINT_SECONDS = 0.0  # every step has a checkpoint


def mark(marks, event, key):
    """Add a line. Lines of several processes do not mix: they are appended in one write."""
    line = json.dumps([event, key, os.getpid(), processes.life(os.getpid())]) + "\n"
    file = os.open(Path(marks) / "begun", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, line.encode())
    os.close(file)


def read(marks):
    """All lines: event, key of the stage, process."""
    path = Path(marks) / "begun"
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def key(stage, parameters, seed, point):
    """What a stage is called in the marks; the store describes it by the same."""
    return json.dumps([stage, seed, point, sorted(parameters.items())])


def _begin(stage, rows, context):
    """Mark that the stages of these rows begin."""
    marks, keys = rows.row()["folder"], []
    for row in rows:
        seed = row.pop("seed")
        keys.append(key(stage, row, seed, context.point))
        mark(marks, "begin", keys[-1])
    for own in keys if context.kept else ():
        lines = [line for line in read(marks) if line[1] == own]
        mine = max(i for i, line in enumerate(lines) if line[0] == "begin" and line[2] == os.getpid())
        if mine:
            event, _, process, life = lines[mine - 1]
            if event == "whole" or (event in ("begin", "end") and processes.lives(process, life)):
                mark(marks, "twice", own)
    return keys


def _steps(stage, rows, start, context):
    """Some steps from `start`, shape (rows, 4) or (4,), each with a checkpoint and a point of the learning curve."""
    marks, keys = rows.row()["folder"], _begin(stage, rows, context)
    state = context.restored() or {"step": 0, "weights": start}
    step, weights = state["step"], state["weights"]
    force = rows["rate"][:, None] if stage == "finetune" else 0.5
    while step < STEPS:
        time.sleep(rows.row()["pause"] / STEPS)  # the work of this step
        step += 1
        weights = weights + force * np.sin(3 * weights + step + (context.point or 0) + rows.seed)
        context.log(step, loss=np.square(weights).mean(-1))
        context.checkpoint({"step": step, "weights": weights})
        if stage == "finetune" and step == 2 and rows.seed == 1:
            try:
                (Path(marks) / f"failed-{rows.row()['length']}").touch(exist_ok=False)
            except FileExistsError:
                continue
            for own in keys:
                mark(marks, "raised", own)
            raise ArithmeticError("only this once")
    for own in keys:
        mark(marks, "end", own)
    return Result({"weights": weights})


def trunk(rows, parent, context):
    """From one whole length to the next."""
    start = np.arange(4) / 3 + rows.seed if parent is None else parent.tensors()["weights"]
    return _steps("trunk", rows, start, context)


def pretrain(rows, parent, context):
    """The end of a pretraining of one length."""
    return _steps("pretrain", rows, parent.tensors()["weights"], context)


def finetune(rows, parent, context):
    """All rates of one pretraining together; with seed 1 it fails at first."""
    return _steps("finetune", rows, np.tile(parent.tensors()["weights"], (len(rows), 1)), context)


def evaluate(rows, parent, context):
    """A number that no other row has, and a learning curve that stands in the row."""
    weights = parent.tensors()["weights"]
    context.log(1, probe=weights[:, 0] * rows["probe"])
    return Result(metrics={"y": np.sum(weights * np.arange(1, 5), axis=1) + rows["probe"]})


def lengths(row):
    """A point at every whole length."""
    return [float(length + 1) for length in range(int(row["length"]))]


def cost(columns, before=0.0, point=None):
    """Said to be so much that packs are small: as many moments as there can be for something to go wrong."""
    return Cost(100.0 * len(columns["length"]), 1.0)


WORKLOAD = Workload(
    name="chaos_stages",
    summary="stages that take a while, some of which fail when first tried",
    identity_version=1,
    parameters=(
        Parameter("length", int, 2, "how long the trunk is", stage="trunk", minimum=1),
        Parameter("pause", float, 0.0, "what a stage takes", unit="s", minimum=0, stage="trunk"),
        Parameter("folder", str, "/nonexistent", "folder that remembers what happened", stage="trunk"),
        Parameter("rate", float, 0.5, "rate of fine-tuning", stage="finetune"),
        Parameter("probe", float, 0.0, "a number that is added", stage="evaluate"),
    ),
    metrics=(Metric("y", "a number that no other row has"),),
    stages=(
        Stage("trunk", "chaos_stages:trunk", keeps=True, points=lengths, until="length", cost=cost),
        Stage("pretrain", "chaos_stages:pretrain", after="trunk", keeps=True, cost=cost),
        Stage("finetune", "chaos_stages:finetune", after="pretrain", together=("rate",), cost=cost),
        Stage("evaluate", "chaos_stages:evaluate", after="finetune", together=ANY),
    ),
    sources=("chaos_stages",),
)
