"""One driver a sweep: a file lock on a disk, a lease in a bucket.

The file lock goes with its process, however that ends. A lease is renewed by its driver every third of LEASE_SECONDS
and given back at the end; that of a driver that died is taken over by the next one, which first watches it for as long
as it lasts (leases.py). A driver that was only held up for longer than that learns of it from the check it was given.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from raysweep.storage import leases
from raysweep.storage.paths import AnyPath
from raysweep.storage.store_files import Files, open_files

LEASE_SECONDS = 60.0
FILE, STAGE = "driver.lock", "driver"


class Busy(Exception):
    """Another driver holds the sweep; says who."""


def held(
    folder: AnyPath, say: Callable[[str], None] = lambda line: None
) -> contextlib.AbstractContextManager[Callable[[], None]]:
    """Be the only driver of a sweep; Busy if there is one. Gives a check that raises Busy once the lock was lost.

    say: told if a driver that may be dead has to be watched for a while.
    """
    return _locked(folder) if isinstance(folder, Path) else _leased(open_files(folder), say)


def is_held(folder: AnyPath) -> bool:
    """Whether a driver holds the sweep now. In a bucket: whether one said so within LEASE_SECONDS, as far as the clocks
    here, there and of the bucket agree."""
    if not isinstance(folder, Path):
        return leases.silence(open_files(folder), STAGE) <= LEASE_SECONDS
    try:
        with open(folder / FILE) as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def last_sign(folder: AnyPath) -> str | None:
    """Who drives or drove a sweep in a bucket, and when it was last heard of; None if nobody holds it, or on a disk."""
    if isinstance(folder, Path):
        return None
    files = open_files(folder)
    content = leases.latest(files, STAGE)
    if content is None:
        return None
    seconds = max(leases.silence(files, STAGE), 0.0)
    over = ": its lease has expired, resume takes over" if seconds > leases.duration(content, LEASE_SECONDS) else ""
    return f"driven by {leases.holder(content)}, last heard of {seconds:.0f} s ago{over}"


def held_since(folder: AnyPath) -> float:
    """When the driver that holds the sweep took hold of it, in seconds of the epoch."""
    if not isinstance(folder, Path):
        return leases.since(leases.latest(open_files(folder), STAGE) or b"")
    return (folder / FILE).stat().st_mtime


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[Callable[[], None]]:
    with contextlib.ExitStack() as stack:
        while True:
            stream = stack.enter_context(open(folder / FILE, "a+"))
            _lock(stream)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(stream.fileno()), (folder / FILE).stat()):
                    break  # and not the file of a sweep that was deleted meanwhile, which nobody else would find
        stream.truncate(0)
        stream.write(f"process {os.getpid()} on {socket.gethostname()}")
        stream.flush()
        try:
            yield lambda: None
        finally:
            stream.truncate(0)


def _lock(stream: TextIO) -> None:
    for last in (False, False, False, True):  # `is_held` holds it too, for a moment
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if last:
                stream.seek(0)
                raise Busy(stream.read().strip() or "another process") from None
            time.sleep(0.02)


@contextlib.contextmanager
def _leased(files: Files, say: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    claim = leases.Claim(files, STAGE, LEASE_SECONDS)
    first = None
    while (lease := claim.take()) is None:
        now = leases.latest(files, STAGE)
        if now is None:  # given back this moment
            continue
        if first is None:
            first = now
            say(
                f"{leases.holder(now)} drove this sweep and has not given it back; watching whether it still does (up "
                f"to {leases.duration(now, LEASE_SECONDS):.0f} s)"
            )
        elif now != first:  # renewed: alive
            raise Busy(leases.holder(now))
        time.sleep(LEASE_SECONDS / 40)  # between two looks at the bucket

    def check() -> None:
        try:
            lease.check()
        except leases.Lost:
            holder = leases.holder(leases.latest(files, STAGE) or b"")
            raise Busy(f"{holder}, which took over when the lease held here had expired") from None

    with leases.kept(lease):
        yield check
