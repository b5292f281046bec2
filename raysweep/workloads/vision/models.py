"""The nets: convolutions, what stands between them and the head, and the head, which fine-tuning replaces. Training.

Initial weights are drawn on the CPU from (seed, role): of a convolution or product N(0, 2/inputs) (He et al., 2015), of
the head uniform between ±1/√inputs, as torch starts it; offsets of all others are 0. Normalisations start at 1 and 0.

Training is stochastic gradient descent on cross entropy at a constant rate, with momentum and weight decay, which acts
on every weight, as in torch.optim.SGD. Batches are the parts of one order an epoch, drawn from the seed. Nets train one
at a time: on a CPU that is fastest, and a row then comes out the same in any company.
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
from raysweep.workloads.image_data.image_folder import torchvision
from raysweep.workloads.vision import shapes
from raysweep.workloads.vision.pixels import scaled

LOOKS = 20  # points of the learning curve of fine-tuning; at each of them a net that is not finite is given up
EXAMINED = 500  # images that are examined at a time


class Net(nn.Module):
    """pixels (count, channels, side, side), float32 from -1 to 1 -> outputs, one for each class, (count, classes).

    spatial: the convolutions, which give (count, channels, height, width).
    rest: all up to the features, (count, features). head: the last layer.
    """

    def __init__(self, spatial: nn.Module, rest: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.spatial, self.rest, self.head = spatial, rest, head

    def forward(self, pixels: Tensor) -> Tensor:
        return self.head(self.rest(self.spatial(pixels)))


def build(model: str, depth: int, shape: tuple[int, int], classes: int, seed: int) -> Net:
    """A net with its initial weights, on the CPU.

    depth: layers with the head, of small_cnn. shape: channels and side of its images.

    InputError if torchvision, which has the residual nets, cannot be imported.
    """
    spatial, rest, features = _body(model, depth, *shape)
    # channels lie innermost: on a CPU twice as fast with as few of them as here
    net = Net(spatial, rest, nn.Linear(features, classes)).to(memory_format=torch.channels_last)
    with torch.no_grad():
        for name, module in net.named_modules():
            if module is not net.head and isinstance(module, nn.Conv2d | nn.Linear):
                normal = draws.normal(seed, f"{model} {name}", *module.weight.shape)
                module.weight.copy_(torch.as_tensor(normal) * math.sqrt(2 / module.weight[0].numel()))
                if module.bias is not None:
                    module.bias.zero_()
    renew_head(net, classes, seed, "source")
    return net


def renew_head(net: Net, classes: int, seed: int, role: str) -> None:
    """Give a net a new head for this number of classes, where the net is. role: of which task ("source", "target")."""
    features = net.head.in_features
    stream, bound = draws.generator(seed, f"head of {role}"), 1 / math.sqrt(features)
    new = nn.Linear(features, classes)
    with torch.no_grad():
        for values in (new.weight, new.bias):
            values.copy_(torch.as_tensor(stream.uniform(-bound, bound, tuple(values.shape))))
    net.head = new.to(net.head.weight.device)


def layers(net: Net) -> list[nn.Module]:
    """The layers with weights, from the input on; the head is the last one."""
    return [module for module in net.modules() if isinstance(module, nn.Conv2d | nn.Linear)]


def freeze(net: Net, count: int) -> list[nn.Module]:
    """Keep the first layers, and all before the next one, as they are: their weights are not trained.

    Returns the modules that hold them, which must stay in evaluation.
    """
    if not count:
        return []
    first_free = layers(net)[count]
    frozen = []
    for module in net.modules():
        if module is first_free:
            break
        if not list(module.children()):
            frozen.append(module.requires_grad_(False))
    return frozen


def _body(model: str, depth: int, colours: int, side: int) -> tuple[nn.Module, nn.Module, int]:
    """`spatial`, `rest` and how many features they give."""
    if model in shapes.RESNETS:
        resnet = getattr(torchvision().models, model)(weights=None)
        if colours != 3:
            resnet.conv1 = nn.Conv2d(colours, 64, 7, stride=2, padding=3, bias=False)
        spatial = nn.Sequential(*(part for name, part in resnet.named_children() if name not in ("avgpool", "fc")))
        return spatial, nn.Sequential(resnet.avgpool, nn.Flatten()), resnet.fc.in_features
    if model == shapes.LENET:
        convolutions = [
            *(nn.Conv2d(colours, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        ]
        left = 16 * ((side // 2 - 4) // 2) ** 2
        rest = nn.Sequential(nn.Flatten(), nn.Linear(left, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU())
        return nn.Sequential(*convolutions), rest, 84
    convolutions, before = [], colours
    for convolution in range(depth - 1):
        out = shapes.channels(convolution)
        convolutions += [nn.Conv2d(before, out, 3, padding=1), nn.ReLU()]
        if shapes.pooled(convolution, side):
            convolutions.append(nn.MaxPool2d(2))
            side //= 2
        before = out
    return nn.Sequential(*convolutions), nn.Flatten(), before * side**2


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
