"""The resources of a trial, as a space states them: GPUs, cores, the number of workers, and rules for single cells.

resources:
  gpus_per_trial: 1       # of all workers of a trial together; 0 for none
  cpus_per_trial: 4       # cores of all workers together; at least one for each worker
  gang: 1                 # workers of a trial without GPUs; with GPUs there is one for each
  where:                  # cells that take other resources; if two rules fit a cell, the later counts
    - {depth: [12, 24], gpus_per_trial: 4}
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from raysweep.errors import InputError
from raysweep.phrases import counted
from raysweep.space import checks
from raysweep.space.checks import Check, Context, expect
from raysweep.workloads.declaration import Columns

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


@dataclass(frozen=True)
class Resources:
    """The resources of one trial, for all its workers together, and the number of workers. asked: for each of Ray's
    names, the path of the key that asked for this amount."""

    gpus: int = 0
    cpus: int = 1
    gang: int = 1
    asked: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def share(self) -> dict[str, float]:
        return {kind: amount / self.gang for kind, amount in self.total.items()}

    @property
    def total(self) -> dict[str, float]:
        """The resources of all workers, by Ray's names, without amounts of 0."""
        return {kind: amount for kind, amount in (("CPU", self.cpus), ("GPU", self.gpus)) if amount}

    @property
    def threads(self) -> int:
        return max(1, self.cpus // self.gang)

    def words(self) -> str:
        """The resources in words, such as: 4 GPUs and 8 cores, a gang of 4 workers."""
        gpus = f"{counted(self.gpus, 'GPU')} and " if self.gpus else ""
        gang = f", a gang of {self.gang} workers" if self.gang > 1 else ""
        return f"{gpus}{counted(self.cpus, 'core')}{gang}"


def resolve(amounts: Mapping[str, Any], rules: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> Resources:
    """The resources of a trial, from amounts and from (path, rule) pairs that change them; the last rule wins.
    InputError if there are GPUs, and not one for each worker."""
    path, asked = "resources", {key: f"resources.{key}" for key in AMOUNTS}
    for path, rule in rules:
        changes = {key: value for key, value in rule.items() if key in AMOUNTS}
        amounts = {**amounts, **changes}
        asked |= {key: f"{path}.{key}" for key in changes}
    gpus, cpus = amounts["gpus_per_trial"], amounts["cpus_per_trial"]
    gang = amounts.get("gang", max(gpus, 1))
    if gpus not in (0, gang):
        expected = f"expected {counted(gpus, 'worker')}, one for each GPU (the default)"
        raise InputError(f"{path}.gang", f"{expected}, got {gang}")
    workers = "gang" if "gang" in amounts else "gpus_per_trial"  # each worker takes a core
    keys = {"GPU": asked["gpus_per_trial"], "CPU": asked["cpus_per_trial" if cpus >= gang else workers]}
    return Resources(gpus, max(cpus, gang), gang, keys)


def of_cells(stated: Mapping[str, Any], columns: Columns, count: int) -> tuple[list[Resources], np.ndarray]:
    """The different needs of cells, and which of them each cell has, shape (count,). stated: the `resources` of a
    space. InputError if the rules of a cell together ask for something impossible."""
    rules = stated.get("where") or []
    usual = resolve(stated)  # must be possible even if a rule changes it for every cell
    if not rules:
        return [usual], np.zeros(count, dtype=np.int64)
    fits = np.zeros((count, len(rules)), dtype=bool)
    for number, rule in enumerate(rules):
        fits[:, number] = True
        for name, values in rule.items():
            if name not in AMOUNTS:
                fits[:, number] &= np.isin(columns[name], np.asarray(values, dtype=columns[name].dtype))
    patterns, which = np.unique(fits, axis=0, return_inverse=True)
    named = [(f"resources.where[{number}]", rule) for number, rule in enumerate(rules)]
    of_pattern = [resolve(stated, list(itertools.compress(named, pattern))) for pattern in patterns]
    needs = list(dict.fromkeys(of_pattern))
    return needs, np.asarray([needs.index(need) for need in of_pattern], dtype=np.int64)[which.reshape(-1)]
