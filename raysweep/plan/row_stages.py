"""The stages of rows, with their identities: which rows share which stage, and what each stage costs."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from raysweep.errors import InputError, shown
from raysweep.plan.cells import Cells, plain_row
from raysweep.plan.identity import answer, stage_id
from raysweep.workloads.asked_once import one_look
from raysweep.workloads.chain import NOTHING, Cost
from raysweep.workloads.declaration import Columns, Stage, Workload


@dataclass(frozen=True)
class RowStage:
    """One stage of a row, up to one point. Rows with equal ids share it.

    stage: its name.
    index: its place in the chain of the workload.
    parent: the id of what it continues; "" if it is the first.
    before, point: where it begins and where it stops, for a stage with points; otherwise 0 and None.
    kept: whether its artifact is kept in the store.
    cost: what it costs if its parent is there.
    """

    id: str
    stage: str
    index: int
    parent: str
    before: float
    point: float | None
    kept: bool
    cost: Cost


class RowStages:
    """The stages of the rows of a table with these parameters. Equal stages are asked for only once. keep: the stages
    that the space keeps in addition to those that always are."""

    def __init__(self, workload: Workload, columns: Columns, keep: Sequence[str] = ()) -> None:
        self._workload, self.columns, self.keep = workload, columns, keep
        self._chain, self._kept = workload.chain, set(workload.chain.kept(keep))
        self._pointed = any(stage.points is not None for stage in workload.chain.stages)
        self._points: dict[int, tuple[tuple[float, ...], ...]] = {}
        self._of_row: dict[tuple[Any, ...], tuple[RowStage, ...]] = {}
        self.deepest = max(self._kept, default=-1)

    def of_row(self, cell: int, seed: int, last: int | None = None) -> tuple[RowStage, ...]:
        """The stages of a row, parents first, up to the stage `last`; by default to the last one that is kept."""
        index = self.deepest if last is None else last
        if index < 0:
            return ()
        points = self.points(cell)[: index + 1]
        key = (index, seed, points, *(self.columns[name][cell] for name in self._chain.dependencies[index]))
        if key not in self._of_row:
            before = self.of_row(cell, seed, index - 1)
            self._of_row[key] = (*before, *self._expanded(index, cell, seed, before[-1].id if before else ""))
        return self._of_row[key]

    def points(self, cell: int) -> tuple[tuple[float, ...], ...]:
        """The points of each stage of a row; () for a stage without points."""
        if cell not in self._points:
            row = plain_row(self.columns, cell) if self._pointed else {}
            self._points[cell] = tuple(self._points_of(stage, row) for stage in self._chain.stages)
        return self._points[cell]

    def _points_of(self, stage: Stage, row: Mapping[str, Any]) -> tuple[float, ...]:
        if stage.points is None:
            return ()
        path = f"{self._workload.name}.{stage.name}"
        declared = answer(f"{path}.points", stage.points, row)
        try:
            points = tuple(point.item() if isinstance(point, np.generic) else point for point in declared)
        except TypeError:
            raise InputError(f"{path}.points", f"expected numbers that rise, got {shown(declared)}") from None
        for point in points:
            if not (isinstance(point, (int, float)) and not isinstance(point, bool) and 0 <= point < math.inf):
                raise InputError(f"{path}.points", f"expected finite numbers of at least 0, got {shown(point)}")
        if any(later <= earlier for earlier, later in itertools.pairwise(points)):
            raise InputError(path, f"expected points that rise, got {shown(points)}")
        return points

    def cost(self, stage: Stage, *arguments: Any) -> Cost:
        """What a stage costs, as its declaration says of each call: columns and, for a stage with points, where it
        begins and where it stops. InputError if that is no Cost of finite numbers."""
        if stage.cost is None:
            return NOTHING
        columns, *span = arguments
        count = len(next(iter(columns.values()), ()))
        if stage.together is None and not span and count > 1 and self._workload.function is None:
            each = ({name: values[row : row + 1] for name, values in columns.items()} for row in range(count))
            return functools.reduce(operator.add, (self.cost(stage, row) for row in each))
        path = f"{self._workload.name}.{stage.name}.cost"
        declared = answer(path, stage.cost, *arguments)
        if not isinstance(declared, Cost):
            raise InputError(path, f"expected a Cost, got {shown(declared)}")
        for name in ("seconds", "peak_bytes", "gpu_seconds"):
            value: Any = getattr(declared, name)
            number = isinstance(value, (int, float, np.integer, np.floating)) and 0 <= value < math.inf
            if not number and not (name == "gpu_seconds" and value is None):
                raise InputError(path, f"expected {name} as a finite number of at least 0, got {shown(value)}")
        return declared

    def _expanded(self, index: int, cell: int, seed: int, parent: str) -> list[RowStage]:
        stage, row, stages = self._chain.stages[index], plain_row(self.columns, cell), list[RowStage]()
        kept, before = index in self._kept, 0.0
        for point in [None] if stage.points is None else self.points(cell)[index]:
            cost = self.cost(stage, self.at([cell]), *(() if point is None else (before, point)))
            identity = stage_id(self._workload, index, row, seed, parent, point)
            stages.append(RowStage(identity, stage.name, index, parent, before, point, kept, cost))
            before, parent = point or 0.0, identity
        return stages

    def cost_of(self, cells: np.ndarray) -> Cost:
        """The cost of all rows of these cells and one seed, computed together, with nothing in the store. Identities
        are not asked for: the texts that they come from may have gone."""
        always = max(self._chain.kept(), default=-1)
        total = NOTHING
        for index, stage in enumerate(self._chain.stages):
            names = [name for name in self._chain.dependencies[index] if name != stage.until or stage.points is None]
            if stage.points is None and index > always:
                members = self.distinct(cells.tolist(), index) if index < len(self._chain) - 1 else cells
                total += self.cost(stage, self.at(members))
                continue
            parts: dict[tuple[Any, ...], tuple[Any, ...]] = {}
            for cell in cells.tolist():
                points = self.points(cell)
                key = (points[:index], *(self.columns[name][cell] for name in names))
                for part in itertools.pairwise((0.0, *points[index])) if stage.points else [()]:
                    parts.setdefault((*key, *part), (cell, *part))
            for cell, *span in parts.values():
                total += self.cost(stage, self.at([cell]), *span)
        return total

    def distinct(self, cells: Iterable[int], index: int) -> list[int]:
        """Those of these cells that differ in the stages up to this one."""
        names = self._chain.dependencies[index]
        first_of: dict[tuple[Any, ...], int] = {}
        for cell in cells:
            first_of.setdefault((self.points(cell)[: index + 1], *(self.columns[name][cell] for name in names)), cell)
        return list(first_of.values())

    def at(self, cells: Sequence[int] | np.ndarray) -> dict[str, np.ndarray]:
        return {name: values[np.asarray(cells)] for name, values in self.columns.items()}


def lacking(workload: Workload, chain: Sequence[RowStage], there: Collection[str]) -> list[RowStage]:
    """The kept stages of a row that have to be computed, parents first: those whose metrics are asked for, and those
    that a later stage needs. chain: up to the last stage that is kept. there: the ids in the store."""
    needed_stages: list[RowStage] = []
    needed = True
    for stage in reversed(chain):
        if stage.kept:
            needed = stage.id not in there and (needed or bool(workload.chain.metrics[stage.index]))
            needed_stages += [stage] * needed
    return needed_stages[::-1]


@one_look()
def identities(workload: Workload, columns: Columns, rows: Iterable[tuple[int, int]]) -> list[str]:
    """The id of the last stage of each row (cell, seed); "" for a row without a stage. Costs are not asked for."""
    free = replace(workload, cost=None, stages=tuple(replace(stage, cost=None) for stage in workload.stages))
    stages, last = RowStages(free, columns), len(workload.chain) - 1
    chains = (stages.of_row(cell, seed, last) for cell, seed in rows)
    return [chain[-1].id if chain else "" for chain in chains]


def cell_stages(
    workload: Workload, cells: Cells, keep: Sequence[str] = ()
) -> Callable[[int, Iterable[int]], list[str]]:
    """A function (cell, seeds) -> the ids of its stages for these seeds, stage by stage, for the record."""
    stages, last = RowStages(workload, cells.columns, keep), len(workload.chain) - 1

    @one_look()
    def of_cell(cell: int, seeds: Iterable[int]) -> list[str]:
        chains = [stages.of_row(cell, seed, last) for seed in seeds]
        ordered = sorted((stage.index, number, stage.id) for chain in chains for number, stage in enumerate(chain))
        return list(dict.fromkeys(identity for _, _, identity in ordered))

    return of_cell
