"""The log of a trial: a file next to the ledger, SWEEP/logs/PACK-ATTEMPT.log.

It is written line by line, so that the log can be read even if the trial's machine dies. A pack that is tried again
appends to it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from raysweep.redaction import error_text, redact
from raysweep.storage import copies
from raysweep.storage.paths import AnyPath

LOGGER = logging.getLogger("raysweep")
_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s"
_CLOCKS = 5.0  # seconds by which the clocks of two machines may differ


class _Log(io.TextIOWrapper):
    """A text stream that removes passwords, because a workload may print an address that has one. Text that cannot be
    written (the disk is full) is dropped, so that a log or a print never ends a trial."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            super().write(redact(text))
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()


class _Stream:
    """Stands for stdout or stderr in all captured trials of this process, since a workload may keep it, as a handler of
    `logging` does: it goes to the log of the present trial, or to the stream that the process began with."""

    log: _Log | None = None

    def __init__(self, name: str) -> None:
        self._name = name

    def _present(self) -> Any:
        return self.log or getattr(sys, self._name)

    def write(self, text: str) -> int:
        return int(self._present().write(text))

    def flush(self) -> None:
        self._present().flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._present(), name)


_OUT, _ERR = _Stream("__stdout__"), _Stream("__stderr__")


@contextlib.contextmanager
def recorded(path: AnyPath, pack: str, what: str, capture: bool) -> Iterator[None]:
    """Append to a log file what the logger `raysweep` receives inside the block.

    path: the log file. If it cannot be opened (the disk is full, or the path is a symbolic link), there is no log.
    what: what the pack of this id has to compute, in words: 12 rows.
    capture: whether stdout and stderr also go to the log.
    """
    with contextlib.ExitStack() as stack:
        try:
            local = stack.enter_context(copies.growing(path))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.fdopen(os.open(local, flags, 0o666), "wb")
            stream = _Log(file, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        except OSError as error:
            LOGGER.warning("no log of pack %s: %s", pack, error)
            yield
            return
        stack.enter_context(stream)
        stack.enter_context(_to_stream(stream))
        if capture:
            stack.enter_context(_captured(stream))
        started = time.perf_counter()
        LOGGER.info("pack %s of %s on %s, process %s", pack, what, socket.gethostname(), os.getpid())
        try:
            yield
            LOGGER.info("done after %.1f s", time.perf_counter() - started)
        except BaseException as problem:
            kind, message = type(problem).__name__, error_text(str(problem))
            LOGGER.error("ended after %.1f s by %s: %s", time.perf_counter() - started, kind, message)
            raise


@contextlib.contextmanager
def _captured(log: _Log) -> Iterator[None]:
    _OUT.log = _ERR.log = log
    try:
        with contextlib.redirect_stdout(_OUT), contextlib.redirect_stderr(_ERR):
            yield
    finally:
        _OUT.log = _ERR.log = None


@contextlib.contextmanager
def _to_stream(stream: io.TextIOWrapper) -> Iterator[None]:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter := logging.Formatter(_FORMAT, datefmt="%Y-%m-%dT%H:%M:%S"))
    formatter.converter = time.gmtime
    level, propagate = LOGGER.level, LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        LOGGER.propagate = propagate


def under_way(folder: AnyPath, finished: set[str], since: float) -> list[tuple[float, str]]:
    """The packs that began after `since` (seconds of the epoch) and whose rows are not there yet: how many seconds ago
    each began, and the first line of its log, the oldest first. finished: names of logs (PACK-ATTEMPT) of packs whose
    rows are there."""
    packs = []
    now = datetime.now(UTC).timestamp()
    for path in folder.glob("*.log"):
        if path.stem in finished:
            continue
        for line in reversed(path.read_text(errors="replace").splitlines()):
            if " INFO done after " in line:  # a pack of stages, which leaves no row
                break
            stamp, _, description = line.partition(" INFO pack ")
            if description:
                began = datetime.fromisoformat(stamp).timestamp()
                if began >= since - _CLOCKS:
                    packs.append((now - began, f"pack {description}"))
                break
    return sorted(packs, reverse=True)
