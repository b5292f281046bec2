"""A sweep in a storage: its space, its rows, and what can be asked of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from raysweep.driver import questions, shared_stages, stored_report, summary
from raysweep.driver.state import State
from raysweep.errors import InputError, shown
from raysweep.ledger import segments, sweep_record
from raysweep.phrases import command, place
from raysweep.plan.cells import Cells, enumerate_cells
from raysweep.space.schema import Space
from raysweep.stages import trees
from raysweep.stages.store import Store
from raysweep.storage import paths
from raysweep.storage.paths import AnyPath
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas

    from raysweep.reporting.answers import Analysed, Best, Comparison, Fitted
    from raysweep.reporting.report import Report


class Sweep:
    """A sweep in a storage, or a part of it. Reading it computes no rows.

    part: the space of the part, with fewer seeds or values than the recorded space; None for the whole sweep.
    """

    def __init__(self, folder: AnyPath, record: sweep_record.Record, part: Space | None = None) -> None:
        self.folder, self.record, self._part = folder, record, part

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.record.sweep

    @cached_property
    def space(self) -> Space:
        """The resolved space of the sweep, or of the part."""
        return self._part or Space(**self.record.space)

    @property
    def is_part(self) -> bool:
        """Whether this is only a part of the recorded sweep."""
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
        """How many rows have which status."""
        return self.state().statuses()

    def failures(self) -> list[segments.Row]:
        """Rows that failed, with their tracebacks."""
        return self.state().failures()

    def results(self, state: State | None = None) -> pandas.DataFrame:
        """The rows as a tidy table, in plan order, then by seed. state: None to read the ledger again."""
        from raysweep.ledger import results_table

        rows = self.rows() if state is None else state.rows
        return results_table.frame(self.name, self.workload, self.cells, self.space.seeds, rows)

    def curves(self, state: State | None = None, names: Sequence[str] | None = None) -> pandas.DataFrame:
        """What the stages logged while they ran, as a tidy table with one line per point of a learning curve.

        Its columns are sweep, cell, seed, status, stage, step, parameters, and every metric that a stage logged; a
        metric that was not logged at a step is NaN there. A stage that several rows share has its curve in each of
        them. The lines are in plan order, then by seed, then by stage in the order of the chain, then by step.

        state: None to read the ledger again.
        names: the parameters to show; None for the axes.
        """
        from raysweep.ledger import curves

        state = state or self.state()
        shown = list(self.space.axes) if names is None else names
        stages = self.workload.chain.names
        return curves.table(self.name, stages, shown, self.cells, self.space.seeds, state.rows, state.shared_curves)

    def tensors(self, stage: str, cell: str, seed: int, state: State | None = None) -> Any:
        """What a kept stage left for a row, in the form in which the stage gave it; for a stage with points what it
        left at the last one.

        cell, seed: as in the columns of `results`.
        state: None to read the ledger again.

        Raises InputError if there is no such row, if the stage is not kept, or if the store no longer has it.
        """
        row = (self.rows() if state is None else state.rows).get((cell, seed))
        if row is None:
            raise InputError(self.name, f"there is no row of the cell {shown(cell)} and the seed {shown(seed)}")
        ids = row.get("stages", {}).get(stage)
        if not ids:
            kept = ", ".join(row.get("stages", {})) or "none"
            raise InputError(self.name, f"this row has no kept stage {shown(stage)} (its kept stages: {kept})")
        store = Store(shared_stages.address(self.folder, self.record))
        entry = store.fetch(ids[-1])
        if entry is None:
            raise InputError(self.name, f"the stage {ids[-1]} is no longer in {store.url}")
        return trees.unflatten(entry.tensors(), entry.meta["tree"])

    def best(self, metric: str) -> Best:
        """The cells by the mean of a metric, the best first: in `.table`, and in words with how sure it is.

        Raises InputError for a metric that the workload does not have, and if there are no rows.
        """
        return questions.best_cells(self, metric)

    def fit(
        self,
        *,
        boundary: Mapping[str, Any] | None = None,
        inflection: Mapping[str, Any] | None = None,
        optimum: Mapping[str, Any] | None = None,
    ) -> Fitted:
        """Where a metric changes sign (boundary), turns (inflection) or is best (optimum) over an axis, with intervals.

        Exactly one of these is given, with the keys of this analysis in YAML, for example
        `boundary={"metric": "transferability_finetune", "x": "overlap_angle", "y": "gamma"}`. The numbers are those of
        the report.

        The result has `status`, `estimate`, `low` and `high` in the units of x, `table` with one row per slice, and
        `plot()`.

        Raises InputError as for YAML, and with the reason if there is nothing to fit.
        """
        return questions.fit(self, {"boundary": boundary, "inflection": inflection, "optimum": optimum})

    def analyse(self, function: Callable[..., Any] | str, **options: Any) -> Analysed:
        """What somebody else's analysis says of the rows: its sentences, `.table` and `.plot()`, as in the report.

        function: a function of the table of `results` and of `options`; or as in YAML, the name of one that an
            installed package provides, or FILE.py:NAME relative to the current folder. It returns texts, at most one
            DataFrame and at most one matplotlib Figure or Axes.

        Raises InputError if there is no such function or no row, or if it returns something else; whatever the function
        raises is passed on.
        """
        return questions.analyse(self, function, options)

    def compare(self, other: Sweep) -> Comparison:
        """The other sweep less this one, paired by seed, in every cell that both have, for the metrics that their
        analyses name. A parameter that has one value in each sweep, but not the same, is what they differ in.
        `.plot(metric)` draws the differences of one of these metrics.

        Raises InputError for a sweep of another workload, and with the reason if no rows can be paired.
        """
        return questions.compare(self, other)

    def __repr__(self) -> str:
        return summary.in_text(self)

    def _repr_html_(self) -> str:
        return summary.in_html(self)

    def report(
        self, directory: str | AnyPath | None = None, on_step: Callable[[int, int], None] = lambda done, of: None
    ) -> Report:
        """Fit, draw and write the report.

        directory: where to write it. None for a folder in the sweep's own folder; a part has a folder of its own there.
        on_step: called with the number of finished steps and of all steps.
        """
        return stored_report.report([self], directory, on_step)


def open_sweep(name: str, storage: str | AnyPath = "sweeps", to_delete: bool = False) -> Sweep:
    """Open a sweep by its name.

    to_delete: whether a sweep whose deletion has begun is opened too.

    Raises InputError if there is no such sweep.
    """
    if not isinstance(name, str):
        raise InputError("name", f"expected the name of a sweep, got {shown(name)}")
    folder = sweep_record.find(paths.storage(storage), name)
    record = sweep_record.load(folder, to_delete)
    if record is None:
        raise InputError(name, f"no such sweep in {place(paths.locate(storage))}")
    return Sweep(folder, record)
