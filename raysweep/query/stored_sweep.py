"""A sweep in a storage: its space, state, rows and curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from raysweep.errors import InputError, shown
from raysweep.lazy import pd
from raysweep.ledger import curves, results_table, segments, sweep_record
from raysweep.phrases import command
from raysweep.plan.cells import Cells, enumerate_cells
from raysweep.query import stage_store
from raysweep.query.state import State
from raysweep.space.schema import Space
from raysweep.stages import trees
from raysweep.stages.store import Store
from raysweep.storage.paths import AnyPath
from raysweep.workloads.declaration import Workload


class StoredSweep:
    """A sweep in a storage, or a part of it. Reading it computes no rows.

    part: the space of the part, with fewer seeds or values than the recorded space; None for the whole sweep.
    """

    def __init__(self, folder: AnyPath, record: sweep_record.Record, part: Space | None = None) -> None:
        self.folder, self.record, self._part = folder, record, part

    @property
    def name(self) -> str:
        return self.record.sweep

    @cached_property
    def space(self) -> Space:
        """The resolved space of the sweep, or of the part."""
        return self._part or Space(**self.record.space)

    @property
    def is_part(self) -> bool:
        return self._part is not None

    @property
    def workload(self) -> Workload:
        """The declaration of the sweep's workload."""
        return self.space.declaration

    def go_on(self, what: str = "resume") -> str:
        """What continues the sweep: a command (resume, report, …); the same call, for a function given in Python."""
        function = self.workload.function
        if what == "resume" and function is not None and not function.source:
            return f"the same call of raysweep.run, which gives it {function.name} again"
        return command(what, self.name, self.folder.parent)

    @property
    def stored(self) -> bool:
        """Whether stages of the sweep are kept in a store."""
        return self.workload.stores(self.space.keep)

    @cached_property
    def cells(self) -> Cells:
        """The cells, in plan order."""
        return enumerate_cells(self.space, check=False)

    def state(self) -> State:
        """The state of the sweep, read again from the ledger."""
        return State(self.space, self.cells, self.folder)

    def rows(self) -> dict[tuple[str, int], segments.Row]:
        """The rows by (cell, seed), read again from the ledger."""
        return self.state().rows

    def statuses(self) -> Counter[str]:
        return self.state().statuses()

    def failures(self) -> list[segments.Row]:
        return self.state().failures()

    def results(self, state: State | None = None) -> pd.DataFrame:
        """The rows as a tidy table, in plan order, then by seed. state: None to read the ledger again."""
        rows = self.rows() if state is None else state.rows
        return results_table.frame(self.name, self.workload, self.cells, self.space.seeds, rows)

    def curves(self, state: State | None = None, names: Sequence[str] | None = None) -> pd.DataFrame:
        """What the stages logged while they ran, as a tidy table with one line per point of a learning curve.

        Its columns are sweep, cell, seed, status, stage, step, parameters, and every metric that a stage logged; a
        metric that was not logged at a step is NaN there. A stage that several rows share has its curve in each of
        them. The lines are in plan order, then by seed, then by stage in the order of the chain, then by step.

        state: None to read the ledger again. names: the parameters to show; None for the axes.
        """
        state = state or self.state()
        shown = list(self.space.axes) if names is None else names
        stages = self.workload.chain.names
        return curves.table(self.name, stages, shown, self.cells, self.space.seeds, state.rows, state.shared_curves)

    def tensors(self, stage: str, cell: str, seed: int, state: State | None = None) -> Any:
        """What a kept stage left for a row, in the form in which the stage gave it; for a stage with points what it
        left at the last one. Raises InputError if there is no such row, if the stage is not kept, or if the store no
        longer has it.

        cell, seed: as in the columns of `results`.
        state: None to read the ledger again.
        """
        row = (self.rows() if state is None else state.rows).get((cell, seed))
        if row is None:
            raise InputError(self.name, f"there is no row of the cell {shown(cell)} and the seed {shown(seed)}")
        ids = row.get("stages", {}).get(stage)
        if not ids:
            kept = ", ".join(row.get("stages", {})) or "none"
            raise InputError(self.name, f"this row has no kept stage {shown(stage)} (its kept stages: {kept})")
        store = Store(stage_store.address(self.folder, self.record))
        entry = store.fetch(ids[-1])
        if entry is None:
            raise InputError(self.name, f"the stage {ids[-1]} is no longer in {store.url}")
        return trees.unflatten(entry.tensors(), entry.meta["tree"])
