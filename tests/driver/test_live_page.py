"""While a sweep runs, its page is written after rounds: seldom, cheaply, and never at the cost of rows."""

import itertools

from conftest import run

from raysweep.driver import live_page
from raysweep.driver.live_page import EVERY, SHARE, LivePage


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_pages_are_at_least_thirty_seconds_apart_and_take_five_percent():
    clock, written = Clock(), list[float]()

    def write(reload):
        assert reload == EVERY
        written.append(clock.now)
        clock.now += 6

    page = LivePage(write, clock)
    while clock.now < 3600:
        page.after_round()
        clock.now += 1
    assert len(written) > 10
    assert min(later - one for one, later in itertools.pairwise(written)) >= EVERY
    assert page.spent <= SHARE * clock.now


def test_after_a_page_that_fails_no_other_is_tried():
    clock, tried = Clock(), list[int]()

    def write(reload):
        tried.append(reload)
        raise OSError("the disk is full")

    page = LivePage(write, clock)
    for _ in range(9):
        clock.now += 100
        page.after_round()
    assert len(tried) == 1


def test_a_running_search_shows_its_rows_so_far_and_ends_with_a_final_page(storage, monkeypatch):
    monkeypatch.setattr(live_page, "EVERY", 0.0)
    monkeypatch.setattr(live_page, "SHARE", 1e9)
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
