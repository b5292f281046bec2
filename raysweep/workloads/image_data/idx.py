"""The idx format, in which MNIST and sets made after it are published: a few bytes of header, then an array."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np


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
