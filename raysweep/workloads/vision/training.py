"""Stochastic gradient descent on cross entropy, with momentum and weight decay, at a constant rate.

Batches are the parts of one order an epoch, drawn from the seed; they differ by one image at most. Weight decay acts on
every weight, as in torch.optim.SGD. Trained one net at a time: on a CPU that is fastest, and a row then comes out the
same in any company.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from raysweep.training import draws
from raysweep.workloads.vision.models import Net
from raysweep.workloads.vision.pixels import scaled

LOOKS = 20
"""Points of the learning curve of fine-tuning; at each of them a net that is not finite is given up."""
EXAMINED = 500
"""Images that are examined at a time."""


def optimizer(net: nn.Module, lr: float, row: Mapping[str, Any]) -> torch.optim.SGD:
    """What trains those weights of a net that are not frozen."""
    free = [weights for weights in net.parameters() if weights.requires_grad]
    return torch.optim.SGD(free, lr=lr, momentum=row["momentum"], weight_decay=row["weight_decay"])


def epoch_of(seed: int, role: str, epoch: int, count: int, batch: int) -> list[np.ndarray]:
    """The places of the images in each batch of one epoch. role: of which task."""
    order = draws.generator(seed, f"{role} epoch {epoch}").permutation(count)
    return np.array_split(order, math.ceil(count / batch))


def batches(seed: int, role: str, count: int, batch: int) -> Iterator[np.ndarray]:
    """The batches of epoch after epoch, without end."""
    return itertools.chain.from_iterable(epoch_of(seed, role, epoch, count, batch) for epoch in itertools.count(1))


def descend(
    net: Net,
    optimizer: torch.optim.Optimizer,
    pixels: Tensor,
    labels: Tensor,
    batches: Iterable[np.ndarray],
    frozen: Iterable[nn.Module] = (),
) -> Iterator[Tensor]:
    """Train a net step by step; gives the loss of each batch before its step. frozen: modules kept in evaluation."""
    net.train()
    for module in frozen:
        module.eval()
    for places in batches:
        some = torch.from_numpy(places).to(labels.device)
        loss = cross_entropy(net(scaled(pixels[some])), labels[some])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def deviations(start: Mapping[str, Tensor], end: Mapping[str, Tensor], samples: int) -> dict[str, float]:
    """How far training moved the weights of each layer, first layer first: ‖W - W0‖_F / √samples (D §3 and Table 1).

    start, end: two states of one net. samples: "where n denotes the number of target examples" (D §3), not of weights.

    W0 is what fine-tuning starts from: pretrained layers and the new last layer, which D's fixed setting trains alone.
    D's value for fine-tuning all layers is the sum of these (Table 1, last column); its value for a fixed net is that
    of the last layer. Biases and the weights of batch normalisation are not counted: D writes weight matrices, and its
    code sums over those of convolutions.
    """
    moves = {name: end[name].double() - before.double() for name, before in start.items() if before.dim() > 1}
    return {name: float(move.norm()) / samples**0.5 for name, move in moves.items()}


@torch.no_grad()
def examined(net: nn.Module, pixels: Tensor, labels: Tensor) -> tuple[float, float]:
    """The mean loss in nats of a net on these images, and the share that it names right."""
    net.eval()
    loss, right = 0.0, 0
    for some, named in zip(pixels.split(EXAMINED), labels.split(EXAMINED), strict=True):
        outputs = net(scaled(some))
        loss += float(cross_entropy(outputs, named, reduction="sum"))
        right += int((outputs.argmax(1) == named).sum())
    return loss / len(labels), right / len(labels)
