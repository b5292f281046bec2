"""Which rows to compute so that every place is located with the precision that a space asks for.

`plan` is a pure function from the rows that are there to the rows that are wanted, in rounds. A round is decided only
when the round before is complete, and its size depends on values and declared costs only, never on workers or measured
time: so the rows are the same however the sweep is computed, and it resumes from its ledger alone. Every cell gets the
first draws of the space, so draws are shared within a slice and between slices.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from raysweep.errors import InputError
from raysweep.search import bracketing, racing, slices
from raysweep.search.curves import OPEN, Curve, Step
from raysweep.search.declared_cost import DeclaredCost
from raysweep.search.slices import Slice
from raysweep.space.precision import HOURS

if TYPE_CHECKING:
    from raysweep.plan.cells import Cells
    from raysweep.space.schema import Space

Value = Callable[[int, int, str], float | None]
"""(cell, seed, metric) -> the metric of a row; None if the row is not there, NaN if it is not ok."""
SPENT = "the budget is spent"
REMEMBERED = 4096  # steps of slices; a plan is made again after each round, and most of its steps are the same
_KNOWN: dict[str, Step] = {}


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
        return frozenset(cell for own, step in self.slices if step.state == OPEN for cell in own.cells)


def rounds(space: Space, cells: Cells, value: Value) -> list[list[tuple[int, int]]]:
    """The rows that a space with a precision wants, in rounds (see `Plan`). An empty last round: nothing more."""
    found = plan(space, cells, value)
    return [*found.rounds, []] if found.over else found.rounds


def plan(space: Space, cells: Cells, value: Value) -> Plan:
    """The rows that a space with a precision wants. InputError if its budget is below the first round."""
    members = slices.of_space(space, cells)
    table = _Table(space.seeds, members, value)
    cost = DeclaredCost(space, cells, hours=any(unit in space.budget for unit in HOURS))
    counts = np.zeros(len(cells), dtype=np.int64)
    found: list[list[tuple[int, int]]] = []
    steps = [Step(_first(own, len(space.seeds)), OPEN) for own in members]
    _check_first_round(space.budget, cost.of(_merged(members, steps, counts), counts))
    complete = True
    while complete:
        steps = _affordable(space.budget, members, steps, counts, cost)
        wanted = _merged(members, steps, counts)
        rows = [(cell, draw) for cell in range(len(cells)) for draw in range(counts[cell], wanted[cell])]
        if not rows:
            break
        found.append([(cell, space.seeds[draw]) for cell, draw in rows])
        cost.pay(wanted, counts)
        complete = table.read(rows)
        counts = wanted
        if complete:
            steps = [_step(own, table, counts, len(space.seeds)) for own in members]
    expected = _expected(members, steps, counts)
    return Plan(found, list(zip(members, steps, strict=True)), complete, counts, expected, cost.spent)


def _first(own: Slice, most: int) -> np.ndarray:
    return bracketing.first(len(own.x), _ask(own, most)) if own.kind == "boundary" else racing.first(len(own.x), most)


def _ask(own: Slice, most: int, exact: bool = False) -> bracketing.Ask:
    return bracketing.Ask(own.level, own.strict, own.wanted, most, own.said, own.heavy, exact)


class _Table:
    """The metrics of the finished rows, as far as slices need them."""

    def __init__(self, seeds: Sequence[int], members: Sequence[Slice], value: Value) -> None:
        self._seeds, self._value = seeds, value
        self._metrics: dict[int, list[str]] = {}
        for own in members:
            for cell in own.cells:
                self._metrics.setdefault(cell, []).append(own.metric)
        self._known: dict[tuple[int, str], list[float]] = {}

    def read(self, rows: Sequence[tuple[int, int]]) -> bool:
        """Read the rows (cell, draw) of a round. False if one of them is not there."""
        for cell, draw in rows:
            for metric in dict.fromkeys(self._metrics.get(cell, ())):
                known = self._value(cell, self._seeds[draw], metric)
                if known is None:
                    return False
                closed = self._value(cell, self._seeds[draw], f"{metric}_theory")
                self._known.setdefault((cell, metric), []).append(known)
                self._known.setdefault((cell, f"{metric}_theory"), []).append(math.nan if closed is None else closed)
        return True

    def curve(self, own: Slice, counts: np.ndarray, metric: str) -> Curve:
        """The curve of a slice. counts: how many draws each cell has, (cells,)."""
        of_points = counts[np.asarray(own.cells)]
        values = np.full((int(of_points.max(initial=0)), len(of_points)), np.nan)
        for point, cell in enumerate(own.cells):
            values[: of_points[point], point] = self._known.get((cell, metric), [])[: of_points[point]]
        return Curve(own.x, of_points, values)


def _step(own: Slice, table: _Table, counts: np.ndarray, most: int) -> Step:
    """The next step of a slice from its finished rows."""
    curve = table.curve(own, counts, own.metric)
    exact = _is_exact(curve.values, table.curve(own, counts, f"{own.metric}_theory").values)
    key = _digest(own, curve, most, exact)
    if key not in _KNOWN:
        if len(_KNOWN) > REMEMBERED:
            _KNOWN.clear()
        asked = racing.Ask(own, most, exact)
        found = racing.step(curve, asked) if own.kind == "optimum" else bracketing.step(curve, _ask(own, most, exact))
        _KNOWN[key] = found
    return _KNOWN[key]


def _digest(own: Slice, curve: Curve, most: int, exact: bool) -> str:
    said = (own.kind, own.fit, own.level, own.strict, own.wanted, own.logarithmic, own.said, own.maximize, most, exact)
    arrays = (curve.x, curve.counts, curve.values, np.zeros(0) if own.heavy is None else own.heavy)
    return hashlib.sha256(repr(said).encode() + b"".join(array.tobytes() for array in arrays)).hexdigest()


def _is_exact(values: np.ndarray, theory: np.ndarray) -> bool:
    """Whether the values equal their closed form up to rounding, so that there is no noise."""
    both = np.isfinite(values) & np.isfinite(theory)
    return bool(both.any() and np.allclose(values[both], theory[both], rtol=1e-12, atol=1e-300))


def _merged(members: Sequence[Slice], steps: Sequence[Step], counts: np.ndarray) -> np.ndarray:
    """How many draws each cell is to have, (cells,): the most that a slice with it wants."""
    wanted = counts.copy()
    for own, step in zip(members, steps, strict=True):
        np.maximum.at(wanted, np.asarray(own.cells), step.counts)
    return wanted


def _affordable(
    budget: Mapping[str, float], members: Sequence[Slice], steps: Sequence[Step], counts: np.ndarray, cost: DeclaredCost
) -> list[Step]:
    """The steps with as many draws as the budget is enough for. The largest expected gain in half-width per cost comes
    first; a step that is too large is halved."""
    if not budget:
        return list(steps)
    found, granted = list(steps), counts

    def fits(wanted: np.ndarray) -> bool:
        needed = cost.of(wanted, counts)
        return all(cost.spent[unit] + needed[unit] <= most * (1 + 1e-9) for unit, most in budget.items())

    def price(own: Slice, step: Step) -> float:
        needed = cost.of(_merged([own], [step], counts), counts)
        return max(needed[unit] / most for unit, most in budget.items())

    def gain(place: int) -> tuple[float, int]:
        own, step = members[place], steps[place]
        gained = 1.0 if math.isinf(step.half) else (step.half - step.then) / own.wanted
        return -gained / max(price(own, step), 1e-300), place

    asking = [place for place, step in enumerate(steps) if (step.counts > counts[list(members[place].cells)]).any()]
    for _, place in sorted(map(gain, asking)):
        own, step = members[place], steps[place]
        now = counts[np.asarray(own.cells)]
        more = step.counts - now
        while more.any() and not fits(_merged([own], [replace(step, counts=now + more)], granted)):
            more = more // 2
        found[place] = replace(step, counts=now + more, state=step.state if more.any() else SPENT)
        granted = _merged([own], [found[place]], granted)
    return found


def _check_first_round(budget: Mapping[str, float], cost: Mapping[str, float]) -> None:
    """InputError if the first round costs more than the budget."""
    for unit, most in budget.items():
        if cost[unit] > most:
            least, got = f"{cost[unit]:.4g}", f"{most:.4g}"
            raise InputError(f"budget.{unit}", f"expected at least {least}, what the first round takes, got {got}")


def _expected(members: Sequence[Slice], steps: Sequence[Step], counts: np.ndarray) -> np.ndarray:
    """How many draws each cell is expected to have in the end, (cells,), as far as the rows tell."""
    wanted = counts.copy()
    for own, step in zip(members, steps, strict=True):
        needed = step.counts if step.needed is None or step.state != OPEN else step.needed
        np.maximum.at(wanted, np.asarray(own.cells), np.maximum(needed, step.counts))
    return wanted
