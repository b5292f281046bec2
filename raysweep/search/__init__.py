"""Which cells to compute next. A search is a pure function from the finished rows to the cells that should be computed.

`wanted` returns these cells; raysweep.space.search_options lists the options in a space. A search keeps no state
between calls, so a sweep resumes from its ledger alone. A round is decided only when the previous round is complete, so
the rows are the same with one worker and with many.
"""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING, Any

from raysweep.errors import InputError
from raysweep.search.draws import ATTEMPTS, Draws
from raysweep.space.axes import within
from raysweep.training import draws as draws_of

if TYPE_CHECKING:
    from raysweep.plan.cells import Cells
    from raysweep.space.schema import Space


def wanted(space: Space, cells: Cells, draws: Draws) -> list[int]:
    """Every cell that should be in the ledger, given the draws that are there, in plan order.

    For an open space: in the order in which the search asks for them. It places them in the table.
    """
    asked = list(itertools.chain.from_iterable(rounds(space, cells, draws)))
    return asked if space.open else sorted(asked)


def rounds(space: Space, cells: Cells, draws: Draws) -> list[list[int]]:
    """The cells of `wanted` in rounds. Rows may be stopped early by rows of earlier rounds; then only the last round
    has cells that are not complete."""
    ((kind, options),) = space.search.items()
    if kind == "optuna":
        from raysweep.search import optuna_study

        asked = optuna_study.rounds(
            space, cells, draws, metric=options["metric"], count=options["cells"], sampler=options["sampler"]
        )
    else:
        asked = [_at_once(space, cells, draws)]
        if space.early_stopping:
            asked = _doubling(space, cells, draws, asked[0])
    if space.ranges:
        _number(space, cells, asked)
    return asked


def _doubling(space: Space, cells: Cells, draws: Draws, chosen: list[int]) -> list[list[int]]:
    """Cells in rounds, each further one as large as all before; the first is as large as the space says. The order is
    drawn by the hash of a cell's values, because neighbours in the plan are alike."""
    order = chosen if space.ranges else sorted(chosen, key=_hashes(space, cells).__getitem__)
    asked: list[list[int]] = []
    first, size = 0, space.early_stopping["first"]
    while first < len(order):
        asked.append(order[first : first + size])
        if any(draws(cell, space.early_stopping["metric"]) is None for cell in asked[-1]):
            break
        first, size = first + size, first + size
    return asked


def _at_once(space: Space, cells: Cells, draws: Draws) -> list[int]:
    """The cells of a search other than Optuna's."""
    ((kind, options),) = space.search.items()
    if kind in ("grid", "imported"):
        return list(range(len(cells)))
    if kind == "random":
        return (_drawn if space.ranges else _random)(space, cells, options["cells"])
    from raysweep.search import refinement

    return refinement.wanted(kind, options, space, cells, draws)


def _number(space: Space, cells: Cells, asked: list[list[int]]) -> None:
    """Number the cells of a space with ranges as the search asks for them. InputError if the workload refuses all of
    them."""
    chosen = list(itertools.chain.from_iterable(asked))
    if not chosen:
        parameter, why = cells.complaint or ("", "exclude leaves out every cell")
        path = f"{'axes' if parameter in space.axes else 'fixed'}.{parameter}" if parameter else "exclude"
        raise InputError(path, f"{why} (in the last of the cells that the search asked for)")
    assert cells.asked is not None  # these cells are asked for
    for number, cell in enumerate(chosen):
        cells.asked[cell]["number"] = number


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
    hashes = _hashes(space, cells)
    return sorted(sorted(range(len(cells)), key=hashes.__getitem__)[:count])


def _hashes(space: Space, cells: Cells) -> list[bytes]:
    """A hash of the values of each cell on the axes: in their order, the cells are as if drawn at random."""
    columns = [cells.columns[name].tolist() for name in sorted(space.axes)]
    return [hashlib.sha256(repr(list(values)).encode()).digest() for values in zip(*columns, strict=True)]
