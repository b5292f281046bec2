"""Exact end points on a few images of the target, what predicts their error, and what both cost; without SciPy."""

import numpy as np

from raysweep.theory import covariance
from raysweep.training import draws
from raysweep.workloads import image_data
from raysweep.workloads.declaration import OK, Array, Columns, Cost
from raysweep.workloads.image_regression import METRICS
from raysweep.workloads.image_regression.tasks import Moments, labelled, moments, pair_of

_FLOPS = 2e10
TOP = 2
"""m of T's bound in Table 1."""


def compute(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
    """All metrics of all rows, shape (rows,) each, and the status of each row, which is always ok."""
    metrics = {metric.name: np.empty(len(seeds)) for metric in METRICS}
    names = ("data", "pair", "target_samples", "pretrain_length", "repeats")
    for row, given in enumerate(zip(*(np.asarray(columns[name]).tolist() for name in names), strict=True)):
        for name, value in row_of(int(seeds[row]), *given).items():
            metrics[name][row] = value
    return metrics, np.full(len(seeds), OK, dtype=object)


def row_of(seed: int, name: str, pair: str, samples: int, pretrain_length: float, repeats: int) -> dict[str, float]:
    data, (source, target) = image_data.load(name), pair_of(pair)
    first, second = (moments(name, data.digest, classes) for classes in (source, target))
    size = len(first.best)
    start = draws.generator(seed, "source start").uniform(-1, 1, size) / np.sqrt(size)
    theta = first.directions @ first.trained(start, pretrain_length)
    pixels, labels = labelled(data.train.select(target), target, data.white)
    chosen = choice(seed, pair, len(labels), samples, repeats)
    inverse = np.linalg.pinv(pixels[chosen], rcond=max(samples, size) * np.finfo(float).eps)
    targets = labels[chosen][:, :, None]
    maps = {
        "scratch": inverse @ targets,
        "finetune": theta[:, None] + inverse @ (targets - pixels[chosen] @ theta[:, None]),
    }
    tested, truth = labelled(data.test.select(target), target, data.white)
    metrics = {}
    for method, each in maps.items():
        margins = truth[:, None] * (tested @ each[:, :, 0].T)
        metrics[f"error_{method}"] = float((margins <= 0).mean())
        metrics[f"loss_{method}"] = float(((margins - 1) ** 2).mean())
    metrics["transferability_finetune"] = metrics["error_scratch"] - metrics["error_finetune"]
    return {**metrics, **predictors(second, theta, samples, pretrain_length)}


def choice(seed: int, pair: str, available: int, samples: int, repeats: int) -> Array:
    """The training images of each repeat, int (repeats, samples); those of fewer samples come first among more."""
    generators = (draws.generator(seed, f"target images {pair} {repeat}") for repeat in range(repeats))
    return np.stack([generator.permutation(available)[:samples] for generator in generators])


def predictors(target: Moments, source: Array, samples: int, pretrain_length: float) -> dict[str, float]:
    """Predictions of the error, before any image of the target is drawn.

    source: θ_S, (pixels,). The bounds take the θ_T that is trained as long as θ_S, from 0. The equivalent takes the
    best one: what that does not fit is uncorrelated with the pixels, as noise is.
    """
    inside = target.directions.T @ source
    trained = target.trained(np.zeros(len(source)), pretrain_length)
    values, ones, n = target.eigenvalues, np.ones(len(source)), np.array([float(samples)])
    difference = (trained - inside)[None] ** 2
    seen = values > 0
    best, missed = (target.best[None, seen] ** 2, (target.best - inside)[None, seen] ** 2)

    def equivalent(difference: Array) -> float:
        risk = covariance.risk(values[seen], ones[seen], n, np.array([target.noise]), 0 * best, best, difference)
        return float(risk[0]) + target.noise**2

    return {
        "distance_squared": float(difference.sum()),
        # Bartlett, Long, Lugosi & Tsigler (2020), Thm 4, for θ_T - θ_S instead of θ* and without noise; constant 1
        "bound_distance": float((covariance.spread(values, ones, n) * difference.sum(1))[0]),
        "bound_thm42": float(covariance.bound(values, ones, n, difference, groups=TOP)[0]),
        "equivalent_scratch": equivalent(best),
        "equivalent_finetune": equivalent(missed),
    }


def of_rows(columns: Columns) -> Cost:
    """Seconds and peak bytes of all rows of one draw, which share data and pair.

    As measured on one core of a 2-core x86 machine (float64, one BLAS thread), within a factor of 2.
    """
    data = image_data.planned(str(columns["data"][0]))
    trained, tested = (2 * len(part.labels) / len(data.classes) for part in (data.train, data.test))
    size = float(np.prod(data.train.pixels.shape[1:]))
    samples, repeats = (np.asarray(columns[name], float) for name in ("target_samples", "repeats"))
    few = np.minimum(samples, size)
    drawn = repeats * (3e-5 + 2e-8 * trained + (14 * few**2 * np.maximum(samples, size) + 4 * tested * size) / _FLOPS)
    # a process keeps the factorizations of both tasks for other seeds and other pairs of them: a fourth is counted
    tasks = 0.25 * 2 * (2 * trained * size**2 + 8 * size**3) / _FLOPS
    stored = 2 * 8 * size * (2 * size + 2 * trained) + 4 * 8 * float((repeats * samples).max()) * size
    read = 2 * float(data.train.pixels.nbytes + data.test.pixels.nbytes)
    rows = 1e-3 + (trained + tested) * size * 1.5e-9
    return Cost(tasks + float((drawn + rows).sum()), 1e6 + read + stored + 64 * 8 * size**2)
