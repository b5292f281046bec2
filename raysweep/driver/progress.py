"""The progress line: rows done, rate and time left; later the same for the report and for MLflow.

It is a live line on a terminal and in a notebook, and plain lines elsewhere, always on stderr.
"""

from __future__ import annotations

import abc
import contextlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Self

from raysweep import terminal
from raysweep.errors import RaysweepError
from raysweep.phrases import counted
from raysweep.storage import signs
from raysweep.storage.paths import AnyPath

PLAIN_EVERY = 10.0  # seconds between plain lines
LIVE_EVERY = 0.25  # seconds between two updates of a live line
TRUST = 0.05
"""The share of the work that the estimate counts as: a first pack of a thousandth of it, whose process had to start,
says little of the pace."""
STAGES_EVERY = 10.0  # seconds between two looks at the store of stages
STUCK_AFTER = 60.0
"""Seconds without a finished pack after which the line says so, if they are also twice what any pack should take."""
SIGN_EVERY = 1.0  # seconds between two updates of the phase file in the sweep's folder
PHASES = {"report": ("writing the report", "step"), "mirror": ("writing to MLflow", "cell")}
"""What a driver does besides computing rows: words for it, and the unit that it counts."""


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


def phase_line(phase: signs.Phase) -> str | None:
    """A phase in one line; None for a phase that is not in PHASES."""
    if phase.name not in PHASES:
        return None
    words, unit = PHASES[phase.name]
    left = "" if phase.left is None else f", {duration(phase.left)} left"
    return f"{words}: {phase.done:,} of {counted(phase.of, unit)}{left}" if phase.of else words


