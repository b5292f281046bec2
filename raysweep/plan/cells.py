"""The cells of a space: every point of its axes, in plan order, with its identity and the resources of its trials.

A space with an axis that is a range has no list of cells: they are those that its search asks for. Nor has one whose
rows were computed elsewhere. They are placed one by one at the end of the table, and each row in the ledger keeps the
values of its cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raysweep.errors import InputError, as_typed, shown
from raysweep.plan.identity import answer, cell_id
from raysweep.space import axes, resources
from raysweep.space.resources import Resources
from raysweep.space.schema import Space
from raysweep.workloads.asked_once import one_look
from raysweep.workloads.declaration import Workload, column


@dataclass
class Cells:
    """The cells of a space in plan order.

    columns: every resolved parameter, one entry per cell.
    ids: the cells' hashes. position maps them to their positions.
    needs: the different resources that trials take. need: which of these each cell takes, shape (cells,).
    most: how many cells there can be.
    asked: for each cell of an open space {"number": ..., "values": {axis: value}}: its place in the order in which the
        search asks. None for any other space.
    complaint: why the workload refused the last cell that was not placed: its parameter and what it said.
    suggested: what a search suggested, by the results that it knew then, where it takes long to ask it again.
    """

    columns: dict[str, np.ndarray]
    ids: list[str]
    needs: list[Resources]
    need: np.ndarray
    most: int
    asked: list[dict[str, Any]] | None = None
    position: dict[str, int] = field(init=False)
    complaint: tuple[str, str] | None = None
    suggested: dict[tuple[Any, ...], list[Any]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.position = {identity: index for index, identity in enumerate(self.ids)}

    def __len__(self) -> int:
        return len(self.ids)

    def parameters(self, index: int) -> dict[str, Any]:
        """One cell's parameters as plain Python values."""
        return plain_row(self.columns, index)

    def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """The columns at some cells: the table from which a trial computes."""
        return {name: values[indices] for name, values in self.columns.items()}

    def in_order(self) -> Sequence[int]:
        """All positions in plan order; with ranges, in the order in which the search asked."""
        if self.asked is None:
            return range(len(self))
        asked = self.asked
        return sorted(range(len(self)), key=lambda index: (asked[index]["number"], index))

    def place(self, space: Space, values: Mapping[str, Any]) -> int | None:
        """The position of a cell, {axis: value}, of an open space, added if it is new; None if it is left out."""
        assert self.asked is not None
        workload, parameters = space.declaration, {**space.fixed, **values}
        identity = cell_id(workload, parameters)
        if identity in self.position:
            return self.position[identity]
        if space.leaves_out(values):
            return None
        if complaint := _complaint(workload, parameters):
            self.complaint = complaint
            return None
        self.position[identity] = len(self.ids)
        self.ids.append(identity)  # trials in this process see the table grow, so it must stay the same object
        self.asked.append({"number": len(self.asked), "values": dict(values)})
        for parameter in workload.parameters:
            name = parameter.name
            self.columns[name] = np.append(self.columns[name], column(parameter, [parameters[name]]))
        self.need = np.append(self.need, 0)
        return self.position[identity]

    def restore(self, space: Space, rows: Iterable[Mapping[str, Any]]) -> None:
        """Place the cells of rows in the ledger, in the order in which they were asked for."""
        asked_of = {row["cell"]: row["asked"] for row in rows if "asked" in row}
        for identity, asked in sorted(asked_of.items(), key=lambda item: (item[1]["number"], item[0])):
            values = asked["values"]
            complete = values.keys() == space.axes.keys()
            if complete and cell_id(space.declaration, {**space.fixed, **values}) == identity:
                position = self.place(space, values)
                if position is not None and self.asked is not None:
                    self.asked[position]["number"] = asked["number"]


def plain_row(columns: Mapping[str, np.ndarray], index: int) -> dict[str, Any]:
    """One row of a table as plain Python values."""
    row = {name: values[index] for name, values in columns.items()}
    return {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}


