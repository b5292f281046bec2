"""What every part of the program says in the same words: a number of things, and a command to go on with."""

from __future__ import annotations

import shlex


def counted(count: int, noun: str) -> str:
    """1 draw, 2 draws; thousands set apart."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def rows_are(rows: int, every: str = "", of: str = "") -> str:
    """1 row is, 12 rows are, all 12 rows are, 12 rows of this part are."""
    return f"1 row{of} is" if rows == 1 else f"{every}{counted(rows, 'row')}{of} are"


def command(what: str, sweep: str, storage: object) -> str:
    """A command about a sweep in its storage, as a shell takes it."""
    return f"raysweep {what} {sweep} --storage {shlex.quote(str(storage))}"
