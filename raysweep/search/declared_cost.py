"""What rows cost by what their workload declares, in the units of a budget. Stages that are kept are paid for once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from raysweep.plan.cost import Costs
from raysweep.space.precision import HOURS

if TYPE_CHECKING:
    from raysweep.plan.cells import Cells
    from raysweep.space.schema import Space


class DeclaredCost:
    """Counts what the rows of a space cost, round by round.

    hours: whether hours are counted as well as rows: only where a budget is in hours.
    """

    def __init__(self, space: Space, cells: Cells, hours: bool) -> None:
        workload = space.declaration
        self._cells, self._hours = cells, hours
        self._seeds, self._stores = space.seeds, workload.stores(space.keep)
        self._costs = Costs(workload, cells, space.keep)
        declared = workload.function is None and any(stage.cost for stage in workload.chain.stages)
        self._priced = declared  # what a function costs is measured, and measured time decides nothing
        self._paid: set[str] = set()
        self._bought: list[tuple[np.ndarray, np.ndarray]] = []  # whose stages are not yet among the paid ones
        self.spent: dict[str, float] = {"rows": 0, **(dict.fromkeys(HOURS, 0.0) if hours else {})}

    def of(self, wanted: np.ndarray, counts: np.ndarray) -> dict[str, float]:
        """What the further draws cost. wanted, counts: how many draws each cell is to have, and has, (cells,)."""
        return self._of(wanted, counts, self._hours)[0]

    def price(self, wanted: np.ndarray, counts: np.ndarray) -> float:
        """What the further draws cost in hours, or in rows if the workload declares no costs."""
        if not self._priced:
            return float((wanted - counts).sum())
        for bought in self._bought:
            self._paid |= self._of(*bought, hours=True)[1]
        self._bought = []
        cost, _ = self._of(wanted, counts, hours=True)
        return sum(cost[unit] for unit in HOURS)

    def pay(self, wanted: np.ndarray, counts: np.ndarray) -> None:
        """Add the cost of these draws to what is spent."""
        cost, stages = self._of(wanted, counts, self._hours)
        self.spent = {unit: spent + cost[unit] for unit, spent in self.spent.items()}
        self._paid |= stages
        if not self._hours and self._stores:
            self._bought.append((wanted, counts))

    def _of(self, wanted: np.ndarray, counts: np.ndarray, hours: bool) -> tuple[dict[str, float], set[str]]:
        cost: dict[str, float] = {"rows": int((wanted - counts).sum()), **(dict.fromkeys(HOURS, 0.0) if hours else {})}
        new: set[str] = set()
        for draw in range(int(counts.min()), int(wanted.max(initial=0))) if hours else ():
            members = np.flatnonzero((counts <= draw) & (wanted > draw))
            if not len(members):
                continue
            for piece in self._costs.groups({self._seeds[draw]: members}):
                kept = self._costs.kept(piece) if self._stores else {}
                again = {stage for stage in kept if stage in self._paid or stage in new}
                new |= kept.keys()
                seconds = max(0.0, piece.seconds - sum(kept[stage] for stage in again))
                on_gpu = bool(self._cells.needs[self._cells.need[piece.cells[0]]].gpus)
                cost[HOURS[0] if on_gpu else HOURS[1]] += seconds / 3600
        return cost, new
