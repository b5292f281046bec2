"""Files that are whole or absent, in a local folder or in a bucket: one protocol for both.

"Published exactly once" depends on `create`. Each place guarantees this about it:

- a folder (NFS included): exclusive, by a hard link. A file system without hard links (FAT, some FUSE mounts) falls
  back to look-then-rename; there, two writers at the same instant may both believe that they were first.
- s3://: exclusive, by a PUT with If-None-Match (AWS, and compatible servers that honour the header; s3fs and its
  botocore > 1.35.20 must be installed). A server that ignores the header silently overwrites.
- gs://: exclusive, by a precondition on the generation (gcsfs must be installed, and calls this experimental).
- any other file system of fsspec: threads of one process take turns; then look, write, and read back to see whose file
  it is. Two processes may still both believe, for a moment, that they were first. Then a stage is computed twice, but
  never damaged.

Errors of a bucket's client (botocore, aiohttp and google have their own classes) are raised as OSError.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from raysweep.errors import Halted, InputError
from raysweep.storage.paths import AnyPath, first_line

if TYPE_CHECKING:
    from upath import UPath

_UMASK = os.umask(0)  # it can be read only by setting it
os.umask(_UMASK)
_MODE = 0o666 & ~_UMASK
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Errors of a write if the place may not be written."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a write if there is no space."""
EXPECTED = "expected a storage that can be written"
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_EXCLUSIVE = frozenset({"s3", "s3a", "gs", "gcs"})
_TURN = threading.Lock()


@contextlib.contextmanager
def _system_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, TypeError):  # a TypeError is an error of the caller
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


@_system_errors()
def create(path: AnyPath, content: bytes) -> bool:
    """Create a file, atomically and durably; False, without a change, if the file exists with other content."""
    created = _create_on_disk(path, content) if isinstance(path, Path) else _create_object(path, content)
    # over NFS, or if a client repeats a request whose answer was lost, our own file is reported as existing already
    return created or _content(path) == content


