"""The question of a report, and its set-up, in words."""

from __future__ import annotations

import re
from typing import Any

from raysweep.analyses.design import Design, values_in
from raysweep.numbers import number
from raysweep.phrases import counted
from raysweep.report.names import called, listed, plain, setting, unit_of, values_in_words
from raysweep.space.analyses import ANALYSES, metrics_of, opened
from raysweep.workloads.declaration import Workload

MEANT, SHORT = 3, 18
"""The most metrics that the first screen explains, and the most words of one explanation."""
LISTED = 3  # so many words of an axis are named in its short form
FIXED = 6  # so many of the fixed values are named there


def question(design: Design, workload: Workload) -> str:
    """The question of the report: the descriptions of the spaces, or else a text made from the analyses."""
    described = dict.fromkeys(" ".join(str(space.get("description") or "").split()) for space in design.spaces)
    if any(described):
        return " ".join(filter(None, described))
    asked = []
    for entry in design.analyses():
        kind, options = opened(entry)
        if options.get("question"):
            asked.append(str(options["question"]).rstrip("?"))
            continue
        if kind not in ANALYSES:
            asked.append(f"what does {kind} say of the rows")
            continue
        metric, x, y = options.get("metric", ""), options.get("x", ""), options.get("y", "")
        asked.append(
            {
                "boundary": f"where does {metric} change sign in {plain(str(x))}",
                "inflection": f"where does {metric} turn in {plain(str(x))}",
                "trend": f"does {metric} rise or fall with {plain(str(x))}",
                "power_law": f"with which power of {plain(str(x))} does {metric} grow",
                "predicted_boundary": f"does a power law predict where {metric} changes sign in {plain(str(x))}",
                "shift": f"by what factor does the best {plain(str(x))} for {metric} move between settings",
                "curves": f"how do the metrics run over {plain(str(x))}",
                "agreement": "does the experiment agree with the closed form",
                "engines": "do the engines agree on the same draws",
                "relation": f"does {x} predict {y}",
                "r_squared": f"what explains {metric}",
                "best": f"which cell has the best {metric}",
                "landscape": f"how does {' and '.join(metrics_of(options))} look over {plain(x)} and {plain(y)}",
            }.get(kind, f"what is the {kind} of {metric}" if metric else f"what is the {kind}")
        )
    return "; ".join(dict.fromkeys(asked)).capitalize() + "?" if asked else workload.summary


def set_up(design: Design, workload: Workload) -> str:
    """The set-up in words: the varied parameters, the workload, and the meaning of the analysed metrics."""
    one = design.spaces[0] if len(design.spaces) == 1 else None  # keeps the repeated values of a zipped axis
    varied = []
    for name in design.varied():
        values, known = values_in(one, name) if one else design.values(name), workload.by_name.get(name)
        about = f": {first_clause(known.description)}" if known and not workload.function else ""
        varied.append(values_in_words(name, values, workload, design.any_between(name)) + about)
    text = f"Varied: {'; '.join(varied)}. " if varied else ""
    if len(design.spaces) > 1:
        text += differences_in_words(design, workload)
    text += f"Workload `{workload.name}`: {workload.summary}."
    described = {metric.name: metric.description for metric in workload.metrics}
    labels = {metric.name: metric.label for metric in workload.metrics}
    meant = [
        f"{f'{labels[name]} (`{name}`)' if labels[name] else name} = {described[name]}"
        for name in design.metrics()
        if name in described
    ]
    return text + (f" Here {'; '.join(meant)}." if meant else "")


