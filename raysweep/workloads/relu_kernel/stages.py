"""The stages: pretraining on the source, fine-tuning on the target, and what is measured then, with the bounds of D and
T and the kernel's prediction.

width = inf is the limit m → ∞ at the given init_scale: pretraining and fine-tuning end at closed forms that start from
one draw of the outputs at initialization, a Gaussian vector (`theory.relu`). Nothing is trained.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raysweep.theory import relu
from raysweep.theory.arrays import floats
from raysweep.training import devices, draws
from raysweep.workloads.declaration import DIVERGED, NOT_CONVERGED, OK, Array, Columns
from raysweep.workloads.relu_kernel import network, tasks
from raysweep.workloads.relu_kernel.tasks import SPHERE, Task
from raysweep.workloads.rows import Context, Result, Rows, Stacked

FAILURE = 0.05  # δ in T's theorems
Pair = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class EndPoints:
    """Where networks that start from one W(P) ended.

    start: f at W(0) on the source's and the target's samples.
    pretrained: f at W(P) on the target's and the test samples. test: f at W(Q) on the test samples, (rows, samples).
    distance: ‖W(Q) - W(P)‖_F, (rows,).
    """

    start: tuple[Array, Array]
    pretrained: tuple[Array, Array]
    test: Array
    distance: Array


class Kernel:
    """The kernel of a task's samples, with everything that its rows share computed once."""

    def __init__(self, task: Task) -> None:
        self.of_source, self.of_target = relu.solver(task.source), relu.solver(task.target)
        self.source_to_target = relu.slopes(task.target, task.source)
        self.source_to_test = relu.slopes(task.test, task.source)
        self.target_to_test = relu.slopes(task.test, task.target)
        self.smallest = float(np.linalg.eigvalsh(relu.slopes(task.target, task.target))[0])
        self.excess = relu.mean_excess(task.source, task.target)

    def length(self, residual: Array) -> float:
        """√(rᵀ H_Q⁻¹ r)."""
        return float(np.sqrt(residual @ self.of_target(residual)))

    def pretrained(self, task: Task, start: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        """Outputs on the target's and the test samples after pretraining from outputs on source, target and test."""
        weights = self.of_source(task.source_labels - start[0])
        return start[1] + self.source_to_target @ weights, start[2] + self.source_to_test @ weights

    def finetuned(self, residual: Array) -> Array:
        """What fitting this residual on the target's samples adds to the outputs on the test samples."""
        return np.asarray(self.target_to_test @ self.of_target(residual))


def pretrain(rows: Rows, parent: None, context: Context) -> Result:
    """W(P) of one network, (width, dim)."""
    row = rows.row()
    if np.isinf(row["width"]):
        return Result(metrics={"pretrain_steps": np.nan})
    inputs, (labels, _) = tasks.part(row, "source")
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
    limit = np.isinf(row["width"])
    ends = _in_the_limit(row, task, kernel, labels[0]) if limit else _as_trained(row, task, parent)
    return Result(metrics=_all_of(task, kernel, ends, labels, rows.columns))


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
    outputs = row["init_scale"] * relu.outputs_at_start(everything, normal)
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


def _all_of(
    task: Task, kernel: Kernel, end_points: EndPoints, labels: tuple[Array, Array], columns: Columns
) -> dict[str, Array]:
    """The metrics of the stage `evaluate`, (rows,) each.

    labels: of the target's and the test samples, (rows, samples) each.
    columns: the parameters of the rows, which agree in all but angle and noise.

    Rows go one by one, so that each comes out the same in any company.
    """
    at_rest = np.zeros(len(task.test))
    from_zero = kernel.pretrained(task, (np.zeros(len(task.source)), np.zeros(len(task.target)), at_rest))
    from_start = kernel.pretrained(task, (*end_points.start, at_rest))[0]
    given = (kernel, end_points, from_zero, from_start, float(columns["init_scale"][0]))
    rows = [_of_row(*given, index, *some) for index, some in enumerate(zip(*labels, strict=True))]
    rest = relu.remainder(len(task.target), kernel.smallest, FAILURE)
    metrics = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    # 6‖θ_T - θ_S‖/√n; NaN where labels are not linear maps without noise
    angle, noise, samples = floats(columns, "overlap_angle", "noise", "target_samples")
    bound = 12 * np.sin(np.deg2rad(angle) / 2) / np.sqrt(samples)
    metrics["bound_cor63"] = np.where((columns["data"] == SPHERE) & (noise == 0), bound, np.nan)
    return {
        **metrics,
        "bound_rest": np.full(len(rows), rest),
        "whole_bound_thm61": metrics["bound_thm61"] + rest,
        "whole_bound_cor63": metrics["bound_cor63"] + rest,
        "smallest_eigenvalue": np.full(len(rows), kernel.smallest),
    }


def _of_row(
    kernel: Kernel, ends: EndPoints, zero: Pair, from_start: Array, scale: float, index: int, target: Array, test: Array
) -> dict[str, float]:
    """zero: what pretraining from f = 0 gives on the target's and the test samples."""
    (before, before_test), distance, carried = ends.pretrained, ends.distance[index], zero[0]
    bound, expected = kernel.length(target - carried), kernel.length(target - before)

    def squared(outputs: Array) -> float:
        """‖∂L/∂X¹‖². As a_r = ±1, it is ‖f - y‖² (D eq. 16 and 17)."""
        return float((outputs - target) @ (outputs - target))

    def risk(outputs: Array) -> float:
        """The mean of min(1, |f - y|), the largest loss that T Thm 6.1 allows."""
        return float(np.minimum(np.abs(outputs - test), 1).mean())

    start, length = squared(ends.start[1]), float(target @ target)
    change, formula = squared(before) - start, squared(carried) - length
    by_kernel = before_test + kernel.finetuned(target - before)
    return {
        "deviation": distance,
        "bound_thm2": bound,
        "excess_thm2": distance / bound - 1,
        "deviation_limit": float(np.sqrt(bound**2 + scale**2 * kernel.excess[0])),
        "deviation_error": abs(distance / expected - 1),
        "bound_thm61": 2 * expected / np.sqrt(len(target)),
        "gradient_change": change,
        "gradient_change_thm1": formula,
        "gradient_change_limit": formula + scale**2 * kernel.excess[1],
        "gradient_error": abs(change - (squared(from_start) - start)) / length,
        "risk": risk(ends.test[index]),
        "risk_pretrained": risk(before_test),
        "risk_kernel": risk(zero[1] + kernel.finetuned(target - carried)),
        "output_error": float(np.sqrt(((ends.test[index] - by_kernel) ** 2).mean() / (test**2).mean())),
    }
