"""Files below one folder or address, named by relative paths. Stages and leases are kept in such folders.

It has the same protocol as `files`, but errors are Halted if the place is read-only, full or out of reach: one line
that begins with the folder's address. Reading a missing file raises FileNotFoundError.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from raysweep.errors import Halted
from raysweep.storage import files, paths
from raysweep.storage.paths import AnyPath


class Folder:
    """A folder, a prefix in a bucket, or a path on any file system of fsspec. Opening it creates nothing; InputError if
    the address is not valid."""

    def __init__(self, address: str | AnyPath) -> None:
        self._path = paths.locate_store(str(address))
        self.root = str(self._path) if isinstance(self._path, Path) else str(address).rstrip("/")
        self._was_there = os.path.exists(self.root)  # Path.exists raises for a name that no file can have

    def create(self, name: str, content: bytes) -> bool:
        with self._one_line("written"):
            return files.create(self._to_write(name), content)

    def replace(self, name: str, content: bytes) -> None:
        with self._one_line("written"):
            files.replace(self._to_write(name), content)

    def write(self, name: str, pieces: Iterable[memoryview]) -> None:
        with self._one_line("written"):
            files.write(self._to_write(name), pieces)

    def read(self, name: str) -> bytes:
        with self._one_line("read"):
            return files.read(self._path / name)

    def open(self, name: str) -> io.FileIO | io.BytesIO:
        with self._one_line("read"):
            return files.open_to_read(self._path / name)

    def names(self, folder: str) -> list[str]:
        with self._one_line("read"):
            return files.names(self._path / folder)

    def size(self, name: str) -> int:
        with self._one_line("read"):
            return files.size(self._path / name)

    def age(self, name: str) -> float:
        with self._one_line("read"):
            return files.age(self._path / name)

    def move(self, name: str, target: str) -> bool:
        with self._one_line("written"):
            return files.move(self._path / name, self._to_write(target))

    def remove(self, name: str) -> None:
        with self._one_line("written"):
            files.remove([self._path / name])

    def take_back(self, name: str, root_too: bool) -> None:
        """Delete this file and folders that are then empty; the root only if it is new, or with root_too."""
        self.remove(name)
        if not isinstance(self._path, Path):  # a bucket has no folders
            return
        folders = sorted((path for path in self._path.rglob("*") if path.is_dir()), reverse=True)
        for folder in [*folders, self._path] if root_too or not self._was_there else folders:
            with contextlib.suppress(OSError):  # the folder is not empty
                folder.rmdir()

    def _to_write(self, name: str) -> AnyPath:
        path = self._path / name
        if isinstance(path, Path):
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @contextlib.contextmanager
    def _one_line(self, done: str) -> Iterator[None]:
        """Raise errors as one line. done: what should have been done, "read" or "written"."""
        try:
            yield
        except OSError as error:
            if done == "read" and isinstance(error, FileNotFoundError):
                raise
            message = f"cannot be {done}: {error.strerror or error}"
            if done == "written" and (error.errno in files.READ_ONLY or isinstance(error, PermissionError)):
                message = "is read-only here; expected one that can be written"
            elif done == "written" and error.errno in files.FULL:
                message = f"is full ({os.strerror(error.errno)}); make room (raysweep store prune) and run again"
                message += ": what was published is kept"
            raise Halted(self.root, f"the store {message}") from error
