"""Whether a process that once recorded who it is still lives; can be told only of processes of this machine."""

from __future__ import annotations

import os
from pathlib import Path


def life(process: int) -> list[str] | None:
    """What tells a living process from all others: the boot of its machine, its space of process numbers, and when it
    began. None where it is not alive, or where the system (any but Linux) cannot tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        state, *rest = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else [boot, os.readlink("/proc/self/ns/pid"), rest[18]]
    except OSError:
        return None


def lives(process: int, said: list[str] | None) -> bool:
    """Whether a process of which `life` once said this is seen from here, alive."""
    return said is not None and life(process) == said


def is_dead(process: int, said: list[str] | None) -> bool:
    """Whether a process of which `life` once said this would be seen from here if it were alive, and is not."""
    here = life(os.getpid())
    return here is not None and said is not None and said[:2] == here[:2] and life(process) != said
