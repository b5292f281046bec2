"""Seek a boundary or an optimum along one axis, slice by slice, without computing the whole grid.

Every slice starts with a few evenly spaced cells; then only the gaps are halved in which the metric may change sign
(boundary) or that touch its best cell (optimum), until the grid has no finer cell there or the budget is spent.

The sign of a cell is certain, or unknown where its draws do not tell it. A gap between two cells of the same certain
sign is settled. The gaps on both sides of a cell of unknown sign are halved; one between two such cells only if some
cell on either side of it has a certain sign: then a zero is most likely there, or a short stretch of the other sign.
Beyond the last certain sign of a slice the metric is lost in its noise, and nothing is sought. Cells that are zero in
every draw, or that have no draw at all, count as known, and a gap between two of the same kind is settled.

The budget is shared evenly between slices; what one of them does not need goes to the others. Each slice has an order
of its own for its cells, and its share says only how many of them it gets: a larger budget adds cells and takes none
away.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from raysweep import workloads

if TYPE_CHECKING:
    from raysweep.plan.cells import Cells
    from raysweep.search import Draws
    from raysweep.space.schema import Space
    from raysweep.space.search_options import SearchOptions


def wanted(kind: str, options: SearchOptions, space: Space, cells: Cells, draws: Draws) -> list[int]:
    """Cells of all rounds up to the one that the draws allow to decide, at most the `budget` of the options."""
    metric = options["metric"]
    slices, maximize = _slices(space, cells, options["x"]), workloads.get(space.workload).maximized(metric)
    waiting = [_first(members, options["start"]) for members in slices]  # of each slice, what its share is yet to reach
    chosen: list[list[int]] = [[] for _ in slices]
    while any(waiting):
        shares = _shares(options["budget"], chosen, waiting)
        if all(len(own) >= share for own, share in zip(chosen, shares, strict=True)):
            break  # the budget is spent
        for number, share in enumerate(shares):
            more = max(share - len(chosen[number]), 0)
            chosen[number] += waiting[number][:more]
            waiting[number] = waiting[number][more:]
        asked = list(itertools.chain.from_iterable(chosen))
        known = {cell: values for cell in asked if (values := draws(cell, metric)) is not None}
        if len(known) < len(asked):
            break  # this round is not complete; the next waits for it
        for number, members in enumerate(slices):
            waiting[number] = waiting[number] or _next(kind, members, known, maximize)
    return sorted(itertools.chain.from_iterable(chosen))


def _first(members: list[int], start: int) -> list[int]:
    """The cells a slice starts with: its ends, their middle, the middles of both halves, and so on."""
    places = np.unique(np.linspace(0, len(members) - 1, start).round().astype(int)).tolist()
    order, gaps = list(dict.fromkeys([0, len(places) - 1])), [(0, len(places) - 1)]
    for low, high in gaps:  # which grows meanwhile
        if high - low > 1:
            middle = (low + high) // 2
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return [members[places[number]] for number in order]


def _shares(budget: int, chosen: list[list[int]], waiting: list[list[int]]) -> list[int]:
    """How many cells each slice may have by now: those that want no more keep theirs, the rest is shared evenly."""
    unfinished = [number for number, cells in enumerate(waiting) if cells]
    finished = sum(len(own) for own, cells in zip(chosen, waiting, strict=True) if not cells)
    each, extra = divmod(budget - finished, len(unfinished))
    shares = [len(own) for own in chosen]
    for place, number in enumerate(unfinished):
        shares[number] = each + (place < extra)
    return shares


def _slices(space: Space, cells: Cells, x: str) -> list[list[int]]:
    """Cells that differ in x only, each slice ordered by x."""
    others = [name for name in space.axes if name != x]
    slices: dict[tuple[object, ...], list[int]] = {}
    for index in range(len(cells)):
        slices.setdefault(tuple(cells.columns[name][index] for name in others), []).append(index)
    return [sorted(members, key=lambda index: cells.columns[x][index]) for members in slices.values()]


def _next(kind: str, members: list[int], known: Mapping[int, np.ndarray], maximize: bool) -> list[int]:
    """The middle of every gap of one slice that is worth halving, the most promising first."""
    places = [place for place, cell in enumerate(members) if cell in known]
    values = [known[members[place]] for place in places]
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
    """Numbers of the gaps (between signs i and i + 1) in which the metric may change its sign: first those that lie
    between a certain + and a certain -, and of these the innermost."""
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
    """+ or -, ? where the draws do not tell (95 %, Student's t), 0 where all of them are zero, "" without a draw."""
    from scipy.stats import t

    if len(values) == 0:
        return ""
    if not np.any(values):
        return "0"
    mean = float(np.mean(values))
    doubt = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return "?" if abs(mean) <= doubt else "+" if mean > 0 else "-"
