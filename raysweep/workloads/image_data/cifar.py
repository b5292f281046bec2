"""CIFAR-10 and CIFAR-100 in their binary version: bytes of labels and 32 x 32 pixels, one image after the other.

The version for Python, which torchvision reads, is made of pickles. Reading a pickle can run whatever code its file
holds, so it is not read here.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from raysweep.workloads.image_data.idx import BadImages, reading

Arrays = tuple[np.ndarray, np.ndarray]
SIZE = 32
SITE = "https://www.cs.toronto.edu/~kriz"


@dataclass(frozen=True)
class Form:
    """One of the two sets.

    train, test: the files of the parts, and how many images each file has. names: the file with the names of classes.
    labels: bytes before the pixels of an image; the last one is its class (CIFAR-100 has the class of classes before).
    classes: how many classes there are, with as many images each. folder, archive: as published.
    python: what the version for Python is called.
    """

    title: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    images: int
    names: str
    labels: int
    classes: int
    folder: str
    archive: str
    python: str

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.train, *self.test, self.names)

    @property
    def source(self) -> str:
        return f"{SITE}/{self.archive} has it"

    def refused(self, folder: Path) -> str:
        """What to say where only the version for Python is there."""
        pickled = (self.python, self.archive.replace("binary", "python"))
        if folder.name == self.python or any((folder / name).exists() for name in pickled):
            return (
                f"it has {self.title} in the version for Python, which is made of pickles: to read one can run any "
                f"code, so the binary version is read alone; expected the folder {self.folder} of {SITE}/{self.archive}"
            )
        return ""

    def read(self, files: Mapping[str, Path]) -> tuple[list[Arrays], tuple[str, ...]]:
        """Pixels, uint8 (count, 32, 32, 3), and labels, uint8 (count,), of both parts; and the names of the classes."""
        classes = self._classes(files[self.names])
        for name in (*self.train, *self.test):
            self._check(files[name])
        return [self._part(files, names) for names in (self.train, self.test)], classes

    def _part(self, files: Mapping[str, Path], names: tuple[str, ...]) -> Arrays:
        size = self.labels + 3 * SIZE**2
        records = np.concatenate([np.fromfile(files[name], np.uint8).reshape(-1, size) for name in names])
        labels = np.ascontiguousarray(records[:, self.labels - 1])
        each = len(labels) // self.classes
        if labels.max() >= self.classes or (np.bincount(labels, minlength=self.classes) != each).any():
            where = files[names[0]] if len(names) == 1 else f"{files[names[0]].parent}/{names[0]} to {names[-1]}"
            raise BadImages(f"{where}: expected the labels of {self.title}, {each:,} images of each class, got others")
        pixels = records[:, self.labels :].reshape(-1, 3, SIZE, SIZE)
        return np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)), labels

    def _check(self, file: Path) -> None:
        """BadImages unless the file has as many bytes as its images, each of which has labels and pixels."""
        expected = (self.images if file.name in self.train else 10_000) * (self.labels + 3 * SIZE**2)
        with reading(file):
            size = file.stat().st_size
            file.open("rb").close()
        if size != expected:
            raise BadImages(f"{file}: expected {expected:,} bytes, it has {size:,}")

    def _classes(self, file: Path) -> tuple[str, ...]:
        names: tuple[str, ...] = ()
        with reading(file), contextlib.suppress(UnicodeDecodeError):
            names = tuple(file.read_text(encoding="utf-8").split())
        if len(set(names)) != self.classes or len(names) != self.classes:
            raise BadImages(f"{file}: expected the names of {self.classes} classes, one a line")
        return names


FORMS = {
    "cifar10": Form(
        "CIFAR-10",
        tuple(f"data_batch_{batch}.bin" for batch in range(1, 6)),
        ("test_batch.bin",),
        10_000,
        "batches.meta.txt",
        1,
        10,
        "cifar-10-batches-bin",
        "cifar-10-binary.tar.gz",
        "cifar-10-batches-py",
    ),
    "cifar100": Form(
        "CIFAR-100",
        ("train.bin",),
        ("test.bin",),
        50_000,
        "fine_label_names.txt",
        2,
        100,
        "cifar-100-binary",
        "cifar-100-binary.tar.gz",
        "cifar-100-python",
    ),
}
