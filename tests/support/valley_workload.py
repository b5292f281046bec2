"""A workload whose best place is known: a valley over a rate, with an optimizer whose settings only some cells have.

The least loss is 0, at lr 0.01, width 6, optimizer sgd, momentum 0.9 and nesterov true. Each row logs a curve that
falls from its loss + 1 to its loss in `steps` steps.
"""

import math
import os
import signal
from pathlib import Path

from raysweep.workloads.declaration import Cost, Metric, Parameter, Stage, Workload
from raysweep.workloads.rows import Result


def loss_of(row):
    settings = 0.3
    if row["optimizer"] != "adam":
        settings = (0.9 - row["momentum"]) ** 2 + (0.0 if row["nesterov"] else 0.1)
    return (math.log10(row["lr"]) + 2) ** 2 + 0.1 * (row["width"] - 6) ** 2 + settings


def train(rows, parent, context):
    row = rows.row()
    if row["folder"]:
        folder = Path(row["folder"])
        with open(folder / "computed.txt", "a") as stream:
            stream.write(f"{row['lr']} {row['seed']}\n")
        if not (folder / "go").exists() and len((folder / "computed.txt").read_text().splitlines()) > 5:
            os.kill(os.getpid(), signal.SIGKILL)
    loss = loss_of(row)
    for step in range(1, row["steps"] + 1):
        context.log(step, loss=loss + (row["steps"] - step) / row["steps"])
        if context.stop():
            return Result(metrics={"loss": loss, "accuracy": float(step)})
    return Result(metrics={"loss": loss, "accuracy": -loss})


WORKLOAD = Workload(
    name="valley",
    summary="a valley whose lowest place is known",
    identity_version=1,
    parameters=(
        Parameter("lr", float, 0.01, "rate", minimum=0.0, open_minimum=True),
        Parameter("width", int, 6, "width", minimum=1),
        Parameter("optimizer", str, "adam", "optimizer", choices=("adam", "sgd", "nag")),
        Parameter("momentum", float, 0.0, "momentum"),
        Parameter("nesterov", bool, False, "a switch"),
        Parameter("steps", int, 4, "points of the curve"),
        Parameter("folder", str, "", "where rows leave their marks; the sixth dies there"),
    ),
    metrics=(
        Metric("loss", "the loss", direction="minimize"),
        Metric("accuracy", "minus the loss", direction="maximize"),
    ),
    stages=(Stage("train", "valley_workload:train", cost=lambda columns: Cost(0.2 * len(columns["lr"]), 0.0)),),
    sources=("valley_workload",),
)
