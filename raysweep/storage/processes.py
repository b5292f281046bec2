"""Whether a recorded process still lives. This can be known only for processes of this machine."""

from __future__ import annotations

import os
from pathlib import Path


def life(process: int) -> list[str] | None:
    """What distinguishes a living process from all others: its machine's boot, its process namespace, its start time.

    None if it is not alive, or if the system cannot tell (any system except Linux).
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        state, *rest = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else [boot, os.readlink("/proc/self/ns/pid"), rest[18]]
    except OSError:
        return None


def lives(process: int, said: list[str] | None) -> bool:
    """Whether the process with this recorded `life` is visible from here and alive."""
    return said is not None and life(process) == said


def is_dead(process: int, said: list[str] | None) -> bool:
    """Whether the process with this recorded `life` would be visible from here if it were alive, but is not."""
    here = life(os.getpid())
    return here is not None and said is not None and said[:2] == here[:2] and life(process) != said
