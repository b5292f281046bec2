"""Two-class tasks on images as linear regression: does a bound of the risk predict the test error (paper T, Table 1)?

This file is the declaration.

Labels are +1 and -1. The source map is trained on all training images of the source's two classes, from a random start;
fine-tuning goes on from it to the exact end point on a few images of the target, θ_S + X⁺(y - Xθ_S) (T Thm 4.1).

What T leaves open, and what stands here. Which 20 pairs: the space lists them. The start before the source: each weight
uniform between ±1/√d, as torch starts a linear layer of d inputs (T used torch); a seed is one such start. How long the
source is trained: `pretrain_length`, by default until it fits best, as T's Assumption 3.2 has it. Inputs: pixels from 0
to 1, not centred, and no intercept. Σ is the second-moment matrix of the target's training images, θ_T the map trained
on them as the source is on its own, from 0. The constants of the bounds are 1, and they hold with probability 1 - 1/e.
Test images are those that the data set keeps apart; they enter nothing but the test error and loss.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from raysweep.workloads import common, image_data
from raysweep.workloads.common import Loss
from raysweep.workloads.declaration import Metric, Parameter, Workload, modules_of
from raysweep.workloads.image_regression import engine
from raysweep.workloads.image_regression.engine import FORM, in_words, pair_of

PARAMETERS = (
    Parameter("data", str, "digits", f"images: {image_data.FORMS}", words=partial(image_data.in_words, "images of")),
    Parameter(
        "pair",
        str,
        "2-3:5-6",
        f"classes of source and target, {FORM}; the first of two is labelled +1",
        words=in_words,
        label="pair of tasks",
    ),
    Parameter("target_samples", int, 10, "images of the target, of either class", unit="images", minimum=1, symbol="n"),
    Parameter(
        "pretrain_length",
        float,
        math.inf,
        "steps of gradient descent on all images of the source, at the reciprocal of its largest curvature; .inf: to "
        "the best fit, what no image shows staying as it started",
        **common.BUDGET,
    ),
    Parameter("repeats", int, 25, "draws of target images in the mean of a row", minimum=1, maximum=10_000),
)

_WAYS = {
    "scratch": ("trained from 0", "from scratch"),
    "finetune": ("fine-tuned from the source map", "after fine-tuning"),
}


def _both(name: str, what: str, label: str, share: bool = False) -> Iterator[Metric]:
    """Of both ways to train. what, label: {way}, {how} and {when} stand for the way."""
    for way, (how, when) in _WAYS.items():
        yield Loss(f"{name}_{way}", what.format(way=way, how=how), label=f"{label} {when}", share=share)


METRICS = (
    *_both("error", "share of test images put into the wrong class, {how}", "test error", share=True),
    replace(common.GAIN, description="test error from scratch minus that after fine-tuning; positive: transfer helps"),
    *_both("loss", "mean squared error on test images, {how}", "test loss"),
    Metric(
        "distance_squared", "‖θ_T - θ_S‖², the first predictor of T Table 1", label="squared source-target distance"
    ),
    Metric(
        "bound_distance",
        "the bound of Bartlett et al. (2020), Thm 4, as T adapts it (T Table 1): g‖θ_T - θ_S‖²",
        label="Bartlett et al.'s bound (Thm 4)",
    ),
    Metric(
        "bound_thm42",
        "T's own bound for m = 2 (Thm 4.2): 2g³‖P≤m(θ_T - θ_S)‖²/λ_m² + 2g‖P>m(θ_T - θ_S)‖²",
        label="T's bound (Thm 4.2)",
    ),
    *_both(
        "equivalent",
        "test loss by theory, {how}, for Gaussian inputs with the target's covariance and labels from its best linear "
        "map plus noise",
        "deterministic equivalent",
    ),
)


def check(parameters: Mapping[str, Any]) -> tuple[str, str] | None:
    try:
        source, target = pair_of(str(parameters["pair"]))
    except ValueError as error:
        return "pair", str(error)
    name = str(parameters["data"])
    if complaint := image_data.complaint(name):
        return "data", complaint
    data = image_data.load(name)
    if (largest := max(*source, *target)) >= len(data.classes):
        return "pair", f"expected classes from 0 to {len(data.classes) - 1}, which {name} has, got {largest}"
    there, asked = len(data.train.select(target).labels), parameters["target_samples"]
    if asked > there:
        images = f"the training images of classes {target[0]} and {target[1]} in {name}"
        return "target_samples", f"expected at most {there:,}, {images}, got {asked:,}"
    return None


def identify(stage: str, values: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the images instead of their name. InputError if they have gone since the sweep was planned."""
    return {**values, "data": image_data.digest_of(str(row["data"]))}


WORKLOAD = Workload(
    name="image_regression",
    summary="pairs of two-class tasks on images as linear regression: bounds of the risk against test error (paper T, "
    "Fine-tuning with Linear Teachers)",
    identity_version=1,
    parameters=PARAMETERS,
    metrics=METRICS,
    compute="raysweep.workloads.image_regression.engine:compute",
    cost=engine.of_rows,
    sources=modules_of(
        workloads="image_regression image_data cache", training="draws", theory="arrays covariance finetune"
    ),
    shared=("data", "pair"),
    identify=identify,
    check=check,
    fetch=image_data.fetch,
)
