"""The stages: pretraining on the source, fine-tuning on the target, and what is measured then.

width = inf is the limit m → ∞ at the given init_scale: pretraining and fine-tuning end at closed forms that start from
one draw of the outputs at initialization, a Gaussian vector (`theory.kernel_transfer`). Nothing is trained.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from raysweep.theory import kernel_transfer, relu
from raysweep.training import devices, draws
from raysweep.workloads.declaration import DIVERGED, NOT_CONVERGED, OK, Array
from raysweep.workloads.relu_kernel import measures, network, tasks
from raysweep.workloads.relu_kernel.measures import EndPoints, Kernel
from raysweep.workloads.relu_kernel.tasks import Task
from raysweep.workloads.rows import Context, Result, Rows, Stacked


def pretrain(rows: Rows, parent: None, context: Context) -> Result:
    """W(P) of one network, (width, dim)."""
    row = rows.row()
    if np.isinf(row["width"]):
        return Result(metrics={"pretrain_steps": np.nan})
    inputs, labels = tasks.source_of(row)
    start, signs = _initial(row)
    weights, steps, left = network.trained(start, signs, _sent(inputs), _sent(labels[None]), _lr(row, inputs))
    return Result({"weights": weights[0]}, {"pretrain_steps": steps[0]}, _status(left)[0])


def finetune(rows: Rows, parent: Any, context: Context) -> Result:
    """W(Q) of networks that start from one W(P), (rows, width, dim)."""
    row = rows.row()
    if np.isinf(row["width"]):
        return Result(metrics={"steps": np.full(len(rows), np.nan)})
    task = tasks.of_row(row)
    labels, _ = task.labels(rows["overlap_angle"], rows["noise"])
    weights, signs = _sent(parent.tensors()["weights"]), _sent(network.signs(row["seed"], int(row["width"])))
    tuned, steps, left = network.trained(weights, signs, _sent(task.target), _sent(labels), _lr(row, task.target))
    return Result({"weights": tuned}, {"steps": steps.astype(float)}, _status(left))


def evaluate(rows: Rows, parent: Stacked, context: Context) -> Result:
    """All metrics of networks that start from one W(P)."""
    row = rows.row()
    task = tasks.of_row(row)
    kernel, labels = Kernel(task), task.labels(rows["overlap_angle"], rows["noise"])
    end_points = (
        _in_the_limit(row, task, kernel, labels[0]) if np.isinf(row["width"]) else _as_trained(row, task, parent)
    )
    return Result(metrics=measures.all_of(task, kernel, end_points, labels, rows.columns))


def _as_trained(row: dict[str, Any], task: Task, parent: Stacked) -> EndPoints:
    start, signs = _initial(row)
    pretrained, finetuned = (_sent(each.tensors()["weights"]) for each in (parent.common_parent(), parent))

    def outputs(weights: Tensor, inputs: Array) -> Array:
        return np.asarray(network.outputs(weights, signs, _sent(inputs)).cpu().numpy())

    return EndPoints(
        start=(outputs(start, task.source), outputs(start, task.target)),
        pretrained=(outputs(pretrained, task.target), outputs(pretrained, task.test)),
        test=np.stack([outputs(weights, task.test) for weights in finetuned]),
        distance=np.array([float((weights - pretrained).norm()) for weights in finetuned]),
    )


def _in_the_limit(row: dict[str, Any], task: Task, kernel: Kernel, labels: Array) -> EndPoints:
    parts = task.source, task.target, task.test
    everything = np.concatenate(parts)
    normal = draws.normal(row["seed"], "outputs at initialization", len(everything))
    outputs = row["init_scale"] * kernel_transfer.outputs_at_start(everything, normal)
    source, target, test = np.split(outputs, np.cumsum([len(part) for part in parts])[:-1])
    pretrained = kernel.pretrained(task, (source, target, test))
    residuals = labels - pretrained[0]
    return EndPoints(
        start=(source, target),
        pretrained=pretrained,
        test=np.stack([pretrained[1] + kernel.finetuned(residual) for residual in residuals]),
        distance=np.array([kernel.length(residual) for residual in residuals]),
    )


def _initial(row: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """W(0) and a, on the device."""
    seed, width = int(row["seed"]), int(row["width"])
    weights = network.initial(seed, width, tasks.dimension(row), row["init_scale"])
    return _sent(weights), _sent(network.signs(seed, width))


def _lr(row: dict[str, Any], inputs: Array) -> float:
    """The rate of gradient descent: `rate` over the largest eigenvalue of H∞."""
    return float(row["rate"] / np.linalg.eigvalsh(relu.slopes(inputs, inputs))[-1])


def _sent(values: Array | Tensor) -> Tensor:
    """In float64 on the device."""
    return torch.as_tensor(values, dtype=torch.float64).to(devices.device())


def _status(left: Array) -> Array:
    """The status of each network by the share of its labels that is left."""
    words = np.where(left <= network.TOLERANCE, OK, NOT_CONVERGED).astype(object)
    return np.where(np.isfinite(left), words, DIVERGED)
