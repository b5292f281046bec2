"""What the workload measures: losses, accuracies, and what nets look like before and after fine-tuning."""

from __future__ import annotations

from functools import partial

from raysweep.workloads.declaration import Metric
from raysweep.workloads.vision import tasks

_OF_TASK = ("source_classes", "source_samples", "label", "flip", "rotation", "overlap_angle")
Source = partial(Metric, stage="pretrain")
Before = partial(Metric, free_of=("finetune_lr", "finetune_steps", "frozen_layers", "target_samples"))
Scratch = partial(
    Metric, free_of=(*_OF_TASK, "pretrain", "mask_ratio", "pretrain_length", "pretrain_lr", "frozen_layers")
)
Unmoved = partial(Metric, free_of=("finetune_lr", "finetune_steps", "frozen_layers"))
LOSS, ACCURACY = "mean cross entropy on test images", "share of test images named right"

METRICS = (
    Metric(
        "target_accuracy",
        f"{ACCURACY} of the target, fine-tuned",
        direction="maximize",
        stage="evaluate",
        label="target accuracy",
        share=True,
    ),
    Metric("target_loss", f"{LOSS} of the target, fine-tuned", "nats", "minimize", "evaluate", label="target loss"),
    Metric(
        "transferability",
        "target_loss_scratch - target_loss; positive: pretraining helps",
        "nats",
        "maximize",
        "evaluate",
        positive="pretraining helps",
        negative="pretraining hurts",
    ),
    Metric(
        "transferability_accuracy",
        "target_accuracy - target_accuracy_scratch; positive: pretraining helps",
        direction="maximize",
        stage="evaluate",
        positive="pretraining helps",
        negative="pretraining hurts",
        label="gain in target accuracy",
    ),
    Scratch(
        "target_accuracy_scratch",
        f"{ACCURACY} of the target, trained on it alone",
        "",
        "maximize",
        "evaluate",
        label="target accuracy from scratch",
        share=True,
    ),
    Scratch(
        "target_loss_scratch",
        f"{LOSS} of the target, trained on it alone",
        "nats",
        "minimize",
        "evaluate",
        label="target loss from scratch",
    ),
    Before(
        "target_accuracy_before",
        f"{ACCURACY} of the target, its new head untrained",
        "",
        "maximize",
        "evaluate",
        label="target accuracy with untrained head",
        share=True,
    ),
    Before(
        "target_loss_before",
        f"{LOSS} of the target, its new head untrained",
        "nats",
        "minimize",
        "evaluate",
        label="target loss with untrained head",
    ),
    Metric(
        "target_training_loss",
        "mean loss of the last twentieth of fine-tuning",
        "nats",
        "minimize",
        "finetune",
        label="target training loss",
    ),
    Source(
        "source_accuracy",
        f"{ACCURACY} of the source, pretrained",
        direction="maximize",
        label="accuracy on source after pretraining",
        share=True,
    ),
    Source(
        "source_loss", f"{LOSS} of the source, pretrained", "nats", "minimize", label="loss on source after pretraining"
    ),
    Source(
        "source_training_loss",
        "mean loss of the last epoch of pretraining",
        "nats",
        "minimize",
        label="source training loss",
    ),
    Source(
        "reconstruction_loss",
        f"mean absolute error of masked pixels, which go from -1 to 1, on {tasks.HELD_OUT:,} test images of the "
        "source; NaN unless pretrained by reconstruction",
        direction="minimize",
        label="reconstruction loss",
    ),
    Metric(
        "source_accuracy_after",
        f"{ACCURACY} of the source after fine-tuning, by the source's head",
        direction="maximize",
        stage="evaluate",
        label="accuracy on source after fine-tuning",
        share=True,
    ),
    Metric(
        "source_loss_after",
        f"{LOSS} of the source after fine-tuning, by its head",
        "nats",
        "minimize",
        "evaluate",
        label="loss on source after fine-tuning",
    ),
    Metric(
        "eigen_cam_peaks",
        "places of an image at which the last convolution answers most, by Eigen-CAM: their number, mean over "
        "eigen_cam_images",
        stage="examine",
        label="number of Eigen-CAM peaks",
    ),
    Metric(
        "target_training_accuracy",
        "share of the target's training images named right",
        "",
        "maximize",
        "evaluate",
        label="target training accuracy",
        share=True,
    ),
    Metric(
        "generalization_error",
        "target_training_accuracy - target_accuracy",
        direction="minimize",
        stage="evaluate",
        label="generalization error",
    ),
    Metric(
        "deviation",
        "sum over layers of ‖W - W0‖_F / √n: how far fine-tuning moved the weights, n being the target's images "
        "(D Table 1)",
        stage="evaluate",
    ),
    Metric("deviation_head", "the same of the last layer alone", stage="evaluate", label="deviation of last layer"),
    *(
        one
        for make, when, words in ((Unmoved, "_before", "before fine-tuning"), (Metric, "", "after fine-tuning"))
        for one in (
            make(
                f"sharpness{when}",
                f"largest eigenvalue of the loss's Hessian {words}",
                "nats",
                label="sharpness at start of fine-tuning" if when else "",
            ),
            make(
                f"eigenvalue_mean{when}",
                f"mean of the `eigenvalues` largest eigenvalues {words}",
                "nats",
                label=f"mean of largest eigenvalues {words}",
            ),
            make(
                f"eigenvalues_unresolved{when}",
                f"how many of these are not known to 1 % {words}",
                label=f"number of unresolved eigenvalues {words}",
            ),
            make(
                f"hessian_trace{when}",
                f"trace of the Hessian {words}, an estimate",
                "nats",
                label=f"Hessian trace {words}",
            ),
            make(
                f"hessian_trace_error{when}",
                "standard error of hessian_trace" + when,
                "nats",
                label=f"error of Hessian trace {words}",
            ),
            make(
                f"loss_variation{when}",
                f"largest change of the loss up to 0.1 gradients {words}",
                "nats",
                label=f"loss change along gradient {words}",
            ),
            make(
                f"gradient_scale{when}",
                f"size of the loss's gradient at the first layer {words} (D Fig. 7)",
                label=f"first-layer gradient size {words}",
            ),
            make(
                f"gradient_spread{when}",
                f"largest over smallest size of the gradient at a layer {words}",
                label=f"spread of layer gradients {words}",
            ),
            make(
                f"landscape_rise{when}",
                f"mean of the loss over the landscape {words} minus that in its middle (D Fig. 3)",
                "nats",
                label=f"mean rise of landscape {words}",
            ),
            make(
                f"landscape_slope{when}",
                f"largest slope between points of the landscape {words} (D Fig. 5)",
                "nats per filter length",
                label=f"largest slope of landscape {words}",
            ),
        )
    ),
)
