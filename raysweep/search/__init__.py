"""Which cells to compute next. A search is a pure function from the finished rows to the cells that should be computed.

`wanted` returns these cells; raysweep.space.search_options lists the options in a space. A search keeps no state
between calls, so a sweep resumes from its ledger alone. A round is decided only when the previous round is complete, so
the rows are the same with one worker and with many.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from raysweep.plan.cells import Cells
    from raysweep.space.schema import Space

Draws = Callable[[int, str], np.ndarray | None]
"""(cell, metric) -> the metric's values in the cell's ok draws; None while the cell is not complete."""


def wanted(space: Space, cells: Cells, draws: Draws) -> list[int]:
    """Every cell that should be in the ledger, given the draws that are there, in plan order."""
    ((kind, options),) = space.search.items()
    if kind == "grid":
        return list(range(len(cells)))
    if kind == "random":
        return _random(space, cells, options["cells"])
    if kind == "optuna":
        from raysweep.search import optuna_study

        return optuna_study.wanted(space, cells, draws, metric=options["metric"], count=options["cells"])
    from raysweep.search import refinement

    return refinement.wanted(kind, options, space, cells, draws)


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
