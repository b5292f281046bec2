"""Folders of images, one folder a class, as torchvision's ImageFolder reads them: images of any size, in files.

    FOLDER/train/CLASS/*.jpg and FOLDER/test/CLASS/*.jpg (or val)     training and test images
    FOLDER/CLASS/*.jpg                                                every fifth image of each class is a test image

The first image of a class is a test image there, the next four are not. Classes and images stand in the order of their
names. Files and folders that begin with a dot do not count. Images may lie in folders below that of their class.

All files are read once, for the digest of the set; it is kept in the user's cache for as long as names, sizes and times
of the files stay. Images are decoded when they are used, not before.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from raysweep.errors import InputError
from raysweep.workloads import cache
from raysweep.workloads.image_data.mnist import BadImages, reading

SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""Those of torchvision's ImageFolder."""
SIDE = 224  # pixels a side if nobody asks for others: what residual nets are trained on
TEST_EVERY = 5
THREADS, WAITING = 8, 1000  # that read files, and files that wait for them
FORM = "a folder with folders train and test (or val) of a folder for each class, or with the folders of classes alone"


def torchvision() -> Any:
    """The package torchvision. InputError if it cannot be imported: one line that says what to install.

    Its compiled part belongs to one build of torch. With another one, for example the CUDA build with a torch
    for the CPU alone, it raises whatever torch or the loader meets first: RuntimeError (operator torchvision::nms does
    not exist; other major versions of CUDA), ImportError, OSError, and AttributeError at the second try.
    """
    try:
        return import_module("torchvision")
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        import torch

        build = torch.__version__.partition("+")[2] or ("cpu" if torch.version.cuda is None else "")
        message = " ".join(str(error).split())[:120]
        raise InputError(
            "torchvision",
            f"cannot be imported beside torch {torch.__version__} ({type(error).__name__}: {message}); install both "
            f"for {build or 'one build'}: pip install --force-reinstall torch torchvision, with the --index-url that "
            "PyTorch's own instructions name for it",
        ) from None


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Images in files, in place of an array of pixels, uint8 (count, side, side, 3): `images[indices]` is such an
    array. The shorter side of an image is resized to `side`, bilinearly, and its centre is cut out."""

    files: tuple[str, ...]
    side: int = SIDE

    def __len__(self) -> int:
        return len(self.files)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self.files), self.side, self.side, 3

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def at(self, side: int) -> ImageFiles:
        return replace(self, side=side)

    def only(self, indices: np.ndarray) -> ImageFiles:
        return replace(self, files=tuple(self.files[index] for index in indices.tolist()))

    def __getitem__(self, indices: Any) -> np.ndarray:
        """The pixels of some images, or of one, decoded by as many threads as torch computes with."""
        import torch

        chosen = np.arange(len(self.files))[indices]
        if not chosen.ndim:
            return _decoded(self.side, self.files[chosen])
        pixels = np.empty((len(chosen), *self.shape[1:]), np.uint8)
        files = [self.files[index] for index in chosen.tolist()]
        torchvision()  # imported by one thread alone
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            for place, image in enumerate(pool.map(partial(_decoded, self.side), files)):
                pixels[place] = image
        return pixels


@dataclass(frozen=True)
class Listing:
    """The files of a folder. classes: their names in order. train, test: the files and the classes of both parts."""

    root: Path
    classes: tuple[str, ...]
    train: tuple[tuple[str, int], ...]
    test: tuple[tuple[str, int], ...]


def listed(path: str) -> Listing:
    """The images in a folder; BadImages if it has another form."""
    with reading(path):
        return _listed(Path(path).expanduser())


def signature(listing: Listing) -> str:
    """A text that changes when the files change: a digest of their names, sizes and times."""
    hashed = hashlib.sha256()
    for file, label in (*listing.train, *listing.test):
        with reading(file):
            at = os.stat(file)
        hashed.update(f"{file}\0{label}\0{at.st_size}\0{at.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return hashed.hexdigest()


def digest(listing: Listing, signed: str) -> str:
    """16 hexadecimal digits that identify the contents of the files, their names, classes and the split.

    signed: the signature of the files, under which the digest is kept. BadImages names a file that is no image.
    """
    kept = cache.array(f"images-{signed}", lambda: np.frombuffer(_digest(listing).encode(), np.uint8))
    return kept.tobytes().decode()


def _digest(listing: Listing) -> str:
    content = hashlib.sha256(json.dumps(listing.classes).encode())
    with ThreadPoolExecutor(THREADS) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PIL, about images that it reads nevertheless
        for part in (listing.train, listing.test):
            content.update(f"/{len(part)}/".encode())
            for start in range(0, len(part), WAITING):
                files = [file for file, _ in part[start : start + WAITING]]
                for file, read in zip(files, pool.map(_read, files), strict=True):
                    name = os.path.relpath(file, listing.root)
                    content.update(f"{name}\0{read}\n".encode(errors="surrogateescape"))
    return content.hexdigest()[:16]


def _listed(root: Path) -> Listing:
    if not root.is_dir():
        what = f"{root} is a file" if root.is_file() else f"no folder {root}"
        raise BadImages(f"{what}; expected {FORM}")
    parts = [root / name for name in ("train", "test", "val") if _folders(root / name)]
    if not parts:
        return _split(root, _classes(root))
    if parts[0].name != "train":
        raise BadImages(f"{root}: it has {parts[0].name}, but no train; expected {FORM}")
    if len(parts) == 1:
        raise BadImages(f"{root}: it has train, but neither test nor val; expected {FORM}")
    train, test = (_classes(part) for part in parts[:2])
    if other := sorted(train.keys() ^ test.keys()):
        has, lacks = parts[:2] if other[0] in train else parts[1::-1]
        raise BadImages(f"{lacks}: no folder {other[0]}, which is a class of {has.name}")
    pairs = (
        tuple((file, label) for label, files in enumerate(part.values()) for file in files) for part in (train, test)
    )
    return Listing(root, tuple(train), *pairs)


def _split(root: Path, classes: dict[str, list[str]]) -> Listing:
    parts: tuple[list[tuple[str, int]], ...] = ([], [])
    for label, files in enumerate(classes.values()):
        if len(files) < 2:
            raise BadImages(
                f"{root / list(classes)[label]}: a class with one image; every fifth image is a test image, so a class "
                "needs two at least"
            )
        for place, file in enumerate(files):
            parts[place % TEST_EVERY == 0].append((file, label))
    return Listing(root, tuple(classes), *map(tuple, parts))


def _classes(folder: Path) -> dict[str, list[str]]:
    folders = _folders(folder)
    if len(folders) < 2:
        got = f"one, {folders[0].name}" if folders else "none"
        raise BadImages(f"{folder}: expected a folder for each of at least two classes, got {got}")
    classes = {each.name: sorted(_images(str(each))) for each in folders}
    if empty := [name for name, files in classes.items() if not files]:
        raise BadImages(f"{folder / empty[0]}: a class without images")
    return classes


def _folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))


def _images(folder: str) -> Iterator[str]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _images(entry.path)
        elif entry.name.lower().endswith(SUFFIXES):
            yield entry.path
        else:
            raise BadImages(f"{entry.path}: expected an image ({', '.join(SUFFIXES)}), it is none")


def _read(file: str) -> str:
    """The SHA-256 of a file; BadImages if it is no image, or one cut short."""
    import io

    from PIL import Image

    with reading(file), open(file, "rb") as opened:
        content = opened.read()
    try:
        with Image.open(io.BytesIO(content)) as image:
            # After its last header (FF DA) a whole JPEG ends with FF D9, and coded pixels hold neither. Decoding takes
            # twenty times as long as this look, so only files that end in another way are decoded.
            if image.format != "JPEG" or content.rfind(b"\xff\xd9") < content.rfind(b"\xff\xda"):
                image.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        why = str(error).replace(str(content), "")
        raise BadImages(f"{file}: expected an image, it is none or cut short ({why})") from None
    return hashlib.sha256(content).hexdigest()


def _decoded(side: int, file: str) -> np.ndarray:
    library = torchvision()
    with reading(file):
        image = library.datasets.folder.pil_loader(file)
    change = library.transforms.functional
    return np.asarray(change.center_crop(change.resize(image, side), side))
