"""Messages to the user go to stderr, so that stdout holds results only. A closed terminal stops nothing."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def say(line: str) -> None:
    """Print a line on stderr. If nobody reads it any more (EPIPE, EIO of a closed terminal), the line is dropped."""
    _write(f"{_over(line)}\n")


def in_notebook() -> bool:
    """Whether stderr is the output of a cell of a notebook, which is no terminal, but whose last line can change."""
    return type(sys.stderr).__module__.startswith("ipykernel.")


def update(line: str) -> None:
    """Replace the last line of a cell's output, which the next `say` or `update` replaces in turn; "" removes it."""
    global _shown
    _write(_over(line) if line else f"{_over(line)}\r")
    _shown = len(line)


_shown = 0  # letters of the line that the next one replaces


def _over(line: str) -> str:
    """The line, written over the one that `update` left. Notebooks keep what a shorter line does not cover."""
    global _shown
    shown, _shown = _shown, 0
    return f"\r{line.ljust(shown)}" if shown else line


def _write(text: str) -> None:
    try:
        print(text, end="", file=sys.stderr, flush=True)
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
