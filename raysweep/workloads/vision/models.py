"""The nets: convolutions, what stands between them and the head, and the head, which fine-tuning replaces.

Initial weights are drawn on the CPU from (seed, role): of a convolution or product N(0, 2/inputs) (He et al., 2015), of
the head uniform between ±1/√inputs, as torch starts it; offsets of all others are 0. Normalisations start at 1 and 0.
"""

import math

import torch
from torch import Tensor, nn

from raysweep.training import draws
from raysweep.workloads.image_data.vision_library import torchvision
from raysweep.workloads.vision import shapes


class Net(nn.Module):
    """pixels (count, channels, side, side), float32 from -1 to 1 -> outputs, one for each class, (count, classes).

    spatial: the convolutions, which give (count, channels, height, width).
    rest: all up to the features, (count, features).
    head: the last layer.
    """

    def __init__(self, spatial: nn.Module, rest: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.spatial, self.rest, self.head = spatial, rest, head

    def forward(self, pixels: Tensor) -> Tensor:
        return self.head(self.rest(self.spatial(pixels)))


def build(model: str, depth: int, shape: tuple[int, int], classes: int, seed: int) -> Net:
    """A net with its initial weights, on the CPU.

    depth: layers with the head, of small_cnn.
    shape: channels and side of its images.

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
        return _resnet(model, colours)
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


def _resnet(model: str, colours: int) -> tuple[nn.Module, nn.Module, int]:
    resnet = getattr(torchvision().models, model)(weights=None)
    if colours != 3:
        resnet.conv1 = nn.Conv2d(colours, 64, 7, stride=2, padding=3, bias=False)
    spatial = nn.Sequential(*(part for name, part in resnet.named_children() if name not in ("avgpool", "fc")))
    return spatial, nn.Sequential(resnet.avgpool, nn.Flatten()), resnet.fc.in_features
