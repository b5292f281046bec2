"""Seek a boundary or an optimum along one axis, slice by slice, without computing the whole grid.

Every slice starts with a few evenly spaced cells; then only the gaps are halved in which the metric changes sign
(boundary) or that touch its best cell (optimum), until the grid has no finer cell there or the budget is spent. A cell
whose draws do not tell its sign counts as neither, so both gaps beside it are looked into.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from raysweep import workloads

if TYPE_CHECKING:
    from raysweep.plan import Cells
    from raysweep.search import Draws
    from raysweep.space import Space


def wanted(kind: str, space: Space, cells: Cells, draws: Draws, *, metric: str, x: str, budget: int,
           start: int) -> list[int]:
    """Cells of all rounds up to the one that the draws allow to decide, at most `budget` of them."""
    slices = _slices(space, cells, x)
    first = [members[i] for members in slices for i in np.unique(np.linspace(0, len(members) - 1, start).round())
             .astype(int)]
    chosen = first[:budget]
    while len(chosen) < budget:
        known = {cell: values for cell in chosen if (values := draws(cell, metric)) is not None}
        if len(known) < len(chosen):
            break  # this round is not complete; the next waits for it
        have = set(chosen)
        more = [cell for members in slices for cell in _next(kind, members, have, known, _maximize(space, metric))]
        if not more:
            break
        chosen += more[:budget - len(chosen)]
    return sorted(chosen)


def _slices(space: Space, cells: Cells, x: str) -> list[list[int]]:
    """Cells that differ in x only, each slice ordered by x."""
    others = [name for name in space.axes if name != x]
    slices: dict[tuple[object, ...], list[int]] = {}
    for index in range(len(cells)):
        slices.setdefault(tuple(cells.columns[name][index] for name in others), []).append(index)
    return [sorted(members, key=lambda index: cells.columns[x][index]) for members in slices.values()]


def _next(kind: str, members: list[int], have: set[int], known: dict[int, np.ndarray], maximize: bool) -> list[int]:
    """The middle of every gap of one slice that is worth halving."""
    places = [i for i, cell in enumerate(members) if cell in have]
    if kind == "boundary":
        signs = [_sign(known[members[i]]) for i in places]
        gaps = [(a, b) for (a, one), (b, other) in itertools.pairwise(zip(places, signs, strict=True))
                if one != other]
    else:
        means = [np.mean(known[members[i]]) if len(known[members[i]]) else np.nan for i in places]
        if np.all(np.isnan(means)):
            return []
        best = places[int(np.nanargmax(means) if maximize else np.nanargmin(means))]
        gaps = [(a, b) for a, b in itertools.pairwise(places) if best in (a, b)]
    return [members[(a + b) // 2] for a, b in gaps if b - a > 1]


def _sign(values: np.ndarray) -> int:
    """1, -1, or 0 where the draws do not tell (95 %, Student's t)."""
    from scipy.stats import t

    if len(values) == 0:
        return 0
    mean = float(np.mean(values))
    doubt = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return 0 if abs(mean) <= doubt else int(np.sign(mean))


def _maximize(space: Space, metric: str) -> bool:
    directions = {entry.name: entry.direction for entry in workloads.get(space.workload).metrics}
    return directions[metric] == "maximize"
