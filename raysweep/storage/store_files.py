"""Where a stage store lies: a local folder, or any file system of fsspec, behind the few operations that it needs.

What each place guarantees about `create`, on which "published exactly once" rests:

- a local folder (NFS included): exclusive, by a hard link. A file system without hard links (FAT, some FUSE mounts)
  falls back to look-then-rename, where two writers in the same instant both think they were first.
- s3://: exclusive, by a PUT with If-None-Match (AWS, and compatible servers that honour the header; s3fs and its
  botocore > 1.35.20 must be installed). A server that ignores the header silently overwrites.
- gs://: exclusive, by a precondition on the generation (gcsfs must be installed, and calls this experimental).
- memory://: exclusive among the threads of one process; other processes do not see it at all.
- every other file system: look, write, and read back to see whose it is: two writers can still both have won, for
  a moment. The price is a stage computed twice, never a damaged one.

Credentials and endpoints are fsspec's own configuration (FSSPEC_S3_ENDPOINT_URL, ~/.config/fsspec/*.json, AWS_*, …).
Reading raises FileNotFoundError for what is not there; reading and writing raise InputError, one line, where the place
is read-only, full or out of reach.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, cast

from raysweep.errors import InputError
from raysweep.redaction import has_password
from raysweep.storage import files, objects
from raysweep.storage.objects import as_system_errors
from raysweep.storage.paths import AnyPath, slashes_short

_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_EXCLUSIVE = frozenset({"memory", "s3", "s3a", "gs", "gcs"})
_MEMORY = threading.Lock()  # fsspec's memory looks, then creates


class Files(Protocol):
    """Files below one root, named by relative paths with '/'."""

    root: str

    def create(self, name: str, content: bytes) -> bool:
        """Put a file there, whole or not at all; False, and nothing changed, if there is one (not of this content)."""

    def replace(self, name: str, content: bytes) -> None:
        """Put a file there in one step, whatever was there."""

    def write(self, name: str, pieces: Iterable[memoryview]) -> None:
        """Stream a large file to a name that nobody else uses; durable on return, half-written after a crash."""

    def read(self, name: str) -> bytes:
        """A whole file."""

    def open(self, name: str) -> io.RawIOBase:
        """A file to be read from its beginning, unbuffered."""

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted; none if there is no such folder."""

    def size(self, name: str) -> int:
        """Bytes of a file."""

    def age(self, name: str) -> float:
        """Seconds since it was last written, 0 where the file system cannot tell."""

    def move(self, name: str, target: str) -> bool:
        """Rename a file (on an object store: copy, then delete); False if it is not there."""

    def remove(self, name: str) -> None:
        """Delete a file if it is there."""

    def leave(self, name: str, root_too: bool) -> None:
        """Take back a beginning: delete this file, and the folders that are empty then; the root if it was not there
        when it was opened, or root_too."""


