"""What the workload measures: losses, accuracies, and what nets look like before and after fine-tuning."""

from collections.abc import Callable
from functools import partial

from raysweep.workloads.declaration import Metric
from raysweep.workloads.vision import tasks

_OF_TASK = ("source_classes", "source_samples", "label", "flip", "rotation", "overlap_angle")
_TUNING = ("finetune_lr", "finetune_steps", "frozen_layers")
_OF_PRETRAINING = (*_OF_TASK, "pretrain", "mask_ratio", "pretrain_length", "pretrain_lr", "frozen_layers")
Source, Tuned, Target = (partial(Metric, stage=name) for name in ("pretrain", "finetune", "evaluate"))
Before = partial(Target, free_of=(*_TUNING, "target_samples"))
Scratch = partial(Target, free_of=_OF_PRETRAINING)
Unmoved = partial(Metric, free_of=_TUNING)
Gain = partial(Target, direction="maximize", positive="pretraining helps", negative="pretraining hurts")
_SLOPE = "nats per filter length"
_ALONE, _NEW_HEAD = "of the target, trained on it alone", "of the target, its new head untrained"
_OLD_HEAD = "of the source after fine-tuning, by its own head"
_RIGHT, _ENTROPY = "correctly classified test images", "cross entropy on test images"
_ON_BOTH = (  # nets, before and after fine-tuning: {} is which
    ("sharpness", "nats", "largest eigenvalue of the loss's Hessian {}", ""),
    ("eigenvalue_mean", "nats", "mean of the `eigenvalues` largest eigenvalues {}", "mean of largest eigenvalues {}"),
    ("eigenvalues_unresolved", "", "how many of these are not known to 1 % {}", "number of unresolved eigenvalues {}"),
    ("hessian_trace", "nats", "trace of the Hessian {}, an estimate", "Hessian trace {}"),
    ("hessian_trace_error", "nats", "standard error of that estimate {}", "error of Hessian trace {}"),
    ("loss_variation", "nats", "largest change of the loss up to 0.1 gradients {}", "loss change along gradient {}"),
    ("gradient_scale", "", "size of the gradient at the first layer {} (D Fig. 7)", "first-layer gradient size {}"),
    ("gradient_spread", "", "largest over smallest size of a layer's gradient {}", "spread of layer gradients {}"),
    ("landscape_rise", "nats", "mean of the landscape {} minus its middle (D Fig. 3)", "mean rise of landscape {}"),
    ("landscape_slope", _SLOPE, "largest slope of the landscape {} (D Fig. 5)", "largest slope of landscape {}"),
)


def _accuracy(make: Callable[..., Metric], name: str, what: str, label: str) -> Metric:
    return make(name, f"share of {what}", direction="maximize", share=True, label=label)


def _loss(make: Callable[..., Metric], name: str, what: str, label: str) -> Metric:
    return make(name, f"mean {what}", unit="nats", direction="minimize", label=label)


def _on_both(make: Callable[..., Metric], when: str, words: str) -> list[Metric]:
    labels = {"sharpness_before": "sharpness at start of fine-tuning"}
    return [
        make(f"{name}{when}", what.format(words), unit, label=labels.get(f"{name}{when}", label.format(words)))
        for name, unit, what, label in _ON_BOTH
    ]


METRICS = (
    _accuracy(Target, "target_accuracy", f"{_RIGHT} of the target, fine-tuned", "target accuracy"),
    _loss(Target, "target_loss", f"{_ENTROPY} of the target, fine-tuned", "target loss"),
    Gain("transferability", "target_loss_scratch - target_loss; positive: pretraining helps", unit="nats"),
    Gain(
        "transferability_accuracy",
        "target_accuracy - target_accuracy_scratch; positive: pretraining helps",
        label="gain in target accuracy",
    ),
    _accuracy(Scratch, "target_accuracy_scratch", f"{_RIGHT} {_ALONE}", "target accuracy from scratch"),
    _loss(Scratch, "target_loss_scratch", f"{_ENTROPY} {_ALONE}", "target loss from scratch"),
    _accuracy(Before, "target_accuracy_before", f"{_RIGHT} {_NEW_HEAD}", "target accuracy with untrained head"),
    _loss(Before, "target_loss_before", f"{_ENTROPY} {_NEW_HEAD}", "target loss with untrained head"),
    _loss(Tuned, "target_training_loss", "loss of the last twentieth of fine-tuning", "target training loss"),
    _accuracy(Source, "source_accuracy", f"{_RIGHT} of the source", "accuracy on source after pretraining"),
    _loss(Source, "source_loss", f"{_ENTROPY} of the source", "loss on source after pretraining"),
    _loss(Source, "source_training_loss", "loss of the last epoch of pretraining", "source training loss"),
    Source(
        "reconstruction_loss",
        f"mean absolute error of masked pixels, which go from -1 to 1, on {tasks.HELD_OUT:,} test images of the "
        "source; NaN unless pretrained by reconstruction",
        direction="minimize",
        label="reconstruction loss",
    ),
    _accuracy(Target, "source_accuracy_after", f"{_RIGHT} {_OLD_HEAD}", "accuracy on source after fine-tuning"),
    _loss(Target, "source_loss_after", f"{_ENTROPY} {_OLD_HEAD}", "loss on source after fine-tuning"),
    Metric(
        "eigen_cam_peaks",
        "places of an image at which the last convolution answers most, by Eigen-CAM: their number, mean over "
        "eigen_cam_images",
        stage="examine",
        label="number of Eigen-CAM peaks",
    ),
    _accuracy(
        *(
            Target,
            "target_training_accuracy",
            "the target's correctly classified training images",
            "target training accuracy",
        )
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
    *_on_both(Unmoved, "_before", "before fine-tuning"),
    *_on_both(Metric, "", "after fine-tuning"),
)
