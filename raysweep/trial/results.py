"""What rows came to: what a workload gives back is checked (one number per row and metric, known words as statuses) and
entered, stage by stage."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raysweep.errors import InputError, as_typed, shown
from raysweep.ledger.curves import one_after_the_other
from raysweep.ledger.segments import Curve
from raysweep.stages import trees
from raysweep.trial import context
from raysweep.workloads.declaration import OK, STATUSES, Columns, Workload
from raysweep.workloads.rows import Result, Rows

WORST: dict[str, int] = {str(status): rank for rank, status in enumerate(STATUSES)}
"""A row has the worst status of its stages; the statuses are listed from good to bad."""


class Checked:
    """The result of one call of a stage. metrics, status: one entry per row."""

    def __init__(self, tensors: Any, metrics: dict[str, np.ndarray], status: np.ndarray) -> None:
        self.metrics, self.status = metrics, status
        # other rows start from the tensors too: a stage that changed them in place would change these rows
        self._tensors, self._versions = trees.read_only(tensors), trees.versions(tensors)

    def __len__(self) -> int:
        return len(self.status)

    @property
    def tensors(self) -> Any:
        """The tensors as the function gave them. RuntimeError if a tensor of torch was changed since."""
        if trees.versions(self._tensors) != self._versions:
            raise RuntimeError(
                "a stage changed tensors of the stage before it in place, from which other rows start too; clone them"
            )
        return self._tensors

    def entry(self, index: int) -> Any:
        return trees.entry(self.tensors, index)


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
        values, status = {name: np.full(count, np.nan) for name in metrics}, np.full(count, OK, dtype=object)
        return cls(values, status, [{} for _ in range(count)], [{} for _ in range(count)], {})

    def enter(self, stage: str, rows: Sequence[np.ndarray] | np.ndarray, result: Checked, curve: context.Curve) -> None:
        """Enter the result of one call of a stage that is not kept, and what it logged. rows: for each entry of the
        result the numbers of the rows that share it."""
        each = np.concatenate(rows)
        entry = np.repeat(np.arange(len(rows)), [len(some) for some in rows])
        for name, values in result.metrics.items():
            self.metrics.setdefault(name, np.full(len(self.status), np.nan))[each] = values[entry]
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


def checked(workload: Workload, index: int, result: Any, rows: Rows) -> Checked:
    """The result of the stage at this place of the chain. InputError, which begins with the stage, if it does not fit
    the declaration. RuntimeError, which names the row, if a metric is not a number."""
    stage = workload.chain.stages[index]
    path, count = f"{workload.name}.{stage.name}", len(rows)
    if not isinstance(result, Result):
        raise InputError(path, f"expected a raysweep.Result from {stage.run}, got {shown(result)}")
    declared = workload.chain.metrics[index]
    if not isinstance(result.metrics, Mapping):
        raise InputError(path, f"expected metrics as a mapping from names to numbers, got {shown(result.metrics)}")
    if unknown := sorted(map(str, set(result.metrics) - set(declared))):
        listed = ", ".join(declared) or "none"
        raise InputError(path, f"gave the metric {unknown[0]}, which is not declared for it (declared: {listed})")
    metrics = {name: _numbers(path, name, values, rows, stage.together) for name, values in result.metrics.items()}
    try:
        trees.check(result.tensors)
    except TypeError as error:
        raise InputError(path, f"gave tensors that cannot be kept: {error}") from None
    if stage.together is not None:
        for name, length in trees.lengths(result.tensors):
            if length != count:
                got = "an array without axes" if length < 0 else f"{length:,}"
                raise InputError(path, f"expected one entry of the tensor {name} for each of {count:,} rows, got {got}")
    status = statuses(path, result.status, count)
    if OK in status and (missing := [name for name in declared if name not in metrics]):
        raise InputError(path, f"gave no {', no '.join(missing)}, declared for it; give NaN where there is none")
    return Checked(result.tensors, metrics, status)


def number(value: Any) -> float:
    """The one number that a value, or an array or tensor with one entry, is. ValueError otherwise."""
    try:
        value = value.item() if hasattr(value, "item") else value
        if not isinstance(value, (str, bytes, bytearray)):
            return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # torch has the last one for more entries than one
        pass
    raise ValueError(f"expected one number, got {shown(value)}")


def statuses(path: str, status: Any, count: int) -> np.ndarray:
    """The status of each row. InputError if there are not as many, or if a word is unknown."""
    try:
        words = [status] * count if isinstance(status, str) else list(status)
    except TypeError:
        words = [status] * count
    if len(words) != count:
        raise InputError(path, f"expected one status for all rows or one for each of {count:,}, got {len(words):,}")
    for word in words:
        if not isinstance(word, str) or word not in STATUSES:
            raise InputError(path, f"expected a status out of {', '.join(STATUSES)}, got {shown(word)}")
    return np.asarray([str(word) for word in words], dtype=object)


def _numbers(path: str, metric: str, values: Any, rows: Rows, together: Any) -> np.ndarray:
    if hasattr(values, "detach"):  # a tensor of torch
        values = values.detach().cpu().double().numpy()
    if together is None and np.ndim(values) == 0:
        values = [values]
    return one_number_a_row(path, metric, values, rows.columns, rows.seeds)


def one_number_a_row(path: str, metric: str, values: Any, columns: Columns, seeds: np.ndarray) -> np.ndarray:
    """A metric as an array of numbers, shape (rows,). path: the workload or stage, for errors. InputError if there is
    not one entry per row. RuntimeError, which names the row, for a value that is not a number."""
    with contextlib.suppress(ValueError, TypeError):  # lists of unequal lengths do not make an array
        array = np.asarray(values)
        if array.shape == (len(seeds),) and array.dtype.kind in "fiub":
            return array
    expected = f"expected {len(seeds):,} numbers as the metric {metric}, one for each row, got"
    try:
        listed = None if isinstance(values, (str, bytes, Mapping)) else list(values)
    except TypeError:
        listed = None
    if listed is None:
        raise InputError(path, f"{expected} {shown(values)}")
    if len(listed) != len(seeds):
        raise InputError(path, f"{expected} {len(listed):,}")
    numbers = np.empty(len(listed))
    for i, value in enumerate(listed):
        try:
            numbers[i] = number(value)
        except ValueError:
            row = ", ".join(f"{name} = {as_typed(column[i])}" for name, column in columns.items())
            got = f"got {shown(value)} in the row {row}, seed = {seeds[i]}"
            raise RuntimeError(f"{path}: expected one number as the metric {metric}, {got}") from None
    return numbers
