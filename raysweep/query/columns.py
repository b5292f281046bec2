"""The columns of a table of runs: what each is, its values, where it has none, and how the runs ended."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from raysweep.analyses.rows import in_order
from raysweep.errors import InputError, shown
from raysweep.fits.draws import log_axis
from raysweep.workloads.declaration import DIVERGED, FAILED, OK, STATUSES, STOPPED

NEAR = 0.005
"""Values further apart than this share are not the same value, rounded."""
DIGITS = 3
"""A rounded value has at least so many significant digits."""
ENDED = {
    **{str(status): str(status) for status in STATUSES},
    **dict.fromkeys(("finished", "complete", "completed", "success", "terminated", "done"), str(OK)),
    **dict.fromkeys(("fail", "error", "errored", "crashed", "killed"), str(FAILED)),
    **dict.fromkeys(("pruned", "early_stopped"), str(STOPPED)),
}
"""What tools call the end of a run, in small letters. A run with another word has not ended: its row is missing."""
GOING_ON = ("running", "pending", "scheduled", "waiting", "queued", "paused", "preempted")


@dataclass
class Axis:
    """A column as an axis. role: axis or by. kind: its type. values: sorted. joined: rounded values, with the values
    that they are. group: the axes that vary together, itself included; empty if it varies alone."""

    name: str
    role: str
    kind: str
    values: list[Any]
    scale: str = ""
    joined: dict[float, float] = field(default_factory=dict)
    group: list[str] = field(default_factory=list)


def plain_column(column: pd.Series, gaps: Collection[str] = ()) -> pd.Series:
    """A column of Python's own values: of tensors their number; None for nothing, an empty text and those in `gaps`."""

    def plain(value: Any) -> Any:
        gap = isinstance(value, str) and value.strip().lower() in ("", *gaps)
        if gap or value is pd.NA or value is pd.NaT:
            return None
        return value.item() if getattr(value, "ndim", 1) == 0 and not isinstance(value, np.generic) else value

    if isinstance(column.dtype, np.dtype) and column.dtype.kind != "O":
        return column
    return pd.Series([plain(value) for value in column], column.index, dtype=object, name=column.name)


def numbers_in(column: pd.Series, name: str) -> pd.Series:
    """A column as floats; NaN for what is not there. Raises InputError for what is no number."""
    if column.dtype.kind not in "biuf":
        wrong = column[[not is_number(value) for value in column]]
        if len(wrong):
            raise InputError(name, f"expected numbers, got {shown(wrong.iloc[0])} in {place(wrong.index[:1])}")
    return column.astype(float)


def is_number(value: Any) -> bool:
    """Whether it is a number, the text of one, or None. 1_0 is a name."""
    try:
        return value is None or ("_" not in str(value) and isinstance(float(value), float))
    except (TypeError, ValueError, OverflowError):
        return False


def place(rows: pd.Index) -> str:
    """Where rows are, in the words of their source: lines of a file, or else rows of the table, from 1."""
    labels = [row + 1 if rows.name is None and isinstance(row, int) else row for row in rows]
    return f"{rows.name or 'row'}{'s' * (len(labels) > 1)} {', '.join(map(str, labels))}"


def absent(values: Any) -> Any:
    """Where a column, or several, of Python's own values have nothing. NaN is a number that is not finite."""
    return values.map(lambda value: value is None).astype(bool)


def axis_of(column: pd.Series, name: str, role: str, label: bool) -> Axis:
    """The values of a column, sorted, and what they are. label: whether they are only names."""
    if (gaps := column.isna()).any() and not label:
        where = place(column.index[gaps][:1])
        raise InputError(name, f"{where} has no value of it (--labels {name} takes that as a name, too)")
    if column.dtype.kind in "bO" and not label and {*_words(column)} <= {"true", "false"}:
        return Axis(name, role, "bool", sorted({word == "true" for word in _words(column)}))
    if label or (numbers := _as_numbers(column, name)) is None:
        return Axis(name, role, "str", sorted(_names(column).unique(), key=in_order))
    whole = bool(((numbers == np.round(numbers)) & (np.abs(numbers) < 2**53)).all())
    axis = Axis(name, role, "int" if whole else "float", [int(one) if whole else float(one) for one in numbers])
    if not whole:
        axis.joined = rounded(axis.values)
        axis.values = [one for one in axis.values if one not in axis.joined]
    positive = numbers[np.isfinite(numbers) & (numbers > 0)]
    axis.scale = "log" if len(positive) > 1 and numbers.min() >= 0 and log_axis(positive) else "linear"
    return axis


