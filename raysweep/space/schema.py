"""A space: the YAML that asks the question, validated and resolved; and its cells.

`validate` turns plain data into a Space: every default filled in, every value in its declared type. Each complaint
begins with the path of the key it is about.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from raysweep import workloads
from raysweep.errors import InputError, shown, unknown
from raysweep.redaction import has_password
from raysweep.space import resources, search_options
from raysweep.workloads.declaration import SCALES, Parameter, Workload

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
KEYS = (
    "name",
    "description",
    "workload",
    "axes",
    "scale",
    "zip",
    "exclude",
    "fixed",
    "seeds",
    "search",
    "resources",
    "analysis",
)
MAX_VALUES = 10_000_000  # more cells than this cannot be enumerated, whatever --yes says
MAX_ON_AXIS = 1_000_000  # checking one by one what takes longer to read than anyone meant to wait
MAX_END = 1e300  # a span beyond it would overflow


@dataclass(frozen=True)
class Space:
    """A validated space. axes: name -> values in file order (the first axis varies slowest); fixed: every other
    parameter of the workload, defaults filled in; seeds: the draws of each cell; scale: log or linear, of the axes of
    which it is said how figures and fits read them."""

    name: str
    workload: str
    axes: dict[str, list[Any]]
    fixed: dict[str, Any]
    seeds: list[int]
    description: str = ""
    zip: list[list[str]] = field(default_factory=list)
    exclude: list[dict[str, list[Any]]] = field(default_factory=list)
    search: dict[str, Any] = field(default_factory=lambda: {"grid": {}})
    resources: dict[str, Any] = field(default_factory=lambda: dict(resources.DEFAULTS))
    analysis: list[dict[str, Any]] = field(default_factory=list)
    scale: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The resolved space as plain data, in the order of the schema. `scale` stands there where it says something:
        an earlier release, which does not know the key, can read all other records."""
        plain = asdict(self)
        return {key: plain[key] for key in KEYS if key != "scale" or self.scale}

    def groups(self) -> list[list[str]]:
        """Axes in file order, those that move together in one group."""
        zipped = {name: group for group in self.zip for name in group}
        groups: list[list[str]] = []
        for name in self.axes:
            group = zipped.get(name, [name])
            if group not in groups:
                groups.append(group)
        return groups

    def count_upper_bound(self) -> int:
        """Number of cells before `exclude`, without enumerating them."""
        return math.prod(len(self.axes[group[0]]) for group in self.groups())

    def cells(self) -> Iterator[dict[str, Any]]:
        """Every cell as {axis: value}, in plan order."""
        groups = self.groups()
        choices = [list(zip(*(self.axes[name] for name in group), strict=True)) for group in groups]
        names = [name for group in groups for name in group]
        for combination in itertools.product(*choices):
            cell = dict(zip(names, itertools.chain.from_iterable(combination), strict=True))
            if not any(all(cell[key] in values for key, values in rule.items()) for rule in self.exclude):
                yield cell


def validate(data: Mapping[str, Any]) -> Space:
    """A Space from plain data; InputError for the first thing that is wrong."""
    _no_password(data, "")
    for key in data:
        if key not in KEYS:
            raise unknown_key(str(key), key, data)
    name = _name(data)
    workload = _workload(data)
    axes_raw, fixed_raw = _mapping(data, "axes"), _mapping(data, "fixed")
    for key in (*axes_raw, *fixed_raw):
        path = f"{'axes' if key in axes_raw else 'fixed'}.{key}"
        if key not in workload.by_name:
            raise unknown(path, f"parameter of {workload.name}", key, workload.by_name)
    for key in fixed_raw:
        if key in axes_raw:
            raise InputError(
                f"fixed.{key}",
                "also stands under axes; keep one of the two "
                f"(--set fixed.{key}=null or axes.{key}=null takes one away)",
            )
    axes = {key: _axis(workload.by_name[key], values, f"axes.{key}") for key, values in axes_raw.items()}
    fixed = {p.name: p.default for p in workload.parameters if p.name not in axes}
    for key, value in fixed_raw.items():
        fixed[key] = _coerce(workload.by_name[key], value, f"fixed.{key}")
    zips = _zip(data, axes)
    _distinct(axes, zips)
    space = Space(
        name=name,
        workload=workload.name,
        axes=axes,
        fixed=fixed,
        seeds=_seeds(data.get("seeds", 1)),
        description=_text(data, "description"),
        zip=zips,
        exclude=_exclude(data, axes, workload),
        scale=_scale(data, axes, workload),
        search=_search(data, axes, workload),
        analysis=_analysis(data, axes, workload),
        resources=resources.check(_mapping(data, "resources"), axes, workload),
    )
    if space.count_upper_bound() > MAX_VALUES:
        raise InputError(
            "axes",
            f"{space.count_upper_bound():,} cells are more than the {MAX_VALUES:,} that can be "
            "planned; take fewer values, or split the space",
        )
    return space


