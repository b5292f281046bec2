"""An analysis that is a function of somebody else: from rows to sentences, a table and a figure."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from raysweep.analyses.finding import Finding, Nothing, Plot, as_table
from raysweep.analyses.question import Question
from raysweep.errors import InputError, shown
from raysweep.lazy import pd
from raysweep.phrases import counted
from raysweep.space import analysis_functions
from raysweep.storage import processes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Returned(NamedTuple):
    """What a function returned. texts: the first is the answer in one line, the others stand below it."""

    texts: list[str]
    table: pd.DataFrame | None
    figure: Figure | None


@dataclass(frozen=True, eq=False)
class UserPlot(Plot):
    """The figure that a function drew. caption: the first paragraph of its docstring; empty without one."""

    figure: Figure
    caption: str


def user_function_finding(kind: str, asked: Question, files: Mapping[str, Path]) -> Finding:
    """The finding of an entry that names a function of somebody else, which says why if the function is not there or
    fails. files: those that the user named, by what the space calls their functions."""
    try:
        function = analysis_functions.find(kind, files, "")
    except InputError as error:
        return asked.nothing(kind, Nothing.NO_FUNCTION, str(error))
    try:
        returned = call(function, kind, asked.rows, analysis_functions.options_of(asked.options))
    except InputError as error:
        return asked.nothing(kind, Nothing.FAILED, str(error))
    except (Exception, SystemExit) as error:  # whatever a function of somebody else does
        why = InputError("", f"{kind} failed{_line(function, error)}: {type(error).__name__}: {error}")
        return asked.nothing(kind, Nothing.FAILED, str(why))
    return finding(kind, function, returned)


def call(
    function: Callable[..., Any], called: str, frame: pd.DataFrame, options: Mapping[str, Any] | None = None
) -> Returned:
    """What the function returns for a copy of the frame, with the options as keyword arguments. Its figure is laid out,
    so that what cannot be drawn fails here, and no longer belongs to pyplot.

    Raises InputError if it returns something else than texts, a table and a figure; what it raises is passed on.
    """
    analysis_functions.check_options(function, options or {}, called)
    with processes.children_end():
        given = function(frame.copy(), **(options or {}))
    returned = _sorted(given, called)
    if returned.figure is not None:
        from matplotlib import pyplot

        returned.figure.draw_without_rendering()
        pyplot.close(returned.figure)
    return returned


def _sorted(value: Any, called: str) -> Returned:
    """The parts of what a function returned, told apart by their types."""
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    parts = [part for part in (value if isinstance(value, (tuple, list)) else [value]) if part is not None]
    texts = [" ".join(part.split()) for part in parts if isinstance(part, str)]
    tables = [part for part in parts if isinstance(part, pd.DataFrame)]
    drawn: list[Any] = [part.figure.figure if isinstance(part, Axes) else part for part in parts]
    figures = list({id(figure): figure for figure in drawn if isinstance(figure, Figure)}.values())
    unknown = [part for part in parts if not isinstance(part, (str, pd.DataFrame, Axes, Figure))]
    expected = "texts, at most one DataFrame and at most one matplotlib Figure or Axes"
    if unknown:
        raise InputError("", f"{called} returned {shown(unknown[0])}; expected {expected}")
    if not parts or len(tables) > 1 or len(figures) > 1:
        got = f"{counted(len(tables), 'DataFrame')} and {counted(len(figures), 'figure')}" if parts else "nothing"
        raise InputError("", f"{called} returned {got}; expected {expected}")
    return Returned(texts, tables[0] if tables else None, figures[0] if figures else None)


def finding(kind: str, function: Callable[..., Any], returned: Returned) -> Finding:
    """What a function returned, as a finding."""
    name = analysis_functions.name_of(function)
    caption = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    table, figure = returned.table, returned.figure
    if table is not None and not (table.index.name is None and table.index.equals(pd.RangeIndex(len(table)))):
        table = table.reset_index()  # an index that only counts the rows says nothing
    return Finding(
        kind,
        name,
        as_table([], []),
        facts={"rows": 0 if table is None else len(table)},
        tables={} if table is None else {name: table},
        plots=lambda: [] if figure is None else [UserPlot(name, figure, caption)],
        texts=returned.texts,
    )


def _line(function: Callable[..., Any], error: BaseException) -> str:
    """Where in the file of a function an error was raised, as text to append; empty if it was nowhere there."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if code is not None and frame.filename == code.co_filename]
    return f", line {lines[-1]}" if lines else ""
