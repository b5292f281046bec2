"""Pretraining by reconstruction of masked images: SimMIM (Xie et al. 2022) for convolutional models, as in M §5.

From SimMIM: an image is cut into patches, of which a share is masked; a learned token stands in their place in the
input; one layer predicts pixels from the encoder's last features; the loss is the mean absolute error of the masked
pixels, and of no others.

What M and SimMIM leave open for a convolutional model, and what is done here:

- A patch has a seventh of the image's side (SimMIM: 32 of 224 pixels), rounded, and at least 2 pixels. Patches at the
  right and lower edge are cut off where the side is no multiple of theirs.
- The token is a patch of pixels, learned, 0 at the start: there are no vectors of patches that it could replace.
- The layer is a convolution of 1 x 1 that gives the pixels of a square of the image for each place of the features.
  Where these squares cover more than the image, what is beyond its right and lower edge is left out. M says that its
  decoder is a transformer of four layers; SimMIM found one layer no worse.
- The optimizer is that of supervised pretraining, SGD (SimMIM: AdamW), and decays token and layer as all weights.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from raysweep.training import draws
from raysweep.workloads.vision import tasks
from raysweep.workloads.vision.models import EXAMINED
from raysweep.workloads.vision.pixels import scaled

PATCHES = 7  # a side
SMALLEST = 2  # pixels a side of a patch


def patch_of(side: int) -> int:
    """Pixels a side of the patches of an image of that side."""
    return max(SMALLEST, round(side / PATCHES))


def masks(seed: int, role: str, count: int, side: int, ratio: float) -> Tensor:
    """Masks of images, float32 (count, 1, side, side): 1 where masked, 0 elsewhere.

    ratio: the share of patches that is masked, in each image the same number, rounded up.
    role: what they are for. The first images have the same masks however many there are.
    """
    patch = patch_of(side)
    cells = math.ceil(side / patch)
    chosen = draws.generator(seed, role).random((count, cells**2)).argsort(1)[:, : math.ceil(ratio * cells**2)]
    grid = np.zeros((count, cells**2), np.float32)
    np.put_along_axis(grid, chosen, 1, axis=1)
    square = torch.from_numpy(grid).view(count, 1, cells, cells)
    return square.repeat_interleave(patch, 2).repeat_interleave(patch, 3)[:, :, :side, :side]


class Reconstruction(nn.Module):
    """A convolutional encoder with the token and the layer of SimMIM.

    spatial: the encoder, (count, channels, side, side) -> (count, features, height, width).
    shape: (channels, side) of the images. row: the parameters, of which seed and mask_ratio matter.
    Weights of the layer are N(0, 1/3 features), drawn from the seed: as wide as torch's own.
    """

    def __init__(self, spatial: nn.Module, shape: tuple[int, int], row: Mapping[str, Any]) -> None:
        super().__init__()
        channels, side = shape
        self.spatial, self.side, self.seed, self.ratio = spatial, side, int(row["seed"]), float(row["mask_ratio"])
        spatial.eval()  # nothing may be learned from the shape
        with torch.no_grad():
            features, height, width = spatial(torch.zeros(1, channels, side, side)).shape[1:]
        self.square = math.ceil(side / min(height, width))
        self.token = nn.Parameter(torch.zeros(channels, patch_of(side), patch_of(side)))
        self.layer = nn.Conv2d(features, channels * self.square**2, 1)
        drawn = draws.normal(self.seed, "layer that reconstructs", *self.layer.weight.shape) / math.sqrt(3 * features)
        with torch.no_grad():
            self.layer.weight.copy_(torch.from_numpy(drawn))
            self.layer.bias.zero_()

    def forward(self, pixels: Tensor, masked: Tensor) -> Tensor:
        """Predicted pixels of images, (count, channels, side, side), of which the encoder sees what is not masked."""
        times = math.ceil(self.side / self.token.shape[-1])
        token = self.token.repeat(1, times, times)[:, : self.side, : self.side]
        features = self.spatial(torch.where(masked > 0, token, pixels))
        return nn.functional.pixel_shuffle(self.layer(features), self.square)[:, :, : self.side, : self.side]

    def descend(
        self, optimizer: torch.optim.Optimizer, pixels: Tensor, batches: Sequence[np.ndarray], epoch: int, done: int = 0
    ) -> Iterator[Tensor]:
        """Train step by step on an epoch's batches after the first `done`; gives the loss of each before its step."""
        self.train()
        for number, places in enumerate(batches[done:], done):
            some = scaled(pixels[torch.from_numpy(places).to(pixels.device)])
            at = self.masks(f"masks of epoch {epoch}, batch {number}", len(places)).to(pixels.device)
            error = loss(self(some, at), some, at)
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            yield error.detach()

    @torch.no_grad()
    def held_out_loss(self, pixels: Tensor) -> float:
        """The loss on the first images of those that nothing was trained on, with the same masks for all of a seed."""
        self.eval()
        pixels = pixels[: tasks.HELD_OUT]
        every = self.masks("masks of held-out images", len(pixels)).to(pixels.device)
        total = 0.0
        for some, at in zip(pixels.split(EXAMINED), every.split(EXAMINED), strict=True):
            total += float(loss(self(scaled(some), at), scaled(some), at)) * float(at.sum())
        return total / float(every.sum())

    def masks(self, role: str, count: int) -> Tensor:
        return masks(self.seed, role, count, self.side, self.ratio)

    def decoder(self) -> dict[str, Tensor]:
        return {name: values for name, values in self.state_dict().items() if not name.startswith("spatial.")}

    def restore(self, decoder: Mapping[str, Any]) -> None:
        self.load_state_dict({name: torch.as_tensor(values) for name, values in decoder.items()}, strict=False)


def loss(predicted: Tensor, pixels: Tensor, masked: Tensor) -> Tensor:
    """Mean absolute error of the masked pixels of all images, in the units of the pixels."""
    return ((predicted - pixels).abs() * masked).sum() / (masked.sum() * pixels.shape[1])
