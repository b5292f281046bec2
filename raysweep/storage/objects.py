"""Objects on a file system of fsspec that are whole or absent, as `files` makes them on a disk."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Any

from raysweep.errors import RaysweepError


@contextlib.contextmanager
def as_system_errors() -> Iterator[None]:
    """What the client of a remote file system raises (botocore, aiohttp and google have errors of their own), as
    OSError."""
    try:
        yield
    except (OSError, RaysweepError):
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def create(system: Any, path: str, content: bytes, exclusive: bool = True) -> bool:
    """Create an object; False, and nothing changed, if there is one (of other content).

    exclusive: whether the file system's own mode "create" is (s3, gs); else it is read back to see whose it is.
    Raises OSError.
    """
    for last in (False, False, True):
        try:
            with as_system_errors():
                system.pipe_file(path, content, mode="create")
        except OSError as error:
            # There already; or two requests met and neither won (S3 says 409: try again); or the first one won, its
            # answer was lost, and the client's own repetition met what it had put there.
            found = _found(system, path)
            if found is not None:
                return found == content
            if last or error.errno not in (errno.EBUSY, errno.EIO):
                raise
        else:
            return exclusive or _found(system, path) == content
    raise AssertionError("the last attempt returns or raises")


def replace(system: Any, path: str, content: bytes) -> None:
    """Put an object there in one step, whatever was there. Raises OSError."""
    with as_system_errors():
        system.pipe_file(path, content)


def _found(system: Any, path: str) -> bytes | None:
    try:
        with as_system_errors():
            return bytes(system.cat_file(path))
    except FileNotFoundError:
        return None
