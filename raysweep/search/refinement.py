"""Searches a boundary or an optimum along one axis, slice by slice, without computing the whole grid.

Every slice starts with a few evenly spaced cells. Then some gaps between computed cells are halved: for a boundary the
gaps in which the metric may change sign, for an optimum the gaps next to the best cell. A slice is finished when the
grid has no finer cell there. The search ends when all slices are finished or the budget is spent.

The sign of a cell is certain, or unknown if its draws do not decide it. A gap between two cells of the same certain
sign is settled. A gap between two cells of different signs, one of which may be unknown, is halved if some cell of the
slice has a certain sign. A gap between two cells of unknown sign is halved only if there are cells of certain sign on
both sides of it: then a zero, or a short stretch of the other sign, is likely there. Beyond the last certain sign of a
slice the metric cannot be told from noise, and no gap between unknown signs is halved. Cells that are zero in every
draw, or that have no draw, count as known; a gap between two cells of the same kind is settled.

The budget is shared evenly between slices, and a slice that needs less leaves the rest to the others. Each slice has a
fixed order for its cells, and its share decides only how many of them are computed. So a larger budget only adds cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.statistics import half_width, standard_error

if TYPE_CHECKING:
    from raysweep.plan.cells import Cells
    from raysweep.search.draws import Draws
    from raysweep.space.schema import Space


def wanted(kind: str, options: Mapping[str, Any], space: Space, cells: Cells, draws: Draws) -> list[int]:
    """The cells of all rounds that the draws so far decide, at most as many as the option `budget`.

    kind: boundary or optimum.
    draws: see `Draws`.
    """
    metric = options["metric"]
    slices, maximize = _slices(space, cells, options["x"]), space.declaration.maximized(metric)
    waiting = [_first(members, options["start"]) for members in slices]  # for each slice, the next cells to choose
    chosen: list[list[int]] = [[] for _ in slices]
    while any(waiting):
        shares = _shares(options["budget"], chosen, waiting)
        if all(len(picked) >= share for picked, share in zip(chosen, shares, strict=True)):
            break  # the budget is spent
        for number, share in enumerate(shares):
            more = max(share - len(chosen[number]), 0)
            chosen[number] += waiting[number][:more]
            waiting[number] = waiting[number][more:]
        asked = list(itertools.chain.from_iterable(chosen))
        results = {cell: values for cell in asked if (values := draws(cell, metric)) is not None}
        if len(results) < len(asked):
            break  # this round is not complete, so the next cannot be decided
        for number, members in enumerate(slices):
            waiting[number] = waiting[number] or _next(kind, members, results, maximize)
    return sorted(itertools.chain.from_iterable(chosen))


def _first(members: list[int], start: int) -> list[int]:
    """The first cells of a slice, in order: both ends, their middle, the middles of both halves, and so on.

    members: the cells of the slice, ordered along the axis.
    start: how many evenly spaced cells to start with.
    """
    places = np.unique(np.linspace(0, len(members) - 1, start).round().astype(int)).tolist()
    order, gaps = list(dict.fromkeys([0, len(places) - 1])), [(0, len(places) - 1)]
    for low, high in gaps:  # the list grows during this loop
        if high - low > 1:
            middle = (low + high) // 2
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return [members[places[number]] for number in order]


def _shares(budget: int, chosen: list[list[int]], waiting: list[list[int]]) -> list[int]:
    """How many cells each slice may have now. Slices that want no more keep theirs; the others share the rest evenly.

    chosen: the cells of each slice so far.
    waiting: the cells that each slice still wants.
    """
    unfinished = [number for number, cells in enumerate(waiting) if cells]
    finished = sum(len(picked) for picked, cells in zip(chosen, waiting, strict=True) if not cells)
    each, extra = divmod(budget - finished, len(unfinished))
    shares = [len(picked) for picked in chosen]
    for place, number in enumerate(unfinished):
        shares[number] = each + (place < extra)
    return shares


def _slices(space: Space, cells: Cells, x: str) -> list[list[int]]:
    """The slices of a plan. The cells of a slice differ only in x and are ordered by x."""
    others = [name for name in space.axes if name != x]
    slices: dict[tuple[object, ...], list[int]] = {}
    for index in range(len(cells)):
        slices.setdefault(tuple(cells.columns[name][index] for name in others), []).append(index)
    return [sorted(members, key=lambda index: cells.columns[x][index]) for members in slices.values()]


def _next(kind: str, members: list[int], results: Mapping[int, np.ndarray], maximize: bool) -> list[int]:
    """The middle cells of the gaps of one slice that are to be halved, the most promising first.

    kind: boundary or optimum.
    members: the cells of the slice, ordered along the axis.
    results: maps each computed cell to its draws.
    maximize: whether the best cell is the one with the largest mean.
    """
    places = [place for place, cell in enumerate(members) if cell in results]
    values = [results[members[place]] for place in places]
    gaps = list(itertools.pairwise(places))
    if kind == "boundary":
        gaps = [gaps[number] for number in _unsettled([_sign(draws) for draws in values])]
    else:
        means = [np.mean(draws) if len(draws) else np.nan for draws in values]
        if np.all(np.isnan(means)):
            return []
        best = places[int(np.nanargmax(means) if maximize else np.nanargmin(means))]
        gaps = [gap for gap in gaps if best in gap]
    return [members[(low + high) // 2] for low, high in gaps if high - low > 1]


def _unsettled(signs: list[str]) -> list[int]:
    """The numbers of the gaps in which the metric may change its sign; gap i lies between signs i and i + 1.

    Gaps between a certain + and a certain - come first, and of these the most central ones.
    """
    sure = [place for place, sign in enumerate(signs) if sign in ("+", "-")]
    order = []
    for gap, (one, other) in enumerate(itertools.pairwise(signs)):
        before, after = [place for place in sure if place <= gap], [place for place in sure if place > gap]
        between = bool(before and after)
        if (one != other and sure) or (one == "?" and between):
            crossing = between and signs[before[-1]] != signs[after[0]]
            off_centre = abs(2 * gap + 1 - before[-1] - after[0]) if between else 0
            order.append((not crossing, off_centre, gap))
    return [gap for _, _, gap in sorted(order)]


def _sign(values: np.ndarray) -> str:
    """The sign of a cell: "+" or "-", "?" if its draws do not decide it (95 %, Student's t), "0" if all draws are zero,
    "" if there is no draw."""
    if len(values) == 0:
        return ""
    if not np.any(values):
        return "0"
    mean, error, count = standard_error(values[:, None])
    half = float(half_width(0.95, error, count)[0]) if len(values) > 1 else 0.0
    return "?" if abs(mean[0]) <= half else "+" if mean[0] > 0 else "-"
