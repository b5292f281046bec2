"""The errors that end a command with one line: bad input, or a place that failed."""

from __future__ import annotations

import difflib
import importlib
import os
import reprlib
import traceback
from collections.abc import Iterable

from raysweep.redaction import redact

_NOT_THEIRS = (os.path.dirname(__file__), os.path.dirname(importlib.__file__))
_BRIEF = reprlib.Repr()
_BRIEF.maxlevel, _BRIEF.maxstring, _BRIEF.maxlong, _BRIEF.maxother = 2, 80, 80, 80


class RaysweepError(Exception):
    """Ends a command with exit code 2. `str(error)` is one line, "key.path: what was expected" or "place: what failed".

    The line is printable (no control characters reach the terminal) and holds no credentials, whatever it quotes.
    """

    def __init__(self, path: str, message: str) -> None:
        text = f"{path}: {message}" if path else message
        super().__init__(redact(printable(" ".join(text.split()))))

    def _render_traceback_(self) -> list[str]:
        """What IPython and notebooks show instead of a traceback, which says nothing that the line does not."""
        return [f"{type(self).__name__}: {self}"]


def printable(text: str) -> str:
    """The text, with what cannot be printed (control characters) as an escape, such as \\x1b."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class InputError(RaysweepError):
    """Bad input: what the user asked for cannot be done."""


class Halted(RaysweepError):
    """A sweep cannot go on for now: a disk is full, or a place cannot be written. Finished rows are kept, and the sweep
    can be resumed once the cause is removed."""


def shown(value: object) -> str:
    """A value as error messages quote it: its repr, shortened if it is long."""
    return _BRIEF.repr(value)


def summary(error: BaseException) -> str:
    """An error as a part of a line: its type, what it says, and the last place in code that is not our own."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f for f in frames if not f.filename.startswith(("<", *_NOT_THEIRS))]
    place = f" ({places[-1].filename}, line {places[-1].lineno})" if places else ""
    return f"{type(error).__name__}: {error}{place}"


def as_typed(value: object) -> str:
    """A parameter's value as a space file writes it: booleans are `true` and `false`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def unknown(path: str, kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for an unknown name. It suggests the nearest known name and lists all of them."""
    names = [str(entry) for entry in known]
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    suggestion = f"; did you mean {near[0]}? Known: " if near else "; known: "
    return InputError(path, f"unknown {kind} {shown(name)}{suggestion}{', '.join(names)}")
