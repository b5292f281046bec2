"""What is measured of a fine-tuned network, beside the bounds of D and T and the kernel's prediction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raysweep.theory import kernel_transfer, relu
from raysweep.workloads.declaration import Columns
from raysweep.workloads.relu_kernel import tasks
from raysweep.workloads.relu_kernel.tasks import Task

Array = np.ndarray
FAILURE = 0.05  # δ in T's theorems


@dataclass(frozen=True, eq=False)
class Ends:
    """Where networks ended that start from one W(P).

    start_source, start_target: f at W(0), (samples,).
    pretrained_target, pretrained_test: f at W(P), (samples,).
    test: f at W(Q), (rows, samples).
    moved: ‖W(Q) - W(P)‖_F, (rows,).
    """

    start_source: Array
    start_target: Array
    pretrained_target: Array
    pretrained_test: Array
    test: Array
    moved: Array


def all_of(task: Task, ends: Ends, target: Array, test: Array, columns: Columns) -> dict[str, Array]:
    """The metrics of the stage `evaluate`, (rows,) each.

    target, test: labels, (rows, samples).
    columns: the parameters of the rows, which agree in all but angle and noise.
    """
    count = len(target)
    same = np.ones(count)
    return {
        **_weights(task, ends, target, float(columns["init_scale"][0])),
        **_gradients(task, ends, target, float(columns["init_scale"][0])),
        **_risks(task, ends, target, test),
        **{name: value * same for name, value in _rest(task).items()},
        "bound_cor63": _linear_bound(columns),
    }


def _weights(task: Task, ends: Ends, target: Array, scale: float) -> dict[str, Array]:
    """D Thm 2: how far the weights moved."""
    carried = kernel_transfer.carried(task.source, task.source_labels, task.target)
    bound = kernel_transfer.length_squared(task.target, (target - carried).T)
    own = np.sqrt(kernel_transfer.length_squared(task.target, (target - ends.pretrained_target).T))
    more, _ = kernel_transfer.mean_excess(task.source, task.target)
    return {
        "deviation": ends.moved,
        "bound_thm2": np.sqrt(bound),
        "deviation_limit": np.sqrt(bound + scale**2 * more),
        "deviation_error": np.abs(ends.moved / own - 1),
        "bound_thm61": 2 * own / np.sqrt(target.shape[1]),
    }


def _gradients(task: Task, ends: Ends, target: Array, scale: float) -> dict[str, Array]:
    """D Thm 1: what pretraining does to ‖∂L/∂X¹‖². As a_r = ±1, it is ‖f - y‖² (D eq. 16 and 17)."""

    def squared(outputs: Array) -> Array:
        return np.asarray(((outputs - target) ** 2).sum(1))

    start, labels = squared(ends.start_target), squared(np.zeros_like(ends.start_target))
    carried = kernel_transfer.carried(task.source, task.source_labels, task.target)
    own = ends.start_target + kernel_transfer.carried(task.source, task.source_labels - ends.start_source, task.target)
    _, more = kernel_transfer.mean_excess(task.source, task.target)
    change, formula = squared(ends.pretrained_target) - start, squared(carried) - labels
    return {
        "gradient_change": change,
        "gradient_change_thm1": formula,
        "gradient_change_limit": formula + scale**2 * more,
        "gradient_error": np.abs(change - (squared(own) - start)) / labels,
    }


def _risks(task: Task, ends: Ends, target: Array, test: Array) -> dict[str, Array]:
    """T Thm 6.1: the mean of min(1, |f - y|), the largest loss that it allows."""

    def risk(outputs: Array) -> Array:
        return np.asarray(np.minimum(np.abs(outputs - test), 1).mean(1))

    def fitted(start: Array, start_test: Array) -> Array:
        return np.asarray(start_test + kernel_transfer.carried(task.target, (target - start).T, task.test).T)

    carried, carried_test = (
        kernel_transfer.carried(task.source, task.source_labels, inputs) for inputs in (task.target, task.test)
    )
    expected = fitted(ends.pretrained_target, ends.pretrained_test)
    return {
        "risk": risk(ends.test),
        "risk_pretrained": risk(ends.pretrained_test),
        "risk_kernel": risk(fitted(carried, carried_test)),
        "output_error": np.sqrt(((ends.test - expected) ** 2).mean(1) / (test**2).mean(1)),
    }


def _rest(task: Task) -> dict[str, float]:
    smallest = float(np.linalg.eigvalsh(relu.slopes(task.target, task.target))[0])
    return {
        "smallest_eigenvalue": smallest,
        "bound_rest": kernel_transfer.remainder(len(task.target), smallest, FAILURE),
    }


def _linear_bound(columns: Columns) -> Array:
    """6‖θ_T - θ_S‖/√n; NaN where labels are not linear maps without noise."""
    apart = 2 * np.sin(np.deg2rad(np.asarray(columns["overlap_angle"], float)) / 2)
    linear = (columns["data"] == tasks.SPHERE) & (np.asarray(columns["noise"], float) == 0)
    return np.where(linear, 6 * apart / np.sqrt(np.asarray(columns["target_samples"], float)), np.nan)
