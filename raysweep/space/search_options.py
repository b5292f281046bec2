"""The keys `search` and `early_stopping` of a space. Imports nothing heavy, because every space is checked with it.

early_stopping:
  metric: loss        # that the function logs and returns; its direction says what is worse
  rule: median        # or asha
  grace: 1            # the first step at which rows are stopped
  reduction: 4        # for asha: the best 1/4 goes on at each of the steps grace, 4 grace, 16 grace, ...
  first: 8            # cells of the first round, which is never stopped; each further round doubles the cells so far
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import partial
from typing import Any

from raysweep.errors import InputError
from raysweep.space import checks
from raysweep.space.checks import Check, Context, expect

START = 5
"""Number of cells of a slice with which a search begins: both ends, the middle, and the middles of both halves."""

SAMPLERS = ("tpe", "gp")
"""Optuna's samplers: its default, and a Gaussian process."""


def _sampler(value: Any, path: str, context: Context) -> str:
    name = checks.named(value, path, "sampler", SAMPLERS)
    lacking = [library for library in ("scipy", "torch") if name == "gp" and importlib.util.find_spec(library) is None]
    if lacking:
        raise InputError(path, f"gp needs {' and '.join(lacking)}: pip install {' '.join(lacking)}, or say tpe")
    return name


COUNT = partial(checks.whole, least=1)
ALONG_AN_AXIS: dict[str, Check] = {"metric": checks.metric, "x": checks.number_axis, "budget": COUNT, "start": COUNT}
SEARCHES: dict[str, dict[str, Check]] = {
    "grid": {},
    "random": {"cells": COUNT},
    "boundary": ALONG_AN_AXIS,
    "optimum": ALONG_AN_AXIS,
    "optuna": {"metric": checks.metric, "cells": COUNT, "sampler": _sampler},
}
"""The options of each search that a space may have; an option without a default must be given."""
IMPORTED = "imported"
"""The search in the records of rows that were computed elsewhere; its one option is the number of their cells."""
IN_RANGES = ("random", "optuna")
"""The searches that take axes that are ranges. The others choose among listed values."""
RULES = ("median", "asha")
STOPPABLE = ("grid", "random", "optuna")
"""The searches with which rows can be stopped. A boundary or an optimum search needs the numbers of all its cells."""


def check(value: Any, context: Context) -> dict[str, dict[str, Any]]:
    """The `search` of a space as {kind: options}, defaults filled in; InputError names the key."""
    if isinstance(value, str):
        value = {value: {}}
    expect(isinstance(value, dict) and len(value) == 1, "search", f"one of {', '.join(SEARCHES)}", value)
    ((kind, given),) = value.items()
    of_records: dict[str, Check] = {"cells": COUNT}
    table = of_records if kind == IMPORTED else SEARCHES[checks.named(kind, "search", "search", SEARCHES)]
    if context.ranges and kind not in IN_RANGES:
        takes = " and ".join(f"{{{name}: …}}" for name in IN_RANGES)
        why = f"a range is for the searches {takes}, and this space has search {kind}"
        path = f"axes.{next(iter(context.ranges))}.range"
        raise InputError(path, f"{why}; say another search, or a list of values")
    usual = context.workload.searched(kind)
    defaults = {"x": usual if usual in context.axes else None, "start": START, "sampler": "tpe"}
    return {kind: checks.keys(given, f"search.{kind}", context, table, {key: defaults.get(key) for key in table})}


def check_early_stopping(value: Any, context: Context, search: Mapping[str, Any]) -> dict[str, Any]:
    """The `early_stopping` of a space with defaults filled in, empty if it is not given; InputError names the key."""
    if not value:
        return {}
    (kind,) = search
    if kind not in STOPPABLE:
        raise InputError("early_stopping", f"is for the searches {', '.join(STOPPABLE)}, and this space has {kind}")
    if context.workload.compute:
        raise InputError("early_stopping", f"{context.workload.name} logs no learning curve; leave it out")
    options: dict[str, Check] = {
        "metric": _directed,
        "rule": checks.one_of("rule", RULES),
        "grace": checks.fits("a step above 0", lambda value: checks.is_finite(value) and value > 0),
        "reduction": partial(checks.whole, least=2),
        "first": partial(checks.whole, least=1),
    }
    defaults = {"metric": None, "rule": "median", "grace": 1, "reduction": 4, "first": 8}
    return checks.keys(value, "early_stopping", context, options, defaults)


def _directed(value: Any, path: str, context: Context) -> str:
    name = checks.metric(value, path, context)
    if any(metric.name == name and metric.direction == "none" for metric in context.workload.metrics):
        raise InputError(path, f"expected a metric of which more or less is better, and {name} has no direction")
    return name
