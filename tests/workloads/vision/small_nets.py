"""Nets of a few weights with a batch of images, small enough for explicit Hessians."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def convolutional(seed: int = 0) -> nn.Sequential:
    """One convolution, pooling, two products: 171 weights. Images of 6 x 6, 3 classes."""
    torch.manual_seed(seed)
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()), *(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
    )


def images(count: int = 40, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Random pixels and labels from 0 to 2."""
    stream = torch.Generator().manual_seed(seed)
    return torch.randn(count, 1, 6, 6, generator=stream), torch.randint(0, 3, (count,), generator=stream)
