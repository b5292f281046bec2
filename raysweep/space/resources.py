"""The resources of a trial, as a space states them: GPUs, cores, the number of workers, and rules for single cells.

resources:
  gpus_per_trial: 1       # of all workers of a trial together; 0 for none
  cpus_per_trial: 4       # cores of all workers together; at least one for each worker
  gang: 1                 # workers of a trial without GPUs; with GPUs there is one for each
  where:                  # cells that take other resources; if two rules fit a cell, the later counts
    - {depth: [12, 24], gpus_per_trial: 4}
"""

from __future__ import annotations

from functools import partial
from typing import Any

from raysweep.errors import InputError
from raysweep.space import checks
from raysweep.space.checks import Check, Context, expect

MOST = 1024
DEFAULTS = {"gpus_per_trial": 0, "cpus_per_trial": 1}
AMOUNTS: dict[str, Check] = {
    "gpus_per_trial": partial(checks.whole, least=0, most=MOST),
    "cpus_per_trial": partial(checks.whole, least=1, most=MOST),
    "gang": partial(checks.whole, least=1, most=MOST),
}
"""The amounts that can be asked for."""


def check(value: Any, context: Context) -> dict[str, Any]:
    """The `resources` of a space with defaults filled in; InputError names the key."""
    options = {**AMOUNTS, "where": checks.unless_null(_rules)}
    checked = checks.keys(value, "resources", context, options, DEFAULTS, noun="resource")
    return {key: entry for key, entry in checked.items() if entry is not None}


def _rules(value: Any, path: str, context: Context) -> list[dict[str, Any]]:
    example = "{depth: [12, 24], gpus_per_trial: 4}"
    expected = f"a list of mappings from axis and resource to values, such as [{example}]"
    expect(isinstance(value, list), path, expected, value)
    options: dict[str, Check] = {**{name: partial(checks.of_axis, name) for name in context.axes}, **AMOUNTS}
    if context.ranges:
        raise InputError(path, "expected no rules: with an axis that is a range, all trials take the same resources")
    rules = []
    for index, rule in enumerate(value):
        here = f"{path}[{index}]"
        mixed = isinstance(rule, dict) and {key in AMOUNTS for key in rule} == {True, False}
        expect(mixed, here, f"an axis with its values, and a resource with its amount, such as {example}", rule)
        rules.append(checks.keys(rule, here, context, options, noun="axis or resource"))
    return rules
