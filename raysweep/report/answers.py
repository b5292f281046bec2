"""Findings as objects of Python and notebooks: each shows itself as its sentence and table, and draws its figure."""

from __future__ import annotations

import html
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import pandas as pd

from raysweep.analyses.comparison import KIND
from raysweep.analyses.finding import Finding
from raysweep.errors import InputError, unknown
from raysweep.fits.result import Fit, merged
from raysweep.report.figures import drawn
from raysweep.report.notes import notes
from raysweep.report.sentences import sentence
from raysweep.report.tables import table_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN_ROWS = 20
"""Rows of a table; further ones are in `.table` only."""


class Answer:
    """What all answers have: `finding`, as the report has it, and what shows it."""

    finding: Finding
    workload: Workload

    @property
    def sentence(self) -> str:
        """The answer in at most 25 words."""
        return sentence(self.finding, self.workload)

    def __repr__(self) -> str:
        return "\n".join([self.sentence, *notes(self.finding, self.workload)])

    def _repr_html_(self) -> str:
        lines = [f"<p><b>{html.escape(self.sentence)}</b></p>"]
        lines += [f"<p>{html.escape(note)}</p>" for note in notes(self.finding, self.workload)]
        if every := len(self.finding.table):
            table = table_of(self.finding, self.workload, range(min(every, SHOWN_ROWS)))
            cells = [("th", table.head), *(("td", row) for row in table.rows)]
            rows = ["".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in row) for tag, row in cells]
            lines.append(f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>")
            lines += [f"<p>{html.escape(text)}</p>" for text in (table.note, table.usual) if text]
        if every > SHOWN_ROWS:
            lines.append(f"<p>and {every - SHOWN_ROWS:,} more in <code>.table</code></p>")
        return "\n".join(lines)

    def plot(self) -> Axes:
        """The first figure of the report's analysis, as the Axes of its first panel. It is one of pyplot: a notebook
        shows it, and `.figure.savefig(FILE)` saves it. Raises InputError if there is nothing to draw."""
        return _shown(next(iter(self._figures().values())))

    def _figures(self) -> dict[str, Figure]:
        """The figures by name. Raises InputError if there is none."""
        figures = {name: figure for name, figure, _ in drawn(self.finding, self.workload)}
        if not figures:
            raise InputError("plot", f"there is nothing to draw: {self.sentence}")
        return figures


def _shown(figure: Any) -> Axes:
    """The first panel of a figure, which is one of pyplot from now on."""
    from matplotlib import pyplot

    number = getattr(figure, "number", 0)
    if not (pyplot.fignum_exists(number) and pyplot.figure(number) is figure):
        # Figures of reports know no window and no notebook. This one takes the place of a new figure that does.
        manager = pyplot.figure(figsize=figure.get_size_inches()).canvas.manager
        manager.canvas.figure = figure
        figure.set_canvas(manager.canvas)
        figure.number = manager.num
    return figure.axes[0]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Fitted(Answer, Fit):
    """The fit result of an analysis, with the fields of `Fit`. `table` is that of the CSV: one row per slice, with the
    closed form's place `theory` and the distance `z` to it in the slice's errors, NaN without one."""

    finding: Finding
    workload: Workload


@dataclass(frozen=True, eq=False, repr=False)
class Tabled(Answer):
    """An answer with a table, None without one.

    Of `best`: one row per cell, the best first: its parameters, mean, standard_error, median, draws (those that are ok)
    and computed (all of them); of single runs estimate, low and high of the mean, too.
    Of `compare`: one row per metric and cell: the parameters, draws, difference (the second sweep less the first, mean
    over draws, in units of the metric), its 95 % interval (low, high) and that for all cells at once
    (low_simultaneous, high_simultaneous), p_value, p_holm and status.
    Of a function of somebody else: the DataFrame that it returned.
    """

    table: pd.DataFrame | None
    finding: Finding
    workload: Workload

    def plot(self, metric: str | None = None) -> Axes:
        """The figure of one metric, or of the first one that has a figure. Raises InputError without a figure."""
        if metric is None:
            return super().plot()
        figures = self._figures()
        name = f"{self.finding.name}_{metric}"
        if name not in figures:
            raise unknown("plot", "metric", metric, self.finding.table["metric"].tolist())
        return _shown(figures[name])


def fitted(finding: Finding, workload: Workload, level: float) -> Fitted:
    """The fit result of a finding. level: of the intervals. Raises InputError if there was nothing to fit."""
    if not finding.fits:
        raise InputError("fit", sentence(finding, workload))
    whole = merged(finding.fits, next(iter(finding.tables.values())))
    values: dict[str, Any] = {field.name: getattr(whole, field.name) for field in fields(Fit)}
    return Fitted(**{**values, "level": level}, finding=finding, workload=workload)


def tabled(path: str, finding: Finding, workload: Workload) -> Tabled:
    """The tables of a finding as one. Raises InputError with the reason if there is none. path: of the error."""
    if not finding.tables:
        raise InputError(path, sentence(finding, workload))
    table, *_ = finding.tables.values()
    if finding.kind == KIND:
        table = pd.concat(list(finding.tables.values()), keys=finding.table["metric"].tolist(), names=["metric"])
        table = table.reset_index("metric").reset_index(drop=True)
    return Tabled(table, finding, workload)
