"""The queue from which every executor takes packs: one path for grids, adaptive searches and retries."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from raysweep.plan.packs import Pack


class PackQueue:
    """Packs, round by round.

    propose: returns the packs of the next round, or nothing if the search is over. It is called only when every pack of
        the round before is done.
    in_time: whether a pack can still end in time. A pack that cannot is held back: shorter packs take its turn, and no
        further round is proposed.
    """

    def __init__(
        self, propose: Callable[[], Iterable[Pack]], in_time: Callable[[Pack], bool] = lambda pack: True
    ) -> None:
        self._propose, self._in_time = propose, in_time
        self.held_back = 0
        self._waiting: deque[Pack] = deque()
        self._running = 0

    def next(self) -> Pack | None:
        """The next pack; None while other packs must finish first, and at the end (then `running` is 0)."""
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
        """Record that a pack is finished and its rows are in the ledger."""
        self._running -= 1

    def hand_back(self, parts: Iterable[Pack]) -> None:
        """Put the parts of a lost pack (or the pack itself) at the front of the queue, to be tried again."""
        self._running -= 1
        self._waiting.extendleft(parts)

    @property
    def running(self) -> int:
        """Number of packs that were given out and are not finished."""
        return self._running
