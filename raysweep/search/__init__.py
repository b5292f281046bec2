"""Which cells to compute next. A search is a pure function from the finished rows to the cells that should be computed.

`wanted` returns these cells; raysweep.space.search_options lists the options in a space. A search keeps no state
between calls, so a sweep resumes from its ledger alone. A round is decided only when the previous round is complete, so
the rows are the same with one worker and with many.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.errors import InputError
from raysweep.space.axes import within
from raysweep.training import draws as draws_of

if TYPE_CHECKING:
    from raysweep.plan.cells import Cells
    from raysweep.space.schema import Space

ATTEMPTS = 20
"""Suggestions for each new cell, because a search may suggest cells again, or cells that are left out."""
Draws = Callable[[int, str], np.ndarray | None]
"""(cell, metric) -> the metric's values in the cell's ok draws; None while the cell is not complete."""


def wanted(space: Space, cells: Cells, draws: Draws) -> list[int]:
    """Every cell that should be in the ledger, given the draws that are there, in plan order.

    For a space with ranges: in the order in which the search asks for them. It places them in the table.
    """
    ((kind, options),) = space.search.items()
    if space.ranges:
        return _placed(space, cells, draws)
    if kind == "grid":
        return list(range(len(cells)))
    if kind == "random":
        return _random(space, cells, options["cells"])
    if kind == "optuna":
        from raysweep.search import optuna_study

        return optuna_study.wanted(space, cells, draws, metric=options["metric"], count=options["cells"])
    from raysweep.search import refinement

    return refinement.wanted(kind, options, space, cells, draws)


def _placed(space: Space, cells: Cells, draws: Draws) -> list[int]:
    """The cells of a space with ranges. InputError if the workload refuses all that the search asks for."""
    ((kind, options),) = space.search.items()
    if kind == "random":
        chosen = _drawn(space, cells, options["cells"])
    else:
        from raysweep.search import optuna_study

        chosen = optuna_study.wanted(space, cells, draws, metric=options["metric"], count=options["cells"])
    if not chosen:
        parameter, why = cells.complaint or ("", "exclude leaves out every cell")
        path = f"{'axes' if parameter in space.axes else 'fixed'}.{parameter}" if parameter else "exclude"
        raise InputError(path, f"{why} (in the last of the cells that the search asked for)")
    for number, cell in enumerate(chosen):
        cells.asked[cell]["number"] = number  # type: ignore[index]
    return chosen


def _drawn(space: Space, cells: Cells, count: int) -> list[int]:
    """The first `count` cells of a fixed random sequence: uniform on ranges (in log, if they say so) and over listed
    values. More cells only add to these."""
    chosen: dict[int, None] = {}
    for number in range(ATTEMPTS * count):
        cell: dict[str, Any] = {}
        for group in space.groups():
            share = draws_of.generator(number, f"axis {group[0]}").random()
            for name in group:
                values = space.axes[name]
                if name in space.ranges:
                    cell[name] = within(space.declaration.by_name[name], values, space.ranges[name], share)
                else:
                    cell[name] = values[int(share * len(values))]
        position = cells.place(space, space.settled(cell))
        if position is not None:
            chosen[position] = None
        if len(chosen) == count:
            break
    return list(chosen)


def _random(space: Space, cells: Cells, count: int) -> list[int]:
    """The `count` cells whose values on the axes have the smallest hashes.

    The choice depends on a cell's own values and not on its position. More values on an axis therefore change the
    choice only by new cells, a larger count only adds cells, and sweeps with other fixed parameters choose the same
    cells.
    """
    columns = [cells.columns[name].tolist() for name in sorted(space.axes)]

    def drawn(cell: int) -> bytes:
        return hashlib.sha256(repr([values[cell] for values in columns]).encode()).digest()

    return sorted(sorted(range(len(cells)), key=drawn)[:count])
