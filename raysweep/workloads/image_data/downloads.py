"""Downloads published sets of images into the folder that a space names, when that is asked for.

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from raysweep.workloads.image_data import cifar, folders
from raysweep.workloads.image_data.idx import BadImages
from raysweep.workloads.image_data.vision_library import torchvision

Load = tuple[str, tuple[str, ...], str]
"""A file to load: its name, the addresses at which it may be, and its MD5."""

ARCHIVES: dict[str, Load] = {
    kind: (form.archive, (f"{cifar.SITE}/{form.archive}",), md5)
    for (kind, form), md5 in zip(
        cifar.FORMS.items(), ("c32a1d4ab5d03f1284b67883e8d87530", "03b5dce01913d631647c71ecec9e9cb8"), strict=True
    )
}
"""The binary versions, as their site names them."""
SECONDS = 60.0  # that a server may be silent


def fetch(kind: str, path: str, say: Callable[[str], None]) -> None:
    """Download the files of a set that a folder lacks; BadImages says why that is impossible."""
    try:
        folder, missing = folders.place(kind, path)
        if missing:
            _fetch(kind, folder, missing, say)
    except (OSError, RuntimeError) as error:
        raise BadImages(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error})") from None


def _fetch(kind: str, folder: Path, missing: list[str], say: Callable[[str], None]) -> None:
    title = folders.SETS[kind].title
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
