"""What D measures of a net besides its accuracy, before and after fine-tuning: curvature, gradients, landscapes.

All of it is of the mean cross entropy on the first `examined_images` training images of the target, with the target's
head (before fine-tuning: the new random one), the net in evaluation mode.

A landscape is the loss on a plane through the weights, spanned by two filter-normalized directions (Li et al. 2018; D
App. A): random, orthogonal to each other, and as long as the weights in each filter, so that a net whose filters are
scaled has the same picture. Biases and batch normalisation do not move, as in Li et al.'s code. The plane reaches one
filter length to either side; D draws 200 x 200 points, and what its step is a share of is not said clearly.
"""

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from raysweep.training import draws
from raysweep.workloads.vision import curvature
from raysweep.workloads.vision.models import Net
from raysweep.workloads.vision.pixels import Task, scaled

CURVATURE = "sharpness", "eigenvalue_mean", "eigenvalues_unresolved", "hessian_trace", "hessian_trace_error"
GRADIENTS = "loss_variation", "gradient_scale", "gradient_spread"
LANDSCAPE = "landscape_rise", "landscape_slope"
WHEN = "_before", ""  # what the names of metrics end in: before fine-tuning, and after it
NOTHING = {f"{name}{when}": math.nan for when in WHEN for name in (*CURVATURE, *GRADIENTS, *LANDSCAPE)}
"""The metrics of a row of which no image is examined."""
_SHOWN = 21  # points a side of a logged landscape, as a curve keeps 512 points
Lists = dict[str, dict[int, float]]
Measures = tuple[dict[str, float], dict[str, np.ndarray], dict[str, np.ndarray]]
"""Metrics, what is kept in the artifact, and what is logged."""
REACH = 1.0
Directions = Mapping[str, tuple[Tensor, Tensor]]
FURTHEST = 0.1  # the longest step along the gradient: ten times D's rate 0.01, as in D's App. A
_STEPS = 20


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
        places = coordinates(int(row["landscape_points"]))
        first, second = np.meshgrid(_thinned(places), _thinned(places), indexing="ij")
        lists |= {f"direction_{k}": dict(enumerate(each.ravel().tolist(), 1)) for k, each in ((1, first), (2, second))}
    for step in sorted({step for values in lists.values() for step in values}):
        log(step, **{name: values[step] for name, values in lists.items() if step in values})
    return tensors, metrics


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
    sizes = np.array(list(scales(net, *images).values()))
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = (variation(net, *images), sizes[0], sizes.max() / sizes.min())
    return dict(zip(GRADIENTS, map(float, numbers), strict=True)), {}, {"gradient_scale_of_layer": sizes}


def _landscape(row: Mapping[str, Any], net: Net, images: tuple[Tensor, Tensor], before: bool) -> Measures:
    """The whole net's landscape, and before fine-tuning that of each layer, as in D's Fig. 5, 10 and 11."""
    points = int(row["landscape_points"])
    if not points:
        return {}, {}, {}
    along = directions(net, int(row["seed"]))
    surface = losses(net, along, points, *images)
    numbers = dict(zip(LANDSCAPE, (rise(surface), steepest(surface)), strict=True))
    kept, logged = {"landscape": surface}, {"landscape": _thinned(_thinned(surface).T).T}
    if before:
        single = [losses(net, {name: pair}, points, *images) for name, pair in along.items()]
        kept["landscapes_of_layers"] = np.stack(single)
        logged |= {f"landscape_of_layer_{k}": _thinned(_thinned(each).T).T for k, each in enumerate(single, 1)}
        logged["landscape_slope_of_layer"] = np.array([steepest(each) for each in single])
    return numbers, kept, logged


def _thinned(values: np.ndarray) -> np.ndarray:
    """Every second, third, ... row from the middle, so that at most 21 are left."""
    middle = len(values) // 2
    step = math.ceil(len(values) / _SHOWN)
    return values[middle % step :: step]


