"""The progress line: rows done, rate, time left. A live line on a terminal, plain lines elsewhere, always on stderr."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

from raysweep import terminal

PLAIN_EVERY = 10.0  # seconds between plain lines


def duration(seconds: float) -> str:
    """Seconds in words: 0.4 s, 12 s, 3 min 20 s, 2 h 05 min, 3 d 4 h."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 172_800:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


class Progress:
    """Counts rows of a sweep; a context manager that shows them while it is open."""

    def __init__(self) -> None:
        self._rows, self._seconds = 0, 1e-9
        self._done, self._done_seconds = 0, 0.0
        self._started = time.monotonic()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def expect(self, rows: int, estimated_seconds: float) -> None:
        """So many more rows are to come: a search decided on another round."""
        self._rows += rows
        self._seconds += estimated_seconds

    def advance(self, rows: int, estimated_seconds: float) -> None:
        """So many more rows are in the ledger, which were estimated at so many seconds of one core."""
        self._done += rows
        self._done_seconds += estimated_seconds

    def line(self) -> str:
        """The state now, in one line."""
        elapsed = max(time.monotonic() - self._started, 1e-9)
        if not self._rows:
            return "planning"
        text = f"{self._done:,} of {self._rows:,} rows"
        if not self._done:
            return f"{text}, {duration(elapsed)} so far"
        left = elapsed * max(self._seconds - self._done_seconds, 0) / max(self._done_seconds, 1e-9)
        text += f", {self._done / elapsed:,.4g} rows/s"
        return f"{text}, {duration(left)} left" if self._done < self._rows else f"{text}, {duration(elapsed)}"

    def __enter__(self) -> Progress:
        live = sys.stderr.isatty()
        self._thread = threading.Thread(target=self._show_while_it_can if live else self._show_plain, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        terminal.say(self.line())

    def _show_plain(self) -> None:
        while not self._stop.wait(PLAIN_EVERY):
            terminal.say(self.line())

    def _show_while_it_can(self) -> None:
        try:
            self._show_live()
        except OSError:  # the terminal was closed
            terminal.silence()

    def _show_live(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        def view() -> Table:
            grid = Table.grid(padding=(0, 1))
            grid.add_row(ProgressBar(self._rows, self._done, width=30), self.line())
            return grid

        with Live(view(), console=Console(stderr=True), transient=True, auto_refresh=False) as live:
            while not self._stop.wait(0.25):
                live.update(view(), refresh=True)
