"""What an analysis finds, as data: a row per setting with its outcome, estimate, interval, and what would decide it.

A finding holds numbers, enums and tables. Words, figures and pages are made from it in `raysweep.report`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from raysweep.fits.result import Fit
from raysweep.fits.statistics import LEVEL
from raysweep.lazy import pd


class Outcome(StrEnum):
    """What the rows say of one setting."""

    LOCATED = "located"
    """A place lies in the interval."""
    BEYOND_LOW = "beyond_low"
    """A zero lies below the smallest value of the axis."""
    BEYOND_HIGH = "beyond_high"
    EDGE_LOW = "edge_low"
    """The best value is the smallest one of the axis, or lies below it."""
    EDGE_HIGH = "edge_high"
    BOUND_LOW = "bound_low"
    """Only an upper bound is known: the place lies below it, on the grid or beyond."""
    BOUND_HIGH = "bound_high"
    """Only a lower bound is known."""
    OK_LOW = "ok_low"
    """The place lies below the smallest value at which rows are ok."""
    OK_HIGH = "ok_high"
    IMPROVES = "improves"
    """No turn: the largest value is best."""
    DEGRADES = "degrades"
    """No turn: the smallest value is best."""
    POSITIVE = "positive"
    """No zero: positive everywhere."""
    NEGATIVE = "negative"
    TOUCHES = "touches"
    """No change of sign: the values are exactly zero up to a place, or from it on."""
    NO_EFFECT = "no_effect"
    """The values are equal everywhere, or zero."""
    RISES = "rises"
    FALLS = "falls"
    TURNS = "turns"
    """Lower in the middle of an axis than at both ends, or higher: a rank correlation says little."""
    UNCLEAR = "unclear"
    """A difference, a slope or a correlation that is not told from 0."""
    HIGHER = "higher"
    LOWER = "lower"
    INCREASING = "increasing"
    CONSTANT = "constant"
    DECREASING = "decreasing"
    """Decreasing; how fast is not decided."""
    SLOWLY_DECREASING = "slowly_decreasing"
    QUICKLY_DECREASING = "quickly_decreasing"
    AGREES = "agrees"
    DIFFERS = "differs"
    BEST = "best"
    ALIKE = "alike"
    """Not told from the best."""
    WORSE = "worse"
    MEASURED = "measured"
    """A value with its interval; nothing was to be decided."""
    UNDECIDED = "undecided"


class Needed(StrEnum):
    """What would decide an open setting."""

    MORE_DRAWS = "more_draws"
    """More draws of each cell than `needed_number`."""
    LARGER_X = "larger_x"
    """Values of the axis above `needed_number`."""
    SMALLER_X = "smaller_x"
    MORE_UNITS = "more_units"
    """More of the units that are a sample, such as cells or pairs of tasks, than `needed_number`."""
    MORE_X = "more_x"
    """More values of the axis."""
    MORE_SETTINGS = "more_settings"
    """Settings in which a best value or a bound is known, at least `needed_number`."""
    OK_ABOVE = "ok_above"
    """Rows that are ok above `needed_number`."""
    OK_BELOW = "ok_below"
    OK_ROWS = "ok_rows"


class Nothing(StrEnum):
    """Why an analysis has nothing to work with; `report.phrases.NOTHINGS` says each, with what it is about."""

    NO_ROW_OK = "no_row_ok"
    NOT_FINITE = "not_finite"
    TOO_LARGE = "too_large"
    MOST_LOST = "most_lost"
    AXIS_TOO_LARGE = "axis_too_large"
    AXIS_NOT_POSITIVE = "axis_not_positive"
    AXIS_NOT_FINITE = "axis_not_finite"
    NO_CURVE = "no_curve"
    NOTHING_LOGGED = "nothing_logged"
    NO_FUNCTION = "no_function"
    FAILED = "failed"
    ONE_SETTING = "one_setting"
    NO_CLOSED_FORM = "no_closed_form"
    NO_PAIR = "no_pair"
    NO_SEED_SHARED = "no_seed_shared"
    NO_CELL_SHARED = "no_cell_shared"


NOTHING = "nothing"
"""Among the facts of a finding without settings, why; the fact `about` may name what that is about."""
COLUMNS = ("outcome", "reason", "estimate", "low", "high", "theory", "needed", "needed_number")
"""The columns of `Finding.table` after the keys. Numbers that are not there are NaN, words that are not there empty."""


@dataclass(frozen=True)
class Move:
    """How the place of a setting changes along one of the other axes, all else equal.

    key: the axis. first, last: the smallest and the largest value that were compared.
    rises, falls, both, open: in how many settings the place rises, falls, goes up and down, or is not told apart.
    theory: the closed form's place rises, falls and stays in so many.
    by_bounds: whether bounds count as places, because too few are located.
    """

    key: str
    first: float
    last: float
    rises: int
    falls: int
    both: int
    open: int
    theory: tuple[int, int, int] = (0, 0, 0)
    by_bounds: bool = False


@dataclass(frozen=True, eq=False)
class Plot:
    """The data of one figure; a subclass for each kind of figure, which `raysweep.report.figures` draws.

    name: the file name without its extension.
    """

    name: str


@dataclass(frozen=True, eq=False)
class Finding:
    """What one analysis finds.

    kind: of the analysis, such as boundary. name: the beginning of the names of its files.
    metric, x: the subject: names of columns; empty if there is none.
    table: one row per setting: the keys, then `COLUMNS`, then what this kind adds.
    keys: the columns that tell settings apart.
    question: as the space asks it, in its words; empty if it does not.
    level: of the intervals.
    meanings: what the space or the workload calls a side, by outcome or sign: {"positive": "transfer helps"}.
    moves: how the place changes along the other axes.
    facts: further numbers and enums of this kind, by name; plain data.
    tables: the complete numbers, by file name without extension.
    plots: gives the figures, the most important first.
    explored: gives what the page lets a reader explore; called only to write a page.
    where: the values to which the entry restricts the rows, by axis.
    idle: axes on which the metrics do not depend: their rows count once.
    fits: the fits of its places; empty if it locates none.
    texts: what a function of the user says of itself, as it is; empty for our analyses, whose words the report makes.
    """

    kind: str
    name: str
    table: pd.DataFrame
    metric: str = ""
    x: str = ""
    keys: Sequence[str] = ()
    question: str = ""
    level: float = LEVEL
    meanings: Mapping[str, str] = field(default_factory=dict)
    moves: Sequence[Move] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    plots: Callable[[], Sequence[Plot]] = tuple
    explored: Sequence[Callable[[], dict[str, Any]]] = ()
    where: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    idle: Sequence[str] = ()
    fits: Sequence[Fit] = ()
    texts: Sequence[str] = ()


def as_table(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> pd.DataFrame:
    """The table of a finding from its rows: keys and `COLUMNS` first, absent numbers NaN and absent words empty."""
    nothing = {name: "" if name in ("reason", "needed") else float("nan") for name in COLUMNS}
    table = pd.DataFrame([{**nothing, **row} for row in rows])
    first = [*keys, *COLUMNS]
    return table.reindex(columns=[*first, *(name for name in table.columns if name not in first)])
