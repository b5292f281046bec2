"""Messages to the user go to stderr, so that stdout holds results only. A closed terminal stops nothing."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def say(line: str) -> None:
    """Print a line on stderr. If nobody reads it any more (EPIPE, EIO of a closed terminal), the line is dropped."""
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        silence()


def silence(stream: TextIO | None = None) -> None:
    """Redirect stderr, or another stream, to /dev/null, so that flushing its buffer at exit cannot fail."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        _nowhere((stream or sys.stderr).fileno())


def open_streams() -> None:
    """Open the standard streams that this process was started without. Otherwise the first file that it opens could
    become descriptor 2 and receive what libraries write to stderr."""
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
