"""Engine `network`: the real layers, perturbed and fine-tuned by full-batch gradient descent at finetune_lr.

They start as balanced layers in the exact state of gradient flow after pretrain_length. The task's singular vectors are
the axes. That loses no generality: layers, perturbation and descent are the same in any other basis. Modes that are
exactly 0 then stay 0.

Fine-tuning takes finetune_steps steps. At .inf it takes as many as convergence needs; after STEP_CAP steps the row is
not_converged.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from raysweep.theory import modes, spectrum
from raysweep.training import devices
from raysweep.workloads.declaration import Columns
from raysweep.workloads.linear_spectrum import layers as training
from raysweep.workloads.linear_spectrum.engines import AFTER, WORDS, measured
from raysweep.workloads.linear_spectrum.tasks import diagonal, perturbed, product, tasks

Array = np.ndarray
TOLERANCE, AT_REST, STEP_CAP = 1e-8, 1e-13, 100_000
_CHUNK_BYTES = {"cpu": 32 << 20, "cuda": 8 << 30}  # size of the layers that are trained at once


def compute(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
    """pretrain_loss as trained and the losses after fine-tuning, shape (rows,) each, and the status.

    The losses of a diverged row are NaN.
    """
    device = devices.device()
    columns = {name: np.asarray(values) for name, values in columns.items()}
    metrics = {name: np.full(len(seeds), np.nan) for name in ("pretrain_loss", *AFTER)}
    status = np.zeros(len(seeds), dtype=int)
    for rows in _chunks(columns, seeds, device):
        part = {name: values[rows] for name, values in columns.items()}
        chunk_metrics, status[rows] = _chunk(part, seeds[rows], device)
        for name, values in chunk_metrics.items():
            metrics[name][rows] = values
    return metrics, WORDS[status]


def _chunks(columns: Columns, seeds: Array, device: torch.device) -> Iterator[Array]:
    """Row numbers that are trained together: equal dim and depth; rows of one seed are neighbours."""
    kind = np.stack([columns["dim"], columns["depth"]], axis=1)
    order = np.lexsort((seeds, *kind.T))
    edges = np.flatnonzero((kind[order][1:] != kind[order][:-1]).any(1)) + 1
    for rows in np.split(order, edges):
        if len(rows):
            dim, depth = int(columns["dim"][rows[0]]), int(columns["depth"][rows[0]])
            size = max(1, int(_CHUNK_BYTES[device.type] // (8 * dim * dim * (3 * depth + 4))))
            yield from np.array_split(rows, -(-len(rows) // size))


def _chunk(columns: Columns, seeds: Array, device: torch.device) -> tuple[dict[str, Array], Array]:
    task = tasks(columns)
    start = diagonal(task.weights, int(task.depth[0]))
    source = task.source[:, :, None] * np.eye(task.source.shape[1])
    turns = zip(task.target, task.angle, strict=True)
    target = np.stack([spectrum.turned(values, float(angle)) for values, angle in turns])
    before = ((product(start) - source) ** 2).sum((1, 2))
    start = perturbed(start, task.noises, seeds)
    with np.errstate(over="ignore", invalid="ignore"):
        goal = modes.goal_modes(product(start), target, task.penalty[:, None, None])
    parts = [torch.tensor(start[:, index], device=device) for index in range(start.shape[1])]
    given = (goal, (1 + task.penalty) * task.lr, task.steps)
    goal_, lr, steps = (torch.as_tensor(values, dtype=torch.float64, device=device) for values in given)
    status = training.descend(parts, goal_, lr, steps, TOLERANCE, AT_REST, STEP_CAP).cpu().numpy()
    end = np.stack([part.cpu().numpy() for part in parts], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        metrics = measured(product(end), source, target, before)
    status[~np.isfinite(metrics["finetune_loss"])] = training.DIVERGED
    for values in metrics.values():
        values[status == training.DIVERGED] = np.nan
    return {"pretrain_loss": before, **metrics}, status
