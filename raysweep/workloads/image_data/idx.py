"""The idx format, in which MNIST and sets made after it are published: a few bytes of header, then an array."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np


class BadImages(ValueError):
    """Images that cannot be used; its text says why."""


def read(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """The unsigned bytes in a file, which may be gzipped (.gz); BadImages unless they have this shape.

    The header is two bytes of 0, one for the type (8: unsigned bytes), one for the number of dimensions, and 4 bytes a
    dimension, big-endian. No more is read than such an array needs, however far a damaged file unpacks.
    """
    header = bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape)
    length = len(header) + int(np.prod(shape))
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(length + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadImages(f"{path}: cannot be read ({reason})") from None
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
