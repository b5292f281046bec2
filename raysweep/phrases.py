"""What every part of the program says in the same words: a number of things, and a command to go on with."""

from __future__ import annotations

import shlex


def counted(count: int, noun: str) -> str:
    """1 draw, 2 draws; thousands set apart."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def command(what: str, sweep: str, storage: object) -> str:
    """A command about a sweep in its storage, as a shell takes it."""
    return f"raysweep {what} {sweep} --storage {shlex.quote(str(storage))}"
