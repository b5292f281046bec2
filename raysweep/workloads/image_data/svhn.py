"""SVHN, house numbers seen from the street: its format 2, one digit in 32 x 32 pixels, as files of MATLAB."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from raysweep.workloads.image_data.idx import BadImages, times

Arrays = tuple[np.ndarray, np.ndarray]
SIZE = 32
PARTS = {"train_32x32.mat": 73_257, "test_32x32.mat": 26_032}
FILES = tuple(PARTS)
CLASSES = tuple(map(str, range(10)))


def read(files: Mapping[str, Path]) -> tuple[list[Arrays], tuple[str, ...]]:
    """Pixels, uint8 (count, 32, 32, 3), and labels, uint8 (count,), of both parts; and the names of the classes."""
    for name, file in files.items():
        _check(file, PARTS[name])
    return [_part(file) for file in files.values()], CLASSES


def _check(file: Path, count: int) -> None:
    """BadImages unless it says that it has the arrays X (32, 32, 3, count) and y (count, 1). Nothing else is read
    yet, so that a file of something else takes neither time nor memory."""
    shapes = {"X": (SIZE, SIZE, 3, count), "y": (count, 1)}
    none = "none (is the file cut short?)"
    there = {name: shape for name, shape, _ in _asked("whosmat", file)}
    for name, shape in shapes.items():
        if (got := there.get(name)) != shape:
            other = next((f", those of {part}" for part, many in PARTS.items() if got and many in got), "")
            expected = f"expected the array {name} of {times(shape)} values"
            raise BadImages(f"{file}: {expected}, got {times(got) if got else none}{other}")


def _part(file: Path) -> Arrays:
    """Its arrays, in which the digit 0 has the label 10."""
    arrays = _asked("loadmat", file, variable_names=["X", "y"])
    pixels, labels = arrays["X"], arrays["y"].reshape(-1)
    if pixels.dtype != np.uint8 or not np.isin(labels, range(1, 11)).all():
        raise BadImages(f"{file}: expected pixels as bytes and labels from 1 to 10")
    return np.ascontiguousarray(pixels.transpose(3, 0, 1, 2)), (labels % 10).astype(np.uint8)


def _asked(function: str, file: Path, **options: Any) -> Any:
    import scipy.io

    try:
        return getattr(scipy.io, function)(file, **options)
    except OSError as error:
        raise BadImages(f"{file}: cannot be read ({error.strerror or error})") from None
    except (ValueError, TypeError, KeyError, IndexError, NotImplementedError, MemoryError, zlib.error) as error:
        raise BadImages(f"{file}: expected a file of MATLAB 5, it is none or cut short ({error})") from None
    except Exception as error:
        if type(error).__module__.startswith("scipy.io"):
            raise BadImages(f"{file}: expected a file of MATLAB 5, it is none ({error})") from None
        raise
