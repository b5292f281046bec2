"""The analyses that a space may ask for, and the options of each. Imports nothing heavy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from raysweep.errors import InputError, shown
from raysweep.space import analysis_functions, checks
from raysweep.space import analysis_options as allowed
from raysweep.space.checks import Check, Context, expect
from raysweep.workloads.declaration import Workload

NAME_AXES = ("x", "y", "lr", "length", "over", "unit", "by")
"""The options that name axes (or, in relation, the metrics x and y); two of them must not have the same value."""
LANDSCAPE = "landscape"
"""The analysis of values that a stage logged on a grid."""


@dataclass(frozen=True)
class Analysis:
    """The options of one kind of analysis.

    required: the checks of the options that must be given.
    optional: the checks of the other options. `question`, which all have, and `where`, which all have but learning
        curves, are not among them.
    along: the option that names the axis of the fitted curve, or empty.
    above: if it seeks the best value on that axis, all values there must be finite and above this number.
    """

    required: Mapping[str, Check] = field(default_factory=dict)
    optional: Mapping[str, Check] = field(default_factory=dict)
    along: str = ""
    above: float | None = None


_engine = partial(checks.text, wanted="the name of an engine")
_SIGNS = allowed.words("positive", "negative")
_BY: dict[str, Check] = {"by": allowed.axes}
_LOGGED: dict[str, Check] = {"stage": allowed.stage, "metric": allowed.logged, "metrics": allowed.logged, **_BY}
ANALYSES = {
    "boundary": Analysis(
        allowed.METRIC_X,
        {
            "y": allowed.number_axis,
            **allowed.BY_LEVEL,
            "lines": allowed.lines,
            "between": allowed.between,
            "words": _SIGNS,
        },
        along="x",
    ),
    "inflection": Analysis(allowed.METRIC_X, {**allowed.BY_LEVEL, "words": allowed.words("turns")}, along="x"),
    "optimum": Analysis(allowed.METRIC_X, allowed.BY_LEVEL, along="x", above=-math.inf),
    "regime": Analysis(
        {"metric": checks.metric, "lr": allowed.number_axis, "length": allowed.number_axis},
        {"metrics": allowed.metrics, **allowed.BY_LEVEL},
        along="lr",
        above=0.0,
    ),
    "trend": Analysis(allowed.METRIC_X, {**allowed.BY_LEVEL, "words": allowed.words("rises", "falls")}, along="x"),
    "power_law": Analysis(allowed.METRIC_X, allowed.BY_LEVEL, along="x"),
    "predicted_boundary": Analysis(
        {**allowed.METRIC_X, "law": checks.metric, "meets": checks.metric}, allowed.BY_LEVEL, along="x"
    ),
    "shift": Analysis({**allowed.METRIC_X, "over": allowed.number_axis}, allowed.BY_LEVEL, along="x", above=0.0),
    "curves": Analysis(
        {"x": allowed.curves_x},
        {
            "metric": checks.metric,
            "metrics": allowed.metrics,
            "beside": checks.metric,
            "lines": allowed.lines,
            **_BY,
            "words": _SIGNS,
        },
    ),
    "agreement": Analysis(optional={"metrics": allowed.metrics}),
    "engines": Analysis(optional={"metrics": allowed.metrics, "reference": _engine, "x": allowed.number_axis, **_BY}),
    "relation": Analysis({"x": checks.metric, "y": checks.metric}, {**_BY, "sample": allowed.sample}),
    "r_squared": Analysis(
        {"metric": checks.metric, "predictors": allowed.metrics, "x": allowed.number_axis, "unit": checks.axis},
        allowed.BY_LEVEL,
    ),
    "best": Analysis({"metric": checks.metric}, {"words": allowed.words("higher", "lower")}),
    LANDSCAPE: Analysis({"x": allowed.one_logged, "y": allowed.one_logged}, _LOGGED),
}
LEARNING_CURVES = Analysis({"x": allowed.curves_x}, {**_LOGGED, "scale": allowed.scale, "called": allowed.called})
"""The options of `curves` with x: step or x: share."""


def opened(entry: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of a checked entry and its options; an option that is null counts as not given, and a name under `by` or
    `predictors` as a list of one (a function of somebody else gets what was given)."""
    ((kind, given),) = entry.items()
    options = {key: value for key, value in (given or {}).items() if value is not None}
    for key in ("by", "predictors") if kind in ANALYSES else ():
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
    """Raise InputError for an entry of `analysis` that cannot be made; it names the key at or below `path`.

    context: the axes that the entry may name. Their values are checked only if the context has them.
    """
    wanted = f"one of {', '.join(ANALYSES)} with its options, like {{boundary: {{metric: …, x: …}}}}"
    expect(isinstance(entry, Mapping) and len(entry) == 1, path, wanted, entry)
    kind = next(iter(entry))
    path = f"{path}.{kind}" if path else str(kind)
    if isinstance(kind, str) and kind not in ANALYSES:
        _check_function(kind, entry[kind], path, context)
        return
    analysis = ANALYSES[checks.named(kind, path, "analysis", ANALYSES)]
    learning = isinstance(entry[kind], Mapping) and along_training(kind, entry[kind], context.workload)
    if learning:
        analysis = LEARNING_CURVES
    optional = {**analysis.optional, "question": allowed.question, **({} if learning else {"where": allowed.where})}
    known = {**analysis.required, **{key: checks.unless_null(check) for key, check in optional.items()}}
    checks.keys(entry[kind], path, context, known, defaults=dict.fromkeys(analysis.required))
    _, given = opened(entry)
    if kind in ("curves", LANDSCAPE) and not metrics_of(given):
        raise InputError(f"{path}.metric", "missing; expected a metric")
    if kind == "engines":
        _check_engines(given, path, context)
    if learning or kind == LANDSCAPE:
        check_logged(given, path, context)
    for name, pair in given.get("between", {}).items():
        left = given.get("where", {}).get(name, pair)
        if gone := [value for value in pair if value not in (left if isinstance(left, list) else [left])]:
            raise InputError(f"{path}.where.{name}", f"leaves out {shown(gone[0])}, which between compares")
    used: dict[str, str] = dict.fromkeys(given.get("between", ()), "between")
    for key in (key for key in NAME_AXES if key in given):
        for name in given[key] if key == "by" else [given[key]]:
            if name in used:
                raise InputError(f"{path}.{key}", f"{name!r} is already used as {used[name]}")
            used[name] = key
    if why := no_best_place(kind, given, context.axes.get(given.get(analysis.along, ""), [])):
        raise InputError(f"{path}.{analysis.along}", why)


