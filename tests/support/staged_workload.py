"""A staged workload for tests, brought by entry point: whole numbers go through trunk, pretrain, tune and measure.

Each stage mixes its parameters and its parent's number into its own, so that a wrong parent shows in the rows. It
leaves a note when it begins and when it ends; what else happens is said by `trouble`.
"""

import os
import signal
import time
from pathlib import Path

import numpy as np
from sandbox_workload import await_that, first

from raysweep.workloads.declaration import Cost, Metric, Parameter, Stage, Workload
from raysweep.workloads.rows import Result

PRIME = 1_000_003
SECONDS = {"trunk": 30.0, "pretrain": 60.0, "tune": 40.0, "measure": 10.0}
"""What a stage of one row, or of one step of the trunk, is said to cost."""


def mixed(*numbers):
    """A whole number below PRIME that depends on each of these and on their order."""
    found = 7
    for number in numbers:
        found = (31 * found + int(number) + 1) % PRIME
    return float(found)


def expected(row):
    """The number that a row must come to."""
    number = 0.0
    for point in range(1, int(row["length"]) + 1):
        number = mixed(number, point, row["source"], row["seed"])
    return mixed(mixed(mixed(number, row["decay"], row["length"]), row["rate"]), row["probe"])


def trunk(rows, parent, context):
    row = rows.row()
    before = parent.tensors()["number"] if parent is not None else 0.0
    noted(row, f"trunk {row['source']} {row['seed']} {context.point:g}")
    return Result({"number": np.asarray(mixed(float(before), context.point, row["source"], row["seed"]))})


def pretrain(rows, parent, context):
    row = rows.row()
    noted(row, f"pretrain {row['source']} {row['seed']} {row['length']:g} {row['decay']}")
    number = mixed(float(parent.tensors()["number"]), row["decay"], row["length"])
    return Result({"number": np.asarray(number)}, {"before": number})


def tune(rows, parent, context):
    for row in rows:
        noted(row, f"tune {row['source']} {row['seed']} {row['length']:g} {row['decay']} {row['rate']}")
    start = float(parent.tensors()["number"])
    return Result({"number": np.asarray([mixed(start, rate) for rate in rows["rate"]])})


def measure(rows, parent, context):
    numbers = np.asarray(parent.tensors()["number"])
    return Result(metrics={"y": [mixed(n, probe) for n, probe in zip(numbers, rows["probe"], strict=True)]})


def noted(row, what):
    """Note that a stage begins and ends; in between do what `trouble` says of it."""
    folder, name = Path(row["folder"]), what.split()[0]
    note(folder, f"begin {what}")
    if row["trouble"] == f"wait {name}":
        await_that((folder / "go").exists)
    if row["trouble"] == f"raise {name}" and row["source"] == 1:
        raise ArithmeticError(f"{what} cannot be computed")
    if row["trouble"] == f"die {name}" and row["source"] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if row["trouble"] == f"die once {name}" and first(folder / f"died-{what}"):
        os.kill(os.getpid(), signal.SIGKILL)
    if row["trouble"] == "take time":
        time.sleep(0.05)  # what the work of a real stage is
    note(folder, f"end {what}")


def note(folder, line):
    with (folder / "notes.txt").open("a") as stream:
        stream.write(f"{line}\n")


def points(row):
    return [float(point) for point in range(1, int(row["length"]) + 1)]


def cost(name):
    def cost(columns, *between):
        steps = between[1] - between[0] if between else 1.0
        return Cost(SECONDS[name] * steps * len(columns["source"]), 1.0)

    return cost


TROUBLES = ["none", "take time"]
TROUBLES += [f"{what} {at}" for what in ("wait", "raise", "die", "die once") for at in ("trunk", "pretrain", "tune")]
WORKLOAD = Workload(
    name="staged",
    summary="whole numbers that go through stages",
    identity_version=1,
    parameters=(
        Parameter("source", int, 0, "a number", stage="trunk"),
        Parameter("folder", str, "/nonexistent", "where notes are left", stage="trunk"),
        Parameter("trouble", str, "none", "what happens", choices=tuple(TROUBLES), stage="trunk"),
        Parameter("length", float, 1.0, "steps of the trunk", stage="pretrain"),
        Parameter("decay", int, 0, "a number", stage="pretrain"),
        Parameter("rate", int, 0, "a number", stage="tune"),
        Parameter("probe", int, 0, "a number", stage="measure"),
    ),
    metrics=(Metric("y", "the number"), Metric("before", "the number before tuning", stage="pretrain")),
    stages=(
        Stage("trunk", "staged_workload:trunk", keeps=True, points=points, cost=cost("trunk")),
        Stage("pretrain", "staged_workload:pretrain", after="trunk", keeps=True, cost=cost("pretrain")),
        Stage("tune", "staged_workload:tune", after="pretrain", together=("rate",), cost=cost("tune")),
        Stage("measure", "staged_workload:measure", after="tune", together=("rate", "probe"), cost=cost("measure")),
    ),
    sources=("staged_workload",),
)
