"""What D measures of a net besides its accuracy, before and after fine-tuning: curvature, gradients, landscapes.

All of it is of the mean cross entropy on the first `examined_images` training images of the target, with the target's
head (before fine-tuning: the new random one), the net in evaluation mode.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from raysweep.workloads.vision import curvature, gradients, landscape
from raysweep.workloads.vision.models import Net
from raysweep.workloads.vision.pixels import Task, scaled

CURVATURE = "sharpness", "eigenvalue_mean", "eigenvalues_unresolved", "hessian_trace", "hessian_trace_error"
GRADIENTS = "loss_variation", "gradient_scale", "gradient_spread"
LANDSCAPE = "landscape_rise", "landscape_slope"
WHEN = "_before", ""
"""What the names of metrics end in: before fine-tuning, and after it."""
NOTHING = {f"{name}{when}": math.nan for when in WHEN for name in (*CURVATURE, *GRADIENTS, *LANDSCAPE)}
"""The metrics of a row of which no image is examined."""
_SHOWN = 21  # points a side of a logged landscape, as a curve keeps 512 points
Lists = dict[str, dict[int, float]]


def measured(
    row: Mapping[str, Any], before: Net, after: Net, task: Task, log: Callable[..., None]
) -> tuple[dict[str, Any], dict[str, float]]:
    """(tensors, metrics) of one row; metrics that are not asked for are NaN.

    log: called with a step and numbers. A step is the place of an eigenvalue, a layer or a point of a landscape, the
        first being 1.
    """
    metrics, tensors = dict(NOTHING), dict[str, Any]()
    count, lists = int(row["examined_images"]), Lists()
    images = scaled(task.train_pixels[:count]), task.train_labels[:count]
    for net, when in zip((before, after), WHEN, strict=True):
        for part in (_curvature, _gradients, _landscape):
            numbers, kept, listed = part(row, net, images, when == "_before")
            metrics |= {f"{name}{when}": value for name, value in numbers.items()}
            tensors |= {f"{name}{when}": value for name, value in kept.items()}
            lists |= {f"{name}{when}": dict(enumerate(np.ravel(values).tolist(), 1)) for name, values in listed.items()}
    if row["landscape_points"]:
        places = landscape.coordinates(int(row["landscape_points"]))
        first, second = np.meshgrid(_thinned(places), _thinned(places), indexing="ij")
        lists |= {f"direction_{k}": dict(enumerate(each.ravel().tolist(), 1)) for k, each in ((1, first), (2, second))}
    for step in sorted({step for values in lists.values() for step in values}):
        log(step, **{name: values[step] for name, values in lists.items() if step in values})
    return tensors, metrics


Measures = tuple[dict[str, float], dict[str, np.ndarray], dict[str, np.ndarray]]
"""Metrics, what is kept in the artifact, and what is logged."""


def _curvature(row: Mapping[str, Any], net: Net, images: tuple[Tensor, Tensor], before: bool) -> Measures:
    if not row["eigenvalues"]:
        return {}, {}, {}
    largest, *trace = curvature.measured(net, *images, int(row["seed"]), int(row["eigenvalues"]))
    values, unresolved = largest.values, curvature.unresolved(largest)
    numbers = (values[0], values.mean(), unresolved.sum(), *trace)
    kept = {"eigenvalues": values, "residuals": largest.residuals}
    logged = {"eigenvalue": np.where(unresolved, np.nan, values)}
    return dict(zip(CURVATURE, map(float, numbers), strict=True)), kept, logged


def _gradients(row: Mapping[str, Any], net: Net, images: tuple[Tensor, Tensor], before: bool) -> Measures:
    sizes = np.array(list(gradients.scales(net, *images).values()))
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = (gradients.variation(net, *images), sizes[0], sizes.max() / sizes.min())
    return dict(zip(GRADIENTS, map(float, numbers), strict=True)), {}, {"gradient_scale_of_layer": sizes}


def _landscape(row: Mapping[str, Any], net: Net, images: tuple[Tensor, Tensor], before: bool) -> Measures:
    """The whole net's landscape, and before fine-tuning that of each layer, as in D's Fig. 5, 10 and 11."""
    points = int(row["landscape_points"])
    if not points:
        return {}, {}, {}
    along = landscape.directions(net, int(row["seed"]))
    surface = landscape.losses(net, along, points, *images)
    numbers = dict(zip(LANDSCAPE, (landscape.rise(surface), landscape.steepest(surface)), strict=True))
    kept, logged = {"landscape": surface}, {"landscape": _thinned(_thinned(surface).T).T}
    if before:
        single = [landscape.losses(net, {name: pair}, points, *images) for name, pair in along.items()]
        kept["landscapes_of_layers"] = np.stack(single)
        logged |= {f"landscape_of_layer_{k}": _thinned(_thinned(each).T).T for k, each in enumerate(single, 1)}
        logged["landscape_slope_of_layer"] = np.array([landscape.steepest(each) for each in single])
    return numbers, kept, logged


def _thinned(values: np.ndarray) -> np.ndarray:
    """Every second, third, ... row from the middle, so that at most 21 are left."""
    middle = len(values) // 2
    step = math.ceil(len(values) / _SHOWN)
    return values[middle % step :: step]
