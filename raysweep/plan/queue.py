"""The queue that every executor draws packs from: one path for grids, adaptive searches and retries."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from raysweep.plan.packs import Pack


class PackQueue:
    """Packs round by round. `propose` gives the packs of the next round, none when the search is over; it is asked
    only once every pack of the round before is done. A pack that is not `in_time` when its turn comes is held back,
    which leaves its turn to shorter ones and ends the search."""

    def __init__(
        self, propose: Callable[[], Iterable[Pack]], in_time: Callable[[Pack], bool] = lambda pack: True
    ) -> None:
        self._propose, self._in_time = propose, in_time
        self.held_back = 0
        self._waiting: deque[Pack] = deque()
        self._running = 0

    def next(self) -> Pack | None:
        """The next pack; None while others must finish first, and at the end (then `running` is 0)."""
        if not self._waiting and not self._running and not self.held_back:
            self._waiting.extend(self._propose())
        while self._waiting:
            pack = self._waiting.popleft()
            if self._in_time(pack):
                self._running += 1
                return pack
            self.held_back += 1
        return None

    def done(self) -> None:
        """A pack that was given out has its rows in the ledger."""
        self._running -= 1

    def hand_back(self, parts: Iterable[Pack]) -> None:
        """A pack that was given out was lost; it, or its parts, are to be tried again, soon."""
        self._running -= 1
        self._waiting.extendleft(parts)

    @property
    def running(self) -> int:
        """Packs given out and not done."""
        return self._running
