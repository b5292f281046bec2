"""A workload for tests, brought by entry point: rows are computed, fail, lack memory, wait or die as a test says."""

import ctypes
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from raysweep.errors import InputError
from raysweep.training import devices
from raysweep.workloads import linear_transfer
from raysweep.workloads.declaration import OK, Cost, Metric, Parameter, Workload


def compute(columns, seeds):
    """y = x + seed; what else happens is said by `behaviour`. `folder` remembers what happened."""
    for i, behaviour in enumerate(columns["behaviour"]):
        folder, x = Path(columns["folder"][i]), float(columns["x"][i])
        mark = folder / f"{behaviour}-{x:g}-{seeds[i]}"
        time.sleep(columns["pause"][i])  # the work of this row
        if behaviour == "raise" and not (folder / "mended").exists():
            raise ArithmeticError(f"x = {x:g} cannot be computed")
        if behaviour == "raise_once" and first(mark):
            raise ArithmeticError("only this once")
        if behaviour == "memory" and len(seeds) > 2:
            with open(folder / "memory.txt", "a") as stream:
                stream.write(f"{len(seeds)}\n")
            raise MemoryError(f"{len(seeds)} rows do not fit")
        if behaviour == "die_once" and first(mark):
            os.kill(os.getpid(), signal.SIGKILL)
        if behaviour == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if behaviour == "quote":
            raise ConnectionError(f"cannot reach {os.environ['QUOTED']}")
        if behaviour == "speak":
            print("said on stdout")
            print("said on stderr", file=sys.stderr)
        if behaviour in ("look", "see"):  # what GPUs this process sees; and, by "see", whether it may use one
            mark.write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "every one") + "\n")
            assert behaviour == "look" or devices.device().type == "cpu"
        if behaviour == "wait":
            mark.write_text(str(os.getpid()))
            await_that((folder / "go").exists)
        if behaviour == "deaf":
            mark.touch()
            hear_nothing_until((folder / "go").exists)
        if behaviour == "halt" and not (folder / "mended").exists():
            await_that(lambda folder=folder: any(folder.glob("wait-*")))
            raise InputError("fixed.folder", "expected a place that is there")
    y = np.asarray(columns["x"], float) + np.asarray(seeds, float)
    return {"y": y, "above": np.where(y > 100, np.inf, np.nan)}, np.full(len(seeds), OK, dtype=object)


def await_that(condition):
    """Wait for a condition, and not for ever."""
    deadline = time.monotonic() + 900  # longer than any test waits
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("nobody said go")
        time.sleep(0.01)  # between two looks


def hear_nothing_until(condition):
    """As a long call into a numerical library: this thread runs no Python till then, and so no handler of a signal."""
    library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    library.pthread_mutex_init(mutex, None)
    library.pthread_mutex_lock(mutex)

    def release():
        await_that(condition)
        library.pthread_mutex_unlock(mutex)

    threading.Thread(target=release, daemon=True).start()
    library.pthread_mutex_lock(mutex)


def caveat(parameters):
    """For a report; it cannot be said of rows that are to do without it."""
    if parameters["behaviour"] == "no_caveat" and not (Path(parameters["folder"]) / "mended").exists():
        raise InputError("fixed.behaviour", "expected a row that a caveat can be said of")
    return


def closed_form(columns):
    """y without noise; there is none of rows that are to do without it."""
    for folder, behaviour in zip(columns["folder"], columns["behaviour"], strict=True):
        if behaviour == "no_closed_form" and not (Path(folder) / "mended").exists():
            raise InputError("fixed.behaviour", "expected a row with a closed form")
    return {"y": np.asarray(columns["x"], float)}


def first(mark):
    """Whether this mark was not there yet; it is now."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def cost(columns):
    """As declared by the space itself, so that a test decides how rows fall into packs."""
    return Cost(float(np.sum(columns["said_seconds"])), 1.0)


BEHAVIOURS = (
    *("compute", "quote", "raise", "raise_once", "memory", "die_once", "die", "wait", "look", "see", "speak", "deaf"),
    *("halt", "no_caveat", "no_closed_form"),
)
WORKLOAD = Workload(
    name="sandbox",
    summary="rows that misbehave on demand",
    identity_version=1,
    parameters=(
        Parameter("x", float, 0.0, "a number"),
        Parameter("behaviour", str, "compute", "what happens in the row", choices=BEHAVIOURS),
        Parameter("folder", str, "/nonexistent", "where marks are left"),
        Parameter("said_seconds", float, 0.0, "what a row is said to cost", unit="s", minimum=0),
        Parameter("pause", float, 0.0, "what a row takes", unit="s", minimum=0),
        Parameter("added", float, 7.0, "a parameter of a later release", absent=7.0),
    ),
    metrics=(Metric("y", "x + seed"), Metric("above", "infinite above 100, else NaN")),
    compute="sandbox_workload:compute",
    cost=cost,
    sources=("sandbox_workload",),
)
ANNOTATED = replace(WORKLOAD, name="annotated", caveat=caveat, closed_form=closed_form)
APART = replace(  # linear transfer, where what rows of a seed share is said to cost so much that they are a pack alone
    linear_transfer.WORKLOAD, name="apart", cost=lambda columns: Cost(200.0, 1.0)
)
