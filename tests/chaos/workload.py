"""The workload of most disturbed sweeps: every row takes the time it is told to, and some fail when first tried."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from raysweep.workloads.declaration import OK, Columns, Cost, Metric, Parameter, Workload


def compute(columns: Columns, seeds: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """y = sin(x) exp(cos(x + seed)), for which no two rows agree. `marks` remembers which fragile rows have failed."""
    for x, pause, marks, seed in zip(columns["x"], columns["pause"], columns["marks"], seeds, strict=True):
        time.sleep(pause)  # the work of this row
        if x % 4 == 3:
            try:
                (Path(marks) / f"{x:g}-{seed}").touch(exist_ok=False)
            except FileExistsError:
                continue
            raise ArithmeticError("only this once")
    x, seed = np.asarray(columns["x"], float), np.asarray(seeds, float)
    return {"y": np.sin(x) * np.exp(np.cos(x + seed))}, np.full(len(seeds), OK, dtype=object)


def cost(columns: Columns) -> Cost:
    """Said to be so much that every row is a pack: as many moments as there can be for something to go wrong."""
    return Cost(100.0 * len(columns["x"]), 1.0)


WORKLOAD = Workload(
    name="chaos",
    summary="rows that take a while, some of which fail when first tried",
    identity_version=1,
    parameters=(
        Parameter("x", float, 0.0, "a number"),
        Parameter("pause", float, 0.0, "what a row takes", unit="s", minimum=0),
        Parameter("marks", str, "/nonexistent", "folder that remembers which rows have failed"),
    ),
    metrics=(Metric("y", "a number that no other row has"),),
    compute="chaos_workload:compute",
    cost=cost,
    sources=("chaos_workload",),
)