@contextlib.contextmanager
def _beside(path: Path, content: bytes) -> Iterator[str]:
    """A durable file with this content beside `path`. It is gone after the block, unless it was moved."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(handle, _MODE)  # a temporary file is private, but the final file is not
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _create_on_disk(path: Path, content: bytes) -> bool:
    with _beside(path, content) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if path.exists():  # not exclusive, but still whole or absent
                return False
            os.replace(temporary, path)
    _sync_folder(path.parent)
    return True


def _create_object(path: UPath, content: bytes) -> bool:
    """Whether the object was certainly created; False also if the caller still has to look."""
    exclusive = path.protocol in _EXCLUSIVE
    for last in (False, False, True):
        try:
            with _system_errors(), contextlib.nullcontext() if exclusive else _TURN:
                path.fs.pipe_file(path.path, content, mode="create")
            return exclusive
        except OSError as error:
            if _content(path) is not None:
                return False
            if last or error.errno not in (errno.EBUSY, errno.EIO):  # two requests met and both failed: S3 says 409
                raise
    raise AssertionError("the last attempt returns or raises")


def _content(path: AnyPath) -> bytes | None:
    try:
        return read(path)
    except FileNotFoundError:
        return None


@_system_errors()
def replace(path: AnyPath, content: bytes) -> None:
    """Write this content to `path` atomically and durably, whatever was there."""
    if not isinstance(path, Path):
        path.fs.pipe_file(path.path, content)
        return
    with _beside(path, content) as temporary:
        os.replace(temporary, path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@_system_errors()
def write(path: AnyPath, pieces: Iterable[memoryview]) -> None:
    """Stream a large file to a name that nobody else uses. It is durable on return; a crash may leave a part of it."""
    if not isinstance(path, Path):
        with path.fs.open(path.path, "wb") as stream:
            for piece in pieces:
                stream.write(piece)
        return
    try:
        with open(path, "xb", buffering=0) as raw:
            for piece in pieces:
                while len(piece):
                    piece = piece[raw.write(piece) :]
            os.fsync(raw.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@_system_errors()
def read(path: AnyPath) -> bytes:
    """A whole file; FileNotFoundError if it is missing, as for all functions below."""
    try:
        return path.read_bytes() if isinstance(path, Path) else bytes(path.fs.cat_file(path.path))
    except OSError as error:
        error.filename = error.filename or str(path)  # an open file that the disk cannot read has no name
        raise


def open_to_read(path: AnyPath) -> io.FileIO | io.BytesIO:
    """A file open for reading from its beginning, unbuffered; an object is read whole."""
    return open(path, "rb", buffering=0) if isinstance(path, Path) else io.BytesIO(read(path))


@_system_errors()
def names(folder: AnyPath) -> list[str]:
    """Names in a folder, sorted; empty if there is no such folder."""
    try:
        items = os.listdir(folder) if isinstance(folder, Path) else folder.fs.ls(folder.path.rstrip("/"), detail=False)
    except FileNotFoundError:
        return []
    return sorted({str(name).rstrip("/").rpartition("/")[2] for name in items} - {""})


@_system_errors()
def tree(folder: AnyPath) -> list[str]:
    """Names of all files below a folder, relative to it, sorted; empty if there is no such folder."""
    if isinstance(folder, Path):
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    base = folder.path.rstrip("/") + "/"
    objects = map(str, folder.fs.find(base))  # for an object, this gives the object itself
    return sorted(name.removeprefix(base) for name in objects if name.startswith(base))


@_system_errors()
def size(path: AnyPath) -> int:
    return path.stat().st_size if isinstance(path, Path) else int(path.fs.info(path.path)["size"])


@_system_errors()
def age(path: AnyPath) -> float:
    """Seconds since a file was last written; 0 if the file system does not know."""
    if isinstance(path, Path):
        return time.time() - path.stat().st_mtime
    try:
        return time.time() - float(path.fs.modified(path.path).timestamp())
    except (NotImplementedError, KeyError, AttributeError):
        return 0.0  # without times, no file counts as old


@_system_errors()
def move(path: AnyPath, target: AnyPath) -> bool:
    """Rename a file (in a bucket: copy, then delete); False if it is missing."""
    try:
        if isinstance(path, Path):
            os.rename(path, str(target))
        else:
            path.fs.mv(path.path, cast("UPath", target).path)
    except FileNotFoundError:
        return False
    return True


@_system_errors()
def remove(paths: Sequence[AnyPath]) -> None:
    """Delete those of these files that exist; all are in one folder."""
    objects = [path for path in paths if not isinstance(path, Path)]
    for path in paths:
        if isinstance(path, Path):
            path.unlink(missing_ok=True)
    if objects:
        with contextlib.suppress(FileNotFoundError):
            objects[0].fs.rm([path.path for path in objects])  # one request for a thousand files


@contextlib.contextmanager
def reading(place: AnyPath) -> Iterator[None]:
    """Raise InputError, in one line, where the block cannot read something that is there."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        why = error.strerror or first_line(error)
        raise InputError(str(error.filename or place), f"cannot be read ({why})") from None


def is_read_only(folder: AnyPath) -> bool:
    """Whether this process may not write a folder, which may not exist yet. A bucket is not asked: a write tells. This
    tries nothing, so a full disk is not read-only: what is there can be deleted."""
    return isinstance(folder, Path) and not os.access(_nearest(folder), os.W_OK)  # root is asked about mounts too


def check_not_read_only(folder: AnyPath) -> None:
    if is_read_only(folder):
        raise Halted(str(folder), f"is read-only here; {EXPECTED}")


def in_one_line(error: OSError, folder: AnyPath) -> Halted | None:
    """The one-line error for a folder that is full, or in which something may not be written; None for other errors."""
    if error.errno in FULL:
        return Halted(str(folder), f"there is no room left ({error.strerror})")
    if error.errno in READ_ONLY and Path(str(error.filename or folder)).is_relative_to(str(folder)):
        return Halted(str(error.filename or folder), f"{error.strerror}; {EXPECTED}")
    return None


def why_not_writable(folder: AnyPath) -> str | None:
    """Why nothing can be created in a folder, which may not exist yet; None if it can. It tries, in the nearest folder
    that exists, because permission bits say little for root or about a read-only mount. Leaves nothing behind."""
    place, prefix = folder, ""
    try:
        if isinstance(folder, Path):
            place = _nearest(folder)
            if not place.is_dir():
                return f"{place} is not a folder"
            prefix = f"{place}: "
        probe = place / f".raysweep-{uuid.uuid4().hex}"
        create(probe, b"")
        remove([probe])
    except OSError as error:  # before the attempt, such as a name that is too long
        return prefix + (error.strerror or first_line(error))
    return None


def _nearest(folder: Path) -> Path:
    return next(place for place in (folder, *folder.absolute().parents) if place.exists())
