"""The entries of `analysis` in a space, checked by what the registry of analyses says of their kinds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from raysweep.errors import InputError, shown
from raysweep.space import analysis_functions, checks
from raysweep.space import analysis_options as allowed
from raysweep.space.checks import Context, expect
from raysweep.workloads.declaration import Workload

NAME_AXES = ("x", "y", "axes", "lr", "length", "over", "at_best", "unit", "by")
"""The options that name axes (or, in relation, the metrics x and y); two of them must not have the same value."""


def registry() -> Any:
    """The registry of analyses. It is loaded by name, because analyses lie above spaces: they look at rows."""
    return import_module("raysweep.analyses.registry")


def opened(entry: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of a checked entry and its options: without those that are null, and with a name under `by` or
    `predictors` as a list of one, except for a function of somebody else."""
    ((kind, given),) = entry.items()
    options = {key: value for key, value in (given or {}).items() if value is not None}
    for key in ("by", "predictors") if kind in registry().names() else ():
        if isinstance(options.get(key), str):
            options[key] = [options[key]]
    return kind, options


def metrics_of(given: Mapping[str, Any]) -> list[str]:
    """The metrics in the options `metric` and `metrics` of an entry, each once."""
    listed = given.get("metrics") or []
    names = [given.get("metric"), *([listed] if isinstance(listed, str) else listed)]
    return list(dict.fromkeys(name for name in names if name))


def along_training(kind: str, given: Mapping[str, Any], workload: Workload) -> bool:
    """Whether an entry with these options asks for learning curves."""
    return kind == "curves" and given.get("x") in allowed.ALONG_TRAINING and given["x"] not in workload.by_name


def check_analysis(entry: Any, path: str, context: Context) -> None:
    """Raise InputError, at the key at or below `path`, for an entry of `analysis` that cannot be made. context: the
    axes that it may name; their values are checked only if it has them."""
    kinds = registry().names()
    expected = f"one of {', '.join(kinds)} with its options, like {{boundary: {{metric: …, x: …}}}}"
    expect(isinstance(entry, Mapping) and len(entry) == 1, path, expected, entry)
    kind = next(iter(entry))
    path = f"{path}.{kind}" if path else str(kind)
    if isinstance(kind, str) and kind not in kinds:
        _check_function(kind, entry[kind], path, context)
        return
    checks.named(kind, path, "analysis", kinds)
    analysis = registry().chosen(kind, entry[kind] if isinstance(entry[kind], Mapping) else {}, context.workload)
    optional = {**analysis.optional, "question": allowed.question, "where": allowed.where}
    options = {**analysis.required, **{key: checks.unless_null(check) for key, check in optional.items()}}
    checks.keys(entry[kind], path, context, options, defaults=dict.fromkeys(analysis.required))
    _, given = opened(entry)
    if {"metric", "metrics"} <= analysis.optional.keys() and not metrics_of(given):
        raise InputError(f"{path}.metric", "missing; expected a metric")
    if analysis.check:
        analysis.check(given, path, context)
    for name, pair in given.get("between", {}).items():
        left = given.get("where", {}).get(name, pair)
        if gone := [value for value in pair if value not in (left if isinstance(left, list) else [left])]:
            raise InputError(f"{path}.where.{name}", f"leaves out {shown(gone[0])}, which between compares")
    used: dict[str, str] = dict.fromkeys(given.get("between", ()), "between")
    for key in (key for key in NAME_AXES if key in given):
        for name in given[key] if isinstance(given[key], list) else [given[key]]:
            if name in used:
                raise InputError(f"{path}.{key}", f"{name!r} is already used as {used[name]}")
            used[name] = key
    engine = context.workload.engines.parameter if context.workload.engines else ""
    if taken := [name for name in context.axes if name in analysis.columns and name != engine]:
        raise InputError(path, f"its tables have a column {taken[0]}; give this parameter another name")
    x, above = given.get(analysis.along, ""), analysis.above
    if above is not None and (bad := [value for value in context.axes.get(x, ()) if not above < value < math.inf]):
        scale, values = ("its axis", "values") if above else ("a logarithmic scale", "values above 0")
        why = f"the best {x} is sought on {scale}; expected finite {values} on that axis, got {shown(bad[0])}"
        raise InputError(f"{path}.{analysis.along}", why)


def _check_function(kind: str, given: Any, path: str, context: Context) -> None:
    """Check an entry that names a function of somebody else. A file is not executed here."""
    if not analysis_functions.is_in_file(kind):
        checks.named(kind, path, "analysis", [*registry().names(), *analysis_functions.installed()])
    given = checks.mapping(given, path, "option to value")
    for key, check in (("where", allowed.where), ("question", allowed.question)):
        checks.unless_null(check)(given.get(key), f"{path}.{key}", context)
    if not analysis_functions.is_in_file(kind):
        function = analysis_functions.find(kind, {}, path)
        analysis_functions.check_options(function, analysis_functions.options_of(given), path)
