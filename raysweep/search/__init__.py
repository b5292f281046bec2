"""Which cells next. A search is a pure function: from the rows there are to the cells there should be.

`wanted` gives the cells that ought to be computed given what is known; raysweep.space.search_options says what a space
may ask. Nothing is
remembered between calls, so a sweep resumes from its ledger alone; and since a round is decided only when the one
before is complete, the rows are the same on one worker and on many.
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
"""(cell, metric) -> the metric of its ok draws once the cell is complete, None before."""


def wanted(space: Space, cells: Cells, draws: Draws) -> list[int]:
    """Every cell that ought to be in the ledger, given the draws that are there, in plan order."""
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
    """The cells with the smallest hashes of their values on the axes. A cell is chosen by its own values and not by its
    place among the others: more values on an axis change the choice only by cells that are new, a larger count only
    adds cells, and sweeps that differ in fixed parameters take the same ones."""
    columns = [cells.columns[name].tolist() for name in sorted(space.axes)]

    def drawn(cell: int) -> bytes:
        return hashlib.sha256(repr([values[cell] for values in columns]).encode()).digest()

    return sorted(sorted(range(len(cells)), key=drawn)[:count])
