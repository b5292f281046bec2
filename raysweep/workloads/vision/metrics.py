"""What the workload measures: losses, accuracies, and what nets look like before and after fine-tuning."""

from __future__ import annotations

from functools import partial
from typing import Any

from raysweep.workloads.declaration import Metric
from raysweep.workloads.vision import tasks

_OF_TASK = ("source_classes", "source_samples", "label", "flip", "rotation", "overlap_angle")
_TUNING = ("finetune_lr", "finetune_steps", "frozen_layers")
_OF_PRETRAINING = (*_OF_TASK, "pretrain", "mask_ratio", "pretrain_length", "pretrain_lr", "frozen_layers")
Source, Target = (partial(Metric, stage=name) for name in ("pretrain", "evaluate"))
Before = partial(Target, free_of=(*_TUNING, "target_samples"))
Scratch = partial(Target, free_of=_OF_PRETRAINING)
Unmoved = partial(Metric, free_of=_TUNING)
HELPS: dict[str, Any] = {"positive": "pretraining helps", "negative": "pretraining hurts"}
LOSS: dict[str, Any] = {"unit": "nats", "direction": "minimize"}
ACCURACY: dict[str, Any] = {"direction": "maximize", "share": True}
_LOSS, _ACCURACY = "mean cross entropy on test images", "share of test images named right"

METRICS = (
    Target("target_accuracy", f"{_ACCURACY} of the target, fine-tuned", **ACCURACY, label="target accuracy"),
    Target("target_loss", f"{_LOSS} of the target, fine-tuned", **LOSS, label="target loss"),
    Target(
        "transferability",
        "target_loss_scratch - target_loss; positive: pretraining helps",
        unit="nats",
        direction="maximize",
        **HELPS,
    ),
    Target(
        "transferability_accuracy",
        "target_accuracy - target_accuracy_scratch; positive: pretraining helps",
        direction="maximize",
        **HELPS,
        label="gain in target accuracy",
    ),
    Scratch(
        "target_accuracy_scratch",
        f"{_ACCURACY} of the target, trained on it alone",
        **ACCURACY,
        label="target accuracy from scratch",
    ),
    Scratch(
        "target_loss_scratch", f"{_LOSS} of the target, trained on it alone", **LOSS, label="target loss from scratch"
    ),
    Before(
        "target_accuracy_before",
        f"{_ACCURACY} of the target, its new head untrained",
        **ACCURACY,
        label="target accuracy with untrained head",
    ),
    Before(
        "target_loss_before",
        f"{_LOSS} of the target, its new head untrained",
        **LOSS,
        label="target loss with untrained head",
    ),
    Metric(
        "target_training_loss",
        "mean loss of the last twentieth of fine-tuning",
        **LOSS,
        stage="finetune",
        label="target training loss",
    ),
    Source(
        "source_accuracy",
        f"{_ACCURACY} of the source, pretrained",
        **ACCURACY,
        label="accuracy on source after pretraining",
    ),
    Source("source_loss", f"{_LOSS} of the source, pretrained", **LOSS, label="loss on source after pretraining"),
    Source("source_training_loss", "mean loss of the last epoch of pretraining", **LOSS, label="source training loss"),
    Source(
        "reconstruction_loss",
        f"mean absolute error of masked pixels, which go from -1 to 1, on {tasks.HELD_OUT:,} test images of the "
        "source; NaN unless pretrained by reconstruction",
        direction="minimize",
        label="reconstruction loss",
    ),
    Target(
        "source_accuracy_after",
        f"{_ACCURACY} of the source after fine-tuning, by the source's head",
        **ACCURACY,
        label="accuracy on source after fine-tuning",
    ),
    Target(
        "source_loss_after",
        f"{_LOSS} of the source after fine-tuning, by its head",
        **LOSS,
        label="loss on source after fine-tuning",
    ),
    Metric(
        "eigen_cam_peaks",
        "places of an image at which the last convolution answers most, by Eigen-CAM: their number, mean over "
        "eigen_cam_images",
        stage="examine",
        label="number of Eigen-CAM peaks",
    ),
    Target(
        "target_training_accuracy",
        "share of the target's training images named right",
        **ACCURACY,
        label="target training accuracy",
    ),
    Target(
        "generalization_error",
        "target_training_accuracy - target_accuracy",
        direction="minimize",
        label="generalization error",
    ),
    Target(
        "deviation",
        "sum over layers of ‖W - W0‖_F / √n: how far fine-tuning moved the weights, n being the target's images "
        "(D Table 1)",
    ),
    Target("deviation_head", "the same of the last layer alone", label="deviation of last layer"),
    *(
        make(f"{name}{when}", description.format(words), unit, label=label.format(words))
        for make, when, words in ((Unmoved, "_before", "before fine-tuning"), (Metric, "", "after fine-tuning"))
        for name, unit, description, label in (
            (
                "sharpness",
                "nats",
                "largest eigenvalue of the loss's Hessian {}",
                "sharpness at start of fine-tuning" if when else "",
            ),
            (
                "eigenvalue_mean",
                "nats",
                "mean of the `eigenvalues` largest eigenvalues {}",
                "mean of largest eigenvalues {}",
            ),
            (
                "eigenvalues_unresolved",
                "",
                "how many of these are not known to 1 % {}",
                "number of unresolved eigenvalues {}",
            ),
            ("hessian_trace", "nats", "trace of the Hessian {}, an estimate", "Hessian trace {}"),
            ("hessian_trace_error", "nats", "standard error of hessian_trace" + when, "error of Hessian trace {}"),
            (
                "loss_variation",
                "nats",
                "largest change of the loss up to 0.1 gradients {}",
                "loss change along gradient {}",
            ),
            (
                "gradient_scale",
                "",
                "size of the loss's gradient at the first layer {} (D Fig. 7)",
                "first-layer gradient size {}",
            ),
            (
                "gradient_spread",
                "",
                "largest over smallest size of the gradient at a layer {}",
                "spread of layer gradients {}",
            ),
            (
                "landscape_rise",
                "nats",
                "mean of the loss over the landscape {} minus that in its middle (D Fig. 3)",
                "mean rise of landscape {}",
            ),
            (
                "landscape_slope",
                "nats per filter length",
                "largest slope between points of the landscape {} (D Fig. 5)",
                "largest slope of landscape {}",
            ),
        )
    ),
)
