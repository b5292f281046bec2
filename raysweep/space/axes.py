"""The axes of a space: their values, and the conditions under which an axis is there at all.

axes:
  optimizer: [adam, sgd]                                      # a list of values
  lr: {geomspace: [1e-4, 1e-1, 7]}                            # or {linspace: [first, last, count]}
  momentum: {values: [0, 0.5, 0.9], when: {optimizer: sgd}}   # only in cells with optimizer sgd
  width: {range: [16, 512], log: true}                        # any value from end to end, for search random or optuna
  nesterov: {values: [true, false], when: {momentum: [0.5, 0.9], optimizer: sgd}}   # both must hold

Where the condition of an axis does not hold, its parameter has its default, and cells that are then the same are one
cell. A condition holds only where the axes that it names are there themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from raysweep.errors import InputError, as_typed
from raysweep.space import checks
from raysweep.space.checks import Context, expect
from raysweep.workloads.declaration import SCALES, Parameter, Workload

MAX_ON_AXIS = 1_000_000  # values are checked one by one; more would take longer than anyone wants to wait
MAX_END = 1e300  # a longer span would overflow
MOST_LISTED = 30  # values that an error lists
KINDS = {
    "values": "{values: [...]}",
    "linspace": "{linspace: [first, last, count]}",
    "geomspace": "{geomspace: [first, last, count]}",
    "range": "{range: [low, high], log: true}",
}
"""The keys of an axis that say its values."""

Conditions = dict[str, dict[str, list[Any]]]
"""For each axis that is not in all cells, the axes on which that depends, with the values at which it is there. An axis
stands after the axes that its condition names."""


def check(given: Any, workload: Workload) -> dict[str, list[Any]]:
    """The values on every axis; InputError names the key."""
    parameters = {parameter.name: partial(_values, parameter) for parameter in workload.parameters}
    return checks.keys(given, "axes", Context(workload, {}), parameters, noun=f"parameter of {workload.name}")


def _values(parameter: Parameter, spec: Any, path: str, context: Context) -> list[Any]:
    path, values = _opened(spec, path)
    expect(isinstance(values, list), path, f"a list of values, or {' or '.join(KINDS.values())}", values)
    expect(bool(values), path, "at least one value", values)
    try:
        return [checks.coerced(parameter, value, f"{path}[{index}]", context) for index, value in enumerate(values)]
    except InputError as error:
        spaced = isinstance(spec, Mapping) and ("linspace" in spec or "geomspace" in spec)
        if not (spaced and (rounded := _rounded(parameter, values))):
            raise
        listed = ", ".join(map(str, rounded[:MOST_LISTED])) + (", ..." if len(rounded) > MOST_LISTED else "")
        raise InputError("", f"{error}; give the rounded values as a list: [{listed}]") from None


def _rounded(parameter: Parameter, values: Sequence[float]) -> list[int]:
    """The whole numbers nearest to these values, each once; empty if the parameter is none or cannot have them."""
    if parameter.type is not int and not parameter.whole:
        return []
    try:
        return [int(parameter.coerce(value)) for value in dict.fromkeys(map(round, values))]
    except (ValueError, OverflowError):
        return []


def _opened(spec: Any, path: str) -> tuple[str, Any]:
    if not isinstance(spec, Mapping):
        return path, spec
    for key in spec:
        if key not in (*KINDS, "log", "when"):
            raise InputError(path, f"expected {', '.join(KINDS)} (with log) or when, got {as_typed(key)}")
    kinds = [key for key in spec if key in KINDS]
    if len(kinds) != 1:
        raise InputError(path, f"expected one of {', '.join(KINDS)}, got {' and '.join(kinds) or 'none of them'}")
    (kind,) = kinds
    inner = f"{path}.{kind}"
    if kind == "range":
        return inner, _range(spec, path)
    if "log" in spec:
        raise InputError(f"{path}.log", f"is for a range, and this axis has {kind}")
    return (inner, spec[kind]) if kind == "values" else (path, _spaced(kind, spec[kind], inner))


def _range(spec: Mapping[str, Any], path: str) -> list[float]:
    pair, log = spec["range"], spec.get("log", False)
    two = isinstance(pair, list) and len(pair) == 2
    good = two and all(checks.is_finite(end) and abs(end) <= MAX_END for end in pair) and pair[0] < pair[1]
    expect(good, f"{path}.range", "[low, high], two finite numbers with low below high", pair)
    expect(isinstance(log, bool), f"{path}.log", "true or false", log)
    expect(not log or pair[0] > 0, f"{path}.range", "ends above 0, because log is true", pair)
    return list(pair)


def ranges(given: Any, recorded: Any, context: Context) -> dict[str, str]:
    """The axes that are ranges, each with the scale, log or linear, on which a search draws from it. given: the axes as
    the user wrote them. recorded: the ranges in a record, by axis."""
    scales = {
        name: "log" if axis.get("log") else "linear"
        for name, axis in (given or {}).items()
        if isinstance(axis, Mapping) and "range" in axis
    }
    for name, scale in checks.mapping(recorded, "ranges", "axis to log or linear").items():
        path = f"ranges.{checks.axis(name, f'ranges.{name}', context)}"
        expect(scale in SCALES, path, f"one of {', '.join(SCALES)}", scale)
        _range({"range": context.axes[name], "log": scale == "log"}, f"axes.{name}")
        scales[name] = scale
    for name in scales:
        if context.workload.by_name[name].categorical:
            kind = context.workload.by_name[name].expected()
            raise InputError(f"axes.{name}.range", f"expected a list of values, because {name} is {kind}")
    return scales


def within(parameter: Parameter, span: Sequence[float], scale: str, share: float) -> Any:
    """The value of a range at a share (0 to 1) of it; for uniform shares whole numbers are equally likely."""
    low, high = span
    whole = parameter.type is int or parameter.whole
    above = high + 1 if whole else high  # so that the last whole number has its share too
    if scale == "log":
        value = math.exp(math.log(low) + share * (math.log(above) - math.log(low)))
    else:
        value = low + share * (above - low)
    return in_range(parameter, span, math.floor(value) if whole else value)


def in_range(parameter: Parameter, span: Sequence[float], value: float) -> Any:
    """A value that a search asks for, in the type of its parameter, with 12 digits: people type these values."""
    return parameter.coerce(min(max(float(f"{value:.12g}"), span[0]), span[1]))


def _spaced(kind: str, numbers: Any, path: str) -> list[float]:
    three = isinstance(numbers, list) and len(numbers) == 3
    good = three and all(checks.is_finite(number) and abs(number) <= MAX_END for number in numbers)
    expect(good, path, "[first, last, count]", numbers)
    first, last, count = numbers
    expect(count == int(count) and count >= 1, path, "a whole count of at least 1", count)
    if count > MAX_ON_AXIS:
        raise InputError(path, f"{count:,.0f} values are more than the {MAX_ON_AXIS:,} that an axis can hold")
    expect(count == 1 or first != last, path, "two different ends", [first, last])
    expect(kind == "linspace" or min(first, last) > 0, path, "ends above 0", [first, last])
    spaced = np.linspace(first, last, int(count)) if kind == "linspace" else np.geomspace(first, last, int(count))
    inner = [float(f"{value:.12g}") for value in spaced]  # 0.3, not 0.30000000000000004: people type these values
    return [float(first), *inner[1:-1], float(last)] if count > 1 else [float(first)]


def conditions(given: Any, recorded: Any, context: Context) -> Conditions:
    """The conditions of the axes, each after those that it depends on. given: the axes as the user wrote them.
    recorded: the conditions in a record, by axis. InputError if one names no axis or no value of it, depends on itself,
    or can never hold."""
    whens = {name: axis["when"] for name, axis in (given or {}).items() if isinstance(axis, Mapping) and "when" in axis}
    paths = {name: f"axes.{name}.when" for name in whens}
    for name, condition in checks.mapping(recorded, "when", "axis to its condition").items():
        path = paths[checks.axis(name, f"when.{name}", context)] = f"when.{name}"
        whens[name] = checks.mapping(condition, path, "axis to the values at which this axis is there")
    values = {name: partial(checks.of_axis, name) for name in context.axes}
    checked: Conditions = {}
    for name, condition in whens.items():
        expect(bool(condition) and isinstance(condition, Mapping), paths[name], "{axis: value or values}", condition)
        checked[name] = checks.keys(condition, paths[name], context, values, noun="axis")
    return _ordered(checked, paths)


def _ordered(conditions: Conditions, paths: Mapping[str, str]) -> Conditions:
    """Each condition after those that it depends on. InputError for a circle, or for one that contradicts another."""
    needs: Conditions = {}  # what must hold altogether
    ordered: Conditions = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = " on ".join([*path[path.index(name) :], name])
            raise InputError(paths[name], f"expected conditions without a circle, but {circle} depends on itself")
        if name in ordered or name not in conditions:
            return
        for other in conditions[name]:
            visit(other, (*path, name))
        altogether = {other: list(values) for other, values in conditions[name].items()}
        for parent in conditions[name]:
            for other, values in needs.get(parent, {}).items():
                altogether[other] = [value for value in altogether.get(other, values) if value in values]
                if not altogether[other]:
                    raise InputError(
                        f"{paths[name]}.{other if other in conditions[name] else parent}",
                        f"nothing satisfies it: {parent} is there only when {other} is "
                        f"{' or '.join(map(as_typed, values))}",
                    )
        needs[name], ordered[name] = altogether, conditions[name]

    for name in conditions:
        visit(name, ())
    return ordered


def absent(conditions: Conditions, cell: Mapping[str, Any]) -> set[str]:
    """The axes whose condition does not hold in a cell, {axis: value}. An axis that the cell lacks decides nothing."""
    gone: set[str] = set()
    for name, condition in conditions.items():
        if any(other in gone or (other in cell and cell[other] not in values) for other, values in condition.items()):
            gone.add(name)
    return gone
