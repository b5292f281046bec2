"""Measures of fine-tuned networks, with the bounds of D and T and the kernel's prediction."""

from dataclasses import dataclass

import numpy as np

from raysweep.theory import kernel_transfer, relu
from raysweep.workloads.declaration import Array, Columns
from raysweep.workloads.relu_kernel.tasks import SPHERE, Task

FAILURE = 0.05  # δ in T's theorems
Pair = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class EndPoints:
    """Where networks that start from one W(P) ended.

    start: f at W(0) on the source's and the target's samples.
    pretrained: f at W(P) on the target's and the test samples.
    test: f at W(Q) on the test samples, (rows, samples).
    distance: ‖W(Q) - W(P)‖_F, (rows,).
    """

    start: tuple[Array, Array]
    pretrained: tuple[Array, Array]
    test: Array
    distance: Array


class Kernel:
    """The kernel of a task's samples, with everything that its rows share computed once."""

    def __init__(self, task: Task) -> None:
        self.of_source, self.of_target = kernel_transfer.solver(task.source), kernel_transfer.solver(task.target)
        self.source_to_target = relu.slopes(task.target, task.source)
        self.source_to_test = relu.slopes(task.test, task.source)
        self.target_to_test = relu.slopes(task.test, task.target)
        self.smallest = float(np.linalg.eigvalsh(relu.slopes(task.target, task.target))[0])
        self.excess = kernel_transfer.mean_excess(task.source, task.target)

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


def all_of(
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
    rest = kernel_transfer.remainder(len(task.target), kernel.smallest, FAILURE)
    metrics = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    metrics["bound_cor63"] = _linear_bound(columns)
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


def _linear_bound(columns: Columns) -> Array:
    """6‖θ_T - θ_S‖/√n; NaN where labels are not linear maps without noise."""
    apart = 2 * np.sin(np.deg2rad(np.asarray(columns["overlap_angle"], float)) / 2)
    linear = (columns["data"] == SPHERE) & (np.asarray(columns["noise"], float) == 0)
    return np.where(linear, 6 * apart / np.sqrt(np.asarray(columns["target_samples"], float)), np.nan)
