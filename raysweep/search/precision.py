"""Which rows to compute so that every place is located with the precision that a space asks for.

`plan` is a pure function from the rows that are there to the rows that are wanted, in rounds. A round is decided only
when the round before is complete, and its size depends on values and declared costs only, never on workers or measured
time: so the rows are the same however the sweep is computed, and it resumes from its ledger alone. Every cell gets the
first draws of the space, so draws are shared within a slice and between slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from raysweep.errors import InputError
from raysweep.search import bracketing, endings, racing, slices
from raysweep.search.affordable import affordable, merged
from raysweep.search.curves import OPEN, Step
from raysweep.search.declared_cost import DeclaredCost
from raysweep.search.slice_rows import SliceRows, Value
from raysweep.search.slices import Ask, Slice
from raysweep.search.step_cache import StepCache, digest
from raysweep.space.precision import HOURS

if TYPE_CHECKING:
    from raysweep.plan.cells import Cells
    from raysweep.space.schema import Space


NEARLY = 1e-9  # relative: rounding makes no choice


@dataclass
class Plan:
    """What a precision wants, given the rows that are there.

    rounds: the rows (cell, seed) of each round; only those of the last one may be missing.
    slices: the slices, each with its last step: what is known of it when the rounds before the last are complete.
    over: whether nothing more is wanted: every row is there and no slice asks for more, or the budget is spent.
    counts: how many of the space's seeds each cell is to have, (cells,).
    expected: how many of them each cell is expected to have in the end, (cells,), as far as the rows tell.
    spent: what the rounds cost in the units of the budget.
    """

    rounds: list[list[tuple[int, int]]]
    slices: list[tuple[Slice, Step]]
    over: bool
    counts: np.ndarray
    expected: np.ndarray
    spent: dict[str, float]

    @cached_property
    def open_cells(self) -> frozenset[int]:
        """The cells that may get further draws: those of the slices on which more is spent."""
        if self.over:
            return frozenset()
        return frozenset(cell for slice_, step in self.slices if step.state == OPEN for cell in slice_.cells)


def rounds(space: Space, cells: Cells, value: Value, cache: StepCache | None = None) -> list[list[tuple[int, int]]]:
    """The rows that a space with a precision wants, in rounds (see `plan`). An empty last round: nothing more."""
    whole = plan(space, cells, value, cache)
    return [*whole.rounds, []] if whole.over else whole.rounds


def plan(space: Space, cells: Cells, value: Value, cache: StepCache | None = None) -> Plan:
    """The rows that a space with a precision wants. InputError if its budget is below the first round.

    cache: steps that were computed before; those that are computed now are added.
    """
    cache = cache or StepCache()
    members = slices.of_space(space, cells)
    rows_of = SliceRows(space.seeds, members, value)
    cost = DeclaredCost(space, cells, hours=any(unit in space.budget for unit in HOURS))
    counts = np.zeros(len(cells), dtype=np.int64)
    every_round: list[list[tuple[int, int]]] = []
    steps = [_begin(slice_, len(space.seeds)) for slice_ in members]
    least = cost.of(merged(members, steps, counts), counts)
    for unit, most in space.budget.items():
        if least[unit] > most:
            text = f"expected at least {least[unit]:.4g}, what the first round takes, got {most:.4g}"
            raise InputError(f"budget.{unit}", text)
    complete = True
    while complete:
        steps = affordable(space.budget, members, steps, counts, cost)
        wanted = merged(members, steps, counts)
        rows = [(cell, draw) for cell in range(len(cells)) for draw in range(counts[cell], wanted[cell])]
        if not rows:
            if space.budget:  # what waited for others gets nothing either
                steps = [replace(step, state=endings.SPENT) if step.state == OPEN else step for step in steps]
            break
        every_round.append([(cell, space.seeds[draw]) for cell, draw in rows])
        cost.pay(wanted, counts)
        complete = rows_of.read(rows)
        counts = wanted
        if complete:
            steps = cache.round(
                rows_of.digest, partial(_steps, members, rows_of, counts, len(space.seeds), cost, cache)
            )
    ahead = [step if step.needed is None or step.state != OPEN else _at_least(step, step.needed) for step in steps]
    expected = merged(members, ahead, counts)
    return Plan(every_round, list(zip(members, steps, strict=True)), complete, counts, expected, cost.spent)


def _at_least(step: Step, counts: np.ndarray) -> Step:
    return replace(step, counts=np.maximum(step.counts, counts))


def _begin(slice_: Slice, most: int) -> Step:
    """What a slice wants first."""
    if not slices.enough(slice_):
        return Step(np.zeros(len(slice_.x), dtype=np.int64), endings.FEW_VALUES)
    return Step((racing if slice_.kind == "optimum" else bracketing).first(Ask(slice_, most)), OPEN)


def _steps(
    members: Sequence[Slice], rows_of: SliceRows, counts: np.ndarray, most: int, cost: DeclaredCost, cache: StepCache
) -> list[Step]:
    """The next step of each slice from the finished rows. Where best values are sought, slices wait for each other."""
    curves, exact = rows_of.curves(members, counts)
    asks = [Ask(slice_, most, noiseless) for slice_, noiseless in zip(members, exact, strict=True)]

    def judged(place: int) -> Step:
        slice_, curve = members[place], curves[place]
        key = digest(("step", most, *slices.asked(slice_), exact[place]), curve, slice_.heavy)
        engine = racing.step if slice_.kind == "optimum" else bracketing.step
        return cache.step(key, len(slice_.x), partial(engine, curve, asks[place]))

    steps: dict[int, Step] = {}
    races: dict[str, list[int]] = {}
    for place, slice_ in enumerate(members):
        if not slices.enough(slice_):
            steps[place] = _begin(slice_, most)
        elif slice_.kind == "optimum":  # only these draws are completed from each other
            races.setdefault(slice_.analysis if slice_.fit == "optimum" else f"{place}", []).append(place)
        else:
            steps[place] = judged(place)
    for race in races.values():
        runners = [(curves[place], asks[place], partial(judged, place)) for place in race]
        steps |= zip(race, racing.in_turn(runners), strict=True)
    return [_chosen(slice_, steps[place], counts, cost) for place, slice_ in enumerate(members)]


def _chosen(slice_: Slice, step: Step, counts: np.ndarray, cost: DeclaredCost) -> Step:
    """The step with those of its choices that gain most for what they cost; of equal ones the first."""
    if not step.choices:
        return step
    now = counts[np.asarray(slice_.cells)]
    wanted = now.copy()
    for group in step.choices:
        ways = [np.maximum(way.counts, now) for way in group]
        prices = [cost.price(merged([slice_], [replace(step, counts=way)], counts), counts) for way in ways]
        worth = [way.gain / max(price, 1e-300) for way, price in zip(group, prices, strict=True)]
        best = next(place for place, value in enumerate(worth) if value >= (1 - NEARLY) * max(worth))
        wanted = np.maximum(wanted, ways[best])
    return replace(step, counts=wanted)
