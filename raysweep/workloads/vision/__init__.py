"""What deep nets on images carry over from one task to another (paper D; M for masked pretraining).

A net is trained on a source, epoch by epoch, gets a new head for the target's classes, and is fine-tuned on a few
images of the target. This file is the declaration; the functions of its stages are in stages.py, and it does not import
them.

What D leaves open, and what is taken here (D: ResNet-50 with batches of 32, rate 0.01, momentum 0.9; LeNet with rate
0.01 and weight decay 5e-4; the decay of rates by cross-validation):
- Rates are constant. Batches are the parts of one random order an epoch. Nothing augments the images.
- LeNet: with ReLU and maximum pooling, its momentum and batch those of ResNet-50 (shapes.py, models.py).
- Pixels from -1 (black) to 1. Images of the target are brought to the form of the source's.
- The head of the target is drawn anew, and everything is fine-tuned unless frozen_layers says otherwise.
- What a net is before fine-tuning is measured with this random head.
- deviation: of weights without offsets, the head included; n is the number of target images, as D says. Curvature,
  gradients, landscapes: on `examined_images` training images of the target, in evaluation mode. Eigenvalues are the
  largest ones, not those of the largest size. The step along the gradient goes up to 0.1 (ten times D's rate) in all
  weights at once. Landscapes reach one filter length; what D's step is a share of is not clear (examination.py).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from raysweep.workloads import common
from raysweep.workloads.declaration import Metric, Parameter, Workload, modules_of, stage_of
from raysweep.workloads.image_data import FOLDER_FORMS, fetch, in_words
from raysweep.workloads.vision import tasks
from raysweep.workloads.vision.shapes import MODELS

Pretraining, Finetuning, Examination = (partial(Parameter, stage=name) for name in ("pretrain", "finetune", "examine"))
IMAGES: dict[str, Any] = {"unit": "images", "minimum": 0}
HEAT_MAPS: dict[str, Any] = {**IMAGES, "label": "Eigen-CAM images"}
TURN: dict[str, Any] = {"unit": "degrees", "minimum": -360, "maximum": 360}
ANGLE: dict[str, Any] = {"unit": "degrees", "minimum": 0, "maximum": 90, "infinite": True, "symbol": "θ"}
LAYERS: dict[str, Any] = {"minimum": 2, "maximum": 64, "symbol": "L"}
RATE: dict[str, Any] = {"minimum": 0, "maximum": 1e3, "scale": "log", "searched_by": "optimum"}
SHARE: dict[str, Any] = {**common.ABOVE_0, "maximum": 0.9}
POINTS: dict[str, Any] = {"unit": "points", "minimum": 0, "maximum": 1001}
LABEL: dict[str, Any] = {"choices": tasks.LABELS, "words": tasks.IN_WORDS.__getitem__}
FLIP: dict[str, Any] = {"choices": tasks.FLIPS, "words": tasks.FLIPS_IN_WORDS.__getitem__}
HOW: dict[str, Any] = {"choices": tasks.PRETRAININGS, "words": tasks.IN_WORDS.__getitem__}
_CLASSES = "all, or classes such as 3, 0-4 or 0,2,5"

PARAMETERS = (
    Pretraining("model", str, "small_cnn", "the net", choices=MODELS),
    Pretraining(
        "depth", int, 3, "layers with weights of small_cnn, with the head; other nets have their own", **LAYERS
    ),
    Pretraining("source", str, "digits", f"images to pretrain on: {FOLDER_FORMS}", words=partial(in_words, "source")),
    Pretraining("source_classes", str, "all", f"classes of the source: {_CLASSES}"),
    Pretraining("source_samples", int, 0, "training images of the source; 0: all of its classes", **IMAGES),
    Pretraining(
        "image_size", int, 0, "the side of all images; 0: the source's", unit="pixels", minimum=0, maximum=1024
    ),
    Pretraining(
        "label",
        str,
        tasks.CLASS,
        "what the source's labels say: the class, or in as many ranges the brightness or the hue of the upper half",
        **LABEL,
    ),
    Pretraining("flip", str, tasks.UPRIGHT, "whether the source's images are upside down", **FLIP),
    Pretraining("rotation", float, 0.0, "turn of the source's images, against the clock", **TURN),
    Pretraining("target", str, "digits", f"images to fine-tune on: {FOLDER_FORMS}", words=partial(in_words, "target")),
    Pretraining("target_classes", str, "all", f"classes of the target: {_CLASSES}"),
    Pretraining(
        "overlap_angle",
        float,
        tasks.NO_ANGLE,
        "its cosine is the share of the target's classes that the source also has, of as many classes in all; .inf: "
        "source_classes says which it has",
        **ANGLE,
    ),
    Pretraining(
        "pretrain",
        str,
        tasks.SUPERVISED,
        "how the net is pretrained: by the source's labels, by reconstruction of patches of its images that are masked "
        "(SimMIM), or not at all",
        **HOW,
    ),
    Pretraining("mask_ratio", float, 0.6, "share of the patches that are masked", **SHARE),
    Pretraining("pretrain_length", int, 10, "epochs on the source", unit="epochs", minimum=0, maximum=100_000),
    Pretraining("pretrain_lr", float, 0.01, "rate on the source", minimum=0, maximum=1e3, open_minimum=True),
    Pretraining("batch_size", int, 32, "images of a step, on both tasks", unit="images", minimum=1, maximum=100_000),
    Pretraining("momentum", float, 0.9, "of all training", minimum=0, maximum=0.9999),
    Pretraining("weight_decay", float, 5e-4, "of all weights, on both tasks", minimum=0, maximum=10),
    Finetuning("target_samples", int, 100, "training images of the target", unit="images", minimum=1, symbol="n"),
    Finetuning("finetune_lr", float, 0.01, "rate on the target", **RATE),
    Finetuning("finetune_steps", int, 200, "steps on the target", unit="steps", minimum=0, maximum=10_000_000),
    Finetuning("frozen_layers", int, 0, "layers from the input on that fine-tuning leaves as they are", minimum=0),
    Examination("eigen_cam_images", int, 0, "first test images of the target, for heat maps by Eigen-CAM", **HEAT_MAPS),
    Examination(
        "examined_images",
        int,
        0,
        "training images of the target whose loss gives curvature, gradients and landscapes; 0: none of these",
        **IMAGES,
    ),
    Examination(
        "eigenvalues", int, 20, "largest eigenvalues of the Hessian, if images are examined", minimum=0, maximum=100
    ),
    Examination(
        "landscape_points",
        int,
        0,
        "points a side of the loss's landscape, an odd number, if images are examined; 0: none",
        **POINTS,
    ),
)


_OF_TASK = ("source_classes", "source_samples", "label", "flip", "rotation", "overlap_angle")
_TUNING = ("finetune_lr", "finetune_steps", "frozen_layers")
_OF_PRETRAINING = (*_OF_TASK, "pretrain", "mask_ratio", "pretrain_length", "pretrain_lr", "frozen_layers")
Source, Tuned, Target = (partial(Metric, stage=name) for name in ("pretrain", "finetune", "evaluate"))
Before = partial(Target, free_of=(*_TUNING, "target_samples"))
Scratch = partial(Target, free_of=_OF_PRETRAINING)
Unmoved = partial(Metric, free_of=_TUNING)
Gain = partial(common.Helped, stage="evaluate")
_SLOPE = "nats per filter length"
_ALONE, _NEW_HEAD = "of the target, trained on it alone", "of the target, its new head untrained"
_OLD_HEAD = "of the source after fine-tuning, by its own head"
_RIGHT, _ENTROPY = "correctly classified test images", "cross entropy on test images"
_HELPS = "; positive: pretraining helps"
_TRAINED = "correctly classified training images"
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
    Gain("transferability", f"target loss from scratch minus target loss{_HELPS}", unit="nats"),
    Gain(
        "transferability_accuracy", f"target accuracy minus that from scratch{_HELPS}", label="gain in target accuracy"
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
        "places of an image at which the last convolution answers most (Eigen-CAM): their number, mean over images",
        stage="examine",
        label="number of Eigen-CAM peaks",
    ),
    _accuracy(Target, "target_training_accuracy", f"{_TRAINED} of the target", "target training accuracy"),
    Target(
        "generalization_error",
        "target accuracy in training minus that on the test",
        direction="minimize",
        label="generalization error",
    ),
    Target(
        "deviation",
        "sum over layers of ‖W - W0‖_F / √n: how far fine-tuning moved weights, n the target's images (D Table 1)",
    ),
    Target("deviation_head", "the same of the last layer alone", label="deviation of last layer"),
    *_on_both(Unmoved, "_before", "before fine-tuning"),
    *_on_both(Metric, "", "after fine-tuning"),
)


def _epochs(row: Mapping[str, Any]) -> range:
    return range(1, int(row["pretrain_length"]) * tasks.trained(row) + 1)


_stage = partial(stage_of, "raysweep.workloads.vision")
WORKLOAD = Workload(
    name="vision",
    summary="nets pretrained on images of a source and fine-tuned on a few of a target (paper D, "
    "Transferability of Deep Representations; M, Mask Reconstruction Pretraining, for masked pretraining); diverged: a "
    "loss that is not finite",
    identity_version=1,
    parameters=PARAMETERS,
    metrics=METRICS,
    stages=(
        _stage("pretrain", keeps=True, points=_epochs, until="pretrain_length"),
        _stage("finetune", "pretrain"),
        _stage("evaluate", "finetune"),
        _stage("examine", "evaluate"),
    ),
    sources=modules_of(workloads="vision image_data cache", training="draws hessian"),
    identify=tasks.identify,
    check=tasks.complaint,
    fetch=fetch,
    gpu_guess="within a factor of 3 either way: what a net computes is counted, its speed is taken from what NVIDIA "
    "reports of ResNet-50 on an A100 (938 images/s in TF32 with batches of 256; 600 here), and 8 cores decode images; "
    "nothing of it has been measured on a GPU",
)
