"""The resources that the trials of each cell take: the `resources` of a space, resolved for its cells."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raysweep.errors import InputError
from raysweep.phrases import counted
from raysweep.space.resources import AMOUNTS
from raysweep.workloads.declaration import Columns


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
        amounts = [counted(self.gpus, "GPU")] if self.gpus else []
        return " and ".join([*amounts, counted(self.cpus, "core")]) + (
            f", a gang of {self.gang} workers" if self.gang > 1 else ""
        )


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
        raise InputError(
            f"{path}.gang", f"expected {counted(gpus, 'worker')}, one for each GPU (the default), got {gang}"
        )
    workers = "gang" if "gang" in amounts else "gpus_per_trial"  # each worker takes a core
    return Resources(
        gpus,
        max(cpus, gang),
        gang,
        {"GPU": asked["gpus_per_trial"], "CPU": asked["cpus_per_trial" if cpus >= gang else workers]},
    )


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
