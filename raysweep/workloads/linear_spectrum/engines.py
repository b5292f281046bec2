"""The entry point of the workload: gives rows to their engines, rows that are equal once."""

import numpy as np

from raysweep.workloads import symmetric
from raysweep.workloads.declaration import DIVERGED, NOT_CONVERGED, OK, Array, Columns, deferred
from raysweep.workloads.linear_spectrum import METRICS, SYMMETRY, closed_forms
from raysweep.workloads.linear_spectrum.tasks import signs, with_even_layers

Results = tuple[dict[str, Array], Array]

AFTER = ("pretrain_loss_after", "finetune_loss", "sensitivity")
WORDS = np.array([OK, NOT_CONVERGED, DIVERGED], dtype=object)


def compute(columns: Columns, seeds: Array) -> Results:
    """All metrics of all rows, shape (rows,) each, and the status of each row.

    The metrics after fine-tuning are NaN for a diverged row, and for a row of engine theory if its closed form fails.
    """
    seeds = np.asarray(seeds)
    columns = {name: np.asarray(values) for name, values in columns.items()}
    # without noise, rows that differ only in seed are equal
    drawn = np.where((columns["noise"] > 0) & (columns["engine"] != "theory"), seeds, -1)
    keys = list(zip(drawn.tolist(), *(values.tolist() for values in columns.values()), strict=True))
    index = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    inverse = np.array([index[key] for key in keys], dtype=np.int64)
    rows = np.unique(inverse, return_index=True)[1]
    metrics, status = _compute({name: values[rows] for name, values in columns.items()}, seeds[rows])
    return {name: values[inverse] for name, values in metrics.items()}, status[inverse]


def _compute(columns: Columns, seeds: Array) -> Results:
    description = closed_forms.describe(columns)
    metrics = {metric.name: description.get(metric.name, np.full(len(seeds), np.nan)) for metric in METRICS}
    metrics |= {name: description[f"{name}_closed"] for name in AFTER}
    engines = {name: deferred(f"raysweep.workloads.linear_spectrum.{name}:compute") for name in ("flow", "network")}
    engines["theory"] = lambda columns: {}  # closed forms describe rows of any engine
    return symmetric.solved(with_even_layers(columns), seeds, metrics, engines, signs, SYMMETRY.metrics)


def measured(maps: Array, source: Array, target: Array, before: Array) -> dict[str, Array]:
    """The metrics AFTER, shape (rows,) each.

    maps: end-to-end maps, (rows, d, d).
    source, target: the tasks' matrices.
    before: the loss before fine-tuning.
    """
    after = ((maps - source) ** 2).sum((1, 2))
    return {
        "pretrain_loss_after": after,
        "finetune_loss": ((maps - target) ** 2).sum((1, 2)),
        "sensitivity": after - before,
    }
