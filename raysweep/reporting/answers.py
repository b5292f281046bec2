"""Answers to hold in the hand, in Python: a report's section as an object with a table, a figure and a headline."""

from __future__ import annotations

import html
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from raysweep.errors import InputError, unknown
from raysweep.fits.result import Fit, merged
from raysweep.reporting.analyses.section import Section

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SHOWN_ROWS = 20  # further rows of a table are in `.table` only


class Answered:
    """What all answers have: they show themselves as the report's headline and table, and draw the report's figure."""

    section: Section

    def __repr__(self) -> str:
        return self.section.whole

    def _repr_html_(self) -> str:
        import pandas as pd

        lines = [f"<p><b>{html.escape(self.section.headline)}</b><br>{html.escape(self.section.detail)}</p>"]
        if self.section.shown:
            lines.append(pd.DataFrame(list(self.section.shown[:SHOWN_ROWS])).to_html(index=False))
        if (left := len(self.section.shown) - SHOWN_ROWS) > 0:
            lines.append(f"<p>and {left:,} more in <code>.table</code></p>")
        return "\n".join(lines)

    def plot(self) -> Axes:
        """The first figure of the report's section, as the Axes of its first panel.

        Axes have the names and units that the workload declares. The figure is one of pyplot: a notebook shows it below
        the cell, `pyplot.show()` in a window, and `.figure.savefig(FILE)` saves it.

        Raises InputError if there is nothing to draw.
        """
        from raysweep.report.figures.style import styled

        with styled():
            drawings = list(self.section.drawings)
        if not drawings:
            raise InputError("plot", f"there is nothing to draw: {self.section.whole}")
        return _shown(drawings[0].figure)


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
class Fitted(Answered, Fit):
    """The fit result of an analysis, over all its settings.

    Its fields are those of `Fit`. `table` is the table that the report writes as CSV: one row per slice, with the
    closed form's place `theory` and the distance `z` to it in units of the slice's own error, NaN without one.

    section: the section of the report.
    """

    section: Section


@dataclass(frozen=True, eq=False, repr=False)
class Best(Answered):
    """The cells by the mean of a metric.

    table: one row per cell, the best first: its parameters, mean, standard_error, median, draws (those that are ok) and
        computed (all of them). A cell most of whose draws diverged or failed is left out.
    section: the section of the report.
    """

    table: pd.DataFrame
    section: Section


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Answered):
    """One sweep less another, paired by seed, in every cell that both have.

    table: one row per metric and cell: the parameters, draws, difference (mean over draws, in units of the metric), its
        95 % interval (low, high) and that for all cells at once (low_simultaneous, high_simultaneous), p_value, p_holm
        and status (higher, lower, no clear difference, not tested).
    section: the section of the report.
    """

    table: pd.DataFrame
    section: Section

    def plot(self, metric: str | None = None) -> Axes:
        """The figure of one metric, as for other answers; of the first one that has a figure if none is named.

        Raises InputError for a metric without a figure.
        """
        if metric is None:
            return super().plot()
        figures = {drawing.name.removeprefix("comparison_"): drawing.figure for drawing in self.section.drawings}
        if metric not in figures:
            raise unknown("plot", "metric", metric, figures or ["none"])
        return _shown(figures[metric])


@dataclass(frozen=True, eq=False, repr=False)
class Analysed(Answered):
    """What a function of somebody else says of the rows.

    table: the DataFrame that it returned; None without one.
    section: as the report has it.
    """

    table: pd.DataFrame | None
    section: Section


def fitted(section: Section, level: float) -> Fitted:
    """The fit result of a section. level: the confidence level that the intervals are called by.

    Raises InputError with the reason if there was nothing to fit.
    """
    if not section.fits:
        raise InputError("fit", section.whole)
    whole = merged(section.fits, next(iter(section.tables.values())))
    values: dict[str, Any] = {field.name: getattr(whole, field.name) for field in fields(Fit)}
    return Fitted(**{**values, "level": level}, section=section)


def best(section: Section) -> Best:
    """The cells of a section. Raises InputError with the reason if there is no cell to choose from."""
    if not section.tables:
        raise InputError("best", section.whole)
    return Best(next(iter(section.tables.values())), section)


def comparison(section: Section) -> Comparison:
    """The differences of a section. Raises InputError with the reason if nothing can be compared."""
    import pandas as pd

    if not section.tables:
        raise InputError("compare", section.whole)
    parts = []
    for name, table in section.tables.items():
        table = table.copy()
        table.insert(0, "metric", name.removeprefix("comparison_"))
        parts.append(table)
    return Comparison(pd.concat(parts, ignore_index=True), section)
