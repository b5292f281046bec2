"""What a trial takes: GPUs and cores, how many workers share them, and cells that take something else.

resources:
  gpus_per_trial: 1       # of all workers of a trial together; 0 for none
  cpus_per_trial: 4       # cores, likewise; at least one for each worker
  gang: 1                 # workers of a trial: one for each GPU, or 1, unless said
  where:                  # cells that take something else; of two rules that fit a cell, the later counts
    - {depth: [12, 24], gpus_per_trial: 4}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raysweep.errors import InputError, shown, unknown
from raysweep.workloads.declaration import Columns, Workload

DEFAULTS = {"gpus_per_trial": 0, "cpus_per_trial": 1}
AMOUNTS = {"gpus_per_trial": 0, "cpus_per_trial": 1, "gang": 1}
"""What can be asked for, and the least of it."""
MOST = 1024


@dataclass(frozen=True)
class Resources:
    """What one trial takes, all its workers together, and how many workers share it. asked: by Ray's names, the path of
    the key that asked for so much of it."""

    gpus: int = 0
    cpus: int = 1
    gang: int = 1
    asked: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def share(self) -> dict[str, float]:
        """What one worker takes, by Ray's names."""
        return {kind: amount / self.gang for kind, amount in self.total.items()}

    @property
    def total(self) -> dict[str, float]:
        """What all workers take, by Ray's names; nothing that they do not take."""
        return {kind: amount for kind, amount in (("CPU", self.cpus), ("GPU", self.gpus)) if amount}

    @property
    def threads(self) -> int:
        """Cores that one worker may use."""
        return max(1, self.cpus // self.gang)

    def words(self) -> str:
        """For people: 4 GPUs and 8 cores, a gang of 4 workers."""
        amounts = [_count(self.gpus, "GPU")] if self.gpus else []
        return " and ".join([*amounts, _count(self.cpus, "core")]) + (
            f", a gang of {self.gang} workers" if self.gang > 1 else ""
        )


def check(given: Mapping[str, Any], axes: Mapping[str, list[Any]], workload: Workload) -> dict[str, Any]:
    """The `resources` of a space, defaults filled in; InputError names the key."""
    for key, value in given.items():
        if key != "where":
            _amount(f"resources.{key}", key, value)
    rules = given.get("where")
    if rules is None:
        resolved = {**DEFAULTS, **{key: value for key, value in given.items() if key != "where"}}
    elif not isinstance(rules, list):
        raise InputError(
            "resources.where",
            "expected a list of mappings from axis and resource to values, such as "
            f"[{{depth: [12, 24], gpus_per_trial: 4}}], got {shown(rules)}",
        )
    else:
        checked = [_rule(f"resources.where[{index}]", rule, axes, workload) for index, rule in enumerate(rules)]
        resolved = {**DEFAULTS, **given, "where": checked}
    resolve(resolved)
    return resolved


def _amount(path: str, key: str, value: Any) -> int:
    if key not in AMOUNTS:
        raise unknown(path, "resource", key, [*AMOUNTS, "where"])
    if isinstance(value, bool) or not isinstance(value, int) or not AMOUNTS[key] <= value <= MOST:
        raise InputError(path, f"expected a whole number of at least {AMOUNTS[key]}, got {shown(value)}")
    return value


def _rule(path: str, rule: Any, axes: Mapping[str, list[Any]], workload: Workload) -> dict[str, Any]:
    if not isinstance(rule, dict) or not any(key in AMOUNTS for key in rule) or all(key in AMOUNTS for key in rule):
        raise InputError(
            path,
            "expected an axis with its value or values, and a resource with its amount, such as "
            f"{{depth: [12, 24], gpus_per_trial: 4}}, got {shown(rule)}",
        )
    resolved: dict[str, Any] = {}
    for key, value in rule.items():
        if key in AMOUNTS:
            resolved[key] = _amount(f"{path}.{key}", key, value)
            continue
        if key not in axes:
            raise unknown(f"{path}.{key}", "axis or resource", key, [*axes, *AMOUNTS])
        try:
            values = [workload.by_name[key].coerce(entry) for entry in (value if isinstance(value, list) else [value])]
        except (ValueError, OverflowError) as error:
            raise InputError(f"{path}.{key}", str(error)) from None
        if not values:
            raise InputError(f"{path}.{key}", "expected at least one value, got an empty list")
        for entry in values:
            if entry not in axes[key]:
                raise InputError(
                    f"{path}.{key}", f"{shown(entry)} is not on the axis: {', '.join(map(str, axes[key]))}"
                )
        resolved[key] = values
    return resolved


def resolve(amounts: Mapping[str, Any], rules: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> Resources:
    """What these amounts mean for a trial, and the (path, rule) that change them, the later the stronger; InputError
    where GPUs cannot be shared evenly."""
    path, asked = "resources", {key: f"resources.{key}" for key in AMOUNTS}
    for path, rule in rules:
        changes = {key: value for key, value in rule.items() if key in AMOUNTS}
        amounts = {**amounts, **changes}
        asked |= {key: f"{path}.{key}" for key in changes}
    gpus, cpus = amounts["gpus_per_trial"], amounts["cpus_per_trial"]
    gang = amounts.get("gang", max(gpus, 1))
    if gpus % gang:
        raise InputError(
            f"{path}.gang", f"expected a number of workers that shares {_count(gpus, 'GPU')} evenly, got {gang}"
        )
    workers = "gang" if "gang" in amounts else "gpus_per_trial"  # each of them takes a core
    return Resources(
        gpus,
        max(cpus, gang),
        gang,
        {"GPU": asked["gpus_per_trial"], "CPU": asked["cpus_per_trial" if cpus >= gang else workers]},
    )


def of_cells(stated: Mapping[str, Any], columns: Columns, count: int) -> tuple[list[Resources], np.ndarray]:
    """The different needs there are among cells, and which of them each cell has, shape (count,).

    stated: the `resources` of a space; columns: the cells' parameters. InputError if rules together ask for what
    cannot be.
    """
    rules = stated.get("where") or []
    if not rules:
        return [resolve(stated)], np.zeros(count, dtype=np.int64)
    fits = np.zeros((count, len(rules)), dtype=bool)
    for number, rule in enumerate(rules):
        fits[:, number] = True
        for name, values in rule.items():
            if name not in AMOUNTS:
                fits[:, number] &= np.isin(columns[name], np.asarray(values, dtype=columns[name].dtype))
    patterns, which = np.unique(fits, axis=0, return_inverse=True)
    needs: list[Resources] = []
    place = []
    for pattern in patterns:
        need = resolve(
            stated, [(f"resources.where[{number}]", rule) for number, rule in enumerate(rules) if pattern[number]]
        )
        if need not in needs:
            needs.append(need)
        place.append(needs.index(need))
    return needs, np.asarray(place, dtype=np.int64)[which.reshape(-1)]


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
