"""The cells of a space: every point of its axes, in plan order, with its identity and the resources of its trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.errors import InputError, as_typed
from raysweep.plan import resources
from raysweep.plan.identity import cell_id
from raysweep.plan.resources import Resources
from raysweep.space import axes
from raysweep.space.schema import Space
from raysweep.workloads.asked_once import one_look
from raysweep.workloads.declaration import Workload, column


@dataclass(frozen=True)
class Cells:
    """The cells of a space in plan order.

    columns: every resolved parameter, one entry per cell.
    ids: the cells' hashes.
    needs: the different resources that trials take.
    need: which of these each cell takes, shape (cells,).
    """

    columns: dict[str, np.ndarray]
    ids: list[str]
    needs: list[Resources]
    need: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def parameters(self, index: int) -> dict[str, Any]:
        """One cell's parameters as plain Python values."""
        return {
            name: values[index].item() if hasattr(values[index], "item") else values[index]
            for name, values in self.columns.items()
        }

    def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """The columns at some cells: the table from which a trial computes."""
        return {name: values[indices] for name, values in self.columns.items()}


@one_look()
def enumerate_cells(space: Space, check: bool = True) -> Cells:
    """All cells of a space; InputError for a cell that the workload refuses, or if no cell is left.

    check: False for cells that were checked before they were computed. If their text is gone since, their rows must
        still
    be shown.
    """
    workload = space.declaration
    chosen = list(space.cells())
    if not chosen:
        raise InputError("exclude", "every cell is excluded; nothing is left to compute")
    for name in space.when:
        if all(name in axes.absent(space.when, cell) for cell in chosen):
            raise InputError(f"axes.{name}.when", "no cell satisfies it, because of what zip and exclude leave")
    full = [{**space.fixed, **cell} for cell in chosen]
    if check:
        _check_declared_scales(space, workload)
    if workload.check and check:
        for cell, parameters in zip(chosen, full, strict=True):
            complaint = workload.check(parameters)
            if complaint:
                raise _refused(space, cell, *complaint)
    columns = {p.name: column(p, [parameters[p.name] for parameters in full]) for p in workload.parameters}
    return Cells(
        columns,
        [cell_id(workload, parameters) for parameters in full],
        *resources.of_cells(space.resources, columns, len(full)),
    )


def _check_declared_scales(space: Space, workload: Workload) -> None:
    """InputError if an axis has values that do not fit its declared scale, unless the space states another scale."""
    for name, values in space.axes.items():
        if name not in space.scale and workload.logarithmic(name) and (low := min(values)) <= 0:
            raise InputError(
                f"axes.{name}",
                f"expected values above 0, since {workload.name} reads this axis in log, "
                f"got {low:g} (scale.{name}=linear reads it as it is)",
            )


def _refused(space: Space, cell: Mapping[str, Any], parameter: str, message: str) -> InputError:
    shown = ", ".join(f"{key} = {as_typed(value)}" for key, value in cell.items() if key != parameter)
    return InputError(
        f"{'axes' if parameter in space.axes else 'fixed'}.{parameter}",
        message + (f" (in the cell {shown})" if shown else ""),
    )


def plan_record(space: Space, cells: Cells) -> dict[str, Any]:
    """The plan as plain data for `plan.json`: cells in order with their values on the axes, and each cell's seeds."""
    return {
        "workload": space.workload,
        "search": space.search,
        "seeds": space.seeds,
        "cells": [
            {"cell": identity, **{name: value for name, value in cells.parameters(index).items() if name in space.axes}}
            for index, identity in enumerate(cells.ids)
        ],
    }