def unknown_key(path: str, key: object, data: Mapping[str, Any]) -> InputError:
    """A key of a space that there is none of; of a parameter of its workload, where that belongs."""
    name = data.get("workload")
    if isinstance(name, str) and name in workloads.names() and key in workloads.get(name).by_name:
        return InputError(path, f"is a parameter of {name}; say fixed.{key} or axes.{key}")
    return unknown(path, "key", key, KEYS)


def restore(record: Mapping[str, Any]) -> Space:
    """The Space of a record that `as_dict` wrote, by this release or an earlier one; InputError if it is none.

    Parameters that a later release added stand at the value that means they are absent. Analyses are not looked at:
    they change no row, and one that is no longer understood must not hide the rows.
    """
    workload, fixed = _workload(record), _mapping(record, "fixed")
    absent = {p.name: p.absent for p in workload.parameters if p.late and p.name not in _mapping(record, "axes")}
    space = validate({**record, "fixed": {**absent, **fixed}, "analysis": []})
    return replace(space, analysis=record.get("analysis") or [])


def _no_password(value: Any, path: str, seen: set[int] | None = None) -> None:
    """A space is kept, mirrored and shown in reports; InputError if a password stands in it."""
    seen = set() if seen is None else seen
    if isinstance(value, (Mapping, list)):
        if id(value) in seen:  # YAML's aliases can name one list a billion times
            return
        seen.add(id(value))
    if isinstance(value, str) and has_password(value):
        raise InputError(
            path,
            "an address with a password cannot stand in a space, which is recorded and shown; give "
            "credentials by the environment",
        )
    if isinstance(value, Mapping):
        for key, entry in value.items():
            _no_password(str(key), path, seen)
            _no_password(entry, f"{path}.{key}".removeprefix("."), seen)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            if isinstance(entry, (str, Mapping, list)):
                _no_password(entry, f"{path}[{index}]", seen)


def _name(data: Mapping[str, Any]) -> str:
    if "name" not in data:
        raise InputError("name", "missing; expected a plain name such as my-first-sweep")
    return plain_name(data["name"], "name")


