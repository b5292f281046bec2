"""What a trial takes, as a space says it: GPUs and cores, how many workers share them, and cells that take something
else.

resources:
  gpus_per_trial: 1       # of all workers of a trial together; 0 for none
  cpus_per_trial: 4       # cores, likewise; at least one for each worker
  gang: 1                 # workers of a trial: one for each GPU, or 1, unless said
  where:                  # cells that take something else; of two rules that fit a cell, the later counts
    - {depth: [12, 24], gpus_per_trial: 4}
"""

from __future__ import annotations

from functools import partial
from typing import Any

from raysweep.space.checks import Check, Context, expect, of_axis, options, whole

MOST = 1024
DEFAULTS = {"gpus_per_trial": 0, "cpus_per_trial": 1}
AMOUNTS: dict[str, Check] = {
    key: partial(whole, least=least, most=MOST)
    for key, least in (("gpus_per_trial", 0), ("cpus_per_trial", 1), ("gang", 1))
}
"""What can be asked for."""


def check(value: Any, context: Context) -> dict[str, Any]:
    """The `resources` of a space, defaults filled in; InputError names the key."""
    checked = options(value, "resources", context, {**AMOUNTS, "where": _rules}, DEFAULTS, noun="resource")
    return {key: entry for key, entry in checked.items() if entry is not None}


def _rules(value: Any, path: str, context: Context) -> list[dict[str, Any]] | None:
    example = "{depth: [12, 24], gpus_per_trial: 4}"
    wanted = f"a list of mappings from axis and resource to values, such as [{example}]"
    expect(value is None or isinstance(value, list), path, wanted, value)
    for index, rule in enumerate(value or []):
        mixed = isinstance(rule, dict) and {key in AMOUNTS for key in rule} == {True, False}
        wanted = f"an axis with its value or values, and a resource with its amount, such as {example}"
        expect(mixed, f"{path}[{index}]", wanted, rule)
    known: dict[str, Check] = {**{name: partial(of_axis, name) for name in context.axes}, **AMOUNTS}
    return value and [
        options(rule, f"{path}[{index}]", context, known, noun="axis or resource") for index, rule in enumerate(value)
    ]
