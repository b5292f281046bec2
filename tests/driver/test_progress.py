"""What a running sweep shows: the time left, and a page written seldom, cheaply, and never at the cost of rows."""

import io
import itertools
import re
import sys
from types import SimpleNamespace

import pytest
from conftest import run
from spaces import logging_space

import raysweep
from raysweep import terminal
from raysweep.driver import driver, limits, progress
from raysweep.driver.limits import PAGE_EVERY, PAGE_SHARE, LivePage
from raysweep.driver.progress import Progress
from raysweep.errors import Halted
from raysweep.trial.context import Context
from tests.chaos.waiting import wait_for


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.mark.parametrize(
    ("rows", "seconds", "events"),
    [
        (
            *(10, 12.0),  # Ray takes 20 seconds to start; then a stage of 2 s takes 4 s
            [
                (20.0, None, "0 of 10 rows, 20 s so far"),
                (24.0, (0, 2.0, 4.0), "0 of 10 rows, 18 s left"),
                (32.0, (5, 5.0, 3.0), "5 of 10 rows, 0.4167 rows/s, 8.3 s left"),
                (40.0, (5, 5.0, 3.0), "10 of 10 rows, 0.5 rows/s, 40 s"),
            ],
        ),
        # stages of 0.1 s take three minutes on a busy machine
        (1440, 200.0, [(187.0, (0, 0.1, 187.0), "0 of 1,440 rows, 64 min 59 s left")]),
        (
            *(10, 100.0),  # a pack of 2 s is done; the next one takes all the rest and ends late
            [
                (2.0, (1, 2.0, 2.0), "1 of 10 rows, 0.5 rows/s, 98 s left"),
                (62.0, None, "1 of 10 rows, 0.01613 rows/s, 38 s left"),
                (110.0, None, "1 of 10 rows, 0.009091 rows/s, 110 s so far, more than estimated"),
                (110.0, (9, 98.0, 108.0), "10 of 10 rows, 0.09091 rows/s, 110 s"),
            ],
        ),
    ],
    ids=["a slow start is not the pace", "a small first pack does not make days", "time left falls"],
)
def test_the_line_says_how_much_time_is_left(rows, seconds, events, clock):
    shown = Progress()
    shown.expect(rows, seconds)
    for now, advance, line in events:
        clock.now = now
        if advance:
            shown.advance(*advance)
        assert shown.line() == line


def test_a_sweep_in_which_nothing_ends_says_so(clock):
    shown = Progress()
    shown.expect(10, 100.0, 40.0)
    result = {}
    for clock.now in (70.0, 81.0):
        result[clock.now] = shown.line()
    assert result == {
        70.0: "0 of 10 rows, 70 s so far",
        81.0: "0 of 10 rows, 81 s so far; nothing has ended for 81 s: `raysweep status` shows what is at work",
    }
    shown.advance(9, 90.0, 90.0)
    clock.now = 120.0
    assert "nothing" not in shown.line()
    clock.now = 200.0
    assert "; nothing has ended for 119 s: " in shown.line()


