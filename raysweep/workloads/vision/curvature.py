"""The largest eigenvalues and the trace of the Hessian of a net's loss in all its weights (D Fig. 3 and App. A).

D takes power methods on products with the Hessian and shows the 20 largest eigenvalues; here it is Lanczos, in float64.
Which images D takes the loss of is not said.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from raysweep.training import draws, hessian
from raysweep.workloads.vision import eigenvalues
from raysweep.workloads.vision.eigenvalues import Eigenvalues

PROBES = 30  # random vectors of the trace
_PIECE = 256  # images whose graph is held at once


def measured(
    net: nn.Module, pixels: Tensor, labels: Tensor, seed: int, count: int = 20
) -> tuple[Eigenvalues, float, float]:
    """Curvature of the mean cross-entropy of some images, the net in evaluation mode and in float64.

    pixels: (images, channels, height, width). labels: (images,). seed: of the random vectors.

    Gives the `count` largest eigenvalues of the Hessian, largest first, with bounds of their residuals; and
    Hutchinson's estimate of its trace, with the standard error over probes.
    """
    flat, losses = flattened(net, pixels, labels)
    quadratic = hessian.Quadratic(flat, losses)
    starts = draws.generator(seed, "vision/lanczos")

    def start() -> Tensor:
        return torch.as_tensor(starts.standard_normal(len(flat))).to(flat)

    largest = eigenvalues.largest_eigenvalues(quadratic.product, start, count)
    probes = draws.generator(seed, "vision/trace probes")
    return largest, *eigenvalues.trace(quadratic.product, flat, PROBES, probes)


def flattened(net: nn.Module, pixels: Tensor, labels: Tensor) -> tuple[Tensor, list[Callable[[Tensor], Tensor]]]:
    """(the weights of a net as one row (weights,) in float64, functions of such a row whose sum is the mean loss)."""
    copied = copy.deepcopy(net).double().eval()

    def loss_of(some: Tensor, right: Tensor) -> Callable[[Tensor], Tensor]:
        def loss(row: Tensor) -> Tensor:
            outputs = functional_call(copied, hessian.named(row, copied), (some,))
            return cross_entropy(outputs, right, reduction="sum") / len(labels)

        return loss

    pieces = zip(pixels.double().split(_PIECE), labels.split(_PIECE), strict=True)
    flat = torch.cat([weights.detach().reshape(-1) for weights in copied.parameters()])
    return flat, [loss_of(some, right) for some, right in pieces]


def unresolved(spectrum: Eigenvalues, tolerance: float = 0.01) -> np.ndarray:
    """Whether the residual of each eigenvalue is more than this share of it (or it is not finite)."""
    return ~(spectrum.residuals <= tolerance * np.abs(spectrum.values))
