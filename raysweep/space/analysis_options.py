"""The checks of single options of analyses: what each may be, and the message if it is not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from raysweep.space import checks
from raysweep.space.checks import Check, Context, expect
from raysweep.workloads.declaration import SCALES

SAMPLES = ("draws", "cells")
"""What the interval of `relation` is over: draws (the cells are the design), or cells that stand for others."""
ALONG_TRAINING = ("step", "share")
"""The values of x for which `curves` shows learning curves: the step of the stage, or its share of the last step."""


def metrics(value: Any, path: str, context: Context) -> Any:
    listed = [value] if isinstance(value, str) else value
    expect(isinstance(listed, (list, tuple)) and bool(listed), path, "a list of metrics", value)
    return [checks.metric(name, path, context) for name in listed]


def axes(value: Any, path: str, context: Context) -> Any:
    listed = [value] if isinstance(value, str) else value
    expect(isinstance(listed, (list, tuple)), path, "an axis or a list of axes", value)
    return [checks.axis(name, path, context) for name in listed]


def lines(value: Any, path: str, context: Context) -> Any:
    expect(isinstance(value, Mapping) and bool(value), path, "names and places like {'F Thm 3.9': 60}", value)
    for name, place in value.items():
        expect(checks.is_finite(place), f"{path}.{name}", "a number", place)
    return value


def between(value: Any, path: str, context: Context) -> Any:
    expected = "an axis and two of its values, like {shift: [top, bottom]}"
    expect(isinstance(value, Mapping) and len(value) == 1, path, expected, value)
    ((name, pair),) = value.items()
    checks.axis(name, f"{path}.{name}", context)
    expect(isinstance(pair, list) and len(pair) == 2 and pair[0] != pair[1], f"{path}.{name}", "two values", pair)
    return {name: checks.of_axis(name, pair, f"{path}.{name}", context)}


def where(value: Any, path: str, context: Context) -> Any:
    expect(isinstance(value, Mapping) and bool(value), path, "axes and values of theirs, like {noise: 0}", value)
    for name, chosen in value.items():
        checks.axis(name, f"{path}.{name}", context)
        checks.of_axis(name, chosen, f"{path}.{name}", context)
    return value


def question(value: Any, path: str, context: Context) -> Any:
    expected = "a question in words, like 'How fast to fine-tune?'"
    expect(isinstance(value, str) and value.strip().endswith("?") and "\n" not in value.strip(), path, expected, value)
    return value.strip()


def words(*findings: str) -> Check:
    """The check of `words`: what each of these findings means, in words."""

    def check(value: Any, path: str, context: Context) -> Any:
        meanings = checks.mapping(value, path, "finding to its meaning in words")
        checks.keys(meanings, path, context, dict.fromkeys(findings, meaning), defaults=dict.fromkeys(findings))
        return value

    return check


def curves_x(value: Any, path: str, context: Context) -> Any:
    return checks.named(value, path, "axis", [*context.axes, *ALONG_TRAINING])


def logged(value: Any, path: str, context: Context) -> Any:
    """Metrics that a stage logs. Their names are known only from its rows."""
    listed = value if isinstance(value, list) else [value]
    expect(bool(listed) and all(isinstance(name, str) for name in listed), path, "names of logged metrics", value)
    return value


def stage(value: Any, path: str, context: Context) -> Any:
    return checks.named(value, path, "stage", context.workload.chain.names)


scale, sample = checks.one_of("scale", SCALES), checks.one_of("sample", SAMPLES)
level = checks.fits("a number from 0.5 to below 1", lambda value: checks.is_finite(value) and 0.5 <= value < 1)
called = checks.fits("what the steps are, such as layer", lambda value: isinstance(value, str) and bool(value.strip()))
meaning = checks.fits(
    "a few words that need no full stop, like 'pretrained networks err less'",
    lambda value: isinstance(value, str) and bool(value.strip()) and "\n" not in value and value.rstrip()[-1] != ".",
)
training_x = checks.one_of("x", ALONG_TRAINING)
one_logged = partial(checks.text, expected="the name of a logged metric")
number_axis = partial(checks.number_axis, advice="; give it under by, or draw it with curves")
BY_LEVEL: dict[str, Check] = {"by": axes, "level": level}
METRIC_X: dict[str, Check] = {"metric": checks.metric, "x": number_axis}
"""The options of most analyses of a metric over an axis of numbers."""
