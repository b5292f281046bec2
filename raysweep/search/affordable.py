"""What a budget is enough for: the steps of slices with as many draws as it can pay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from raysweep.search import endings
from raysweep.search.curves import Step
from raysweep.search.declared_cost import DeclaredCost
from raysweep.search.slices import Slice

WORTH = 1.05  # draws times this are the fewest with which the rest of a budget is spent on a slice


def affordable(
    budget: Mapping[str, float], members: Sequence[Slice], steps: Sequence[Step], counts: np.ndarray, cost: DeclaredCost
) -> list[Step]:
    """The steps with as many draws as the budget is enough for. The largest expected gain in half-width per cost comes
    first. A step that is too large gets fewer further draws, the same of all its cells, as long as they gain anything.
    """
    if not budget:
        return list(steps)
    granted_steps, granted = list(steps), counts

    def fits(wanted: np.ndarray) -> bool:
        needed = cost.of(wanted, counts)
        return all(cost.spent[unit] + needed[unit] <= most * (1 + 1e-9) for unit, most in budget.items())

    def price(slice_: Slice, step: Step) -> float:
        needed = cost.of(merged([slice_], [step], counts), counts)
        return max(needed[unit] / most for unit, most in budget.items())

    def gain(place: int) -> tuple[float, int]:
        slice_, step = members[place], steps[place]
        gained = 1.0 if math.isinf(step.half) else (step.half - step.then) / slice_.wanted
        return -gained / max(price(slice_, step), 1e-300), place

    asking = [place for place, step in enumerate(steps) if (step.counts > counts[list(members[place].cells)]).any()]
    for _, place in sorted(map(gain, asking)):
        slice_, step = members[place], steps[place]
        now = counts[np.asarray(slice_.cells)]

        def cut(most: int, slice_: Slice = slice_, step: Step = step, now: np.ndarray = now) -> Step:
            return replace(step, counts=np.maximum(now, np.minimum(step.counts, most)))

        low, high = _worth(now, step.counts), int(step.counts.max())
        if not fits(merged([slice_], [cut(low)], granted)):
            granted_steps[place] = replace(step, counts=now, state=endings.SPENT)
            continue
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(merged([slice_], [cut(middle)], granted)) else (low, middle - 1)
        granted_steps[place] = cut(low)
        granted = merged([slice_], [granted_steps[place]], granted)
    return granted_steps


def _worth(now: np.ndarray, wanted: np.ndarray) -> int:
    """The fewest draws of a cell for which a step gains anything. Cells are compared on equal draws, so a step that
    brings cells up to the others is worth nothing in part; of further draws there must be enough to be seen."""
    most = int(now.max(initial=0))
    if int(wanted.max(initial=0)) <= most:
        return int(wanted.max(initial=0))
    return min(int(wanted.max()), max(most + 1, math.ceil(WORTH * most)))


def merged(members: Sequence[Slice], steps: Sequence[Step], counts: np.ndarray) -> np.ndarray:
    """How many draws each cell is to have, (cells,): the most that a slice with it wants."""
    wanted = counts.copy()
    for slice_, step in zip(members, steps, strict=True):
        np.maximum.at(wanted, np.asarray(slice_.cells, dtype=np.int64), step.counts)
    return wanted
