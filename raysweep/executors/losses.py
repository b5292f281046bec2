"""Whose fault it is that a pack came back without its rows: perhaps its own, or that of a machine that is gone."""

from __future__ import annotations

from collections.abc import Iterable, Set
from itertools import pairwise

WORKER_RETRIES = 3
"""A worker that dies may not be the fault of its rows: the pack is tried again, then in halves, and a single row so
many times."""
NODE_RETRIES = 20
"""A machine that goes is the fault of none of its rows: a pack that was on it is tried again as it is, so often."""


class Losses:
    """Counts how often packs, by id, were lost. A loss belongs to a machine if one was found dead before the pack's
    next start, for a worker that is cut off is often missed seconds before its machine."""

    def __init__(self) -> None:
        self._starts: dict[str, list[Set[str]]] = {}

    def begin(self, pack: str, dead: Set[str]) -> None:
        """A pack is started; `dead` are the machines known to be gone."""
        self._starts.setdefault(pack, []).append(dead)

    def count(self, pack: str, dead: Set[str]) -> tuple[int, int]:
        """A pack is lost once more: how often that may have been its own doing, and how often a machine's."""
        seen = [*self._starts[pack], dead]
        machines = sum(bool(later - earlier) for earlier, later in pairwise(seen))
        return len(seen) - 1 - machines, machines

    def halve(self, pack: str, parts: Iterable[str]) -> None:
        """The parts of a pack are tried on their own: its last loss is theirs."""
        for part in parts:
            if part != pack:
                self._starts[part] = self._starts[pack][-1:]
