"""Which analyses a space may ask for, and whether it asks for them properly. Imports nothing heavy."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from raysweep.errors import shown
from raysweep.workloads.declaration import Workload

OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # kind: (required, optional)
    "boundary": (("metric", "x"), ("y", "by", "level", "lines")),
    "inflection": (("metric", "x"), ("by", "level")),
    "optimum": (("metric", "x"), ("by", "level")),
    "regime": (("metric", "lr", "length"), ("metrics", "by", "level")),
    "trend": (("metric", "x"), ("by", "level")),
    "curves": (("x",), ("metric", "metrics", "by")),
    "agreement": ((), ("metrics",)),
    "engines": ((), ("metrics", "reference", "x", "by")),
    "relation": (("x", "y"), ("by",)),
}


def check_analysis(entry: Any, axes: Iterable[str], workload: Workload) -> str | None:
    """What is wrong with one entry of a space's `analysis`, beginning with the key's path below the entry; None if
    nothing.

    axes: the names that x, y, lr, length and by may use, or their values by name. A path without a key is empty: the
    message then begins with the complaint.
    """
    names = list(axes)
    if not isinstance(entry, Mapping) or len(entry) != 1:
        return f"expected one of {', '.join(OPTIONS)} with its options, like {{boundary: {{metric: …, x: …}}}}"
    kind, options = next(iter(entry.items()))
    if kind not in OPTIONS:
        return f"{kind}: unknown analysis {kind!r}; known: {', '.join(OPTIONS)}{nearest(kind, OPTIONS)}"
    if options is None:
        options = {}
    if not isinstance(options, Mapping):
        return f"{kind}: expected options as keys and values, got {shown(options)}"
    required, optional = OPTIONS[kind]
    known = [*required, *optional]
    for key in options:
        if key not in known:
            return f"{kind}.{key}: unknown option; known: {', '.join(known)}{nearest(key, known)}"
    for key in required:
        if key not in options:
            wanted = "a metric" if key == "metric" or kind == "relation" else "one of the axes"
            return f"{kind}.{key}: missing; expected {wanted}"
    if kind == "curves" and not options.get("metric") and not options.get("metrics"):
        return "curves.metric: missing; expected a metric"
    return (
        metrics_complaint(kind, options, workload)
        or axes_complaint(kind, options, names, workload)
        or categories_complaint(kind, options, workload)
        or rates_complaint(kind, options, axes)
        or level_complaint(kind, options)
        or lines_complaint(kind, options)
    )


def metrics_of(options: Mapping[str, Any]) -> list[str]:
    """The metrics that an entry names under `metric` and `metrics`, each once."""
    listed = options.get("metrics") or []
    named = [options.get("metric"), *([listed] if isinstance(listed, str) else listed)]
    return list(dict.fromkeys(name for name in named if name))


def metrics_complaint(kind: str, options: Mapping[str, Any], workload: Workload) -> str | None:
    """Whether every metric named exists."""
    known = [metric.name for metric in workload.metrics]
    for key in ("metric", "metrics", *(("x", "y") if kind == "relation" else ())):
        if key not in options:
            continue
        value = options[key]
        listed = isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value) and value
        if not (isinstance(value, str) or (key == "metrics" and listed)):
            wanted = "a list of metrics" if key == "metrics" else "a metric"
            return f"{kind}.{key}: expected {wanted}, got {shown(value)}"
        for name in [value] if isinstance(value, str) else value:
            if name not in known:
                return f"{kind}.{key}: unknown metric {name!r}; known: {', '.join(known)}{nearest(name, known)}"
    if kind == "relation" and options["x"] == options["y"]:
        return f"relation.y: {options['y']!r} is already used as x"
    return None


def axes_complaint(kind: str, options: Mapping[str, Any], axes: list[str], workload: Workload) -> str | None:
    """Whether x, y, lr, length and by are axes (x and y of a relation are metrics), each used once."""
    used: dict[str, str] = {}
    for key in ("by",) if kind == "relation" else ("x", "y", "lr", "length", "by"):
        if options.get(key) is None:
            continue
        value = options[key]
        if key == "by" and not isinstance(value, (list, tuple)):
            return f"{kind}.by: expected a list of axes, got {shown(value)}"
        for name in [value] if key != "by" else value:
            if not isinstance(name, str) or name not in axes:
                there = ", ".join(axes) if axes else "none"
                return f"{kind}.{key}: expected one of the axes ({there}), got {shown(name)}{nearest(name, axes)}"
            if name in used:
                return f"{kind}.{key}: {name!r} is already used as {used[name]}"
            used[name] = key
    if kind == "engines":
        if workload.engines is None:
            return f"engines: {workload.name} has no engines to compare"
        if not isinstance(options.get("reference", ""), str):
            return f"engines.reference: expected the name of an engine, got {shown(options['reference'])}"
        if workload.engines.parameter not in axes:
            return f"engines: expected {workload.engines.parameter} among the axes, to compare engines"
        if not (options.get("x") or workload.searched("optimum")):
            return "engines.x: missing; expected one of the axes"
    return None


def categories_complaint(kind: str, options: Mapping[str, Any], workload: Workload) -> str | None:
    """Whether what a fit runs along has a scale; words, true and false have none (curves draws them as categories)."""
    for key in ("x", "y", "lr", "length") if kind not in ("curves", "relation") else ():
        name = options.get(key)
        if name in workload.by_name and workload.by_name[name].categorical:
            return (
                f"{kind}.{key}: expected an axis of numbers, but {name} is {workload.by_name[name].expected()}; "
                f"give it under by, or draw it with curves"
            )
    return None


def rates_complaint(kind: str, options: Mapping[str, Any], axes: Iterable[str]) -> str | None:
    """Whether the best place on an axis can be sought; that of a regime, whose power law it follows, in log."""
    key, low = {"optimum": ("x", -math.inf), "regime": ("lr", 0.0)}.get(kind, ("", 0.0))
    if not key or not isinstance(axes, Mapping):
        return None
    scale, wanted = ("a logarithmic scale", "finite values above 0") if low == 0 else ("its axis", "finite values")
    for value in axes[options[key]]:
        if not low < value < math.inf:
            return (
                f"{kind}.{key}: the best {options[key]} is sought on {scale}; expected {wanted} on that axis, got "
                f"{shown(value)}"
            )
    return None


def level_complaint(kind: str, options: Mapping[str, Any]) -> str | None:
    """Whether the level is a probability."""
    level = options.get("level", 0.95)
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0.5 <= level < 1:
        return f"{kind}.level: expected a number from 0.5 to below 1, got {shown(level)}"
    return None


def lines_complaint(kind: str, options: Mapping[str, Any]) -> str | None:
    """Whether reference lines are names with numbers."""
    lines = options.get("lines")
    if lines is None:
        return None
    if not isinstance(lines, Mapping) or not lines:
        return f"{kind}.lines: expected names and places like {{'F Thm 3.9': 60}}, got {shown(lines)}"
    for name, value in lines.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return f"{kind}.lines.{name}: expected a number, got {shown(value)}"
    return None


def nearest(word: Any, known: Iterable[str]) -> str:
    """A suggestion, ready to append; empty if nothing is near."""
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
