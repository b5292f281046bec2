"""The entry point of the workload: gives rows to their engines, and adds the metrics that need no engine.

Among these are the distances between source and target data (F §2.1, Fig. 5) that would be used to predict transfer.
"""

import functools

import numpy as np

from raysweep.theory import arrays, pretraining
from raysweep.training import draws
from raysweep.workloads import symmetric
from raysweep.workloads.declaration import Array, Columns, deferred
from raysweep.workloads.linear_transfer import METRICS, SYMMETRY, target
from raysweep.workloads.linear_transfer.target import target_coordinates, teacher_directions


def compute(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
    """All metrics of all rows, shape (rows,) each, and the status of each row.

    Each engine is imported only if a row asks for it.
    """
    metrics = {metric.name: np.full(len(seeds), np.nan) for metric in METRICS}
    arguments = columns["pretrain_length"], columns["depth"], columns["init_scale"], columns["source_norm"]
    metrics |= {
        "pretrain_scale": pretraining.scale(*arguments),
        "pretrain_loss": pretraining.source_loss(*arguments),
        "kl_divergence": kl_divergence(columns),
        "wasserstein_1": wasserstein_1(columns, np.asarray(seeds)),
    }
    names = ("limit", "flow", "network")
    engines = {name: deferred(f"raysweep.workloads.linear_transfer.{name}:compute") for name in names}
    engines["theory"] = deferred("raysweep.theory.transfer:closed_form")
    return symmetric.solved(columns, seeds, metrics, engines, target.signs, SYMMETRY.metrics)


def kl_divergence(columns: Columns) -> Array:
    """D(p_s || p_t) = |b_s - b_t|²/(2σ²) in nats, shape (rows,) (F App. B.1). Both have equal inputs and noise.

    Without noise the conditional distributions are points: the divergence is 0 for equal teachers and inf otherwise.
    """
    target = target_coordinates(columns)
    source = np.asarray(columns["source_norm"], float)
    gap = (source - target[:, 0]) ** 2 + target[:, 1] ** 2
    noise = np.asarray(columns["noise"], float)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(gap == 0, 0.0, gap / (2 * noise**2))


def wasserstein_1(columns: Columns, seeds: Array) -> Array:
    """W_1 between `distance_samples` samples (x, y) of source and of target, shape (rows,); NaN at 0 samples.

    Euclidean ground metric on R^(dim+1), exact by optimal assignment. Rows with one seed share the inputs and the noise
    of both samples. In high dimension the value of finite samples is far above the distance between the distributions.
    """
    distance = np.full(len(seeds), np.nan)
    count = np.asarray(columns["distance_samples"])
    asked = np.flatnonzero(count > 0)
    if not len(asked):
        return distance
    target = target_coordinates(columns)
    fields = (seeds, columns["dim"], count, columns["source_norm"], columns["noise"], target[:, 0], target[:, 1])
    table = np.stack([np.asarray(values, float)[asked] for values in fields], axis=1)
    distinct, inverse = arrays.distinct(table)  # sorted, so rows of one draw are neighbours
    draw = functools.lru_cache(maxsize=1)(_Draw)
    values = np.array([_assignment(draw(int(seed), int(dim), int(size)), *maps) for seed, dim, size, *maps in distinct])
    distance[asked] = values[inverse]
    return distance


class _Draw:
    """Both samples of one draw, reduced to the arrays that all pairs of teachers need."""

    def __init__(self, seed: int, dim: int, size: int) -> None:
        from scipy.spatial.distance import cdist  # slow to load, and rarely needed

        directions = teacher_directions(seed, dim)
        inputs = [draws.normal(seed, f"{side} distance inputs", size, dim) for side in ("source", "target")]
        self.noise = [draws.normal(seed, f"{side} distance noise", size) for side in ("source", "target")]
        self.source = inputs[0] @ directions[0]
        self.target = inputs[1] @ directions.T
        self.squared = cdist(*inputs, metric="sqeuclidean")


def _assignment(draw: _Draw, source_norm: float, noise: float, along: float, across: float) -> float:
    from scipy.optimize import linear_sum_assignment

    source = source_norm * draw.source + noise * draw.noise[0]
    target = along * draw.target[:, 0] + across * draw.target[:, 1] + noise * draw.noise[1]
    cost = np.sqrt(draw.squared + (source[:, None] - target[None, :]) ** 2)
    rows, matched = linear_sum_assignment(cost)
    return float(cost[rows, matched].mean())
