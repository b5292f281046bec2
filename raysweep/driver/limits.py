"""How long a driver may work: `--max-hours`. Stopping in time means that the command has ended by then."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from raysweep.driver.progress import duration
from raysweep.driver.signals import amid_import

_LONGEST = 1e9  # seconds, thirty years: a timer takes no more than 292 years
_CLOSING = 30.0  # seconds kept for the mirror and the record, of a limit that is long enough to spare them


class TimeIsUp(KeyboardInterrupt):
    """The hours are over. What is done is kept, as after Ctrl-C."""


class TimeLimit:
    """Counts from when it is made. hours: None for no limit."""

    def __init__(self, hours: float | None) -> None:
        self._seconds = float("inf") if hours is None else hours * 3600
        self._started = time.monotonic()
        self._spent, self._estimated = 0.0, 0.0

    def learn(self, spent: float, estimated: float) -> None:
        """A pack that was estimated at so many seconds took so many."""
        self._spent += spent
        self._estimated += estimated

    def left(self) -> float:
        """Seconds of computing that are left."""
        closing = min(_CLOSING, 0.05 * self._seconds) if self._seconds < float("inf") else 0.0
        return self._seconds - closing - (time.monotonic() - self._started)

    def fits(self, estimated: float) -> bool:
        """Whether a pack of so many estimated seconds would end in time, going by those that did. Before any has, it is
        tried: an estimate alone knows nothing of this machine."""
        return self.left() > (estimated * self._spent / self._estimated if self._estimated else 0.0)

    def over(self) -> TimeIsUp:
        """What to raise."""
        return TimeIsUp(f"stopped, the {duration(self._seconds)} of --max-hours are over")

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Raise TimeIsUp here when nothing is left, whatever is going on. (Signals reach the main thread alone; in
        another, packs are no longer started and those that run are waited for.)"""
        if self._seconds == float("inf") or threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: Any) -> None:
            if not amid_import(number, frame):
                raise self.over()

        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, min(max(self.left(), 1e-3), _LONGEST))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
