"""The key `early_stopping` of a space: rows end early whose learning curve is worse than that of others.

early_stopping:
  metric: loss        # that the function logs and returns; its direction says what is worse
  rule: median        # or asha
  grace: 1            # the first step at which rows are stopped
  reduction: 4        # for asha: the best 1/4 goes on at each of the steps grace, 4 grace, 16 grace, ...
  first: 8            # cells of the first round, which is never stopped; each further round doubles the cells so far
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from raysweep.errors import InputError
from raysweep.space import checks
from raysweep.space.checks import Check, Context, expect

RULES = ("median", "asha")
SEARCHES = ("grid", "random", "optuna")
"""The searches with which rows can be stopped. A boundary or an optimum search needs the numbers of all its cells."""


def check(value: Any, context: Context, search: Mapping[str, Any]) -> dict[str, Any]:
    """The `early_stopping` of a space with defaults filled in, empty if it is not given; InputError names the key."""
    if not value:
        return {}
    (kind,) = search
    if kind not in SEARCHES:
        raise InputError("early_stopping", f"is for the searches {', '.join(SEARCHES)}, and this space has {kind}")
    if context.workload.compute:
        raise InputError("early_stopping", f"{context.workload.name} logs no learning curve; leave it out")
    options: dict[str, Check] = {
        "metric": _metric,
        "rule": checks.one_of("rule", RULES),
        "grace": _grace,
        "reduction": partial(checks.whole, least=2),
        "first": partial(checks.whole, least=1),
    }
    defaults = {"metric": None, "rule": "median", "grace": 1, "reduction": 4, "first": 8}
    return checks.keys(value, "early_stopping", context, options, defaults)


def _grace(value: Any, path: str, context: Context) -> Any:
    expect(checks.is_finite(value) and value > 0, path, "a step above 0", value)
    return value


def _metric(value: Any, path: str, context: Context) -> str:
    name = checks.metric(value, path, context)
    if any(metric.name == name and metric.direction == "none" for metric in context.workload.metrics):
        raise InputError(path, f"expected a metric of which more or less is better, and {name} has no direction")
    return name
