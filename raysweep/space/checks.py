"""Checks of the keys of a space: a table has a check for each key, and `keys` applies the table.

A check is a function (value, path of its key, context). It returns the value of the resolved space, or raises
InputError at that path. If a required key is not given, its check gets None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from raysweep.errors import InputError, shown, unknown
from raysweep.workloads.declaration import Parameter, Workload
from raysweep.workloads.function_description import check_metric


@dataclass(frozen=True)
class Context:
    """The workload, the values on each axis, and the axes that are ranges."""

    workload: Workload
    axes: Mapping[str, list[Any]]
    ranges: Collection[str] = ()


Check = Callable[[Any, str, Context], Any]


def keys(
    given: Any,
    path: str,
    context: Context,
    table: Mapping[str, Check],
    defaults: Mapping[str, Any] | None = None,
    noun: str = "option",
) -> dict[str, Any]:
    """Check a mapping: every key with the value that its check returns; keys with a default come first.

    table: the check of every key that is allowed.
    defaults: values of keys that are not given; None for a key that must be given.
    """
    given = mapping(given, path, f"{noun} to value")
    for key in given:
        named(key, f"{path}.{key}", noun, table)
    return {key: table[key](value, f"{path}.{key}", context) for key, value in {**(defaults or {}), **given}.items()}


def expect(holds: bool, path: str, expected: str, value: Any) -> None:
    """Raise an InputError that says what was expected, unless `holds`."""
    if not holds and value is None:
        raise InputError(path, f"missing; expected {expected}")
    if not holds:
        raise InputError(path, f"expected {expected}, got {shown(value)}")


def named(value: Any, path: str, noun: str, names: Collection[str]) -> str:
    """A name that must be one of `names`; the error for another name suggests the nearest."""
    expect(isinstance(value, str), path, f"one of {', '.join(names) or 'none'}", value)
    if value not in names:
        raise unknown(path, noun, value, names or ["none"])
    return str(value)


def mapping(value: Any, path: str, what: str) -> dict[str, Any]:
    """A mapping with texts as keys; empty if no value is given."""
    expect(value is None or isinstance(value, Mapping), path, f"a mapping from {what}", value)
    return {str(key): entry for key, entry in (value or {}).items()}


def text(value: Any, path: str, context: Context, expected: str = "text") -> str:
    """Any text. expected: what it should say, for the message."""
    expect(isinstance(value, str), path, expected, value)
    return str(value)


def one_of(noun: str, names: Collection[str]) -> Check:
    return lambda value, path, context: named(value, path, noun, names)


def fits(expected: str, holds: Callable[[Any], bool]) -> Check:
    """The check of a value of which this holds. expected: what it should be, for the message."""

    def check(value: Any, path: str, context: Context) -> Any:
        expect(holds(value), path, expected, value)
        return value

    return check


def above_0(value: Any, path: str, context: Context, expected: str = "a number above 0") -> float:
    expect(is_finite(value) and value > 0, path, expected, value)
    return float(value)


def is_whole(value: Any) -> bool:
    """Whether this is a whole number; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether this is a finite number; true and false are not."""
    return is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def whole(value: Any, path: str, context: Context, least: int, most: int | None = None) -> Any:
    expect(is_whole(value) and value >= least, path, f"a whole number of at least {least}", value)
    expect(most is None or value <= most, path, f"a whole number of at most {most}", value)
    return value


def unless_null(check: Check) -> Check:
    """A check that also accepts null, which means the same as a missing key."""
    return lambda value, path, context: None if value is None else check(value, path, context)


def metric(value: Any, path: str, context: Context) -> str:
    """A metric of the workload. Of a function before its first row it can be any name."""
    if context.workload.measures_anything and isinstance(value, str):
        check_metric(value, path)
        return value
    return named(value, path, "metric", [metric.name for metric in context.workload.metrics])


def axis(value: Any, path: str, context: Context) -> str:
    return named(value, path, "axis", context.axes)


def number_axis(value: Any, path: str, context: Context, advice: str = "") -> str:
    """An axis of numbers. advice: what to do if the axis has categories, added to the error message."""
    parameter = context.workload.by_name[axis(value, path, context)]
    if parameter.categorical:
        raise InputError(path, f"expected an axis of numbers, but {value} is {parameter.expected()}{advice}")
    return parameter.name


def coerced(parameter: Parameter, value: Any, path: str, context: Context) -> Any:
    """A value of a parameter, in the parameter's declared type."""
    try:
        return parameter.coerce(value)
    except (ValueError, OverflowError) as error:
        raise InputError(path, str(error)) from None


def listed(name: str, path: str, context: Context) -> None:
    """InputError unless an axis has listed values."""
    if name in context.ranges:
        raise InputError(path, f"expected an axis with listed values, and {name} is a range")


def of_axis(name: str, value: Any, path: str, context: Context) -> list[Any]:
    """The value or values of an entry, as a list; each must be a value on the axis, if its values are known."""
    listed(name, path, context)
    given = value if isinstance(value, list) else [value]
    expect(bool(given), path, "at least one value", given)
    values = [coerced(context.workload.by_name[name], entry, path, context) for entry in given]
    for entry in values if context.axes[name] else ():
        if entry not in context.axes[name]:
            raise InputError(path, f"{shown(entry)} is not on the axis: {', '.join(map(str, context.axes[name]))}")
    return values