class Shown(abc.ABC):
    """A context manager that shows `line` while it is open."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @abc.abstractmethod
    def line(self) -> str: ...

    @abc.abstractmethod
    def counts(self) -> tuple[int, int]:
        """How many are done, and how many there are."""

    def __enter__(self) -> Self:
        thread = threading.Thread(target=self._show_live if sys.stderr.isatty() else self._show_lines, daemon=True)
        thread.start()
        self._thread = thread
        return self

    def __exit__(self, *problem: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _show_lines(self) -> None:
        in_notebook = terminal.in_notebook()
        while not self._stop.wait(LIVE_EVERY if in_notebook else PLAIN_EVERY):
            (terminal.update if in_notebook else terminal.say)(self.line())
        if in_notebook:
            terminal.update("")

    def _show_live(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        def view() -> Table:
            done, total = self.counts()
            grid = Table.grid(padding=(0, 1))
            grid.add_row(ProgressBar(total, done, width=30), self.line())
            return grid

        try:
            with Live(view(), console=Console(stderr=True), transient=True, auto_refresh=False) as live:
                while not self._stop.wait(LIVE_EVERY):
                    live.update(view(), refresh=True)
        except OSError:  # the terminal was closed
            terminal.silence()


class Progress(Shown):
    """Counts the rows of a sweep, and shows the counts while it is open.

    stages: returns how many of the stages that rows wait for are there, and how many there are. It looks at the store,
        and is asked at most every STAGES_EVERY seconds, and no more once all are there.
    """

    def __init__(self, stages: Callable[[], tuple[int, int]] = lambda: (0, 0)) -> None:
        super().__init__()
        self._stages, self._stage_counts, self._looked = stages, (0, 0), float("-inf")
        self._stages_changed_at = float("-inf")  # when a look at the stages last found another one
        self._rows, self._seconds = 0, 1e-9
        self._done, self._done_seconds = 0, 0.0
        self._begun = float("inf")  # when the first pack that is done began: Ray takes seconds to start
        self._last = float("-inf")  # when the last pack that is done ended
        self._longest, self._asked = float("inf"), self._started

    def expect(self, rows: int, estimated_seconds: float, longest: float = float("inf")) -> None:
        """Add the rows of another round, with the estimated seconds of one core: of all, and of the longest pack."""
        self._rows += rows
        self._seconds += estimated_seconds
        self._longest, self._asked = longest, time.monotonic()
        self._stage_counts = (0, 0)  # there may be new ones

    def advance(self, rows: int, estimated_seconds: float, took: float) -> None:
        """Count rows that reached the ledger, their estimated seconds, and those of their trial."""
        self._last = time.monotonic()
        self._begun = min(self._begun, self._last - took)
        self._done += rows
        self._done_seconds += estimated_seconds

    def line(self) -> str:
        now = time.monotonic()
        if not self._rows:
            return "planning"
        text = f"{self._done:,} of {counted(self._rows, 'row')}{self._stages_in_words(now)}"
        silent = now - max(self._last, self._asked, self._stages_changed_at)
        stuck = ""
        if self._done < self._rows and silent > max(STUCK_AFTER, 2 * self._longest):
            stuck = f"; nothing has ended for {duration(silent)}: `raysweep status` shows what is at work"
        if not self._done and not self._done_seconds:
            return f"{text}, {duration(now - self._started)} so far{stuck}"
        computing = max(now - self._begun, 1e-9)
        if self._done:  # before the first row, stages have been computed
            text += f", {self._done / computing:,.4g} rows/s"
        if self._done >= self._rows:
            return f"{text}, {duration(now - self._started)}"
        # The pace is that at the end of the last pack, because the packs at work since then are not counted yet.
        trust = TRUST * self._seconds
        pace = (self._last - self._begun + trust) / (self._done_seconds + trust)
        left = pace * max(self._seconds - self._done_seconds, 0) - (now - self._last)
        if left < 0:
            return f"{text}, {duration(now - self._started)} so far, more than estimated{stuck}"
        return f"{text}, {duration(left)} left"

    def _stages_in_words(self, now: float) -> str:
        """How many of the stages that rows wait for are there; empty once all are."""
        there, total = self._stage_counts
        if self._done < self._rows and not 0 < total == there and now - self._looked >= STAGES_EVERY:
            self._looked = now
            with contextlib.suppress(RaysweepError, OSError):  # a store that cannot be read now: what was known stands
                before, self._stage_counts = self._stage_counts, self._stages()
                self._stages_changed_at = now if self._stage_counts != before else self._stages_changed_at
        there, total = self._stage_counts
        return f", {there:,} of {counted(total, 'stage')}" if there < total and self._done < self._rows else ""

    def counts(self) -> tuple[int, int]:
        return self._done, self._rows

    def __exit__(self, *problem: object) -> None:
        super().__exit__()
        terminal.say(self.line())


class Phase(Shown):
    """Shows what a driver does besides computing rows, while it is open, here and by a file to `raysweep status`.
    counts: returns how many are done, and how many there are."""

    def __init__(self, folder: AnyPath, name: str, counts: Callable[[], tuple[int, int]]) -> None:
        super().__init__()
        self._folder, self._name, self._counts = folder, name, counts
        self._first: tuple[float, int] | None = None  # the moment and value of the first count
        self._moving: tuple[float, int] | None = None  # the first higher count: opening MLflow takes seconds
        self._signing = threading.Thread(target=self._sign, daemon=True)

    def counts(self) -> tuple[int, int]:
        done, total = self._counts()
        return min(done, total), total

    def line(self) -> str:
        """The phase in one line, with an estimate of the time left or, before there is one, the time spent so far."""
        now = self.now()
        so_far = "" if now.left is not None else f", {duration(time.monotonic() - self._started)} so far"
        return f"{phase_line(now)}{so_far}"

    def now(self) -> signs.Phase:
        done, total = self.counts()
        moment = time.monotonic()
        self._first = self._first or (moment, done)
        if self._moving is None and done > self._first[1]:
            self._moving = (moment, done)
        since, before = self._moving or (moment, done)
        left = (moment - since) / (done - before) * (total - done) if before < done < total else None
        return signs.Phase(self._name, done, total, left)

    def __enter__(self) -> Self:
        try:
            signs.leave_phase(self._folder, self.now())
            self._signing.start()
            return super().__enter__()
        except BaseException:  # Ctrl-C while it starts: stop the threads that show it
            self.__exit__()
            raise

    def __exit__(self, *problem: object) -> None:
        super().__exit__()
        if self._signing.is_alive():
            self._signing.join()
        signs.clear(self._folder, signs.PHASE)

    def _sign(self) -> None:
        while not self._stop.wait(SIGN_EVERY):
            signs.leave_phase(self._folder, self.now())
