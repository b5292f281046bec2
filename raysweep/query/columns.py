"""The columns of a table of runs: what each is, its values, and where it has none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.errors import InputError, shown
from raysweep.fits.draws import log_axis
from raysweep.numbers import number

if TYPE_CHECKING:
    import pandas as pd

NEAR = 0.005
"""Values further apart than this share are not the same value, rounded."""
DIGITS = 3
"""A rounded value has at least so many significant digits."""


@dataclass
class Axis:
    """A column as an axis. role: axis or by. kind: its type. values: sorted. notes: what was joined."""

    name: str
    role: str
    kind: str
    values: list[Any]
    scale: str = ""
    notes: list[str] = field(default_factory=list)


def numbers_in(column: pd.Series, name: str) -> pd.Series:
    """A column as floats; NaN for what is not there. Raises InputError for text that is no number."""
    import pandas as pd

    there = column[~absent(column)]
    numbers = pd.to_numeric(there, errors="coerce").astype(float)
    words = there[numbers.isna() & ~there.map(lambda value: str(value).strip().lower() in ("nan", "-nan")).astype(bool)]
    if len(words):
        raise InputError(name, f"expected numbers, got {shown(words.iloc[0])} in {place(words.index, 0)}")
    return numbers.reindex(column.index)


def place(index: pd.Index, *positions: int) -> str:
    """Where rows are, in the words of their source: lines of a file, or else rows of the table, from 1."""
    labels = [index[position] for position in positions]
    if index.name is None:
        labels = [label + 1 if isinstance(label, int) else label for label in labels]
    return f"{index.name or 'row'}{'s' * (len(labels) > 1)} {', '.join(map(str, labels))}"


def absent(column: pd.Series) -> pd.Series:
    """Where a column has nothing: None, NA or an empty text. A NaN among floats is a number that is not finite."""
    empty = column.map(lambda value: value is None or (isinstance(value, str) and not value.strip())).astype(bool)
    return empty | (column.isna() & ~column.map(lambda value: isinstance(value, float)).astype(bool))


def axis_of(column: pd.Series, name: str, role: str, label: bool) -> Axis:
    """The values of a column, sorted, and what they are. label: whether they are only names."""
    if absent(column).any() or (column.dtype.kind == "f" and column.isna().any()):
        raise InputError(name, f"{place(column.index, _first_gap(column))} has no value of it")
    if label or column.dtype.kind in "mM":
        return Axis(name, role, "str", sorted(column.map(str).unique()))
    if column.dtype.kind == "b":
        return Axis(name, role, "bool", [False, True] if column.nunique() > 1 else [bool(column.iloc[0])])
    try:
        numbers = np.unique(column.to_numpy(float))
    except (TypeError, ValueError):
        _check_words(column, name)
        return Axis(name, role, "str", sorted(column.map(str).unique()))
    whole = bool(((numbers == np.round(numbers)) & (np.abs(numbers) < 2**53)).all())
    axis = Axis(name, role, "int" if whole else "float", [int(one) if whole else float(one) for one in numbers])
    if not whole:
        same = rounded(axis.values)
        axis.values = [one for one in axis.values if one not in same]
        axis.notes += [f"{one!r} is {kept!r}" for one, kept in same.items()]
    finite = np.array([one for one in axis.values if math.isfinite(one)], dtype=float)
    positive = finite[finite > 0]
    axis.scale = "log" if len(positive) > 1 and finite.min() >= 0 and log_axis(positive) else "linear"
    return axis


def _check_words(column: pd.Series, name: str) -> None:
    """Raise InputError if most texts of a column are numbers, or would be with a comma less."""
    import pandas as pd

    texts = column.map(str)
    wrong = pd.to_numeric(texts, errors="coerce").isna().to_numpy()
    if pd.to_numeric(texts.str.replace(",", ""), errors="coerce").notna().mean() > 0.5:
        one = int(wrong.argmax())
        where = f"{shown(texts.iloc[one])} in {place(column.index, one)}"
        raise InputError(name, f"expected numbers, got {where} (--labels {name} takes all of them as names)")


def _first_gap(column: pd.Series) -> int:
    return int(np.argmax((absent(column) | column.isna()).to_numpy()))


def rounded(values: Sequence[float]) -> dict[float, float]:
    """The values that are others rounded to fewer digits, such as 0.000345 next to 0.0003453, with those others.

    values: sorted. Such a pair is much closer together than any of both is to another value.
    """
    out: dict[float, float] = {}
    for place, (low, high) in enumerate(itertools.pairwise(values)):
        gap = high - low
        beside = [values[place - 1] - low] if place else []
        beside += [values[place + 2] - high] if place + 2 < len(values) else []
        if gap > NEAR * max(abs(low), abs(high)) or any(gap > 0.1 * abs(other) for other in beside):
            continue
        short, long = sorted((low, high), key=_digits)
        if _digits(short) >= DIGITS and float(f"{long:.{_digits(short)}g}") == short:
            out[short] = long
    return out


def _digits(value: float) -> int:
    """Significant digits of the shortest text of a number."""
    return len(repr(abs(value)).partition("e")[0].replace(".", "").strip("0"))


def values_on(column: pd.Series, axis: Axis) -> Any:
    """The column with values of the axis: rounded ones are joined."""
    if axis.kind == "str":
        return column.map(str).to_numpy(object)
    if axis.kind == "bool":
        return column.to_numpy(bool).astype(object)
    numbers = column.to_numpy(float)
    for text in axis.notes:
        short, _, long = text.partition(" is ")
        numbers = np.where(numbers == float(short), float(long), numbers)
    return numbers.astype(np.int64) if axis.kind == "int" else numbers


def few_values(axis: Axis) -> str:
    few = axis.values if len(axis.values) <= 4 else [*axis.values[:2], "…", axis.values[-1]]
    listed = ", ".join(one if isinstance(one, str) else number(one) for one in few)
    return f"{len(axis.values)}: {listed}" if len(axis.values) > 1 else listed
