"""Answers from a table of runs made elsewhere: no sweep, no Ray, no MLflow."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from raysweep.analyses.finding import Finding
from raysweep.analyses.findings import designed, findings_of
from raysweep.errors import InputError, shown
from raysweep.fits.processes import helped
from raysweep.query import importing
from raysweep.query import table as tables
from raysweep.query.table import Table
from raysweep.space.schema import Space
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from raysweep.report.report import Report


class Findings(list[Finding]):
    """What the analyses of a table find: a list of findings that shows itself as their answers. runs: the table, as it
    was read. guesses: what was guessed of its columns."""

    def __init__(self, runs: Table, workload: Workload, space: Space, findings: Iterable[Finding]) -> None:
        super().__init__(findings)
        self.runs, self.guesses, self.workload, self.space, self.name = runs, runs.guesses, workload, space, space.name

    @property
    def table(self) -> pd.DataFrame:
        """One row per setting of the first finding; those of the others are in their `.table`."""
        return self[0].table

    @property
    def answers(self) -> list[str]:
        """One sentence per finding."""
        from raysweep.report.sentences import sentence

        return [sentence(finding, self.workload) for finding in self]

    def plot(self, finding: int = 0) -> list[Figure]:
        from raysweep.report.figures import drawn

        return [figure for _, figure, _ in drawn(self[finding], self.workload)]

    def report(self, folder: str | Path) -> Report:
        """Write the page, the figures and the tables, as of a sweep."""
        from raysweep.report.report import Written, write_report

        Path(folder).mkdir(parents=True, exist_ok=True)
        about = Written(self.name, facts=[self.space.description])
        space = {**self.space.as_dict(), "description": ""}  # the page asks what its analyses ask
        return write_report(self.results(), [space], Path(folder), about)

    def results(self) -> pd.DataFrame:
        return self.runs.rows

    def forecast(self, **at: float | Sequence[float]) -> pd.DataFrame:
        """The best rate or the turn, and the loss there, where nothing was computed, by the first question that asks.

        at: for each axis of the law a value, or several; the first ones belong together, and so on.

        Returns a row for each: the axes, of (what is forecast), estimate, low and high of a new setting, and outside,
        how many times the farthest axis lies outside of what was computed (1 inside). `.attrs["not_forecast"]` says why
        the rate, the turn or the loss is not forecast, by name. Raises InputError for an axis that does not vary or is
        not in the law, and if nothing can be forecast.
        """
        from raysweep.query.forecasting import entries_at

        try:
            values = np.broadcast_arrays(*(np.atleast_1d(np.asarray(one, dtype=float)) for one in at.values()))
            points = [dict(zip(at, map(float, point), strict=True)) for point in np.transpose(values).tolist()]
        except (TypeError, ValueError):
            raise InputError("at", "expected a number of each axis, or lists of equally many numbers") from None
        if not points:
            raise InputError("at", "expected a value of an axis at least")
        _, entries_of, not_forecast = entries_at(self, points)
        lines = []
        for point, one in ((point, one) for point, entries in zip(points, entries_of, strict=True) for one in entries):
            line = {**point, **one["where"], **{name: one[name] for name in ("of", "estimate", "low", "high")}}
            lines.append(line | {"outside": max(one["outside"].values(), default=1.0)})
        table = pd.DataFrame(lines)
        table.attrs["not_forecast"] = not_forecast
        return table

    def __repr__(self) -> str:
        return "\n".join(self.answers)

    def _repr_html_(self) -> str:
        answers = "".join(f"<p>{html.escape(line)}</p>" for line in self.answers)
        return answers + self.table.to_html(index=False, max_rows=20)


def analyse(
    frame: Any,
    metric: str | Sequence[str],
    axes: str | Sequence[str],
    by: str | Sequence[str] | None = (),
    questions: Sequence[Mapping[str, Mapping[str, Any]]] = (),
    **options: Any,
) -> Findings:
    """Answer questions about runs made elsewhere.

    frame: a data frame of pandas or polars, or a mapping of columns; one row per run.
    metric: a column, with `:maximize` behind it if larger is better; the first of several is the usual one.
    axes: the columns that are optimized or located, such as the rate. by: those that tell curves apart.
    questions: analyses as a space names them, such as {"optimum": {"x": "lr"}}; without `metric` they are about the
        first one. Without any, the best setting.
    options: seed, status, scale, repeats and name of `raysweep.query.table.read`.

    Raises InputError for a column that is not there, text in a number, several runs of a cell, and a question that
    cannot be asked.
    """
    metrics, axes, by = (
        [str(one) for one in ([given] if isinstance(given, (str, int)) else given)]
        for given in (metric, axes, () if by is None else by)
    )
    if not metrics:
        raise InputError("metric", "expected a column")
    if not all(isinstance(entry, Mapping) for entry in questions or ()):
        example = "a list of analyses such as {'optimum': {'x': ...}}"
        raise InputError("questions", f"expected {example}, got {shown(questions)}")
    names = getattr(getattr(frame, "index", None), "names", ())
    if levels := [level for level in names if level not in (None, *frame)]:
        frame = frame.reset_index(levels)
    runs = tables.read(frame, metrics, axes, by, questions=[dict(entry) for entry in questions or ()], **options)
    for entry in runs.space["analysis"]:
        if isinstance(asked := entry.get("law"), Mapping):
            over = [asked["over"]] if isinstance(asked.get("over"), str) else asked.get("over") or ()
            rest = [one for one in axes if one in runs.space["axes"] and one not in (asked.get("lr"), *over)]
            entry["law"] = {**({"at_best": rest[0]} if len(rest) == 1 else {}), **asked}  # optimized too
    space, _ = importing.space_of(runs)
    design, workload = designed([space.as_dict()], [space.name])
    with helped():
        return Findings(runs, workload, space, findings_of(runs.rows, design, workload))
