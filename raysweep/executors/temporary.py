"""The temporary folder of this process, which no other user can enter: for the sockets of its Ray and for Tune's files.

Whoever can write where the sockets of a Ray lie can put others in their place. The path of a socket has at most 107
bytes, so the folder lies where its own path is short. It goes with its process; what a killed one left is removed when
the next driver begins.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from raysweep.errors import Halted

PREFIX, LOCK = "raysweep-", "lock"
LONGEST = 107 - len("/r/session_2026-01-01_00-00-00_000000_0000000/sockets/plasma_store") - len(f"/{PREFIX}12345678")
"""Bytes that the path of the place may have in which the folder is made."""


@functools.cache
def folder() -> Path:
    """The folder, with mode 0700, which goes with this process. Raises Halted if there is no place for it."""
    for place in _places():
        with contextlib.suppress(OSError):
            made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
            _lock(made)
            atexit.register(_remove, made, os.getpid())
            return made
    raise Halted(
        "TMPDIR", f"expected a folder that can be written, whose path has at most {LONGEST} bytes; neither is /tmp one"
    )


def clear_leftovers() -> None:
    """Remove the folders of processes of this user that were killed."""
    for place in _places():
        for left in place.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                if left.lstat().st_uid == os.getuid() and not left.is_symlink():
                    with open(left / LOCK) as stream:
                        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(left, ignore_errors=True)


def _places() -> Iterator[Path]:
    for place in dict.fromkeys([tempfile.gettempdir(), "/tmp", "/var/tmp"]):
        if len(os.fsencode(place)) <= LONGEST:
            yield Path(place)


def _lock(made: Path) -> None:
    """Hold a lock in the folder for as long as this process lives. It is held before it has its name."""
    descriptor = os.open(made / "new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.rename(made / "new", made / LOCK)


def _remove(made: Path, process: int) -> None:
    if os.getpid() == process:  # and not a fork of it
        shutil.rmtree(made, ignore_errors=True)
