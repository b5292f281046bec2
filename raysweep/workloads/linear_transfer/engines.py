"""The entry point of the workload: gives rows to their engines, and adds the metrics that need no engine."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from raysweep.theory import pretraining
from raysweep.workloads import symmetric
from raysweep.workloads.declaration import OK, Columns
from raysweep.workloads.linear_transfer import METRICS, SYMMETRY, distance, target

Results = tuple[dict[str, np.ndarray], np.ndarray]

_ENGINES = {name: f"raysweep.workloads.linear_transfer.{name}" for name in ("limit", "flow", "network")}


def compute(columns: Columns, seeds: np.ndarray) -> Results:
    """All metrics of all rows, shape (rows,) each, and the status of each row.

    Each engine is imported only if a row asks for it. ValueError on an unknown engine.
    """
    seeds = np.asarray(seeds)
    engine = np.asarray(columns["engine"], dtype=object)
    metrics = {metric.name: np.full(len(seeds), np.nan) for metric in METRICS}
    arguments = columns["pretrain_length"], columns["depth"], columns["init_scale"], columns["source_norm"]
    metrics |= {
        "pretrain_scale": pretraining.scale(*arguments),
        "pretrain_loss": pretraining.source_loss(*arguments),
        "kl_divergence": distance.kl_divergence(columns),
        "wasserstein_1": distance.wasserstein_1(columns, seeds),
    }
    status = np.full(len(seeds), OK, dtype=object)
    for name in sorted(set(engine)):
        rows = np.flatnonzero(engine == name)
        asked = {key: values[rows] for key, values in columns.items()}
        engine_metrics, engine_status = (
            _theory(asked, seeds[rows])
            if name == "theory"
            else symmetric.averaged(_engine(name), asked, seeds[rows], target.signs(asked), SYMMETRY.metrics)
        )
        for key, values in engine_metrics.items():  # overrides a common metric for an engine that measures it itself
            metrics.setdefault(key, np.full(len(seeds), np.nan))[rows] = values
        status[rows] = engine_status
    return metrics, status


def _engine(name: str) -> Callable[[Columns, np.ndarray], Results]:
    if name not in _ENGINES:
        raise ValueError(f"expected an engine out of theory, {', '.join(_ENGINES)}, got {name!r}")
    function: Callable[[Columns, np.ndarray], Results] = importlib.import_module(_ENGINES[name]).compute
    return function


def _theory(columns: Columns, seeds: np.ndarray) -> Results:
    from raysweep.theory import transfer

    return transfer.closed_form(columns), np.full(len(seeds), OK, dtype=object)
