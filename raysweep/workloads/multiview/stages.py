"""The stages: from scratch, mask-reconstruction pretraining, fine-tuning, and the errors of what came out."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raysweep.workloads.declaration import DIVERGED, OK, Array
from raysweep.workloads.multiview import TEACHER_STUDENT, network, tasks
from raysweep.workloads.multiview.network import Activation
from raysweep.workloads.rows import Artifact, Context, Result, Rows

Row = dict[str, Any]
ERRORS = "error", "error_multi_view", "error_single_view", "train_error"
LOOKS = 8  # how often a training from scratch looks at its test errors on the way, for the learning curve


def scratch(rows: Rows, parent: None, context: Context) -> Result:
    """Kernels trained on labels alone, (kernels · classes, dim)."""
    row = rows.row()
    kernels, activation = _sent(tasks.initial(row), context), _activation(row)
    head = network.class_head(len(kernels), int(row["classes"]), kernels)
    inputs, labels = _task(row, "training", int(row["target_samples"]), context)
    tests = _tests(row, context)
    steps = int(row["finetune_steps"])
    looks = {steps * look // LOOKS for look in range(1, LOOKS + 1)}
    for step in range(1, steps + 1):
        loss, by_kernels, _ = network.classifier(inputs, labels, kernels, head, activation)
        kernels = kernels + row["scratch_lr"] * by_kernels
        if step in looks:
            errors = [network.wrong(*test, kernels, head, activation) for test in tests]
            context.log(step, loss=loss, test_error_multi_view=errors[0], test_error_single_view=errors[1])
    metrics = _errors(row, [*tests, (inputs, labels)], (kernels, head), "_scratch")
    metrics["features_captured_scratch"] = captured_by_class(row, kernels.cpu().numpy())
    return Result({"kernels": kernels}, metrics, _status(kernels))


def pretrain(rows: Rows, parent: Artifact, context: Context) -> Result:
    """Kernels after `context.point` steps of pretraining, (kernels · classes, dim)."""
    row, point, before = rows.row(), int(context.point or 0), int(context.before)
    start, activation = tasks.initial(row), _activation(row)
    kernels = _sent(parent.tensors()["kernels"], context) if point else _sent(start, context)
    if point > before:
        keep = 1 - row["mask_ratio"]
        inputs, _ = _task(row, "pretraining", int(row["samples"]), context)
        for step in range(before, point):
            if row["framework"] == TEACHER_STUDENT:
                teacher = 1 + (1 - keep) / (row["feature_patches"] * keep) + 1 / (step + 1)
                down = network.teacher_student(inputs, kernels, activation, keep, teacher)
            else:
                down = network.autoencoder(inputs, kernels, activation, keep)
            kernels = kernels + row["pretrain_lr"] * down
    return Result({"kernels": kernels}, captured(row, kernels.cpu().numpy(), start), _status(kernels))


def finetune(rows: Rows, parent: Artifact, context: Context) -> Result:
    row, activation = rows.row(), _activation(rows.row())
    kernels = _sent(parent.tensors()["kernels"], context)
    head = kernels.new_zeros(int(row["classes"]), len(kernels))
    inputs, labels = _task(row, "training", int(row["target_samples"]), context)
    rate = float(row["finetune_lr"])
    for _ in range(int(row["finetune_steps"])):
        _, by_kernels, by_head = network.classifier(inputs, labels, kernels, head, activation)
        kernels, head = kernels + rate * row["kernel_lr_share"] * by_kernels, head + rate * by_head
    return Result({"kernels": kernels, "head": head}, {}, _status(kernels, head))


def evaluate(rows: Rows, parent: Artifact, context: Context) -> Result:
    """Errors of the fine-tuned network, against those of the one from scratch."""
    row = rows.row()
    kernels, head = (_sent(parent.tensors()[name], context) for name in ("kernels", "head"))
    training = _task(row, "training", int(row["target_samples"]), context)
    metrics = _errors(row, [*_tests(row, context), training], (kernels, head))
    from_scratch: Any = parent
    while "error_scratch" not in from_scratch.metrics:  # the first stage of the chain has it
        from_scratch = from_scratch.parent
    metrics["transferability"] = from_scratch.metrics["error_scratch"] - metrics["error"]
    return Result(metrics=metrics, status=_status(kernels, head))


def _activation(row: Row) -> Activation:
    return Activation(int(row["power"]), float(row["threshold"]))


def _task(row: Row, role: str, count: int, context: Context, single: bool | None = None) -> tuple[Tensor, Tensor]:
    drawn = tasks.samples(row, role, count, single)
    return _sent(drawn.inputs, context), torch.as_tensor(drawn.labels).to(context.device)


def _tests(row: Row, context: Context) -> list[tuple[Tensor, Tensor]]:
    """Multi-view and single-view test samples: each kind has its own, whatever its share."""
    kinds = (("multi-view test", False), ("single-view test", True))
    return [_task(row, role, tasks.TEST, context, single) for role, single in kinds]


def _errors(
    row: Row, samples: Iterable[tuple[Tensor, Tensor]], trained: tuple[Tensor, Tensor], end: str = ""
) -> dict[str, float]:
    """On multi-view and single-view test samples, training samples, and all data, of which single_view_fraction is
    single-view. trained: kernels and head. end: of the names."""
    kernels, head = trained
    multi, single, training = (network.wrong(*some, kernels, head, _activation(row)) for some in samples)
    share = float(row["single_view_fraction"])
    values = ((1 - share) * multi + share * single, multi, single, training)
    return {f"{name}{end}": value for name, value in zip(ERRORS, values, strict=True)}


def _sent(values: Any, context: Context) -> Tensor:
    """In float32 on the device."""
    return torch.as_tensor(values, dtype=torch.float32).to(context.device)


def _status(*tensors: Tensor) -> str:
    return OK if all(bool(torch.isfinite(each).all()) for each in tensors) else DIVERGED


def captured(row: Mapping[str, Any], kernels: Array, start: Array) -> dict[str, float]:
    """The metrics of pretrained kernels. kernels, start: (kernels, dim), now and before training."""
    features, threshold = 2 * int(row["classes"]), float(row["threshold"])
    weights, before = kernels[:, :features], start[:, :features]
    largest = weights.max(0)
    held = (weights >= threshold).sum(1)
    second = np.sort(weights, axis=1)[:, -2]
    # M^(0): kernels near the largest weight at the start; where no weight is positive nobody can win
    most = before.max(0)
    in_time = (before >= most * (1 - 1 / math.log(row["classes"]))) & (before > 0)
    won = in_time[weights.argmax(0), np.arange(features)][largest >= threshold]
    return {
        "features_captured": share(largest >= threshold),
        "features_captured_half": share(largest >= threshold / 2),
        "features_captured_double": share(largest >= 2 * threshold),
        "features_per_kernel": share(held[held > 0]),
        "most_features": float(held.max()),
        "correlation": float(np.maximum(largest, 0).mean()),
        "second_correlation": float(second.max() / row["init_scale"]),
        "winners": share(won),
    }


def captured_by_class(row: Mapping[str, Any], kernels: Array) -> float:
    """The share of features that some kernel of their own class captures, kernel r being one of class r % classes."""
    classes, threshold = int(row["classes"]), float(row["threshold"])
    weights = kernels[:, : 2 * classes].reshape(-1, classes, classes, 2)  # group, kernel's class, feature's class, view
    matching = weights[:, np.arange(classes), np.arange(classes)]
    return share(matching.max(0) >= threshold)


def share(values: Array) -> float:
    """The mean; NaN of nothing."""
    return float(values.mean()) if len(values) else math.nan
