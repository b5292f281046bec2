"""Phrases that several messages share: a count with its noun, a place, and a command to continue with."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path


def counted(count: int, noun: str) -> str:
    """A count with its noun: 1 draw, 2,000 draws, 12 settings of depth."""
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """The plural of a noun, such as files in "2 of 3 files"."""
    first, of, rest = noun.partition(" of ")
    return f"{first}s{of}{rest}"


def some_of(count: int, every: int, noun: str) -> str:
    """How many of all there are: 3 of 12 settings of depth, all 12 settings, both settings, the only setting."""
    if count < every:
        return f"{count:,} of {counted(every, noun)}"
    return f"the only {noun}" if every == 1 else f"both {plural(noun)}" if every == 2 else f"all {counted(every, noun)}"


def rows_are(rows: int, every: str = "", of: str = "") -> str:
    """A number of rows with its verb: 1 row is, 12 rows are, all 12 rows are, 12 rows of this part are."""
    return f"1 row{of} is" if rows == 1 else f"{every}{counted(rows, 'row')}{of} are"


def place(where: object) -> str:
    """A place as messages name it: a folder or file below the current folder by its path from there."""
    if isinstance(where, Path):
        with contextlib.suppress(ValueError, OSError):  # it is elsewhere, or the current folder is gone
            return str(where.relative_to(Path.cwd()))
    return str(where)


def command(what: str, sweep: str, storage: object) -> str:
    """A `raysweep` command about a sweep in its storage, quoted for a shell."""
    return f"raysweep {what} {sweep} --storage {shlex.quote(place(storage))}"