def open_files(url: str | AnyPath) -> Files:
    """The files below a path or URL; InputError if no file system goes by that name. Creates nothing."""
    text = str(url)
    if has_password(text):
        raise InputError(
            text,
            "the address of a store is recorded and shown; give its credentials by the environment "
            "(AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, FSSPEC_…)",
        )
    protocol, separator, rest = text.partition("://")
    if "::" in text:
        raise InputError(text, "expected a plain path or URL for the store (a cache in between hides what others do)")
    if not separator and (almost := slashes_short(text)):
        raise InputError(text, f"expected a folder or an address such as {almost}")
    if not separator or protocol in ("file", "local"):
        return LocalFiles(Path(rest if separator else text).expanduser().absolute())
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(text, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        raise InputError(text, f"no such place for a store: {error}") from None
    return RemoteFiles(system, path.rstrip("/"), f"{protocol}://{rest.rstrip('/')}", protocol)


@contextlib.contextmanager
def writing(root: str) -> Iterator[None]:
    """Turn what the operating system says about a failed write into one line that begins with the store's address."""
    try:
        yield
    except OSError as error:
        if error.errno in _READ_ONLY or isinstance(error, PermissionError):
            raise InputError(root, "the store is read-only here; expected one that can be written") from error
        if error.errno in _FULL:
            raise InputError(
                root,
                f"the store is full ({os.strerror(error.errno)}); make room (raysweep store prune) "
                "and run again: what was published is kept",
            ) from error
        raise InputError(root, f"the store cannot be written: {error.strerror or error}") from error


@contextlib.contextmanager
def reading(root: str) -> Iterator[None]:
    """The same for reading; what is not there is for the caller."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(root, f"the store cannot be read: {error.strerror or error}") from error


def _found(place: Files, name: str) -> bytes | None:
    try:
        return place.read(name)
    except FileNotFoundError:
        return None


class LocalFiles:
    """A folder of this machine, or one that several machines mount."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._folder = root
        self._was_there = os.path.exists(root)  # Path.exists raises for a name that no file can have

    def create(self, name: str, content: bytes) -> bool:
        with writing(self.root):
            if files.publish(self._path(name), content):
                return True
        return _found(self, name) == content  # over NFS a link that was made may be reported as there already

    def replace(self, name: str, content: bytes) -> None:
        with writing(self.root):
            files.replace(self._path(name), content)

    def write(self, name: str, pieces: Iterable[memoryview]) -> None:
        with writing(self.root):
            path = self._path(name)
            try:
                with open(path, "xb", buffering=0) as stream:
                    for piece in pieces:
                        while len(piece):
                            piece = piece[stream.write(piece) :]
                    os.fsync(stream.fileno())
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def read(self, name: str) -> bytes:
        with reading(self.root):
            return (self._folder / name).read_bytes()

    def open(self, name: str) -> io.RawIOBase:
        with reading(self.root):
            return cast(io.RawIOBase, open(self._folder / name, "rb", buffering=0))

    def names(self, folder: str) -> list[str]:
        try:
            with reading(self.root):
                return sorted(os.listdir(self._folder / folder))
        except FileNotFoundError:
            return []

    def size(self, name: str) -> int:
        return (self._folder / name).stat().st_size

    def age(self, name: str) -> float:
        return time.time() - (self._folder / name).stat().st_mtime

    def move(self, name: str, target: str) -> bool:
        with writing(self.root):
            try:
                os.rename(self._folder / name, self._path(target))
            except FileNotFoundError:
                return False
            return True

    def remove(self, name: str) -> None:
        with writing(self.root):
            (self._folder / name).unlink(missing_ok=True)

    def leave(self, name: str, root_too: bool) -> None:
        self.remove(name)
        folders = sorted((path for path in self._folder.rglob("*") if path.is_dir()), reverse=True)
        for folder in [*folders, self._folder] if root_too or not self._was_there else folders:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _path(self, name: str) -> Path:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


class RemoteFiles:
    """A path on a file system of fsspec."""

    def __init__(self, system: Any, path: str, root: str, protocol: str) -> None:
        self.root = root
        self._system, self._base = system, path
        self._memory, self._exclusive = protocol == "memory", protocol in _EXCLUSIVE

    def create(self, name: str, content: bytes) -> bool:
        with writing(self.root), _MEMORY if self._memory else contextlib.nullcontext():
            return objects.create(self._system, f"{self._base}/{name}", content, self._exclusive)

    def replace(self, name: str, content: bytes) -> None:
        with writing(self.root):
            objects.replace(self._system, f"{self._base}/{name}", content)

    def write(self, name: str, pieces: Iterable[memoryview]) -> None:
        with writing(self.root), as_system_errors(), self._system.open(f"{self._base}/{name}", "wb") as stream:
            for piece in pieces:
                stream.write(piece)

    def read(self, name: str) -> bytes:
        with reading(self.root), as_system_errors():
            return bytes(self._system.cat_file(f"{self._base}/{name}"))

    def open(self, name: str) -> io.RawIOBase:
        return cast(io.RawIOBase, io.BytesIO(self.read(name)))

    def names(self, folder: str) -> list[str]:
        try:
            with reading(self.root), as_system_errors():
                found = self._system.ls(f"{self._base}/{folder}".rstrip("/"), detail=False)
        except FileNotFoundError:
            return []
        return sorted({str(path).rstrip("/").rpartition("/")[2] for path in found} - {""})

    def size(self, name: str) -> int:
        with reading(self.root), as_system_errors():
            return int(self._system.info(f"{self._base}/{name}")["size"])

    def age(self, name: str) -> float:
        try:
            return time.time() - float(self._system.modified(f"{self._base}/{name}").timestamp())
        except (NotImplementedError, KeyError, AttributeError):
            return 0.0  # a file system that keeps no times: whatever asks for old files finds none

    def move(self, name: str, target: str) -> bool:
        with writing(self.root), as_system_errors():
            try:
                self._system.mv(f"{self._base}/{name}", f"{self._base}/{target}")
            except FileNotFoundError:
                return False
            return True

    def remove(self, name: str) -> None:
        with writing(self.root), contextlib.suppress(FileNotFoundError), as_system_errors():
            self._system.rm_file(f"{self._base}/{name}")

    def leave(self, name: str, root_too: bool) -> None:
        self.remove(name)
