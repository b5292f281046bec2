"""What rows will cost in seconds and memory, by the estimates of their workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.plan.cells import Cells
from raysweep.plan.row_stages import RowStage, RowStages
from raysweep.workloads.asked_once import one_look
from raysweep.workloads.declaration import Columns, Workload


@dataclass(frozen=True)
class Piece:
    """Rows of one seed that are computed together: the positions of their cells, and the cost in seconds on one core
    (or one GPU, if trials have GPUs) and bytes at the peak."""

    seed: int
    cells: np.ndarray
    seconds: float
    peak_bytes: float


class Costs:
    """What the rows of some cells cost. The seeds of a grid have equal sets of cells; each set is estimated once."""

    def __init__(self, workload: Workload, cells: Cells, keep: Sequence[str] = ()) -> None:
        self._workload, self._cells = workload, cells
        self._pieces: dict[bytes, tuple[float, float]] = {}
        self._stages = RowStages(workload, cells.columns, keep)

    def piece(self, seed: int, indices: np.ndarray) -> Piece:
        key = indices.tobytes()
        if key not in self._pieces:
            cost = self._stages.cost_of(indices)
            self._pieces[key] = (cost.seconds_with(self._gpus(indices)), cost.peak_bytes)
        return Piece(seed, indices, *self._pieces[key])

    def groups(self, rows: Mapping[int, np.ndarray]) -> list[Piece]:
        """Rows ({seed: cell indices}) in groups of one seed, equal shared parameters and needs, in plan order."""
        pieces = []
        for seed, indices in rows.items():
            names = self._workload.grouping
            if names or len(self._cells.needs) > 1:
                same = alike([self._cells.need[indices], *(self._cells.columns[name][indices] for name in names)])
                pieces += [self.piece(seed, indices[members]) for members in same]
            else:
                pieces.append(self.piece(seed, indices))
        return pieces

    def kept(self, piece: Piece) -> dict[str, float]:
        gpus = self._gpus(piece.cells)
        return {
            stage.id: stage.cost.seconds_with(gpus) for _, chain in self.chains(piece) for stage in chain if stage.kept
        }

    def chains(self, piece: Piece) -> list[tuple[int, tuple[RowStage, ...]]]:
        """The different stages of a piece up to the last kept one, parents first, with the cell of their first row."""
        chains: dict[str, tuple[int, tuple[RowStage, ...]]] = {}
        for cell in piece.cells.tolist():
            if chain := self._stages.of_row(cell, piece.seed):
                chains.setdefault(chain[-1].id, (cell, chain))
        return list(chains.values())

    def _gpus(self, indices: np.ndarray) -> int:
        return self._cells.needs[self._cells.need[indices[0]]].gpus


@one_look()
def estimate(
    workload: Workload, cells: Cells, rows: Mapping[int, np.ndarray], keep: Sequence[str] = ()
) -> tuple[float, float]:
    """Seconds, on one core or on one GPU if trials have GPUs, and peak bytes of all rows ({seed: cell indices})."""
    groups = Costs(workload, cells, keep).groups(rows)
    return sum(group.seconds for group in groups), max((group.peak_bytes for group in groups), default=0.0)


def shares(workload: Workload, columns: Columns, seeds: np.ndarray, count: int) -> list[np.ndarray]:
    """Row numbers for each of `count` workers, with about equal costs; fewer workers if there are fewer rows. Rows that
    share their costly part stay together unless there are fewer such groups than workers."""
    stages, count = RowStages(workload, columns), min(count, len(seeds))
    alike_rows = alike([seeds, *(columns[name] for name in workload.grouping)])
    groups = [(stages.cost_of(members).seconds, members) for members in alike_rows]
    while len(groups) < count:
        largest = max((i for i in range(len(groups)) if len(groups[i][1]) > 1), key=lambda i: groups[i][0])
        _, members = groups.pop(largest)
        groups += [(stages.cost_of(half).seconds, half) for half in np.split(members, [len(members) // 2])]
    parts: list[list[int]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for seconds, members in sorted(groups, key=lambda group: -group[0]):
        least = min(range(count), key=lambda part: (loads[part], len(parts[part])))
        parts[least] += members.tolist()
        loads[least] += seconds
    return [np.asarray(sorted(part), dtype=np.int64) for part in parts]


def alike(columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Groups of the numbers of rows with equal values in all columns, in the order of each group's first row."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, values in enumerate(zip(*columns, strict=True)):
        groups.setdefault(values, []).append(index)
    return [np.asarray(members, dtype=np.int64) for members in groups.values()]
