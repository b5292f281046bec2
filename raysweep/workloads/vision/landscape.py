"""The loss on a plane through a net's weights, spanned by two filter-normalized directions (Li et al. 2018; D App. A).

Directions are random, orthogonal to each other, and as long as the weights in each filter, so that a net whose filters
are scaled has the same picture. Biases and batch normalisation do not move, as in Li et al.'s code. The plane reaches
one filter length to either side; D draws 200 x 200 points, and what its step is a share of is not said clearly.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from raysweep.training import draws

REACH = 1.0
Directions = Mapping[str, tuple[Tensor, Tensor]]


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
