"""Which settings some of all are, as sentences say it in brackets."""

from __future__ import annotations

import re
from itertools import product
from math import inf

import numpy as np
import pandas as pd
import pytest

from raysweep import workloads
from raysweep.reporting.analyses.where import in_brackets, where

GRID = pd.DataFrame(
    [
        {"overlap_angle": angle, "depth": depth, "engine": engine, "noise": 0.2}
        for angle, depth, engine in product([30.0, 45.0, 60.0, 75.0, 90.0], [1, 2, 3], ["limit", "finite"])
    ]
)


def said(rows: pd.Series | np.ndarray, table: pd.DataFrame = GRID) -> str:
    return where(table, np.asarray(rows, bool), list(table.columns), workloads.get("linear_transfer"))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (GRID.depth == 2, "L = 2"),
        (GRID.overlap_angle >= 60, "θ ≥ 60°"),
        (GRID.overlap_angle <= 45, "θ ≤ 45°"),
        (GRID.overlap_angle.isin([30, 60, 75]), "θ = 30°, 60°, 75°"),
        (GRID.overlap_angle.isin([30, 60, 75, 90]), ""),  # a list of four is long, and it is no side
        (GRID.overlap_angle != 30, "θ ≥ 45°"),
        ((GRID.depth == 1) & (GRID.overlap_angle >= 60), "θ ≥ 60°, L = 1"),
        (GRID.engine == "finite", "finite"),
        (GRID.depth < 9, ""),
        (GRID.depth > 9, ""),
    ],
)
def test_settings_with_a_value_or_on_one_side_are_said_by_it(rows: pd.Series, words: str) -> None:
    assert said(rows) == words


def at_least(column: pd.Series, values: list[float]) -> pd.Series:
    return column >= values[0]


def at_most(column: pd.Series, values: list[float]) -> pd.Series:
    return column <= values[0]


def test_nothing_is_said_that_holds_of_other_settings_too() -> None:
    """Of every subset that has words, these words find the same settings again."""
    table, draws = GRID[GRID.engine == "limit"].reset_index(drop=True), np.random.default_rng(0)
    named = 0
    for _ in range(400):
        chosen = draws.random(len(table)) < draws.choice([0.1, 0.5, 0.9])
        text = said(chosen, table)
        if " and " in text or not text:
            continue
        found = np.ones(len(table), bool)
        for column, symbol in (("overlap_angle", "θ"), ("depth", "L")):
            if told := re.search(rf"{symbol} (=|≥|≤) ([\d°, ]*\d)", text):
                values = [float(value) for value in told[2].replace("°", "").split(", ")]
                found &= {"=": np.isin, "≥": at_least, "≤": at_most}[told[1]](table[column], values)
        named += 1
        assert (found == chosen).all(), text
    assert named > 20


def test_a_few_settings_with_nothing_in_common_are_listed() -> None:
    two = ((GRID.depth == 1) & (GRID.overlap_angle == 30)) | ((GRID.depth == 3) & (GRID.overlap_angle == 90))
    limit = GRID[GRID.engine == "limit"]
    assert said(two[limit.index], limit) == "θ = 30°, L = 1 and θ = 90°, L = 3"
    assert said(two) == ""  # four of them, with words beside the numbers


def test_of_axes_that_vary_together_one_is_said() -> None:
    table = pd.DataFrame({"depth": [1, 2, 3], "noise": [0.0, 0.25, 0.5], "pretrain_length": [1.0, 2.0, inf]})
    assert said(np.array([False, True, True]), table) == "L ≥ 2"
    assert said(np.array([False, False, True]), table[["pretrain_length"]]) == "pretraining length = ∞"


def test_a_value_that_is_missing_is_a_value() -> None:
    table = pd.DataFrame({"depth": [1.0, np.nan, 2.0]})
    assert said(np.array([True, False, True]), table) == "L = 1, 2"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (GRID.overlap_angle >= 60, " (θ ≥ 60°)"),
        (GRID.overlap_angle - 15 * GRID.depth >= 30, ""),  # from 45°, 60° and 75° on: not all at 30°, which says little
        ((GRID.overlap_angle - 15 * GRID.depth >= 30) & (GRID.depth > 1), " (all at θ ≥ 60°, L ≥ 2)"),
        ((GRID.overlap_angle + GRID.depth) % 2 == 0, ""),  # they are at all angles and depths
        (GRID.depth < 9, ""),
        (GRID.depth > 9, ""),
    ],
)
def test_settings_without_a_rule_of_their_own_are_said_by_what_they_share(rows: pd.Series, words: str) -> None:
    assert in_brackets(GRID, rows, list(GRID.columns), workloads.get("linear_transfer")) == words
