"""Images of a folder as a task has them: decoded, brought to the row's form and turned when they are asked for.

A set such as Food-101 or ImageNet is never in memory as a whole. What does not change from image to image, labels by
class, is known without decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from raysweep.workloads.image_data.image_folder import ImageFiles

CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Decoded:
    """In place of a tensor of pixels, uint8 (count, channels, side, side), as far as training and examining use one.

    files: the images, with the side that they are decoded to.
    change: pixels as decoded, uint8 (count, side, side, 3) -> pixels of the task, uint8 (count, channels, side, side).
    device: where the pixels of the task are wanted.
    """

    files: ImageFiles
    change: Callable[[Tensor], Tensor]
    device: torch.device = CPU

    def __len__(self) -> int:
        return len(self.files)

    def to(self, device: torch.device) -> Decoded:
        return replace(self, device=device)

    def __getitem__(self, places: Any) -> Tensor:
        """The pixels of some images. places: int tensor (count,), or a slice."""
        chosen = places.cpu().numpy() if isinstance(places, Tensor) else places
        return self.change(torch.from_numpy(self.files[chosen])).to(self.device)

    def split(self, size: int) -> Iterator[Tensor]:
        """The pixels of all images, in parts of this size."""
        return (self[start : start + size] for start in range(0, len(self), size))
