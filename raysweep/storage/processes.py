"""Whether a recorded process still lives, which can be known only on its machine; and the end of forked children."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def children_end() -> Iterator[None]:
    """Somebody else's code runs in the block and may fork. A child that leaves the block ends there: it would go on as
    a second driver or trial. Its exit code is that of a program: 0, 1 after an exception, or what sys.exit was given.
    """
    process, code = os.getpid(), 1
    try:
        yield
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
        raise
    finally:
        if os.getpid() != process:
            os._exit(code)


def life(process: int) -> list[str] | None:
    """What distinguishes a living process from all others: its machine's boot, its process namespace, its start time.
    None if it is not alive, or if the system cannot tell (any system except Linux)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        state, *rest = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else [boot, os.readlink("/proc/self/ns/pid"), rest[18]]
    except OSError:
        return None


def lives(process: int, recorded: list[str] | None) -> bool:
    """Whether the process with this recorded `life` is visible from here and alive."""
    return recorded is not None and life(process) == recorded


def is_dead(process: int, recorded: list[str] | None) -> bool:
    """Whether the process with this recorded `life` would be visible from here if it were alive, but is not."""
    here = life(os.getpid())
    return here is not None and recorded is not None and recorded[:2] == here[:2] and life(process) != recorded
