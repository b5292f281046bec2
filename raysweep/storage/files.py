"""Files that are whole or absent: published in one step, never half-written, never overwritten by accident.

A path is a local one or one in a bucket (paths.py); what is said here holds for both. Writing raises OSError.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from raysweep.storage import objects
from raysweep.storage.paths import AnyPath, first_line

_UMASK = os.umask(0)  # it can only be read by setting it
os.umask(_UMASK)
_MODE = 0o666 & ~_UMASK
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a write fails with where there is no room."""


def publish(path: AnyPath, content: bytes) -> bool:
    """Create `path` with this content, atomically and durably. False, and nothing changed, if it is there already."""
    if not isinstance(path, Path):
        return objects.create(path.fs, path.path, content)
    temporary = _write_beside(path, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        if path.exists():  # a file system without hard links: not exclusive, still whole or absent
            return False
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):  # where it was moved instead of linked
            os.unlink(temporary)
    _sync_folder(path.parent)
    return True


def replace(path: AnyPath, content: bytes) -> None:
    """Put this content at `path` atomically and durably, whatever was there."""
    if not isinstance(path, Path):
        objects.replace(path.fs, path.path, content)
        return
    temporary = _write_beside(path, content)
    try:
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def remove(paths: Sequence[AnyPath]) -> None:
    """Delete files of one folder, those that are there."""
    for path in paths:
        if isinstance(path, Path):
            path.unlink(missing_ok=True)
    if remote := [path for path in paths if not isinstance(path, Path)]:
        remote[0].fs.rm([path.path for path in remote])  # a thousand in one request


def why_not_writable(folder: AnyPath) -> str | None:
    """Why nothing could be created in a folder that may not be there yet, or None if it could. Leaves nothing.

    It tries, in the nearest folder that exists: permission bits say little for root, or of a read-only mount.
    """
    if not isinstance(folder, Path):
        probe = folder / f".probe-{uuid.uuid4().hex}"
        try:
            objects.create(probe.fs, probe.path, b"")
            probe.unlink()
        except OSError as error:
            return error.strerror or first_line(error)
        return None
    try:
        nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    except OSError as error:  # a name that is too long, say
        return str(error.strerror)
    if not nearest.is_dir():
        return f"{nearest} is not a folder"
    try:
        room = tempfile.mkdtemp(prefix=".raysweep-", dir=nearest)
    except OSError as error:
        return f"{nearest}: {error.strerror}"
    os.rmdir(room)
    return None


def _write_beside(path: Path, content: bytes) -> str:
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(handle, _MODE)  # a temporary file is private; what it becomes is not
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
