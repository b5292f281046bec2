"""What rows came to: metrics, statuses and learning curves, entered stage by stage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raysweep.ledger.curves import one_after_the_other
from raysweep.ledger.segments import Curve
from raysweep.trial import context
from raysweep.trial.results import Checked
from raysweep.workloads.declaration import OK, STATUSES

WORST: dict[str, int] = {str(status): rank for rank, status in enumerate(STATUSES)}
"""A row has the worst status of its stages; the statuses are listed from good to bad."""


@dataclass
class Computation:
    """What rows came to.

    metrics: maps each metric to its values, shape (rows,); NaN where no stage gave one.
    status: the word of each row, shape (rows,).
    stages: for each row its kept stages: {name: [id, ...]}, one id for each point.
    curves: for each row what its stages that are not kept logged: {name: {"step": [...], NAME: [...]}}.
    shared_curves: what the kept stages logged: {id: {"step": [...], NAME: [...]}}.
    lacking: by row, the metrics that a stored stage of it lacks, because the workload has gained them since.
    other_code: by row, the versions of the code that computed stored stages of it, other than the present one.
    identities: for each row the id of its last stage; empty for a workload without `identify`.
    """

    metrics: dict[str, np.ndarray]
    status: np.ndarray
    stages: list[dict[str, list[str]]]
    curves: list[dict[str, Curve]]
    shared_curves: dict[str, Curve]
    lacking: dict[int, set[str]] = field(default_factory=dict)
    other_code: dict[int, set[str]] = field(default_factory=dict)
    identities: list[str] = field(default_factory=list)

    @classmethod
    def empty(cls, metrics: Sequence[str], count: int) -> Computation:
        """So many rows that have passed no stage yet."""
        return cls(
            {name: np.full(count, np.nan) for name in metrics},
            np.full(count, OK, dtype=object),
            [{} for _ in range(count)],
            [{} for _ in range(count)],
            {},
        )

    def enter(self, stage: str, rows: Sequence[np.ndarray], result: Checked, curve: context.Curve) -> None:
        """Enter the result of one call of a stage that is not kept, and what it logged. rows: for each entry of the
        result the numbers of the rows that share it."""
        each = np.concatenate(rows)
        entry = np.repeat(np.arange(len(rows)), [len(some) for some in rows])
        for name, values in result.metrics.items():
            self.metrics[name][each] = values[entry]
        if not curve and all(word == OK for word in result.status):
            return
        for row, position in zip(each.tolist(), entry.tolist(), strict=True):
            self._worsen(row, result.status[position])
            if curve:
                before = self.curves[row].get(stage)
                self.curves[row][stage] = one_after_the_other([*([before] if before else []), curve.of_row(position)])

    def enter_stored(
        self, stage: str, identity: str, rows: np.ndarray, meta: Mapping[str, Any], declared: Collection[str], code: str
    ) -> None:
        """Enter a kept stage of some rows. meta: what the store has of it besides its tensors; empty if it is not there
        and not needed. declared: its metrics. code: the present version of its code."""
        lacks = set(declared) - meta.get("metrics", {}).keys() if meta.get("status") == OK else set()
        for row in rows.tolist():
            if lacks:
                self.lacking.setdefault(row, set()).update(lacks)
            if meta.get("code_version", code) != code:
                self.other_code.setdefault(row, set()).add(meta["code_version"])
            self.stages[row].setdefault(stage, []).append(identity)
            self._worsen(row, meta.get("status", OK))
        for name, value in meta.get("metrics", {}).items():
            if name in self.metrics:
                self.metrics[name][rows] = value
        if meta.get("curve"):
            self.shared_curves[identity] = meta["curve"]

    def _worsen(self, row: int, status: str) -> None:
        if WORST[status] > WORST[self.status[row]]:
            self.status[row] = status
