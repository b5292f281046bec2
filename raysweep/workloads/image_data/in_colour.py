"""Images of 32 x 32 pixels in colour: CIFAR and SVHN.

CIFAR-10 and CIFAR-100 are read in their binary version: bytes of labels and pixels, one image after the other. The
version for Python, which torchvision reads, is made of pickles. Reading a pickle can run whatever code its file holds,
so it is not read here. SVHN, house numbers seen from the street, is read in its format 2, one digit an image, as files
of MATLAB.
"""

import contextlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from raysweep.workloads.image_data.mnist import DIGITS, Arrays, BadImages, reading, times

SIZE = 32
SITE = "https://www.cs.toronto.edu/~kriz"
SVHN = {"train_32x32.mat": 73_257, "test_32x32.mat": 26_032}


@dataclass(frozen=True)
class Cifar:
    """One of the two sets, each with 50,000 images to train on and 10,000 to test.

    train, test: the files of the parts, as many images in each of a part. names: the file with the names of classes.
    labels: bytes before the pixels of an image; the last one is its class (CIFAR-100 has the class of classes before).
    classes: how many classes there are, with as many images each. folder: as published. md5: of the archive.
    """

    title: str
    train: tuple[str, ...]
    test: str
    names: str
    labels: int
    classes: int
    folder: str
    md5: str

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.train, self.test, self.names)

    @property
    def archive(self) -> str:
        """As published."""
        return f"{self.title.lower()}-binary.tar.gz"

    @property
    def source(self) -> str:
        return f"{SITE}/{self.archive} has it"

    def refused(self, folder: Path) -> str:
        """What to say where only the version for Python is there."""
        python = self.folder.replace("binary", "python").replace("-bin", "-py")
        pickled = (python, self.archive.replace("binary", "python"))
        if folder.name == python or any((folder / name).exists() for name in pickled):
            return (
                f"it has {self.title} in the version for Python, which is made of pickles: to read one can run any "
                f"code, so the binary version is read alone; expected the folder {self.folder} of {SITE}/{self.archive}"
            )
        return ""

    def read(self, files: Mapping[str, Path]) -> tuple[list[Arrays], tuple[str, ...]]:
        """Pixels, uint8 (count, 32, 32, 3), and labels, uint8 (count,), of both parts; and the names of the classes."""
        file, classes = files[self.names], tuple[str, ...]()
        with reading(file), contextlib.suppress(UnicodeDecodeError):
            classes = tuple(file.read_text(encoding="utf-8").split())
        if len(set(classes)) != self.classes or len(classes) != self.classes:
            raise BadImages(f"{file}: expected the names of {self.classes} classes, one a line")
        train, test = [files[name] for name in self.train], [files[self.test]]
        return [self._part(train, 50_000), self._part(test, 10_000)], classes

    def _part(self, files: list[Path], count: int) -> Arrays:
        """BadImages unless each file has as many bytes as its images, and each class as many images."""
        size, each = self.labels + 3 * SIZE**2, count // self.classes
        for file in files:
            with reading(file):
                there = file.stat().st_size
                file.open("rb").close()
            if there != (expected := count // len(files) * size):
                raise BadImages(f"{file}: expected {expected:,} bytes, it has {there:,}")
        records = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, size) for file in files])
        labels = np.ascontiguousarray(records[:, self.labels - 1])
        if labels.max() >= self.classes or (np.bincount(labels, minlength=self.classes) != each).any():
            where = files[0] if len(files) == 1 else f"{files[0]} to {files[-1].name}"
            raise BadImages(f"{where}: expected the labels of {self.title}, {each:,} images of each class, got others")
        pixels = records[:, self.labels :].reshape(-1, 3, SIZE, SIZE)
        return np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)), labels


_TRAIN = tuple(f"data_batch_{batch}.bin" for batch in range(1, 6))
_MD5 = "c32a1d4ab5d03f1284b67883e8d87530", "03b5dce01913d631647c71ecec9e9cb8"
CIFAR = {
    "cifar10": Cifar("CIFAR-10", _TRAIN, "test_batch.bin", "batches.meta.txt", 1, 10, "cifar-10-batches-bin", _MD5[0]),
    "cifar100": Cifar(
        "CIFAR-100", ("train.bin",), "test.bin", "fine_label_names.txt", 2, 100, "cifar-100-binary", _MD5[1]
    ),
}


def read_svhn(files: Mapping[str, Path]) -> tuple[list[Arrays], tuple[str, ...]]:
    """Pixels, uint8 (count, 32, 32, 3), and labels, uint8 (count,), of both parts; and the names of the classes."""
    for name, file in files.items():
        _check(file, SVHN[name])
    return [_part(file) for file in files.values()], DIGITS


def _check(file: Path, count: int) -> None:
    """BadImages unless it says that it has the arrays X (32, 32, 3, count) and y (count, 1). Nothing else is read
    yet, so that a file of something else takes neither time nor memory."""
    shapes = {"X": (SIZE, SIZE, 3, count), "y": (count, 1)}
    none = "none (is the file cut short?)"
    there = {name: shape for name, shape, _ in _asked("whosmat", file)}
    for name, shape in shapes.items():
        if (got := there.get(name)) != shape:
            other = next((f", those of {part}" for part, many in SVHN.items() if got and many in got), "")
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
