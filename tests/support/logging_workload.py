"""A workload for tests, brought by entry point, whose two stages log learning curves of a simple form."""

import numpy as np

from raysweep.workloads.declaration import ANY, DIVERGED, OK, Metric, Parameter, Stage, Workload
from raysweep.workloads.rows import Result


def epochs(row):
    return [float(epoch + 1) for epoch in range(int(row["epochs"]))]


def warm(rows, parent, context):
    """An epoch of two steps: loss = 1 / step + seed, and at its end an accuracy."""
    for step in (2 * context.point - 1, 2 * context.point):
        last = {"accuracy": step / 100} if step == 2 * context.point else {}
        context.log(step, loss=1 / step + rows.seed, **last)
    return Result({"weights": np.asarray([context.point])})


def tune(rows, parent, context):
    """Three steps from 0: loss = exp(-rate · step) + seed / 10; above a rate of 100 it is infinite from step 1 on."""
    wild = rows["rate"] > 100
    for step in range(4):
        loss = np.exp(-np.where(wild, 0.0, rows["rate"]) * step) + rows.seeds / 10
        context.log(step, loss=np.where(wild & (step > 0), np.inf, loss), rate=rows["rate"] / (step + 1))
    return Result({"end": loss}, {"final": loss}, np.where(wild, DIVERGED, OK))


WORKLOAD = Workload(
    name="logging",
    summary="two stages that log what they do",
    identity_version=1,
    parameters=(
        Parameter("epochs", int, 2, "epochs of the first stage", stage="warm"),
        Parameter("rate", float, 0.5, "rate of the second stage", stage="tune"),
    ),
    metrics=(Metric("final", "the last loss", direction="minimize"),),
    stages=(
        Stage("warm", "logging_workload:warm", keeps=True, points=epochs, until="epochs"),
        Stage("tune", "logging_workload:tune", after="warm", together=ANY),
    ),
    sources=("logging_workload",),
)