def plain_name(value: Any, path: str) -> str:
    """A name that cannot leave its directory; InputError otherwise."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise InputError(
            path,
            "expected a plain name (letters, digits, '.', '_' and '-', at most 64, the first a "
            f"letter or digit), got {shown(value)}",
        )
    return value


def _workload(data: Mapping[str, Any]) -> Workload:
    if "workload" not in data:
        raise InputError("workload", f"missing; expected one of {', '.join(workloads.names())}")
    name = data["workload"]
    if not isinstance(name, str) or name not in workloads.names():
        raise unknown("workload", "workload", name, workloads.names())
    return workloads.get(name)


def _mapping(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(key, f"expected a mapping from parameter to value, got {shown(value)}")
    return {str(name): entry for name, entry in value.items()}


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key) or ""
    if not isinstance(value, str):
        raise InputError(key, f"expected text, got {shown(value)}")
    return value.strip()


def _coerce(parameter: Parameter, value: Any, path: str) -> Any:
    if isinstance(value, (list, dict, str)) and parameter.type is not str:
        raise InputError(path, f"expected {parameter.expected()}, got {shown(value)}")
    try:
        return parameter.coerce(value)
    except (ValueError, OverflowError) as error:
        raise InputError(path, str(error)) from None


def _axis(parameter: Parameter, values: Any, path: str) -> list[Any]:
    if isinstance(values, dict):
        values = _spaced(values, path)
    if not isinstance(values, list):
        raise InputError(
            path,
            "expected a list of values, or {linspace: [first, last, count]} or "
            f"{{geomspace: [first, last, count]}}, got {shown(values)}",
        )
    if not values:
        raise InputError(path, "expected at least one value, got an empty list")
    return [_coerce(parameter, value, f"{path}[{index}]") for index, value in enumerate(values)]


def _spaced(spec: dict[str, Any], path: str) -> list[float]:
    if len(spec) != 1 or next(iter(spec)) not in ("linspace", "geomspace"):
        raise InputError(path, f"expected linspace or geomspace, got {', '.join(map(str, spec)) or 'nothing'}")
    kind, numbers = next(iter(spec.items()))
    path = f"{path}.{kind}"
    if (
        not isinstance(numbers, list)
        or len(numbers) != 3
        or any(isinstance(n, bool) or not isinstance(n, (int, float)) or not abs(n) <= MAX_END for n in numbers)
    ):
        raise InputError(path, f"expected [first, last, count], got {shown(numbers)}")
    first, last, count = numbers
    if count != int(count) or count < 1:
        raise InputError(path, f"expected a whole count of at least 1, got {shown(count)}")
    if count > MAX_ON_AXIS:
        raise InputError(path, f"{count:,} values are more than the {MAX_ON_AXIS:,} that an axis can hold")
    if count > 1 and first == last:
        raise InputError(path, f"expected two different ends, got {first} twice")
    if kind == "geomspace" and (first <= 0 or last <= 0):
        raise InputError(path, f"expected ends above 0, got {first} and {last}")
    import numpy as np

    spaced = np.linspace(first, last, int(count)) if kind == "linspace" else np.geomspace(first, last, int(count))
    inner = [float(f"{value:.12g}") for value in spaced]  # 0.3, not 0.30000000000000004: people type these values
    return [float(first), *inner[1:-1], float(last)] if count > 1 else [float(first)]


def _scale(data: Mapping[str, Any], axes: dict[str, list[Any]], workload: Workload) -> dict[str, str]:
    chosen = _mapping(data, "scale")
    for name, scale in chosen.items():
        path = f"scale.{name}"
        if name not in axes:
            raise unknown(path, "axis", name, axes)
        if scale not in SCALES:
            raise InputError(path, f"expected one of {', '.join(SCALES)}, got {shown(scale)}")
        if workload.by_name[name].categorical:
            raise InputError(
                path, f"expected an axis of numbers; {name} is {workload.by_name[name].expected()}, which has no scale"
            )
        if scale == "log" and (low := min(axes[name])) <= 0:
            raise InputError(path, f"expected values above 0 on an axis that is read in log, got {low:g}")
    return chosen


def _zip(data: Mapping[str, Any], axes: dict[str, list[Any]]) -> list[list[str]]:
    groups = data.get("zip") or []
    if not isinstance(groups, list) or not all(isinstance(group, list) for group in groups):
        raise InputError("zip", "expected a list of lists of axes, such as [[overlap_angle, target_norm]]")
    seen: set[str] = set()
    for index, group in enumerate(groups):
        path = f"zip[{index}]"
        for name in group:
            if not isinstance(name, str) or name not in axes:
                raise unknown(path, "axis", name, axes)
            if name in seen:
                raise InputError(path, f"{name} is zipped twice")
            seen.add(name)
        lengths = {name: len(axes[name]) for name in group}
        if len(set(lengths.values())) > 1:
            raise InputError(
                path,
                "expected axes of equal length, got "
                + ", ".join(f"{name}: {length}" for name, length in lengths.items()),
            )
    return [list(group) for group in groups if group]


def _distinct(axes: dict[str, list[Any]], zips: list[list[str]]) -> None:
    zipped = {name for group in zips for name in group}
    for name, values in axes.items():
        if name not in zipped:
            _no_repeat(values, f"axes.{name}")
    for index, group in enumerate(zips):
        _no_repeat(list(zip(*(axes[name] for name in group), strict=True)), f"zip[{index}]")


def _no_repeat(values: list[Any], path: str) -> None:
    seen: dict[Any, int] = {}
    for index, value in enumerate(values):
        if value in seen:
            raise InputError(f"{path}[{index}]", f"duplicate value {shown(value)}, the same as [{seen[value]}]")
        seen[value] = index


def _exclude(data: Mapping[str, Any], axes: dict[str, list[Any]], workload: Workload) -> list[dict[str, list[Any]]]:
    rules = data.get("exclude") or []
    if not isinstance(rules, list) or not all(isinstance(rule, dict) and rule for rule in rules):
        raise InputError("exclude", "expected a list of mappings from axis to the value or values to leave out")
    result = []
    for index, rule in enumerate(rules):
        resolved: dict[str, list[Any]] = {}
        for name, values in rule.items():
            path = f"exclude[{index}].{name}"
            if name not in axes:
                raise unknown(path, "axis", name, axes)
            listed = values if isinstance(values, list) else [values]
            if not listed:
                raise InputError(path, "expected at least one value, got an empty list")
            resolved[name] = [_coerce(workload.by_name[name], value, path) for value in listed]
            for value in resolved[name]:
                if value not in axes[name]:
                    raise InputError(path, f"{shown(value)} is not on the axis: {', '.join(map(str, axes[name]))}")
        result.append(resolved)
    return result


def _seeds(value: Any) -> list[int]:
    def whole(entry: Any) -> bool:
        return isinstance(entry, int) and not isinstance(entry, bool)

    if whole(value) and 1 <= value <= MAX_VALUES:
        return list(range(value))
    if isinstance(value, list) and value:
        for index, entry in enumerate(value):
            if not whole(entry) or not 0 <= entry < 2**63:
                raise InputError(f"seeds[{index}]", f"expected a whole number of at least 0, got {shown(entry)}")
        _no_repeat(value, "seeds")
        return list(value)
    raise InputError("seeds", f"expected a count of at least 1, or a list of whole numbers, got {shown(value)}")


def _search(data: Mapping[str, Any], axes: dict[str, list[Any]], workload: Workload) -> dict[str, Any]:
    value = data.get("search", "grid")
    if isinstance(value, str):
        value = {value: {}}
    if not isinstance(value, dict) or len(value) != 1:
        raise InputError("search", f"expected one of {', '.join(search_options.KINDS)}, got {shown(value)}")
    kind, chosen = next(iter(value.items()))
    if kind not in search_options.KINDS:
        raise unknown("search", "search", kind, search_options.KINDS)
    return {kind: search_options.check(kind, chosen, axes, workload)}


def _analysis(data: Mapping[str, Any], axes: dict[str, list[Any]], workload: Workload) -> list[dict[str, Any]]:
    entries = data.get("analysis") or []
    if not isinstance(entries, list):
        raise InputError("analysis", f"expected a list of analyses, got {shown(entries)}")
    if not entries:
        return []
    from raysweep.space.analyses import check_analysis

    for index, entry in enumerate(entries):
        complaint = check_analysis(entry, axes, workload)
        if complaint:
            below = re.match(r"[\w.\[\]]+: ", complaint)  # it begins with a key of the entry, or is about the entry
            raise InputError("", f"analysis[{index}]{'.' if below else ': '}{complaint.removeprefix(': ')}")
    return copy.deepcopy(entries)
