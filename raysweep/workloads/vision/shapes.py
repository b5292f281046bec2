"""The nets in numbers: how many layers they have, which images they take and what an image costs; without torch.

A layer is one with weights, a convolution or a product; the last one is the head.

small_cnn   depth - 1 convolutions of 3 x 3 with ReLU, of 16 channels and then 32, then the head on all that is left;
            the first two are followed by maximum pooling of 2 x 2, as long as the side is 4 or more
lenet       LeCun et al. (1998) as it is used today: 6 and 16 channels of 5 x 5, the first ones padded by 2, with ReLU
            and maximum pooling, then 120, 84 and the head (in 1998: tanh, averages, a partly connected second layer)
resnet18, resnet50   torchvision's, for any side
"""

import itertools
import math
from dataclasses import dataclass

SMALL_CNN, LENET, RESNET18, RESNET50 = MODELS = "small_cnn", "lenet", "resnet18", "resnet50"
RESNETS = RESNET18, RESNET50
POOLED = 2  # convolutions of small_cnn that are followed by pooling
_LAYERS = {LENET: 5, RESNET18: 21, RESNET50: 54}  # with those outside the blocks of a residual net, and the head
_AT_224 = {RESNET18: (1.81e9, 1.17e7, 7.5e6), RESNET50: (4.09e9, 2.56e7, 3.2e7)}  # products, weights, activations


@dataclass(frozen=True)
class Size:
    """Of one image in a net: products (multiplications and additions as one), weights and activations."""

    products: float
    weights: float
    activations: float


def layers(model: str, depth: int) -> int:
    return depth if model == SMALL_CNN else _LAYERS[model]


def smallest_side(model: str) -> int:
    """Pixels of the side of the smallest image that a net takes."""
    return 12 if model == LENET else 1


def channels(convolution: int) -> int:
    """Of a convolution of small_cnn, the first being 0."""
    return 16 if convolution == 0 else 32


def pooled(convolution: int, side: int) -> bool:
    """Whether pooling follows a convolution of small_cnn whose images have this side."""
    return convolution < POOLED and side >= 4


def size(model: str, depth: int, side: int, colours: int, classes: int) -> Size:
    if model in RESNETS:
        at_224, share = _AT_224[model], math.ceil(side / 32) ** 2 / 49
        return Size(at_224[0] * share, at_224[1], at_224[2] * share)
    if model == LENET:
        first, left = side // 2, side // 2 - 4
        fully = [16 * (left // 2) ** 2, 120, 84, classes]
        convolved = [25 * colours * 6 * side**2, 25 * 6 * 16 * left**2]
        weights = 25 * colours * 6 + 25 * 6 * 16
        activations = 6.0 * (2 * side**2 + first**2) + 16 * 2 * left**2
    else:
        convolved, weights, activations, before = [], 0, float(colours * side**2), colours
        for convolution in range(depth - 1):
            out = channels(convolution)
            convolved.append(9 * before * out * side**2)
            weights, activations, before = weights + 9 * before * out, activations + 3 * out * side**2, out
            side = side // 2 if pooled(convolution, side) else side
        fully = [before * side**2, classes]
    products = [before * after for before, after in itertools.pairwise(fully)]
    return Size(sum(convolved) + sum(products), weights + sum(products), activations)
