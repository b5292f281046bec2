"""A workload for tests, brought by entry point: rows are computed, fail, lack memory, wait or die as a test says."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from raysweep.workloads import devices
from raysweep.workloads.declaration import OK, Columns, Cost, Metric, Parameter, Workload


def compute(columns: Columns, seeds: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """y = x + seed; what else happens is said by `behaviour`. `folder` remembers what happened."""
    for i, behaviour in enumerate(columns["behaviour"]):
        folder, x = Path(columns["folder"][i]), float(columns["x"][i])
        mark = folder / f"{behaviour}-{x:g}-{seeds[i]}"
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
        deadline = time.monotonic() + 120
        while behaviour == "wait" and not (folder / "go").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("nobody said go")
            time.sleep(0.01)  # between two looks; what is waited for is the file
    y = np.asarray(columns["x"], float) + np.asarray(seeds, float)
    return {"y": y, "above": np.where(y > 100, np.inf, np.nan)}, np.full(len(seeds), OK, dtype=object)


def first(mark: Path) -> bool:
    """Whether this mark was not there yet; it is now."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def cost(columns: Columns) -> Cost:
    """As declared by the space itself, so that a test decides how rows fall into packs."""
    return Cost(float(np.sum(columns["seconds"])), 1.0)


WORKLOAD = Workload(
    name="sandbox",
    summary="rows that misbehave on demand",
    identity_version=1,
    parameters=(
        Parameter("x", float, 0.0, "a number"),
        Parameter("behaviour", str, "compute", "what happens in the row",
                  choices=("compute", "quote", "raise", "raise_once", "memory", "die_once", "die", "wait", "look",
                           "see", "speak")),
        Parameter("folder", str, "/nonexistent", "where marks are left"),
        Parameter("seconds", float, 0.0, "what a row is said to cost", unit="s", minimum=0),
        Parameter("added", float, 7.0, "a parameter of a later release", absent=7.0),
    ),
    metrics=(Metric("y", "x + seed"), Metric("above", "infinite above 100, else NaN")),
    compute="sandbox_workload:compute",
    cost=cost,
    sources=("sandbox_workload",),
)
