"""Only one driver runs a sweep at a time: it holds a file lock on a disk, or a lease in a bucket.

A file lock ends with its process, however the process ends. The driver renews a lease every third of LEASE_SECONDS and
releases it at the end. If the driver died, the next driver takes the lease over, after it has watched the lease for as
long as the lease lasts (leases.py). A driver that was suspended for longer finds out when it calls its check.
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
from raysweep.storage.folder import Folder
from raysweep.storage.paths import AnyPath

LEASE_SECONDS = leases.SECONDS
FILE, STAGE = "driver.lock", "driver"


class Busy(Exception):
    """Another driver holds the sweep; the message says which one."""


def held(
    folder: AnyPath, say: Callable[[str], None] = lambda line: None
) -> contextlib.AbstractContextManager[Callable[[], None]]:
    """Become the only driver of a sweep; Busy if there is one. Gives a check that raises Busy once the lock is lost.
    say: called if a driver that may be dead has to be watched for a while."""
    return _locked(folder) if isinstance(folder, Path) else _leased(Folder(folder), say)


def is_held(folder: AnyPath) -> bool:
    """Whether a driver holds the sweep now. In a bucket: whether its lease was renewed within LEASE_SECONDS, as far as
    the clocks of this machine, of the driver's machine and of the bucket agree."""
    if not isinstance(folder, Path):
        lease = _lease(folder)
        return lease is not None and lease[1] <= LEASE_SECONDS
    try:
        with open(folder / FILE) as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def last_sign(folder: AnyPath) -> str | None:
    """Who drives or drove a sweep in a bucket, and its last sign of life; None if nobody holds it, and on a disk."""
    if isinstance(folder, Path) or (lease := _lease(folder)) is None:
        return None
    driver, silence = lease
    over = ": its lease has expired, resume takes over" if silence > driver.seconds else ""
    return f"driven by {driver.holder}, last heard of {max(silence, 0.0):.0f} s ago{over}"


def held_since(folder: AnyPath) -> float:
    """When the driver that holds the sweep started to hold it, in seconds of the epoch; 0 if unknown."""
    if isinstance(folder, Path):
        return (folder / FILE).stat().st_mtime
    lease = _lease(folder)
    return lease[0].since if lease else 0.0


def _lease(folder: AnyPath) -> tuple[leases.Statement, float] | None:
    """The lease of a driver in a bucket, and the seconds since its renewal, by its clock or the bucket's."""
    bucket = Folder(folder)
    with contextlib.suppress(FileNotFoundError):  # released between the two reads
        if (statement := leases.latest(bucket, STAGE)) is not None:
            return statement, min(statement.silence, bucket.age(statement.name))
    return None


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[Callable[[], None]]:
    with contextlib.ExitStack() as stack:
        while True:
            stream = stack.enter_context(open(folder / FILE, "a+"))
            _lock(stream)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(stream.fileno()), (folder / FILE).stat()):
                    break  # not the file of a deleted sweep, which no other process would find
        stream.truncate(0)
        with contextlib.suppress(OSError):  # a full disk: only who holds it is unknown then
            os.write(stream.fileno(), f"process {os.getpid()} on {socket.gethostname()}".encode())
        try:
            yield lambda: None
        finally:
            stream.truncate(0)


def _lock(stream: TextIO) -> None:
    for last in (False, False, False, True):  # `is_held` holds the lock for a moment too
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if last:
                stream.seek(0)
                raise Busy(stream.read().strip() or "another process") from None
            time.sleep(0.02)


@contextlib.contextmanager
def _leased(folder: Folder, say: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    claim = leases.Claim(folder, STAGE, LEASE_SECONDS)
    first = None
    while (lease := claim.take()) is None:
        now = leases.latest(folder, STAGE)
        if now is None:  # released between the two reads
            continue
        if first is None:
            first = now
            watching = f"watching whether it still does (up to {now.seconds:.0f} s)"
            say(f"{now.holder} drove this sweep and has not given it back; {watching}")
        elif now.content != first.content:  # renewed, so the driver lives
            raise Busy(now.holder)
        time.sleep(LEASE_SECONDS / 40)  # between two reads of the bucket

    def check() -> None:
        try:
            lease.check()
        except leases.Lost:
            now = leases.latest(folder, STAGE)
            holder = now.holder if now else "somebody"
            raise Busy(f"{holder}, which took over when the lease held here had expired") from None

    with leases.kept(lease):
        yield check