def test_stages_that_rows_wait_for_are_counted_until_all_are_there(clock):
    looks = []

    def stages():
        looks.append(clock.now)
        if 40 <= clock.now < 60:
            raise Halted("store", "cannot be read now")
        return int(clock.now // 10), 7

    shown = Progress(stages)
    assert shown.line() == "planning"
    shown.expect(252, 20.0, 5.0)
    result = {}
    for clock.now in range(90):
        result[clock.now] = shown.line()
    assert result[0] == "0 of 252 rows, 0 of 7 stages, 0.0 s so far"
    assert result[39] == "0 of 252 rows, 3 of 7 stages, 39 s so far"
    assert result[59] == "0 of 252 rows, 3 of 7 stages, 59 s so far"
    assert result[60] == "0 of 252 rows, 6 of 7 stages, 60 s so far"
    assert result[70] == "0 of 252 rows, 70 s so far"
    assert not any("nothing has ended" in line for line in result.values())
    assert looks == [0, 10, 20, 30, 40, 50, 60, 70]


def test_a_sweep_tells_which_stages_its_rows_still_wait_for(monkeypatch, sandbox, storage):
    result = []

    class Told(Progress):
        def __enter__(self):
            monkeypatch.setattr(Context, "log", lambda context, step, **logged: result.append(self.line()))
            return super().__enter__()

    monkeypatch.setattr(progress, "STAGES_EVERY", 0.0)
    monkeypatch.setattr(driver, "Progress", Told)
    usual = {"storage": storage, "tracking_uri": "none", "report": False, "executor": "inline"}
    raysweep.run(logging_space(axes={"epochs": [2], "rate": [0.5]}, seeds=1), name="first", **usual)
    assert list(dict.fromkeys(line.rpartition(", ")[0] for line in result)) == [
        "0 of 1 row, 0 of 2 stages",
        "0 of 1 row, 1 of 2 stages",
        "0 of 1 row",  # the second stage is there, and the row is tuned
    ]
    result.clear()
    raysweep.run(logging_space(axes={"epochs": [3], "rate": [0.5]}, seeds=2), name="second", **usual)
    assert {line.split(", ")[1] for line in result[:-4]} == {f"{there} of 4 stages" for there in range(4)}


def test_a_notebook_has_one_line_that_changes(monkeypatch):
    cell = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(sys, "stderr", cell)
    monkeypatch.setattr(progress, "LIVE_EVERY", 0.01)
    shown = Progress()
    shown.expect(10, 10.0)
    with shown:
        assert wait_for(lambda: cell.getvalue().count("\r") > 3)
        terminal.say("a word between")
        shown.advance(10, 10.0, 1.0)
    text = cell.getvalue()
    lines = ["" for _ in range(text.count("\n") + 1)]
    for place, line in enumerate(text.split("\n")):
        for part in line.split("\r"):  # as a notebook lays one over the other
            lines[place] = part + lines[place][len(part) :]
    assert lines[0].rstrip() == "a word between"
    assert re.fullmatch(r"10 of 10 rows, [0-9.]+ rows/s, [0-9.]+ s", lines[1].rstrip())
    assert lines[2:] == [""]


@pytest.mark.parametrize("seconds", [0.5, 6.0])
def test_pages_are_at_least_thirty_seconds_apart_and_take_five_percent(seconds, clock):
    written = list[float]()

    def write(reload):
        assert reload == PAGE_EVERY
        written.append(clock.now)
        clock.now += seconds

    page = LivePage(write, lambda: clock.now)
    while clock.now < 3600:
        page.after_round()
        clock.now += 1
    assert len(written) > 10
    assert min(later - one for one, later in itertools.pairwise(written)) >= PAGE_EVERY
    assert page.spent <= PAGE_SHARE * clock.now


def test_after_a_page_that_fails_no_other_is_tried(clock):
    tried = list[int]()

    def write(reload):
        tried.append(reload)
        raise OSError("the disk is full")

    page = LivePage(write, lambda: clock.now)
    for _ in range(9):
        clock.now += 100
        page.after_round()
    assert len(tried) == 1


def test_a_running_search_shows_its_rows_so_far_and_ends_with_a_final_page(storage, monkeypatch):
    monkeypatch.setattr(limits, "PAGE_EVERY", 0.0)
    monkeypatch.setattr(limits, "PAGE_SHARE", 1e9)
    pages = list[str]()
    page = storage / "search" / "report" / "report.html"

    def loss(x, seed):
        if page.exists() and (not pages or pages[-1] != page.read_text()):
            pages.append(page.read_text())
        return (x - 2) ** 2

    axes = {"x": [0.25 * step for step in range(16)]}
    search = {"optuna": {"metric": "value", "cells": 12}}
    run(storage, loss, name="search", axes=axes, seeds=1, search=search, report=True)
    assert len(pages) >= 2
    assert all('http-equiv="refresh"' in text and "Running: " in text for text in pages)
    assert 'http-equiv="refresh"' not in page.read_text()
