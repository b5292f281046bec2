"""How the keys of a space are checked: a table of keys with their checks, walked by `keys`.

A check is a function (value, path of its key, context) that returns the value as the resolved space has it, or raises
InputError at that path. A required key that is not given reaches its check as None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from raysweep.errors import InputError, shown, unknown
from raysweep.workloads.declaration import Parameter, Workload


@dataclass(frozen=True)
class Context:
    """What a check may look at: the workload, and the values on each axis."""

    workload: Workload
    axes: Mapping[str, list[Any]]


Check = Callable[[Any, str, Context], Any]


def keys(
    given: Any,
    path: str,
    context: Context,
    known: Mapping[str, Check],
    defaults: Mapping[str, Any] | None = None,
    noun: str = "option",
) -> dict[str, Any]:
    """Every key of a mapping as its check leaves it, those with a default first.

    known: the check of every key that may stand there.
    defaults: what a key has that is not given; None for a key that must be given.
    noun: what a key is called when it is unknown.
    """
    given = mapping(given, path, f"{noun} to value")
    for key in given:
        named(key, f"{path}.{key}", noun, known)
    return {key: known[key](value, f"{path}.{key}", context) for key, value in {**(defaults or {}), **given}.items()}


def expect(holds: bool, path: str, expected: str, value: Any) -> None:
    """InputError that says what was expected, unless it holds."""
    if not holds and value is None:
        raise InputError(path, f"missing; expected {expected}")
    if not holds:
        raise InputError(path, f"expected {expected}, got {shown(value)}")


def named(value: Any, path: str, noun: str, names: Collection[str]) -> str:
    """A name that must be among `names`; the nearest one is suggested for another."""
    expect(isinstance(value, str), path, f"one of {', '.join(names) or 'none'}", value)
    if value not in names:
        raise unknown(path, noun, value, names or ["none"])
    return str(value)


def mapping(value: Any, path: str, what: str) -> dict[str, Any]:
    """A mapping with texts as its keys; empty where nothing is given."""
    expect(value is None or isinstance(value, Mapping), path, f"a mapping from {what}", value)
    return {str(key): entry for key, entry in (value or {}).items()}


def text(value: Any, path: str, context: Context, wanted: str = "text") -> str:
    """Any text. wanted: what it says."""
    expect(isinstance(value, str), path, wanted, value)
    return str(value)


def is_whole(value: Any) -> bool:
    """Whether this is a whole number, and not true or false."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether this is a number, and not true or false, infinite or not a number."""
    return is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def whole(value: Any, path: str, context: Context, least: int, most: int | None = None) -> Any:
    """A whole number of at least `least` and at most `most`."""
    expect(is_whole(value) and value >= least, path, f"a whole number of at least {least}", value)
    expect(most is None or value <= most, path, f"a whole number of at most {most}", value)
    return value


def unless_null(check: Check) -> Check:
    """The check of a key that may be null, which says no more than its absence."""
    return lambda value, path, context: None if value is None else check(value, path, context)


def metric(value: Any, path: str, context: Context) -> str:
    """A metric of the workload."""
    return named(value, path, "metric", [metric.name for metric in context.workload.metrics])


def axis(value: Any, path: str, context: Context) -> str:
    """One of the axes."""
    return named(value, path, "axis", context.axes)


def number_axis(value: Any, path: str, context: Context, advice: str = "") -> str:
    """An axis of numbers. advice: what to do about one of categories, to follow the complaint."""
    parameter = context.workload.by_name[axis(value, path, context)]
    if parameter.categorical:
        raise InputError(path, f"expected an axis of numbers, but {value} is {parameter.expected()}{advice}")
    return parameter.name


def coerced(parameter: Parameter, value: Any, path: str, context: Context) -> Any:
    """A value of a parameter in its declared type."""
    try:
        return parameter.coerce(value)
    except (ValueError, OverflowError) as error:
        raise InputError(path, str(error)) from None


def of_axis(name: str, value: Any, path: str, context: Context) -> list[Any]:
    """One value or a list of values that stand on an axis, as a list."""
    listed = value if isinstance(value, list) else [value]
    expect(bool(listed), path, "at least one value", listed)
    values = [coerced(context.workload.by_name[name], entry, path, context) for entry in listed]
    for entry in values:
        if entry not in context.axes[name]:
            raise InputError(path, f"{shown(entry)} is not on the axis: {', '.join(map(str, context.axes[name]))}")
    return values
