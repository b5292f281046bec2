"""The images of source and target as tensors: brought to one form, turned, labelled anew, scaled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from raysweep.workloads import image_data
from raysweep.workloads.image_data import Images
from raysweep.workloads.image_data.image_folder import ImageFiles
from raysweep.workloads.vision import tasks
from raysweep.workloads.vision.tasks import Row

LUMA = (0.299, 0.587, 0.114)  # what red, green and blue weigh in grey (ITU-R BT.601)
AT_ONCE = 4096  # images that are resized or turned together
DECODED = 500  # images that are decoded together
Form = tuple[int, int]  # channels and side
Look = tuple[str, str, float]  # label, flip and rotation


@dataclass(frozen=True, eq=False)
class Decoded:
    """In place of a tensor of pixels, uint8 (count, channels, side, side), as far as training and examining use one:
    images of a folder, decoded when they are asked for. A set such as ImageNet is never in memory as a whole.

    files: the images, with the side that they are decoded to.
    change: pixels as decoded, uint8 (count, side, side, 3) -> pixels of the task, uint8 (count, channels, side, side).
    device: where the pixels of the task are wanted.
    """

    files: ImageFiles
    change: Callable[[Tensor], Tensor]
    device: torch.device

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


@dataclass(frozen=True, eq=False)
class Task:
    """pixels: uint8 (count, channels, side, side), 255 being white. labels: int64 (count,), from 0 to classes - 1."""

    train_pixels: Tensor | Decoded
    train_labels: Tensor
    test_pixels: Tensor | Decoded
    test_labels: Tensor
    classes: int

    def to(self, device: torch.device) -> Task:
        parts = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "classes"}
        return replace(self, **{name: part.to(device) for name, part in parts.items()})


def scaled(pixels: Tensor) -> Tensor:
    """Pixels as nets take them, float32: black is -1 and white 1."""
    values = pixels.to(torch.float32, memory_format=torch.channels_last)
    return values.mul_(2 / 255).sub_(1)


def source(row: Row) -> Task:
    """The task of pretraining. Training images come in the order of the draw."""
    return _task(row, "source", tasks.source_classes(row), (row["label"], row["flip"], float(row["rotation"])))


def target(row: Row) -> Task:
    """The task of fine-tuning: its first training images by the order of the draw."""
    return _task(row, "target", tasks.target_classes(row), (tasks.CLASS, tasks.UPRIGHT, 0.0))


def _task(row: Row, role: str, classes: list[int], look: Look) -> Task:
    digest, samples = image_data.digest_of(row[role], role), int(row[f"{role}_samples"])
    half = int(role == "target") if tasks.one_set(row) else None
    return _made(row[role], digest, tasks.form(row), row["seed"], tuple(classes), half, samples, look)


@functools.lru_cache(maxsize=4)
def _made(
    name: str, digest: str, form: Form, seed: int, classes: tuple[int, ...], half: int | None, samples: int, look: Look
) -> Task:
    """digest: that of the images called `name`, so that others of that name are not taken for them. samples: training
    images; 0 for all."""
    data, (label, flip, rotation) = image_data.load(name), look
    train, test = data.train, data.test.select(classes)
    places = tasks.order(train.labels, list(classes), seed, half)[: samples or None]
    train = train.take(places)
    label_of = _labelling(label, train, classes)

    def change(pixels: Tensor) -> Tensor:
        return _turned(_formed(pixels, data.white, form), flip, rotation)

    def made(some: Images) -> tuple[Tensor | Decoded, Tensor]:
        labels = torch.as_tensor(label_of(some))
        if isinstance(some.pixels, ImageFiles):
            return Decoded(some.pixels.at(form[1]), change, torch.device("cpu")), labels
        return change(torch.as_tensor(some.pixels.copy())), labels

    return Task(*made(train), *made(test), len(classes))


def _labelling(label: str, train: Images, classes: tuple[int, ...]) -> Callable[[Images], np.ndarray]:
    """images -> labels from 0 to the number of classes - 1, int64.

    brightness, colour: the mean of the upper half, or the hue of its mean colour, in as many ranges as there are
    classes, each with equally many of the training images (as nearly as equal values allow).
    """
    if label == tasks.CLASS:
        return lambda some: np.searchsorted(classes, some.labels).astype(np.int64)
    value = _brightness if label == tasks.BRIGHTNESS else _hue
    limits = np.quantile(value(train.pixels), np.arange(1, len(classes)) / len(classes))
    return lambda some: np.searchsorted(limits, value(some.pixels), side="right").astype(np.int64)


def _upper(pixels: np.ndarray | ImageFiles) -> np.ndarray:
    """The mean of the upper half of images, (count,) or (count, colours)."""
    half, parts = (pixels.shape[1] + 1) // 2, range(0, len(pixels), DECODED)
    means = [pixels[start : start + DECODED][:, :half].mean(axis=(1, 2), dtype=np.float64) for start in parts]
    return np.concatenate(means)


def _brightness(pixels: np.ndarray | ImageFiles) -> np.ndarray:
    mean = _upper(pixels)
    return mean if mean.ndim == 1 else np.asarray(mean @ np.array(LUMA))


def _hue(pixels: np.ndarray | ImageFiles) -> np.ndarray:
    """The angle on the circle of hues, from red, in radians from -π to π; 0 of grey."""
    red, green, blue = _upper(pixels).T
    return np.arctan2(np.sqrt(3) * (green - blue), 2 * red - green - blue)


def _formed(pixels: Tensor, white: int, form: Form) -> Tensor:
    """uint8 (count, height, width) or (count, height, width, 3) -> uint8 (count, channels, side, side).

    Images become grey or coloured, the shorter side is filled with black, and bilinear interpolation (over all pixels
    that one of the result covers) makes them larger or smaller.
    """
    channels, side = form
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2)
    height, width = pixels.shape[2:]
    if pixels.shape[1] == channels and (height, width) == (side, side) and white == 255:
        return pixels.contiguous()

    def change(values: Tensor) -> Tensor:
        if values.shape[1] > channels:
            values = (values * torch.tensor(LUMA)[:, None, None]).sum(1, keepdim=True)
        values, whole = values.expand(-1, channels, -1, -1), max(height, width)
        above, left = (whole - height) // 2, (whole - width) // 2
        values = functional.pad(values, (left, whole - width - left, above, whole - height - above))
        if whole != side:
            values = functional.interpolate(values, (side, side), mode="bilinear", antialias=True)
        return values * (255 / white)

    return _by_parts(pixels, change)


def _turned(pixels: Tensor, flip: str, rotation: float) -> Tensor:
    """Upside down (the highest row becomes the lowest), then turned against the clock by degrees, around the middle;
    what comes from outside is black."""
    if flip == tasks.UPSIDE_DOWN:
        pixels = pixels.flip(2)
    if rotation % 90 == 0:
        return torch.rot90(pixels, int(rotation // 90) % 4, (2, 3)).contiguous()
    angle = np.deg2rad(rotation)
    back = torch.tensor([[np.cos(angle), -np.sin(angle), 0.0], [np.sin(angle), np.cos(angle), 0.0]])

    def change(values: Tensor) -> Tensor:
        turns = back.to(values).expand(len(values), 2, 3)
        grid = functional.affine_grid(turns, list(values.shape), align_corners=False)
        return functional.grid_sample(values, grid, align_corners=False)

    return _by_parts(pixels, change)


def _by_parts(pixels: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """A change of float32 images, rounded to uint8."""
    return torch.cat([change(some.float()).round_().clamp_(0, 255).byte() for some in pixels.split(AT_ONCE)])
