"""The question of a report, its set-up, and where its numbers come from, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from raysweep import plain_json as json
from raysweep.analyses import registry
from raysweep.analyses.design import Design, usual, values_in
from raysweep.numbers import number
from raysweep.phrases import counted
from raysweep.report.names import called, capitalized, in_short, listed, plain, setting, unit_of
from raysweep.report.notes import asked_by
from raysweep.space.analyses import metrics_of, opened
from raysweep.space.search_options import IMPORTED
from raysweep.workloads.declaration import STATUSES, Workload

LISTED = 3
"""The most values of an axis that its short form lists."""
FIXED = 6
"""The most fixed values that the short form lists."""


def question(design: Design, workload: Workload) -> str:
    """The question of the report: the descriptions of the spaces, or else that of the first analysis."""
    asking = [space for space in design.spaces if IMPORTED not in (space.get("search") or {})]
    described = dict.fromkeys(_description(space) for space in asking)
    if any(described):
        return " ".join(filter(None, described))
    entries = sorted(map(opened, design.analyses()), key=lambda entry: first_of(entry[1].get("question"), entry[0]))
    return next((_asked(*entry, workload) for entry in entries), workload.summary)


def first_of(asked: Any, kind: str) -> tuple[bool, bool]:
    """The key that sorts analyses in the order of a report: what answers a question of the space, then laws."""
    return not asked, kind != "law"


def _description(space: Mapping[str, Any]) -> str:
    return " ".join(str(space.get("description") or "").split())


def _asked(kind: str, options: dict[str, Any], workload: Workload) -> str:
    """The question of one entry: its own, or that of its kind with the names of its metrics and axes."""
    if options.get("question"):
        return str(options["question"])
    if kind not in registry.names():
        return f"What does {kind} say of the rows?"
    metrics = metrics_of(options)
    return asked_by(registry.chosen(kind, options, workload).kind, {**options, "metric": metrics}, workload)


def details(design: Design, workload: Workload) -> list[str]:
    """What was varied, the workload, and what the analysed metrics mean, a line each."""
    one = design.spaces[0] if len(design.spaces) == 1 else None  # keeps the repeated values of a zipped axis
    lines = []
    for name in design.varied():
        values, declared = values_in(one, name) if one else design.values(name), workload.by_name.get(name)
        about = f": {declared.description}" if declared and declared.description and not workload.function else ""
        words = _range(name, design, workload) or _in_full(name, values, workload)
        lines.append(f"Varied: {words}{_condition(name, design, workload)}{about}.")
    if len(design.spaces) > 1:
        pairs = zip(design.names, design.spaces, strict=True)
        lines += [_differences(name, space, design, workload) for name, space in pairs]
    lines.append(f"Workload {workload.name}: {workload.summary}.")
    if workload.symmetry and True in design.values("symmetric"):
        lines.append(f"With symmetric true, each draw is the mean over both signs of {workload.symmetry.signs}.")
    asked = design.metrics()
    for metric in workload.metrics:
        if metric.name in asked and metric.description:
            lines.append(f"{capitalized(called(metric.name, workload))} (`{metric.name}`): {metric.description}.")
    return lines


def _in_full(name: str, values: list[Any], workload: Workload) -> str:
    return f"{_axis_in_short(name, values, workload)} (`{name}`, {counted(len(values), 'value')})"


def _differences(name: str, space: Any, design: Design, workload: Workload) -> str:
    """The values in which one of several sweeps differs from the others."""
    other = [
        f"{plain(key)} = {in_short(values[0])}" if len(values) == 1 else _in_full(key, values, workload)
        for key in design.varied()
        if (values := values_in(space, key)) and set(values) != set(design.values(key))
    ]
    return f"{name} has {', '.join(other) if other else 'all of these'}."


def varied_in_short(design: Design, workload: Workload) -> str:
    """What was varied, in one line: each axis with its ends or its few values, axes that vary together by the first of
    them; and the first of what is fixed: axes of one value, words (for example the images that are the source), numbers
    that are not the default, and of the others those with a letter that are no rates."""
    together = {name: group for space in design.spaces for group in space.get("zip") or [] for name in group}
    varied, words, numbers, defaults = (list[str]() for _ in range(4))
    for name in design.varied():
        group = together.get(name, [name])
        if name != group[0] or len(design.values(name)) < 2:
            continue
        varied.append(_with_others(group, design, workload))
    for one in workload.parameters:
        given, declared = design.values(one.name), one.name in design.varied()
        if len(given) != 1 or given[0] in ("", "all", None):
            continue
        if isinstance(given[0], str) and (declared or not one.choices):
            words.append(setting(one.name, given[0], workload))
        elif declared or (one.type in (int, float) and given[0] != one.default):
            numbers.append(_axis_in_short(one.name, given, workload))
        elif one.symbol and one.searched_by != "optimum" and given[0] not in (0, math.inf):
            defaults.append(_axis_in_short(one.name, given, workload))
    fixed = [*words, *numbers, *defaults][:FIXED]
    parts = [f"Varied: {', '.join(varied)}." if varied else "", f"Fixed: {', '.join(fixed)}." if fixed else ""]
    imported = [_description(space) for space in design.spaces if IMPORTED in (space.get("search") or {})]
    return " ".join(filter(None, [*parts, *(f"{capitalized(text)}." for text in imported if text)]))


def _with_others(group: Sequence[str], design: Design, workload: Workload) -> str:
    """The first axis of a group and those that vary with it, in full if they are tried one at a time."""
    name, values = group[0], design.values(group[0])
    text = _range(name, design, workload) or _axis_in_short(name, values, workload)
    text += _condition(name, design, workload)
    others = [other for other in group[1:] if len(design.values(other)) > 1]
    spaces = [space for space in design.spaces if list(group) in (space.get("zip") or [])]
    tables = [pd.DataFrame({one: values_in(space, one) for one in group}) for space in spaces]
    if others and any(usual(table, group) for table in tables):
        texts = [_axis_in_short(other, design.values(other), workload) for other in others]
        return f"one at a time: {', '.join([text, *texts])}"
    return f"{text} (and with it {', '.join(called(other, workload) for other in others)})" if others else text


def _range(name: str, design: Design, workload: Workload) -> str:
    """An axis from which a search draws any value: "lr = 0.001 to 1 (log)"; empty for a list."""
    scales = {space["ranges"][name] for space in design.spaces if name in (space.get("ranges") or {})}
    if not scales:
        return ""
    label = " ".join(filter(None, (called(name, workload), workload.symbol(name), "=")))
    values, unit = design.values(name), unit_of(name, workload)
    text = f"{label} {in_short(min(values))}{unit if unit == '°' else ''} to {in_short(max(values))}{unit}"
    return f"{text} (log)" if "log" in scales else text


def _condition(name: str, design: Design, workload: Workload) -> str:
    """When a conditional axis is active: " if optimizer sgd"; empty for one that always is."""
    whens = [(space.get("when") or {}).get(name) for space in design.spaces]
    if not whens or not whens[0] or any(when != whens[0] for when in whens):
        return ""
    return " if " + " and ".join(" or ".join(listed(other, values, workload)) for other, values in whens[0].items())


def _axis_in_short(name: str, values: list[Any], workload: Workload) -> str:
    label = " ".join(filter(None, (called(name, workload), workload.symbol(name))))
    if any(isinstance(value, (str, bool)) or value is None for value in values):
        if len(values) > LISTED:
            return f"{label} ({counted(len(values), 'value')})"
        declared = workload.by_name.get(name)
        if declared and declared.words:
            return " / ".join(listed(name, values, workload))
        return f"{label} ({' / '.join(map(in_short, values))})"
    unit = unit_of(name, workload)
    unit = "" if unit and unit in label[-len(unit) :] else unit  # fine-tuning steps = 100, not 100 steps
    degrees, label = unit if unit == "°" else "", f"{label} ="
    if len(values) <= LISTED:
        return f"{label} {', '.join(f'{in_short(value)}{degrees}' for value in values)}{'' if degrees else unit}"
    return f"{label} {in_short(min(values))}{degrees} to {in_short(max(values))}{unit}"


def provenance(frame: pd.DataFrame, design: Design, facts: Sequence[str]) -> list[str]:
    """Code version, computing time, sweeps, seeds and fixed parameters, a line each; then `facts`."""
    versions = sorted(set(map(str, frame["code_version"]))) if "code_version" in frame.columns else ["unknown"]
    seconds = f"; {number(frame['seconds'].sum(), 3)} s of computing" if "seconds" in frame.columns else ""
    lines = [f"Code version {', '.join(versions)}; {counted(len(frame), 'row')}{seconds}."]
    spaces = [str(space.get("name", "")) for space in design.spaces]
    pairs = [f"{name} (space {space})" for name, space in zip(design.names, spaces, strict=True)]
    lines.append(f"{'Sweep' if len(pairs) == 1 else 'Sweeps'}: {', '.join(pairs)}.")
    varied = set(design.varied())
    fixed = {name: value for name, value in (design.spaces[0].get("fixed") or {}).items() if name not in varied}
    if fixed:
        lines.append(f"Fixed: {', '.join(f'{plain(name)} {number(value)}' for name, value in fixed.items())}.")
    listed_seeds = [list(space.get("seeds") or []) for space in design.spaces]
    words = [f"{one[0]} … {one[-1]} ({len(one)})" if len(one) > 1 else f"{one[0]}" for one in listed_seeds if one]
    if words:
        lines.append(f"Seeds: {'; '.join(dict.fromkeys(words))}.")
    return [*lines, *facts]


def resolved(design: Design) -> list[str]:
    """The resolved space of each sweep, as JSON."""
    kept = [{key: value for key, value in space.items() if key != "description"} for space in design.spaces]
    return [json.dumps(space, default=str, ensure_ascii=False) for space in kept]


def rows_words(frame: pd.DataFrame) -> str:
    """How many seeds the cells have, how many rows are ok, and which are in no mean and no fit."""
    per_cell = frame.groupby("cell")["seed"].nunique()
    cells = "no cell"
    if len(per_cell):
        fewest, most = int(per_cell.min()), int(per_cell.max())
        seeds = counted(most, "seed") if fewest == most else f"{fewest} to {counted(most, 'seed')}"
        cells = f"{counted(len(per_cell), 'cell')}, {seeds} each"
    counts: dict[str, int] = {word: int((frame["status"] == word).sum()) for word in STATUSES}
    bad = ", ".join(f"{count:,} {plain(word)}" for word, count in counts.items() if word != "ok" and count)
    rows = counted(len(frame), "row")
    ok = f"{counts['ok']:,} of {rows} ok (in no mean and no fit: {bad})" if bad else f"{rows}, all ok"
    return f"{cells}; {ok}"
