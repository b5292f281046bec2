"""The report while a sweep runs: written anew after rounds, so that a browser shows the answer come."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

EVERY = 30.0
"""Seconds between two pages at least; a page reads itself again as often."""
SHARE = 0.05
"""Of the time since the sweep began, pages take at most this share."""


@dataclass
class LivePage:
    """Writes pages when they are due.

    write: writes one that reads itself again after this number of seconds.
    """

    write: Callable[[int], object]
    clock: Callable[[], float] = time.monotonic
    begun: float = field(init=False)
    last: float = field(init=False)
    spent: float = 0.0
    longest: float = 0.0
    broken: bool = False

    def __post_init__(self) -> None:
        self.begun = self.last = self.clock()

    def after_round(self) -> None:
        """Write a page if the last one is old enough, and time for another one as long as the longest has been earned.
        After one that fails there is none until the end, whose error is shown."""
        start = self.clock()
        earned = SHARE * (start - self.begun) >= self.spent + self.longest
        if self.broken or start - self.last < EVERY or not earned:
            return
        try:
            self.write(max(1, int(EVERY)))
        except Exception:  # rows are worth more than a page
            self.broken = True
        self.last = self.clock()
        self.spent += self.last - start
        self.longest = max(self.longest, self.last - start)
