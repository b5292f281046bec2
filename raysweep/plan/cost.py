"""What rows will cost: seconds and memory, by their workload's own estimate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from raysweep.plan.cells import Cells
from raysweep.plan.stages import stored_stages
from raysweep.workloads.declaration import Workload

CostOf = Callable[[np.ndarray], tuple[float, float]]
"""Cells of one draw -> seconds and peak bytes."""
KeptStages = Callable[[np.ndarray, int], Mapping[str, float]]
"""Cells and their draw -> the stages of theirs that the store keeps, with the seconds that each takes."""


def groups_of(workload: Workload, cells: Cells, seed: int, indices: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Rows of one seed, by equal values of the shared parameters and equal needs, in plan order."""
    if not workload.shared and len(cells.needs) == 1:
        return [(seed, indices)]
    keys: dict[tuple[Any, ...], list[int]] = {}
    shared = [cells.need, *(cells.columns[name] for name in workload.shared)]
    for index in indices.tolist():
        keys.setdefault(tuple(values[index] for values in shared), []).append(index)
    return [(seed, np.asarray(members, dtype=np.int64)) for members in keys.values()]


def asking(workload: Workload, cells: Cells) -> CostOf:
    """Cells of one draw -> their seconds and peak bytes; equal sets, as a grid repeats for every seed, are asked for
    once."""
    known: dict[bytes, tuple[float, float]] = {}

    def ask(indices: np.ndarray) -> tuple[float, float]:
        key = indices.tobytes()
        if key not in known:
            cost = workload.cost(cells.take(indices))
            known[key] = (cost.seconds_with(cells.needs[cells.need[indices[0]]].gpus), cost.peak_bytes)
        return known[key]

    return ask


def keeping(workload: Workload, cells: Cells) -> KeptStages:
    """What the store keeps of cells of one draw: nothing where a workload stores nothing."""
    of_row = stored_stages(workload, cells)

    def kept(indices: np.ndarray, seed: int) -> dict[str, float]:
        if not workload.stored:
            return {}
        gpus = cells.needs[cells.need[indices[0]]].gpus
        return {stage.id: stage.cost.seconds_with(gpus) for index in indices.tolist() for stage in of_row(index, seed)}

    return kept


def estimate(workload: Workload, cells: Cells, rows: Mapping[int, np.ndarray]) -> tuple[float, float]:
    """Seconds on one core, or on one GPU where trials have them, and peak bytes of all rows, from the workload's own
    estimate."""
    groups = [group for seed, indices in rows.items() for group in groups_of(workload, cells, seed, indices)]
    ask = asking(workload, cells)
    costed = [ask(indices) for _, indices in groups]
    return sum(seconds for seconds, _ in costed), max((peak for _, peak in costed), default=0.0)
