"""Computes the metrics and the status of a table of rows with their workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from raysweep.stages.store import Store
from raysweep.storage import processes
from raysweep.trial.chain import Walk, function_at
from raysweep.trial.results import Computation, one_number_a_row, statuses
from raysweep.workloads.declaration import Columns, Workload


def compute(
    workload: Workload, columns: Columns, seeds: np.ndarray, store: Any, keep: Sequence[str] = (), **more: Any
) -> Computation:
    """Compute a table of rows: their metrics (closed forms as NAME_theory), statuses and curves.

    store: the stage store (or a gang's view of it), or its address; not used for a workload that stores no stages.
    columns, seeds, keep, more: as in `Walk`.

    InputError or RuntimeError if the workload gives back anything else.
    """
    if workload.compute:
        computation = _table(workload, columns, seeds)
    else:
        stages = open_store(workload, store, "", keep) if isinstance(store, str) else store
        computation = Walk(workload, columns, seeds, stages, keep, **more).through()
    if workload.closed_form is None:
        return computation
    theory = {f"{name}_theory": values for name, values in workload.closed_form(columns).items()}
    return replace(computation, metrics={**computation.metrics, **_numbers(workload, theory, columns, seeds)})


def open_store(workload: Workload, store: str, sweep: str, keep: Sequence[str]) -> Any:
    """The stage store, for a workload that keeps stages; None for any other."""
    return Store(store, provenance={"sweep": sweep}) if workload.stores(keep) else None


def _table(workload: Workload, columns: Columns, seeds: np.ndarray) -> Computation:
    with processes.children_end():
        metrics, status = function_at(workload.compute)(columns, seeds)
    rows, status = Computation.empty((), len(seeds)), statuses(workload.name, status, len(seeds))
    return replace(rows, metrics=_numbers(workload, metrics, columns, seeds), status=status)


def _numbers(
    workload: Workload, metrics: Mapping[str, Any], columns: Columns, seeds: np.ndarray
) -> dict[str, np.ndarray]:
    return {name: one_number_a_row(workload.name, name, each, columns, seeds) for name, each in metrics.items()}