def directions(net: nn.Module, seed: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Two directions for the weights of each layer, (filters, ...) each, drawn from (seed, layer).

    Each filter's part is as long as the filter, and the two parts are orthogonal (where a filter has more than one
    weight).
    """
    return {name: _pair(weights.detach(), seed, name) for name, weights in net.named_parameters() if weights.dim() > 1}


def _pair(weights: Tensor, seed: int, name: str) -> tuple[Tensor, Tensor]:
    filters = weights.double().flatten(1)
    drawn = torch.as_tensor(draws.normal(seed, f"vision/landscape/{name}", 2, *filters.shape)).to(filters.device)
    first = drawn[0] / drawn[0].norm(dim=1, keepdim=True)
    second = drawn[1]
    if filters.shape[1] > 1:
        for _ in range(2):
            second = second - (second * first).sum(1, keepdim=True) * first
    second = second / second.norm(dim=1, keepdim=True)
    size = filters.norm(dim=1, keepdim=True)
    one, other = ((size * each).view(weights.shape).to(weights.dtype) for each in (first, second))
    return one, other


def coordinates(points: int) -> np.ndarray:
    """The places along each direction, (points,), in filter lengths. With an odd count the middle one is 0."""
    return np.linspace(-REACH, REACH, points)


@torch.no_grad()
def losses(net: nn.Module, along: Directions, points: int, pixels: Tensor, labels: Tensor) -> np.ndarray:
    """The mean loss of some images on the grid of `coordinates`, (points, points): first direction down.

    along: the directions of the layers that move; the others stay (D's landscapes of single layers).
    pixels: (images, channels, height, width). labels: (images,). The net is in evaluation mode.
    """
    net.eval()
    weights = {name: each.detach() for name, each in net.named_parameters()}
    out = np.empty((points, points))
    places = coordinates(points).tolist()
    for i, first in enumerate(places):
        for j, second in enumerate(places):
            shifted = {name: weights[name] + first * a + second * b for name, (a, b) in along.items()}
            out[i, j] = float(cross_entropy(functional_call(net, shifted, (pixels,)), labels))
    return out


def rise(surface: np.ndarray) -> float:
    """How much higher the loss is on the grid than in its middle, on average."""
    middle = len(surface) // 2
    return float(surface.mean() - surface[middle, middle])


def steepest(surface: np.ndarray) -> float:
    """The largest difference of the loss between neighbouring points, over their distance in filter lengths.

    It is a lower bound of the Lipschitz constant on the plane, which D says pretraining lowers.
    """
    width = 2 * REACH / (len(surface) - 1)
    return float(max(np.abs(np.diff(surface, axis=axis)).max() for axis in (0, 1)) / width)


def variation(net: nn.Module, pixels: Tensor, labels: Tensor) -> float:
    """The largest |L(W - s g) - L(W)| over steps s up to FURTHEST along the gradient g of the mean loss L.

    D's text: "we take steps in the direction of gradient ... to calculate the maximum changes of loss in that
    direction. The step size is set to the size of gradient" (App. A). Here g is the gradient in all weights, and s goes
    through 20 equal steps. D's code takes 100 steps of 0.001 in one layer of ResNet-50 alone, the loss being that of
    the batch of training, and the largest value of the loss instead of its largest change.

    pixels: (images, channels, height, width). labels: (images,). The net is in evaluation mode.
    """
    net.eval()
    weights = {name: each.detach().requires_grad_() for name, each in net.named_parameters()}
    before = cross_entropy(functional_call(net, weights, (pixels,)), labels)
    gradient = dict(zip(weights, torch.autograd.grad(before, list(weights.values())), strict=True))
    most = 0.0
    with torch.no_grad():
        for step in range(1, _STEPS + 1):
            size = FURTHEST * step / _STEPS
            shifted = {name: each - size * gradient[name] for name, each in weights.items()}
            after = cross_entropy(functional_call(net, shifted, (pixels,)), labels)
            change = abs(float(after.double() - before.double()))
            most = change if change != change else max(most, change)
    return most


def scales(net: nn.Module, pixels: Tensor, labels: Tensor) -> dict[str, float]:
    """The size of the gradient that goes back through each layer with weights, first layer first.

    It is the root of the mean over images of ‖∂ℓ/∂x‖², ℓ being the loss of one image and x what the layer makes of it,
    before the activation: what D §4 follows through W_k. D does not say how Fig. 7d reduces it to a number.
    """
    net.eval()
    outputs: dict[str, Tensor] = {}
    layers = [(name, layer) for name, layer in net.named_modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    with contextlib.ExitStack() as stack:
        for name, layer in layers:

            def keep(layer: nn.Module, inputs: object, output: Tensor, name: str = name) -> Tensor:
                # frozen weights do not ask for a gradient
                outputs[name] = output if output.requires_grad else output.requires_grad_()
                return outputs[name]

            stack.callback(layer.register_forward_hook(keep).remove)
        loss = cross_entropy(net(pixels), labels, reduction="sum")  # so that the count of images is no factor
    gradients = torch.autograd.grad(loss, list(outputs.values()))
    return {
        name: float(each.double().flatten(1).square().sum(1).mean().sqrt())
        for name, each in zip(outputs, gradients, strict=True)
    }
