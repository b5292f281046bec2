"""What a trial says while it computes: a file of its own beside the ledger, SWEEP/logs/PACK-ATTEMPT.log.

It is written as things happen, so that what a trial said before its machine died can be read; a pack that is tried
again adds to it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from raysweep.redaction import redact
from raysweep.storage import paths
from raysweep.storage.paths import AnyPath

LOGGER = logging.getLogger("raysweep")
_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s"
_CLOCKS = 5.0  # seconds that the clocks of two machines may be apart


class _Log(io.TextIOWrapper):
    """Text as it is kept: without passwords, for what a workload prints may quote an address that has one. What cannot
    be written, the disk being full, is dropped: neither a log nor a print is a reason to lose a trial."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            super().write(redact(text))
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def _opened(path: Path) -> io.TextIOWrapper:
    """The log, to be added to; OSError if it is a link that would have something else added to."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    return _Log(os.fdopen(descriptor, "wb"), line_buffering=True)


def log_path(folder: AnyPath, pack: str, attempt: int) -> AnyPath:
    """Where the trial of a pack keeps its log."""
    return folder / f"{pack}-{attempt}.log"


@contextlib.contextmanager
def kept(path: AnyPath, pack: str, rows: int, capture: bool) -> Iterator[None]:
    """Keep what is logged meanwhile to the logger `raysweep`, and, with `capture`, all that goes to stdout and stderr.

    A log that cannot be written (a disk that is full) is no reason to lose a trial.
    """
    with paths.growing(path) as own, _kept(own, pack, rows, capture):
        yield


@contextlib.contextmanager
def _kept(path: Path, pack: str, rows: int, capture: bool) -> Iterator[None]:
    try:
        stream = _opened(path)
    except OSError as error:
        LOGGER.warning("no log of pack %s: %s", pack, error)
        yield
        return
    handler = logging.StreamHandler(stream)
    formatter = logging.Formatter(_FORMAT, datefmt="%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    level, propagate = LOGGER.level, LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False  # to the file, not to the terminal
    started = time.perf_counter()
    LOGGER.info("%s", heading(pack, rows))
    try:
        with contextlib.ExitStack() as stack:
            if capture:
                stack.enter_context(contextlib.redirect_stdout(stream))
                stack.enter_context(contextlib.redirect_stderr(stream))
            yield
        LOGGER.info("done after %.1f s", time.perf_counter() - started)
    except BaseException as problem:
        LOGGER.error("ended after %.1f s by %s: %s", time.perf_counter() - started, type(problem).__name__, problem)
        raise
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        LOGGER.propagate = propagate
        with contextlib.suppress(OSError):
            stream.close()


def heading(pack: str, rows: int) -> str:
    """Which pack runs where."""
    return f"pack {pack} of {rows:,} row{'' if rows == 1 else 's'} on {socket.gethostname()}, process {os.getpid()}"


def under_way(folder: AnyPath, finished: set[str], since: float) -> list[tuple[float, str]]:
    """Packs that have begun since that moment (seconds of the epoch) and whose rows are not there yet: how many seconds
    ago, and their heading. finished: names of logs (PACK-ATTEMPT) of packs whose rows are there."""
    found = []
    now = datetime.now(UTC).timestamp()
    for path in folder.glob("*.log"):
        if path.stem in finished:
            continue
        for line in reversed(path.read_text(errors="replace").splitlines()):
            stamp, _, said = line.partition(" INFO pack ")
            if said:
                began = datetime.fromisoformat(stamp).timestamp()
                if began >= since - _CLOCKS:
                    found.append((now - began, f"pack {said}"))
                break
    return sorted(found, reverse=True)
