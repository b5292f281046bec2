"""A sweep as users hold it: what is stored, and what can be asked of it."""

from __future__ import annotations

import contextlib
import html
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raysweep.errors import InputError, RaysweepError, shown
from raysweep.fits.statistics import LEVEL
from raysweep.lazy import pd
from raysweep.ledger import sweep_record
from raysweep.phrases import counted, place
from raysweep.query import report as reports
from raysweep.query.state import State
from raysweep.query.stored_sweep import StoredSweep
from raysweep.space import analysis_functions, user_files
from raysweep.space.analyses import check_analysis
from raysweep.space.checks import Context
from raysweep.storage import driver_lock, paths
from raysweep.storage.paths import AnyPath

if TYPE_CHECKING:
    from raysweep.analyses.finding import Finding
    from raysweep.report.answers import Fitted, Tabled
    from raysweep.report.report import Report


class Sweep(StoredSweep):
    """A sweep in a storage, or a part of it. Reading it computes no rows."""

    def best(self, metric: str) -> Tabled:
        """The cells by the mean of a metric, the best first: in `.table`, and in words with how sure it is. Raises
        InputError for a metric that the workload does not have, and if there are no rows."""
        from raysweep.report.answers import tabled

        return tabled("best", self._finding({"best": {"metric": metric}}, ""), self.workload)

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
        from raysweep.report.answers import fitted

        asked = {"boundary": boundary, "inflection": inflection, "optimum": optimum}
        entry = {kind: options for kind, options in asked.items() if options is not None}
        if len(entry) != 1:
            given = " and ".join(entry) or "none"
            raise InputError("fit", f"expected one of {', '.join(asked)}, like boundary={{…}}, got {given}")
        (options,) = entry.values()
        return fitted(self._finding(entry, "fit"), self.workload, float(options.get("level") or LEVEL))

    def analyse(self, function: Callable[..., Any] | str, **options: Any) -> Tabled:
        """What somebody else's analysis says of the rows: its sentences, `.table` and `.plot()`, as in the report.

        function: a function of the table of `results` and of `options`; or as in YAML, the name of one that an
            installed package provides, or FILE.py:NAME relative to the current folder. It returns texts, at most one
            DataFrame and at most one matplotlib Figure or Axes.

        Raises InputError if there is no such function or no row, or if it returns something else; whatever the function
        raises is passed on.
        """
        from raysweep.analyses import user_function
        from raysweep.report.answers import Tabled
        from raysweep.report.figures.style import styled

        if isinstance(function, str):
            kind, files = function, analysis_functions.files_of([{function: None}], Path())
            function = analysis_functions.find(kind, files, "analyse")
        elif callable(function):
            kind = analysis_functions.name_of(function)
        else:
            raise InputError("analyse", f"expected a function or the name of one, got {shown(function)}")
        with styled():
            returned = user_function.call(function, kind, self._rows(), options)
        return Tabled(returned.table, user_function.finding(kind, function, returned), self.workload)

    def compare(self, other: Sweep) -> Tabled:
        """The other sweep less this one, paired by seed, in every cell that both have, for the metrics that their
        analyses name. A parameter that has one value in each sweep, but not the same, is what they differ in.
        `.plot(metric)` draws the differences of one of these metrics.

        Raises InputError for a sweep of another workload, and with the reason if no rows can be paired.
        """
        from raysweep.analyses.comparison import compared
        from raysweep.analyses.findings import designed
        from raysweep.report.answers import tabled

        if not isinstance(other, Sweep):
            raise InputError("compare", f"expected another sweep, such as raysweep.open(NAME), got {shown(other)}")
        if str(self.folder) == str(other.folder) and repr(self.space) == repr(other.space):
            raise InputError("compare", f"expected another sweep than {self.name} itself")
        labels, _, tables = reports.tables_of([self, other])
        for label, table in zip(labels, tables, strict=True):
            if table.empty:
                raise InputError(label, "there are no rows yet")
        design, workload = designed([sweep.space.as_dict() for sweep in (self, other)], labels)
        return tabled("compare", compared(pd.concat(tables, ignore_index=True), design, workload), workload)

    def __repr__(self) -> str:
        return "\n".join([self._title(), *(f"  {name}: {text}" for name, text in self._facts().items())])

    def _repr_html_(self) -> str:
        facts = {html.escape(name): html.escape(text) for name, text in self._facts().items()}
        rows = (f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in facts.items())
        return f"<table><caption>{html.escape(self._title())}</caption>{''.join(rows)}</table>"

    def _title(self) -> str:
        return f"sweep {self.name}" + (" (a part of it)" if self.is_part else "")

    def _facts(self) -> dict[str, str]:
        """Question, size, rows by status, last run and storage, in words; where rows cannot be read, it says so."""
        from raysweep.analyses.design import Design
        from raysweep.report.set_up import question

        space = self.space
        try:  # it also places the cells of an open space
            state = self.state()
            rows = f"{state.progress()}, {self.phase(state.missing_rows)}"
        except (RaysweepError, OSError) as error:
            rows = f"cannot be read ({error})"
        most = "up to " if space.precision else ""  # cells get seeds until an interval is as narrow as was asked
        last_run = f"started {self.record.created}"
        with contextlib.suppress(OSError):
            if isinstance(self.folder, Path):  # a bucket has no times of folders
                newest = (self.folder / sweep_record.LEDGER).stat().st_mtime
                last_run = f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d %H:%M} UTC"
        return {
            "question": question(Design((space.as_dict(),), (self.name,)), self.workload),
            "workload": space.workload,
            "size": f"{counted(len(self.cells), 'cell')} x {most}{counted(len(space.seeds), 'seed')}",
            "rows": rows,
            "last run": last_run,
            "storage": place(self.folder.parent),
        }

    def phase(self, left: int) -> str:
        """The phase of the sweep with so many rows left: running, finished or interrupted."""
        if driver_lock.is_held(self.folder):
            return "running"
        return "interrupted" if left else "finished"

    def findings(self) -> list[Finding]:
        """What each analysis of the space finds: tables, outcomes and numbers, as in report.json.

        Raises InputError if there are no rows.
        """
        from raysweep.analyses.findings import designed, findings_of

        state = self.state()
        rows = reports.with_times(self._rows(state), state)
        design, workload = designed((self.space.as_dict(),), (self.name,))
        files = user_files.recall_analyses(self.record.sweep_id)
        return findings_of(rows, design, workload, lambda: self.curves(state, ()), files)

    def _finding(self, entry: Mapping[str, Any], path: str) -> Finding:
        """The finding of an entry that is checked as in YAML. path: the key of the entry, for errors."""
        from raysweep.analyses.findings import one_finding

        check_analysis(entry, path, Context(self.workload, self.space.axes, self.space.ranges))
        return one_finding(self._rows(), self.space.as_dict(), entry, self.name)

    def _rows(self, state: State | None = None) -> pd.DataFrame:
        table = self.results(state)
        if table.empty:
            raise InputError(self.name, "there are no rows yet")
        return table.assign(sweep=self.name)

    def report(
        self,
        directory: str | AnyPath | None = None,
        on_step: Callable[[int, int], None] = lambda done, of: None,
        state: State | None = None,
        reload: int = 0,
        on_answer: Callable[[Sequence[str]], None] = lambda answer: None,
    ) -> Report:
        """Fit, draw and write the report.

        directory: where to write it. None for a folder in the sweep's own folder; a part has a folder of its own there.
        on_step: called with the number of finished steps and of all steps.
        state: None to read the ledger again.
        reload: seconds after which the page reads itself again, while rows are computed; 0 for a final page.
        on_answer: called with the answer once it is there, before the page is.
        """
        return reports.report([self], directory, on_step, [state] if state else (), reload, on_answer)


def open_sweep(name: str, storage: str | AnyPath = "sweeps", to_delete: bool = False) -> Sweep:
    """Open a sweep by its name; with `to_delete` also a half-deleted one. InputError if there is none."""
    if not isinstance(name, str):
        raise InputError("name", f"expected the name of a sweep, got {shown(name)}")
    folder = sweep_record.find(paths.storage(storage), name)
    record = sweep_record.load(folder, to_delete)
    if record is None:
        raise InputError(name, f"no such sweep in {place(paths.locate(storage))}")
    return Sweep(folder, record)
