"""Every cell, in packs: the search that leaves nothing out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from raysweep.plan import Pack


class Grid:
    """A queue of packs. `next` gives one, or None when none is waiting; packs handed back come first."""

    def __init__(self, packs: Iterable[Pack]) -> None:
        self._waiting = deque(packs)

    def next(self) -> Pack | None:
        """The next pack to compute."""
        return self._waiting.popleft() if self._waiting else None

    def hand_back(self, packs: Iterable[Pack]) -> None:
        """Packs that were not computed and should be tried again, soon."""
        self._waiting.extendleft(packs)