def _check_function(kind: str, given: Any, path: str, context: Context) -> None:
    """Check an entry that names a function of somebody else. A file is not executed here."""
    if not analysis_functions.is_in_file(kind):
        checks.named(kind, path, "analysis", [*ANALYSES, *analysis_functions.installed()])
    given = checks.mapping(given, path, "option to value")
    for key, check in (("where", allowed.where), ("question", allowed.question)):
        if given.get(key) is not None:
            check(given[key], f"{path}.{key}", context)
    if not analysis_functions.is_in_file(kind):
        function = analysis_functions.find(kind, {}, path)
        analysis_functions.check_options(function, analysis_functions.options_of(given), path)


def _check_engines(given: Mapping[str, Any], path: str, context: Context) -> None:
    engines = context.workload.engines
    if engines is None:
        raise InputError(path, f"{context.workload.name} has no engines to compare")
    if engines.parameter not in context.axes:
        raise InputError(path, f"expected {engines.parameter} among the axes, to compare engines")
    if not (given.get("x") or context.workload.searched("optimum")):
        raise InputError(f"{path}.x", "missing; expected one of the axes")


def check_logged(given: Mapping[str, Any], path: str, context: Context) -> None:
    """Check what an entry says of a stage that logs."""
    workload = context.workload
    if workload.compute:
        axes = ", ".join(context.axes) or "none"
        raise InputError(f"{path}.x", f"{workload.name} logs no learning curves; expected one of its axes: {axes}")
    names = workload.chain.names
    if len(names) > 1 and "stage" not in given:
        raise InputError(f"{path}.stage", f"missing; expected one of {', '.join(names)}")
    stage = given.get("stage", names[0])
    for name in given.get("by", []):
        if name not in workload.chain.known[names.index(stage)]:
            raise InputError(f"{path}.by", f"the stage {stage} does not depend on {name}")


def no_best_place(kind: str, given: Mapping[str, Any], values: Iterable[Any]) -> str:
    """Why the best value cannot be sought on an axis with these values; "" if it can, or if it is not asked for."""
    analysis = ANALYSES[kind]
    for value in values if analysis.above is not None else ():
        if not analysis.above < value < math.inf:
            log = analysis.above == 0
            return (
                f"the best {given[analysis.along]} is sought on {'a logarithmic scale' if log else 'its axis'}; "
                f"expected finite values{' above 0' if log else ''} on that axis, got {shown(value)}"
            )
    return ""