@one_look()
def enumerate_cells(space: Space, check: bool = True) -> Cells:
    """All cells of a space; InputError for a cell that the workload refuses, or if none is left. check: False for cells
    that were computed: their rows are shown even if their text is gone."""
    workload = space.declaration
    for name, values in space.axes.items() if check else ():
        if name not in space.scale and workload.logarithmic(name) and (low := min(values)) < 0:
            expected = f"expected no value below 0, since {workload.name} reads this axis in log"
            raise InputError(f"axes.{name}", f"{expected}, got {low:g} (scale.{name}=linear reads it as it is)")
    if space.open:  # its search has not asked for a cell yet
        columns = {p.name: column(p, []) for p in workload.parameters}
        return Cells(columns, [], *resources.of_cells(space.resources, columns, 0), space.count_upper_bound(), [])
    chosen = list(space.cells())
    if not chosen:
        raise InputError("exclude", "every cell is excluded; nothing is left to compute")
    for name in space.when:
        if all(name in axes.absent(space.when, cell) for cell in chosen):
            raise InputError(f"axes.{name}.when", "no cell satisfies it, because of what zip and exclude leave")
    full = [{**space.fixed, **cell} for cell in chosen]
    for cell, parameters in zip(chosen, full, strict=True) if workload.check and check else ():
        if complaint := _complaint(workload, parameters):
            raise _refused(space, cell, *complaint)
    columns = {p.name: column(p, [parameters[p.name] for parameters in full]) for p in workload.parameters}
    ids, needs = [cell_id(workload, cell) for cell in full], resources.of_cells(space.resources, columns, len(full))
    return Cells(columns, ids, *needs, most=len(full))


@one_look()
def fetch(space: Space, say: Callable[[str], None]) -> None:
    """Download the files that the cells of a space name and that are missing. InputError if that is impossible."""
    workload = space.declaration
    if workload.fetch is None:
        raise InputError("--download", f"{workload.name} reads no files that raysweep could download")
    for cell in space.cells():
        if why := workload.fetch({**space.fixed, **cell}, say):
            raise _refused(space, cell, *why)


@one_look()
def to_download(space: Space) -> str:
    """What the cells of a space need and `fetch` would download, in words; "" for nothing."""
    workload, sizes = space.declaration, dict[str, float]()
    if workload.downloads is None:
        return ""
    for cell in [] if space.open else space.cells():
        sizes |= workload.downloads({**space.fixed, **cell})
    if not sizes:
        return ""
    first, *others = sizes
    return f"{first}{f' and {len(others):,} more' if others else ''}, {sum(sizes.values()) / 1e9:,.1f} GB"


def _complaint(workload: Workload, parameters: Mapping[str, Any]) -> tuple[str, str] | None:
    """What the workload's `check` says of a cell. InputError if it raises, or says anything else."""
    if workload.check is None:
        return None
    path = f"{workload.name}.check"
    complaint = answer(path, workload.check, parameters)
    if complaint is None:
        return None
    if not (isinstance(complaint, tuple) and len(complaint) == 2 and all(isinstance(word, str) for word in complaint)):
        raise InputError(path, f"expected (parameter, complaint) or None, got {shown(complaint)}")
    return complaint


def _refused(space: Space, cell: Mapping[str, Any], parameter: str, message: str) -> InputError:
    others = ", ".join(f"{key} = {as_typed(value)}" for key, value in cell.items() if key != parameter)
    path = f"{'axes' if parameter in space.axes else 'fixed'}.{parameter}"
    return InputError(path, message + (f" (in the cell {others})" if others else ""))


def plan_record(space: Space, cells: Cells) -> dict[str, Any]:
    """The plan as plain data for `plan.json`: cells in order with their values on the axes, and each cell's seeds."""
    precision = {"precision": space.precision} if space.precision else {}
    rows = ((cells.ids[index], cells.parameters(index)) for index in cells.in_order())
    listed = [{"cell": cell, **{name: row[name] for name in row if name in space.axes}} for cell, row in rows]
    return {"workload": space.workload, "search": space.search, "seeds": space.seeds, **precision, "cells": listed}
