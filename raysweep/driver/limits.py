"""The time of a driver: `--max-hours`, within which the whole command ends; and the share of it in which the report is
written anew while a sweep runs, so that a browser shows the answer come."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from raysweep.driver.progress import duration
from raysweep.driver.signal_handlers import is_untimely

_LONGEST = 1e9  # seconds, about 30 years; a timer takes at most 292 years
_CLOSING = 30.0  # seconds kept for MLflow and the record at the end; of a short limit, 5 %
PAGE_EVERY = 30.0
"""Seconds between two pages at least; a page reads itself again as often."""
PAGE_SHARE = 0.05
"""Of the time since the sweep began, pages take at most this share."""


class TimeIsUp(KeyboardInterrupt):
    """The time limit is reached. Finished rows are kept, as after Ctrl-C."""


class TimeLimit:
    """A time limit that starts when it is created. hours: None for no limit."""

    def __init__(self, hours: float | None) -> None:
        self._seconds = float("inf") if hours is None else hours * 3600
        self._started = time.monotonic()
        self._spent, self._estimated = 0.0, 0.0

    def learn(self, spent: float, estimated: float) -> None:
        """Record the measured (`spent`) and the estimated seconds of a finished pack."""
        self._spent += spent
        self._estimated += estimated

    def left(self) -> float:
        """Seconds that are left for computing."""
        closing = min(_CLOSING, 0.05 * self._seconds) if self._seconds < float("inf") else 0.0
        return self._seconds - closing - (time.monotonic() - self._started)

    def fits(self, estimated: float) -> bool:
        """Whether a pack with this estimate (seconds), corrected by the finished packs, would end in time. Before any
        pack has finished, the answer is yes while time is left."""
        return self.left() > (estimated * self._spent / self._estimated if self._estimated else 0.0)

    def over(self) -> TimeIsUp:
        return TimeIsUp(f"stopped, the {duration(self._seconds)} of --max-hours are over")

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Raise TimeIsUp inside the block as soon as no time is left. Signals reach the main thread only; in another
        one no further packs are started then, and running ones are waited for."""
        if self._seconds == float("inf") or threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: Any) -> None:
            if not is_untimely(number, frame):
                raise self.over()

        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, min(max(self.left(), 1e-3), _LONGEST))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


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
        earned = PAGE_SHARE * (start - self.begun) >= self.spent + self.longest
        if self.broken or start - self.last < PAGE_EVERY or not earned:
            return
        try:
            self.write(max(1, int(PAGE_EVERY)))
        except Exception:  # rows are worth more than a page
            self.broken = True
        self.last = self.clock()
        self.spent += self.last - start
        self.longest = max(self.longest, self.last - start)
