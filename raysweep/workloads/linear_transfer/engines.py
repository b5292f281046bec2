"""The entry point of the workload: gives rows to their engines, and adds the metrics that need no engine."""

import numpy as np

from raysweep.theory import pretraining
from raysweep.workloads import symmetric
from raysweep.workloads.declaration import Columns, deferred
from raysweep.workloads.linear_transfer import METRICS, SYMMETRY, distance, target


def compute(columns: Columns, seeds: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """All metrics of all rows, shape (rows,) each, and the status of each row.

    Each engine is imported only if a row asks for it.
    """
    metrics = {metric.name: np.full(len(seeds), np.nan) for metric in METRICS}
    arguments = columns["pretrain_length"], columns["depth"], columns["init_scale"], columns["source_norm"]
    metrics |= {
        "pretrain_scale": pretraining.scale(*arguments),
        "pretrain_loss": pretraining.source_loss(*arguments),
        "kl_divergence": distance.kl_divergence(columns),
        "wasserstein_1": distance.wasserstein_1(columns, np.asarray(seeds)),
    }
    names = ("limit", "flow", "network")
    engines = {name: deferred(f"raysweep.workloads.linear_transfer.{name}:compute") for name in names}
    engines["theory"] = deferred("raysweep.theory.transfer:closed_form")
    return symmetric.solved(columns, seeds, metrics, engines, target.signs, SYMMETRY.metrics)
