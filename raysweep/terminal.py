"""Where the driver speaks: stderr, so that stdout holds results only. A terminal that is gone stops nothing."""

from __future__ import annotations

import contextlib
import os
import sys


def say(line: str) -> None:
    """One line on stderr. Where nobody listens any more (EPIPE, EIO of a terminal that was closed), it is dropped."""
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        silence()


def silence() -> None:
    """Point stderr to nowhere, for everyone in this process: what is buffered there must not fail at the exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        _nowhere(sys.stderr.fileno())


def open_streams() -> None:
    """Give the process the three standard streams where it was started without: the first file that is opened would
    otherwise be number 2, and take what libraries write to stderr."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            _nowhere(number)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _nowhere(number: int) -> None:
    descriptor = os.open(os.devnull, os.O_RDWR)
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)