def varied_in_short(design: Design, workload: Workload) -> str:
    """What was varied, in one line: each axis with its ends or its few values, axes that vary together by the first of
    them; and the first of what is fixed: axes of one value, words (for example the images that are the source), and
    numbers other than those that hold without being set."""
    together = {name: group for space in design.spaces for group in space.get("zip") or [] for name in group}
    said, words, numbers = [], [], []
    for name in design.varied():
        group, values = together.get(name, [name]), design.values(name)
        if name != group[0] or len(values) < 2:
            continue
        text = _axis_in_short(name, values, workload)
        with_it = [called(other, workload) for other in group[1:] if len(design.values(other)) > 1]
        said.append(f"{text} with {', '.join(with_it)}" if with_it else text)
    for one in workload.parameters:
        given, declared = design.values(one.name), one.name in design.varied()
        if len(given) != 1 or given[0] in ("", "all", None):
            continue
        if isinstance(given[0], str) and (declared or not one.choices):
            words.append(setting(one.name, given[0], workload))
        elif declared or (one.type in (int, float) and given[0] != one.default):
            numbers.append(_axis_in_short(one.name, given, workload))
    fixed = [*words, *numbers][:FIXED]
    parts = [f"Varied: {', '.join(said)}." if said else "", f"Fixed: {', '.join(fixed)}." if fixed else ""]
    return " ".join(filter(None, parts))


def _axis_in_short(name: str, values: list[Any], workload: Workload) -> str:
    label = " ".join(filter(None, (called(name, workload), workload.symbol(name))))
    if any(isinstance(value, (str, bool)) or value is None for value in values):
        if len(values) > LISTED:
            return f"{label} ({counted(len(values), 'value')})"
        declared = workload.by_name.get(name)
        if declared and declared.words:
            return " / ".join(listed(name, values, workload))
        return f"{label} ({' / '.join(map(number, values))})"
    unit = unit_of(name, workload)
    unit = "" if label.endswith(unit) else unit  # fine-tuning steps 100 steps
    degrees = unit if unit == "°" else ""
    if len(values) <= LISTED:
        return f"{label} {', '.join(f'{number(value)}{degrees}' for value in values)}{'' if degrees else unit}"
    return f"{label} {number(min(values))}{degrees} to {number(max(values))}{unit}"


def names_in_words(design: Design, workload: Workload, text: str, drawn: str = "") -> str:
    """What the symbols of the varied parameters stand for that a text or a figure shows, and what the first metrics
    mean that the text names.

    drawn: the words in the figure.
    """
    symbols = [
        f"{symbol}: {plain(name)} ({first_clause(workload.by_name[name].description)})"
        for name in design.varied()
        if (symbol := workload.symbol(name))
        and len(design.values(name)) > 1
        and re.search(rf"(?<!\w){re.escape(symbol)}(?!\w)", f"{text}\n{drawn}")
    ]
    asked = design.metrics()
    places: dict[int, str] = {}  # where each metric is first named, by its name or its label
    for each in workload.metrics:
        words = in_few_words(each.description)
        for name in filter(None, (each.name, each.label)):
            known = each.name in asked or not name.isalpha()  # a plain word, such as error, need not be this metric
            found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) if known and words else None
            if found:
                places.setdefault(found.start(), f"{each.name}: {words}")
    meant = list(dict.fromkeys(places[place] for place in sorted(places)))[:MEANT]
    return "; ".join([*symbols, *meant]) + "." if symbols or meant else ""


def in_few_words(description: str) -> str:
    """The description, or its first clause if it has more than `SHORT` words; empty if that has too many as well."""
    said = (description, description.split(", ")[0])
    return next((words for words in said if len(words.split()) <= SHORT), "")


def first_clause(description: str) -> str:
    """A description up to its first bracket or the end of its first clause."""
    return re.split(r" \(|[;:,] ", description)[0]


def differences_in_words(design: Design, workload: Workload) -> str:
    """The values in which each sweep differs from the others, in words."""
    said = []
    for name, space in zip(design.names, design.spaces, strict=True):
        own = [
            f"{plain(key)} = {number(values[0])}" if len(values) == 1 else values_in_words(key, values, workload)
            for key in design.varied()
            if (values := values_in(space, key)) and set(values) != set(design.values(key))
        ]
        said.append(f"`{name}` {'has ' + ', '.join(own) if own else 'has all of these'}")
    return f"Of these {'; '.join(said)}. "
