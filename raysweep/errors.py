"""What ends a command in one line: bad input, or a place that failed."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable

from raysweep.redaction import redact

_BRIEF = reprlib.Repr()
_BRIEF.maxlevel, _BRIEF.maxstring, _BRIEF.maxlong, _BRIEF.maxother = 2, 80, 80, 80


class RaysweepError(Exception):
    """Ends a command with exit code 2. `str(error)` is one line, "key.path: what was expected" or "place: what failed".

    Whatever it quotes, it is printable text (no control characters for the terminal) and without credentials.
    """

    def __init__(self, path: str, message: str) -> None:
        text = f"{path}: {message}" if path else message
        super().__init__(redact("".join(map(_visible, " ".join(text.split())))))


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


class InputError(RaysweepError):
    """Bad input: what was asked cannot be done, here or anywhere."""


class Halted(RaysweepError):
    """A sweep cannot go on where it is: a disk is full, a place cannot be written. What is done stays; once that is
    mended, resuming goes on."""


def shown(value: object) -> str:
    """A value as a complaint quotes it: its repr, cut where it would bury the line."""
    return _BRIEF.repr(value)


def as_typed(value: object) -> str:
    """A parameter's value as a space has it: true and false in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def unknown(path: str, kind: str, name: object, known: Iterable[str]) -> InputError:
    """An unknown name, with the nearest known one suggested and all of them listed."""
    names = [str(entry) for entry in known]
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    suggestion = f"; did you mean {near[0]}? Known: " if near else "; known: "
    return InputError(path, f"unknown {kind} {shown(name)}{suggestion}{', '.join(names)}")
