"""A space: the YAML that asks the question, validated and resolved; and its cells.

`validate` turns plain data into a Space: every default is filled in, and every value has its declared type. Every error
begins with the path of its key.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any

from raysweep import workloads
from raysweep.errors import InputError, shown, unknown
from raysweep.redaction import has_password
from raysweep.space import axes, checks, precision, resources, search_options
from raysweep.space.analyses import check_analysis
from raysweep.space.axes import Conditions
from raysweep.space.checks import Context, expect
from raysweep.workloads import function_description, functions
from raysweep.workloads.declaration import SCALES, Parameter, Workload

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_VALUES = 10_000_000  # more cells than this cannot be enumerated, with or without --yes
LATER = ("ranges", "when", "early_stopping", "scale", "keep", "precision", "budget", "function")
"""Keys that earlier releases do not know."""


@dataclass(frozen=True, kw_only=True)
class Space:
    """A validated space.

    axes: name -> values, in file order (the first axis varies slowest). An axis that is a range has its two ends.
    ranges: the scale, log or linear, on which a search draws from each axis that is a range.
    when: the conditions of the axes that are not in all cells (see `raysweep.space.axes`).
    scale: log or linear, for each axis whose scale in figures and fits the space states.
    fixed: all other parameters of the workload, defaults filled in.
    seeds: the draws of each cell; with a precision, the most that a cell may get.
    precision, budget, early_stopping: as in the modules of these names; empty if they are not asked for.
    keep: the stages whose artifacts are kept in the store, in addition to those that always are.
    function: the description of the Python function that the workload is, as plain data; None for any other workload.
    """

    name: str
    description: str
    workload: str
    axes: dict[str, list[Any]]
    ranges: dict[str, str] = field(default_factory=dict)
    when: Conditions = field(default_factory=dict)
    scale: dict[str, str] = field(default_factory=dict)
    zip: list[list[str]]
    exclude: list[dict[str, list[Any]]]
    fixed: dict[str, Any]
    seeds: list[int]
    keep: list[str] = field(default_factory=list)
    search: dict[str, dict[str, Any]]
    precision: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=dict)
    early_stopping: dict[str, Any] = field(default_factory=dict)
    resources: dict[str, Any]
    analysis: list[dict[str, Any]]
    function: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The resolved space as plain data, without empty keys in LATER, so that an earlier release can read it."""
        plain = asdict(self)
        return {key: value for key, value in plain.items() if value or key not in LATER}

    @functools.cached_property
    def declaration(self) -> Workload:
        return declared({"workload": self.workload, "function": self.function})

    @property
    def imported(self) -> bool:
        """Whether its rows were computed elsewhere."""
        return search_options.IMPORTED in self.search

    @property
    def open(self) -> bool:
        """Whether its cells are those that its search asks for, one by one, instead of the product of its axes."""
        return bool(self.ranges) or self.imported

    def groups(self) -> list[tuple[str, ...]]:
        """The axes in groups, in file order: axes that move together, or a single axis."""
        zipped = {name: tuple(group) for group in self.zip for name in group}
        return list(dict.fromkeys(zipped.get(name, (name,)) for name in self.axes))

    def count_upper_bound(self) -> int:
        """Number of cells before `exclude`, not enumerated; if the space is open, what its search may ask for."""
        if self.open:
            ((_, options),) = self.search.items()
            return options["cells"]
        return math.prod(len(self.axes[group[0]]) for group in self.groups())

    def cells(self) -> Iterator[dict[str, Any]]:
        """Every cell as {axis: value}, in plan order. Where an axis is absent, it has the default of its parameter."""
        groups = self.groups()
        choices = [list(zip(*(self.axes[name] for name in group), strict=True)) for group in groups]
        names = [name for group in groups for name in group]
        seen: set[tuple[Any, ...]] = set()
        for combination in itertools.product(*choices):
            cell = dict(zip(names, itertools.chain.from_iterable(combination), strict=True))
            if self.when:
                cell = self.settled(cell)
                values = tuple(cell.values())
                if values in seen:
                    continue
                seen.add(values)
            if not self.leaves_out(cell):
                yield cell

    def leaves_out(self, cell: Mapping[str, Any]) -> bool:
        """Whether a rule of `exclude` leaves out a cell, {axis: value}."""
        return any(all(cell[key] in values for key, values in rule.items()) for rule in self.exclude)

    def settled(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """A cell, {axis: value}, with the default of each parameter whose axis is absent in it."""
        defaults = {name: self.declaration.by_name[name].default for name in axes.absent(self.when, cell)}
        return {**cell, **defaults}


KEYS = tuple(key.name for key in fields(Space) if key.name != "function")
"""What a space can say. `function` is derived from its workload and stands in records only."""


def validate(data: Mapping[str, Any]) -> Space:
    """A Space from plain data; InputError for the first error in it."""
    _no_password(data, "", set())
    for key in data:
        if key not in (*KEYS, "function"):
            raise unknown_key(str(key), key, data)
    name, workload = plain_name(data.get("name"), "name"), declared(data)
    values = axes.check(data.get("axes"), workload)
    ranges = axes.ranges(data.get("axes"), data.get("ranges"), Context(workload, values))
    context = Context(workload, values, ranges)
    precise = precision.check(data.get("precision"), context)
    precision.check_alone(precise, data.get("search", "grid"), data.get("early_stopping"))
    search = search_options.check(data.get("search", "grid"), context)
    stated = resources.check(data.get("resources"), context)
    scales = {name: partial(_scale, name) for name in values}
    drawn = {name: scale for name, scale in ranges.items() if scale == "log"}
    space = Space(
        name=name,
        description=checks.text(data.get("description") or "", "description", context).strip(),
        workload=workload.name,
        axes=values,
        ranges=ranges,
        when=axes.conditions(data.get("axes"), data.get("when"), context),
        scale={**drawn, **checks.keys(data.get("scale"), "scale", context, scales, noun="axis")},
        zip=_zip(data.get("zip") or [], context),
        exclude=_exclude(data.get("exclude") or [], context),
        fixed=_fixed(data.get("fixed"), context),
        seeds=_seeds(data.get("seeds", 1), precision.MOST_DRAWS if precise else MAX_VALUES),
        keep=_keep(data.get("keep") or [], context),
        search=search,
        precision=precise,
        budget=precision.check_budget(data.get("budget"), precise, stated, context),
        early_stopping=search_options.check_early_stopping(data.get("early_stopping"), context, search),
        resources=stated,
        analysis=_analysis(data.get("analysis") or [], context),
        function=workload.function.plain() if workload.function else None,
    )
    precision.check_axes(precise, space.analysis, space.scale, context)
    if (cells := space.count_upper_bound()) > MAX_VALUES:
        why = f"{cells:,} cells are more than the {MAX_VALUES:,} that can be planned"
        raise InputError("axes", f"{why}; take fewer values, or split the space")
    return space


def unknown_key(path: str, key: object, data: Mapping[str, Any]) -> InputError:
    """The error for an unknown key of a space; for a parameter of the workload it says where parameters belong."""
    name = data.get("workload")
    if isinstance(name, str) and name in workloads.names() and key in workloads.get(name).by_name:
        return InputError(path, f"is a parameter of {name}; say fixed.{key} or axes.{key}")
    return unknown(path, "key", key, KEYS)


def restore(record: Mapping[str, Any]) -> Space:
    """The Space of a record that `as_dict` wrote in this release or an earlier one; InputError if that is impossible.

    Parameters that a later release added get the value that means "absent". Analyses are not checked: they change no
    row, and an analysis that this release does not know must not hide the rows.
    """
    axes, fixed = (checks.mapping(record.get(key), key, "parameter to value") for key in ("axes", "fixed"))
    absent = {p.name: p.absent for p in declared(record).parameters if p.late and p.name not in axes}
    bound = dict.fromkeys(("precision", "budget"))  # as valid as the analyses that they are about
    space = validate({**record, "fixed": {**absent, **fixed}, "analysis": [], **bound})
    stated: dict[str, Any] = {key: record.get(key) or {} for key in bound}
    return replace(space, analysis=record.get("analysis") or [], **stated)


def plain_name(value: Any, path: str) -> str:
    """A name that cannot leave its directory; InputError otherwise."""
    expected = "a plain name such as my-sweep (letters, digits, '.', '_' and '-', at most 64, a letter or digit first)"
    expect(isinstance(value, str) and NAME.fullmatch(value) is not None, path, expected, value)
    return str(value)


def _no_password(value: Any, path: str, seen: set[int]) -> None:
    """Raise InputError if a space, which is recorded, mirrored and shown, contains a password. seen: the ids of what
    was checked, because YAML's aliases can repeat one list a billion times."""
    if isinstance(value, str) and has_password(value):
        why = "an address with a password cannot stand in a space, which is recorded and shown"
        raise InputError(path, f"{why}; give credentials by the environment")
    if isinstance(value, (Mapping, list)) and id(value) not in seen:
        seen.add(id(value))
        for step, entry in value.items() if isinstance(value, Mapping) else enumerate(value):
            if isinstance(value, Mapping):
                _no_password(step, path, seen)
            if isinstance(entry, (str, Mapping, list)):
                below = f"[{step}]" if isinstance(value, list) else f".{step}"
                _no_password(entry, f"{path}{below}".removeprefix("."), seen)


def declared(data: Mapping[str, Any]) -> Workload:
    """The declaration of the workload of a space, given as plain data. Only raysweep and the workloads of installed
    packages are imported. InputError if there is no such workload."""
    if data.get("function") is not None:
        return functions.declared(function_description.read(data["function"]))
    name = data.get("workload")
    if isinstance(name, str) and name in workloads.BUILT_IN:  # without reading the metadata of every installed package
        return workloads.get(name)
    return workloads.get(checks.named(name, "workload", "workload", workloads.names()))


def _fixed(given: Any, context: Context) -> dict[str, Any]:
    """The values of all parameters that are not on an axis, defaults filled in."""
    parameters = context.workload.parameters
    values = {parameter.name: partial(_fixed_value, parameter) for parameter in parameters}
    fixed = checks.keys(given, "fixed", context, values, noun=f"parameter of {context.workload.name}")
    return {**{p.name: p.default for p in parameters if p.name not in context.axes}, **fixed}


def _fixed_value(parameter: Parameter, value: Any, path: str, context: Context) -> Any:
    if parameter.name in context.axes:
        advice = f"--set {path}=null or axes.{parameter.name}=null takes one away"
        raise InputError(path, f"also stands under axes; keep one of the two ({advice})")
    return checks.coerced(parameter, value, path, context)


def _scale(name: str, value: Any, path: str, context: Context) -> str:
    checks.number_axis(name, path, context, advice=", which has no scale")
    expect(value in SCALES, path, f"one of {', '.join(SCALES)}", value)
    low = min(context.axes[name])
    expect(value == "linear" or low >= 0, path, "no value below 0 on an axis that is read in log", low)
    return str(value)


def _zip(groups: Any, context: Context) -> list[list[str]]:
    """Groups of axes of equal length, no axis in two. No axis outside repeats a value, no group a combination."""
    lists = isinstance(groups, list) and all(isinstance(group, list) for group in groups)
    expect(lists, "zip", f"a list of lists of axes, such as [[{', '.join(list(context.axes)[:2])}]]", groups)
    seen: set[str] = set()
    for index, group in enumerate(groups):
        path = f"zip[{index}]"
        for name in group:
            if checks.axis(name, path, context) in seen:
                raise InputError(path, f"{name} is zipped twice")
            checks.listed(name, path, context)
            seen.add(name)
        lengths = {name: len(context.axes[name]) for name in group}
        if len(set(lengths.values())) > 1:
            got = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise InputError(path, f"expected axes of equal length, got {got}")
        _no_repeat(list(zip(*(context.axes[name] for name in group), strict=True)), path)
    for name, values in context.axes.items():
        if name not in seen:
            _no_repeat(values, f"axes.{name}")
    return [list(group) for group in groups if group]


def _no_repeat(values: list[Any], path: str) -> None:
    seen: dict[Any, int] = {}
    for index, value in enumerate(values):
        if value in seen:
            raise InputError(f"{path}[{index}]", f"duplicate value {shown(value)}, the same as [{seen[value]}]")
        seen[value] = index


def _exclude(rules: Any, context: Context) -> list[dict[str, list[Any]]]:
    good = isinstance(rules, list) and all(isinstance(rule, dict) and rule for rule in rules)
    expect(good, "exclude", "a list of mappings from axis to the value or values to leave out", rules)
    values = {name: partial(checks.of_axis, name) for name in context.axes}
    return [checks.keys(rule, f"exclude[{index}]", context, values, noun="axis") for index, rule in enumerate(rules)]


def _seeds(value: Any, most: int) -> list[int]:
    """The seeds. most: a larger count that is allowed counts as this."""
    if checks.is_whole(value) and 1 <= value <= MAX_VALUES:
        return list(range(min(value, most)))
    listed = isinstance(value, list) and bool(value)
    expect(listed, "seeds", "a count of at least 1, or a list of whole numbers", value)
    for index, seed in enumerate(value):
        if not checks.is_whole(seed) or not 0 <= seed < 2**63:
            raise InputError(f"seeds[{index}]", f"expected a whole number of at least 0, got {shown(seed)}")
    _no_repeat(value, "seeds")
    return list(value)


def _keep(names: Any, context: Context) -> list[str]:
    stages = context.workload.chain.names
    expect(isinstance(names, list), "keep", f"a list of stages, out of {', '.join(stages)}", names)
    for index, name in enumerate(names):
        checks.named(name, f"keep[{index}]", "stage", stages)
    if names and (context.workload.compute or context.workload.function):
        raise InputError("keep", f"{context.workload.name} has no artifacts to keep; leave it out")
    return [name for name in stages if name in names]


def _analysis(entries: Any, context: Context) -> list[dict[str, Any]]:
    expect(isinstance(entries, list), "analysis", "a list of analyses", entries)
    for index, entry in enumerate(entries):
        check_analysis(entry, f"analysis[{index}]", context)
    return copy.deepcopy(entries)
