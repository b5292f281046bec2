"""Format names, numbers and intervals for figures and text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from raysweep.analyses.finding import Finding
from raysweep.errors import printable
from raysweep.fits.statistics import LEVEL
from raysweep.numbers import number
from raysweep.workloads.declaration import Metric, Workload

NAMED = {"metric", "predictor", "sweep"}
"""What a setting may have besides parameters: its value says what it is."""
LETTERS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
"""Of large numbers, usually of tokens, parameters or steps."""
BARS = f"{100 * LEVEL:g} % interval"
"""What the error bars of means show."""


def plain(name: str) -> str:
    """The name of a column with spaces instead of underscores."""
    return name.replace("_", " ")


def capitalized(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def without_common_beginning(first: str, second: str) -> str:
    """The second text without the words with which both begin: "hurts" of "transfer helps" and "transfer hurts"."""
    pairs = zip(first.split(), second.split(), strict=False)
    both = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return " ".join(second.split()[both:])


def what_differs(first: str, second: str) -> str:
    """The second text without the words with which both begin or end: "falls" of "x rises with y" and "x falls with y";
    whole if no word is left."""
    middle = without_common_beginning(first, second)
    backwards = (" ".join(reversed(text.split())) for text in (first, middle))
    return " ".join(reversed(without_common_beginning(*backwards).split())) or second


def called(name: str, workload: Workload) -> str:
    """What sentences and figures call a column: its label, else its name with spaces."""
    if name in workload.by_name:
        return workload.by_name[name].label or plain(name)
    return next((metric.label for metric in workload.metrics if metric.name == name), "") or plain(name)


def as_called(finding: Finding, workload: Workload) -> Workload:
    """The workload, in which the signs of a finding's metric mean what they do in the finding. The difference of a
    metric between two values of an axis is a metric too."""
    metrics = workload.metrics
    if between := finding.facts.get("between"):
        one, other = (setting(between["axis"], value, workload) for value in between["values"])
        label = f"{called(between['metric'], workload)} of {one} minus {without_common_beginning(one, other)}"
        direction = next((one.direction for one in metrics if one.name == between["metric"]), "none")
        first, second = (one, other) if direction != "minimize" else (other, one)
        signs = [f"more at {one}", f"more at {other}"]
        signs = [f"{first} is better", f"{second} is better"] if direction != "none" else signs
        metrics = (*metrics, Metric(finding.metric, label, positive=signs[0], negative=signs[1], label=label))
    if "positive" in finding.meanings:
        signs = [finding.meanings["positive"], finding.meanings["negative"]]
        metrics = tuple(
            replace(one, positive=signs[0], negative=signs[1]) if one.name == finding.metric else one for one in metrics
        )
    return replace(workload, metrics=metrics)


def line_label(name: str, value: float, x: str, workload: Workload) -> str:
    """The label of a reference line: its name and its value, for example "F Thm 3.9 (60°)"."""
    return f"{name} ({number(value)}{unit_of(x, workload)})"


def axis_label(name: str, workload: Workload) -> str:
    """An axis label for a column: its name (a parameter without underscores), its symbol and its unit."""
    metrics = {metric.name: metric for metric in workload.metrics}
    declared = workload.by_name.get(name) or metrics.get(name)
    unit = declared.unit if declared else ""
    symbol = workload.symbol(name)
    word = called(name, workload) if declared else plain(name)
    return word + (f" {symbol}" if symbol else "") + (f" ({unit})" if unit else "")


def unit_of(name: str, workload: Workload) -> str:
    """The unit as written after a number of this column: "°" for degrees, else a space and the unit."""
    declared = workload.by_name.get(name)
    unit = declared.unit if declared else ""
    return "°" if unit == "degrees" else f" {unit}" if unit else ""


def listed(name: str, values: Iterable[Any], workload: Workload) -> list[str]:
    """Several values of one parameter in short form, the parameter's name with the first alone: "γ = 0.1", "0.2"."""
    first, *others = values
    return [setting(name, first, workload), *(short(name, value, workload) for value in others)]


def setting(name: str, value: Any, workload: Workload) -> str:
    """A parameter and its value in short form, for example "η = 0.1"; for an engine, a metric and a sweep its name."""
    if name in NAMED - workload.by_name.keys():
        return called(value, workload)
    if isinstance(value, str):
        is_engine = workload.engines is not None and name == workload.engines.parameter
        declared = workload.by_name.get(name)
        if declared and declared.words:
            return printable(declared.words(value))
        return printable(value) if is_engine else f"{called(name, workload)} {printable(value)}"
    return f"{workload.symbol(name) or called(name, workload)} = {short(name, value, workload)}"


def short(name: str, value: Any, workload: Workload) -> str:
    """A value of a parameter in short form, without the parameter's name: "0.1", "60°"."""
    if isinstance(value, str):
        return setting(name, value, workload).removeprefix(f"{called(name, workload)} ")
    return in_short(value) + ("°" if unit_of(name, workload) == "°" else "")


def in_short(value: Any) -> str:
    """A value in four digits, a long whole number too (1.074B), unless it is so near to them that others matter."""
    if isinstance(value, (str, bool)) or not 1e7 <= abs(value) < 1e15 or value != int(value):
        return number(value)
    size, letter = next(one for one in LETTERS if one[0] <= abs(value))
    rest = abs(float(f"{value:.4g}") - value)
    return number(int(value)) if 0 < rest <= 1e-6 * abs(value) else f"{number(value / size)}{letter}"


def settings(where: Mapping[str, Any], workload: Workload) -> str:
    """Several parameters and their values, separated by commas."""
    return ", ".join(setting(name, value, workload) for name, value in where.items())
