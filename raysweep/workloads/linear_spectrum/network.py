"""Engine `network`: the real layers, perturbed and fine-tuned by full-batch gradient descent at finetune_lr.

pretrain_start exact: balanced layers in the exact state of gradient flow after pretrain_length. pretrain_start descent:
layers that start at init_scale·I and are trained by gradient descent for the flow time pretrain_length (inf: to
PRETRAIN_TOLERANCE). The step is PRETRAIN_STEP / (L σ^(2-2/L)), where σ is the largest mode on the way. The task's
singular vectors are the axes. That loses no generality: layers, perturbation and descent are the same in any other
basis. Modes that are exactly 0 then stay 0.

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
from raysweep.workloads.linear_spectrum.tasks import Tasks, diagonal, perturbed, product, tasks

Array = np.ndarray
TOLERANCE, AT_REST, STEP_CAP = 1e-8, 1e-13, 100_000
PRETRAIN_STEP, PRETRAIN_TOLERANCE, PRETRAIN_CAP = 0.005, 1e-10, 1_000_000
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
    """Row numbers that are trained together: equal dim, depth and kind of start; rows of one seed are neighbours."""
    kind = np.stack([columns["dim"], columns["depth"], columns["pretrain_start"] == "descent"], axis=1)
    order = np.lexsort((seeds, *kind.T))
    edges = np.flatnonzero((kind[order][1:] != kind[order][:-1]).any(1)) + 1
    for rows in np.split(order, edges):
        if len(rows):
            dim, depth = int(columns["dim"][rows[0]]), int(columns["depth"][rows[0]])
            size = max(1, int(_CHUNK_BYTES[device.type] // (8 * dim * dim * (3 * depth + 4))))
            yield from np.array_split(rows, -(-len(rows) // size))


def _chunk(columns: Columns, seeds: Array, device: torch.device) -> tuple[dict[str, Array], Array]:
    task = tasks(columns)
    start, status = diagonal(task.weights, int(task.depth[0])), np.zeros(len(seeds), dtype=int)
    if columns["pretrain_start"][0] == "descent":
        start, status = _pretrain(columns, task, device)
    source = task.source[:, :, None] * np.eye(task.source.shape[1])
    turns = zip(task.target, task.angle, strict=True)
    target = np.stack([spectrum.turned(values, float(angle)) for values, angle in turns])
    before = ((product(start) - source) ** 2).sum((1, 2))
    start = perturbed(start, task.noises, seeds)
    with np.errstate(over="ignore", invalid="ignore"):
        goal = modes.goal_modes(product(start), target, task.penalty[:, None, None])
    limits = (TOLERANCE, AT_REST, STEP_CAP)
    end, outcome = _descend(start, goal, (1 + task.penalty) * task.lr, task.steps, limits, device)
    status = np.maximum(status, outcome)
    with np.errstate(over="ignore", invalid="ignore"):
        metrics = measured(product(end), source, target, before)
    status[~np.isfinite(metrics["finetune_loss"])] = training.DIVERGED
    for values in metrics.values():
        values[status == training.DIVERGED] = np.nan
    return {"pretrain_loss": before, **metrics}, status


def _pretrain(columns: Columns, task: Tasks, device: torch.device) -> tuple[Array, Array]:
    """Layers (rows, L, d, d) after pretraining by gradient descent, and how each ended; equal rows are trained once."""
    scale, length = np.asarray(columns["init_scale"], float), np.asarray(columns["pretrain_length"], float)
    table = np.column_stack([scale, length, task.source])
    _, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    depth, dim = int(task.depth[0]), task.source.shape[1]
    scale, length, goal = scale[first], length[first], task.source[first]
    largest = np.maximum(goal.max(1), scale**depth)
    rate = PRETRAIN_STEP / (depth * largest ** (2 - 2 / depth))
    steps = np.ceil(length / rate)
    steps = np.where(steps > PRETRAIN_CAP, np.inf, steps)  # ends at convergence; not_converged if the steps run out
    counted = np.isfinite(steps) & (steps > 0)
    rate[counted] = length[counted] / steps[counted]
    start = diagonal(np.repeat(scale[:, None], dim, axis=1), depth)
    limits = (PRETRAIN_TOLERANCE, AT_REST, PRETRAIN_CAP)
    end, status = _descend(start, goal[:, :, None] * np.eye(dim), rate, steps, limits, device)
    return end[inverse.reshape(-1)], status[inverse.reshape(-1)]


def _descend(
    start: Array, goal: Array, lr: Array, steps: Array, limits: tuple[float, float, int], device: torch.device
) -> tuple[Array, Array]:
    parts = [torch.tensor(start[:, index], device=device) for index in range(start.shape[1])]
    goal_, lr_, steps_ = (torch.as_tensor(values, dtype=torch.float64, device=device) for values in (goal, lr, steps))
    status = training.descend(parts, goal_, lr_, steps_, *limits).cpu().numpy()
    return np.stack([part.cpu().numpy() for part in parts], axis=1), status
