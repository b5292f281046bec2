"""The progress line says how much time is left."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from raysweep.driver import progress
from raysweep.driver.progress import Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that a test sets: `now`, in seconds."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_what_passes_before_the_first_pack_begins_is_not_taken_for_the_pace(clock: SimpleNamespace) -> None:
    """Ray takes 20 seconds to start here; then a stage of 2 s, of 12 s that are estimated, takes 4 s."""
    shown = Progress()
    shown.expect(10, 12.0)
    clock.now = 20.0
    assert shown.line() == "0 of 10 rows, 20 s so far"
    clock.now = 24.0
    shown.advance(0, 2.0, 4.0)
    assert shown.line() == "0 of 10 rows, 20 s left"
    clock.now = 32.0
    shown.advance(5, 5.0, 3.0)
    assert shown.line() == "5 of 10 rows, 0.4167 rows/s, 8.6 s left"
    clock.now = 40.0
    shown.advance(5, 5.0, 3.0)
    assert shown.line() == "10 of 10 rows, 0.5 rows/s, 40 s"
