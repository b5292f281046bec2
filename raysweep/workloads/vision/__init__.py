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
  weights at once. Landscapes reach one filter length; what D's step is a share of is not clear (landscape.py).
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from raysweep.workloads.declaration import Parameter, Workload, modules_of, stage_of
from raysweep.workloads.image_data import FOLDER_FORMS, fetch, in_words
from raysweep.workloads.vision import complaints, tasks
from raysweep.workloads.vision.metrics import METRICS
from raysweep.workloads.vision.shapes import MODELS

Pretraining, Finetuning, Examination = (partial(Parameter, stage=name) for name in ("pretrain", "finetune", "examine"))
IMAGES: dict[str, Any] = {"unit": "images", "minimum": 0}
TURN: dict[str, Any] = {"unit": "degrees", "minimum": -360, "maximum": 360}
_CLASSES = "all, or classes such as 3, 0-4 or 0,2,5"

PARAMETERS = (
    Pretraining("model", str, "small_cnn", "the net", choices=MODELS),
    Pretraining(
        "depth",
        int,
        3,
        "layers with weights of small_cnn, with the head; other nets have their own",
        minimum=2,
        maximum=64,
        symbol="L",
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
        choices=tasks.LABELS,
        words=tasks.IN_WORDS.__getitem__,
    ),
    Pretraining(
        "flip",
        str,
        tasks.UPRIGHT,
        "whether the source's images are upside down",
        choices=tasks.FLIPS,
        words={tasks.UPRIGHT: "no flip", tasks.UPSIDE_DOWN: "flip upside down"}.__getitem__,
    ),
    Pretraining("rotation", float, 0.0, "turn of the source's images, against the clock", **TURN),
    Pretraining("target", str, "digits", f"images to fine-tune on: {FOLDER_FORMS}", words=partial(in_words, "target")),
    Pretraining("target_classes", str, "all", f"classes of the target: {_CLASSES}"),
    Pretraining(
        "overlap_angle",
        float,
        tasks.NO_ANGLE,
        "its cosine is the share of the target's classes that the source also has, of as many classes in all; .inf: "
        "the classes of the source are source_classes",
        unit="degrees",
        minimum=0,
        maximum=90,
        infinite=True,
        symbol="θ",
    ),
    Pretraining(
        "pretrain",
        str,
        tasks.SUPERVISED,
        "how the net is pretrained: by the source's labels, by reconstruction of patches of its images that are masked "
        "(SimMIM), or not at all",
        choices=tasks.PRETRAININGS,
        words=tasks.IN_WORDS.__getitem__,
    ),
    Pretraining(
        "mask_ratio", float, 0.6, "share of the patches that are masked", minimum=0, open_minimum=True, maximum=0.9
    ),
    Pretraining("pretrain_length", int, 10, "epochs on the source", unit="epochs", minimum=0, maximum=100_000),
    Pretraining("pretrain_lr", float, 0.01, "rate on the source", minimum=0, maximum=1e3, open_minimum=True),
    Pretraining("batch_size", int, 32, "images of a step, on both tasks", unit="images", minimum=1, maximum=100_000),
    Pretraining("momentum", float, 0.9, "of all training", minimum=0, maximum=0.9999),
    Pretraining("weight_decay", float, 5e-4, "of all weights, on both tasks", minimum=0, maximum=10),
    Finetuning("target_samples", int, 100, "training images of the target", unit="images", minimum=1, symbol="n"),
    Finetuning(
        "finetune_lr", float, 0.01, "rate on the target", minimum=0, maximum=1e3, scale="log", searched_by="optimum"
    ),
    Finetuning("finetune_steps", int, 200, "steps on the target", unit="steps", minimum=0, maximum=10_000_000),
    Finetuning("frozen_layers", int, 0, "layers from the input on that fine-tuning leaves as they are", minimum=0),
    Examination(
        "eigen_cam_images",
        int,
        0,
        "test images of the target whose heat maps by Eigen-CAM are made: the first ones",
        **IMAGES,
        label="Eigen-CAM images",
    ),
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
        unit="points",
        minimum=0,
        maximum=1001,
    ),
)


def _epochs(row: Mapping[str, Any]) -> range:
    return range(1, int(row["pretrain_length"]) * tasks.trained(row) + 1)


_stage = partial(stage_of, "raysweep.workloads.vision")
STAGES = (
    _stage("pretrain", keeps=True, points=_epochs, until="pretrain_length"),
    _stage("finetune", "pretrain"),
    _stage("evaluate", "finetune"),
    _stage("examine", "evaluate"),
)

WORKLOAD = Workload(
    name="vision",
    summary="nets pretrained on images of a source and fine-tuned on a few of a target (paper D, "
    "Transferability of Deep Representations; M, Mask Reconstruction Pretraining, for masked pretraining); diverged: a "
    "loss that is not finite",
    identity_version=1,
    parameters=PARAMETERS,
    metrics=METRICS,
    stages=STAGES,
    sources=modules_of(workloads="vision image_data cache", training="draws hessian"),
    identify=tasks.identify,
    check=complaints.complaint,
    fetch=fetch,
    gpu_guess="within a factor of 3 either way: what a net computes is counted, its speed is taken from what NVIDIA "
    "reports of ResNet-50 on an A100 (938 images/s in TF32 with batches of 256; 600 here), and 8 cores decode images; "
    "nothing of it has been measured on a GPU",
)
