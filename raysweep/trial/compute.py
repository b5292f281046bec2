"""Computes the metrics and the status of a table of rows with their workload, and checks what the workload returns."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from raysweep import workloads
from raysweep.errors import as_typed, shown
from raysweep.plan.identity import code_version
from raysweep.workloads.declaration import STATUSES, Columns


def compute(
    workload_name: str,
    columns: Columns,
    seeds: np.ndarray,
    store: str,
    sweep: str = "",
    view: Callable[[Any], Any] | None = None,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Compute the metrics and the status of a table of rows.

    columns: maps each parameter to its values, one for each row.
    seeds: one seed for each row.
    store: the address of the stage store, for a workload that stores stages.
    sweep: the name that is recorded with stages that this call computes.
    view: turns the store into the object that the workload receives instead.

    Returns the metrics (closed forms as NAME_theory) by name, and the statuses; each array has one entry for each row.
    Raises RuntimeError if the workload returns anything else.
    """
    workload = workloads.get(workload_name)
    module, _, function = workload.compute.partition(":")
    arguments: list[Any] = [columns, seeds]
    if workload.stored:
        from raysweep.stages.store import Store

        stages = Store(store, provenance={"sweep": sweep, "code_version": code_version(workload)})
        arguments.append(view(stages) if view else stages)
    metrics, status = getattr(importlib.import_module(module), function)(*arguments)
    if workload.closed_form is not None:
        metrics = {**metrics, **{f"{name}_theory": values for name, values in workload.closed_form(columns).items()}}
    metrics = {name: _one_number_a_row(workload_name, name, values, columns, seeds) for name, values in metrics.items()}
    if isinstance(status, str) or len(status) != len(seeds):
        raise RuntimeError(f"{workload_name}: expected {len(seeds)} words as the status, got {shown(status)}")
    for word in status:
        if word not in STATUSES:
            raise RuntimeError(f"{workload_name} returned the status {shown(word)}; known: {', '.join(STATUSES)}")
    return metrics, status


def _one_number_a_row(workload_name: str, metric: str, values: Any, columns: Columns, seeds: np.ndarray) -> np.ndarray:
    """A metric as an array of numbers. Raises RuntimeError, which names the metric and the row whose value is not a
    number."""
    with contextlib.suppress(ValueError, TypeError):  # lists of unequal lengths do not make an array
        array = np.asarray(values)
        if array.shape == (len(seeds),) and array.dtype.kind in "fiub":
            return array
    expected = f"{workload_name}: expected {len(seeds)} numbers as the metric {metric}, one for each row, got"
    try:
        listed = None if isinstance(values, (str, bytes, Mapping)) else list(values)
    except TypeError:
        listed = None
    if listed is None:
        raise RuntimeError(f"{expected} {shown(values)}")
    if len(listed) != len(seeds):
        raise RuntimeError(f"{expected} {len(listed)}")
    for i, value in enumerate(listed):
        if not isinstance(value, Real):
            row = ", ".join(f"{name} = {as_typed(column[i])}" for name, column in columns.items())
            raise RuntimeError(
                f"{workload_name}: expected one number as the metric {metric}, got {shown(value)} in "
                f"the row {row}, seed = {seeds[i]}"
            )
    return np.asarray(listed, dtype=np.float64)