def _as_numbers(column: pd.Series, name: str) -> Any:
    """The values of a column, sorted; None if they are names. Raises InputError if most of them are numbers, or would
    be with a comma less, and for integers that floats do not tell apart."""
    try:
        numbers = np.unique(numbers_in(column, name))
    except InputError as problem:
        if np.mean([is_number(str(value).replace(",", "")) for value in column]) > 0.5:
            raise InputError("", f"{problem} (--labels {name} takes all of them as names)") from None
        return None
    if np.abs(numbers).max() >= 2**53 and column.nunique() > len(numbers) and np.isfinite(numbers).all():
        raise InputError(name, f"has integers beyond 2^53 (--labels {name} takes them as names)")
    return numbers


def _names(column: pd.Series) -> pd.Series:
    return column.map(str).mask(column.isna(), "none")


def _words(column: pd.Series) -> pd.Series:
    return column.map(str).str.strip().str.lower()


def rounded(values: Sequence[float]) -> dict[float, float]:
    """The values (sorted) that are others rounded to fewer digits, such as 0.000345 next to 0.0003453, with those
    others. Such a pair is much closer together than either is to another value."""
    out: dict[float, float] = {}
    gaps = np.r_[np.inf, np.diff(values), np.inf]
    for low, high, before, gap, after in zip(values, values[1:], gaps, gaps[1:], gaps[2:], strict=False):
        if gap <= NEAR * max(abs(low), abs(high)) and gap <= 0.1 * min(before, after):
            short, long = sorted((low, high), key=_digits)
            if _digits(short) >= DIGITS and float(f"{long:.{_digits(short)}g}") == short:
                out[short] = long
    return out


def _digits(value: float) -> int:
    return len(repr(abs(value)).partition("e")[0].replace(".", "").strip("0"))


def values_on(column: pd.Series, axis: Axis) -> Any:
    """The column with values of the axis: rounded ones are joined."""
    if axis.kind == "str":
        return _names(column).to_numpy(object)
    if axis.kind == "bool":
        return (_words(column) == "true").to_numpy(object)
    numbers = column.astype(float).replace(axis.joined).to_numpy()
    return numbers.astype(np.int64) if axis.kind == "int" else numbers


def status_column(frame: pd.DataFrame, used: Collection[str]) -> str | None:
    """The column `status` or `state` that nothing else uses, if all its words are those of tools."""
    for name in frame.columns[frame.columns.str.lower().isin(("status", "state"))].difference(used):
        if frame[name].map(lambda word: str(word).strip().lower() in {*ENDED, *GOING_ON}).all(axis=None):
            return str(name)
    return None


def reported(words: pd.Series) -> pd.Series:
    """The statuses that a column of words says; empty where a run has not ended."""
    return words.map(lambda word: ENDED.get(str(word).strip().lower(), ""))


def statuses_of(frame: pd.DataFrame, status: str | None, values: pd.Series) -> pd.Series:
    """The status of each run; empty for one that is missing. values: of the first metric, in its column's name."""
    statuses = reported(frame[status]) if status else pd.Series(str(OK), frame.index)
    ok, finite = statuses == OK, np.isfinite(values.to_numpy(float))
    return statuses.mask(ok & ~finite, str(DIVERGED)).mask(ok & absent(frame[values.name]), "")


def few_words(words: pd.Series) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in words.map(str).value_counts().head(5).items())
