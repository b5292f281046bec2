"""How places move and metrics run, in words that claim no more than the intervals show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from raysweep import workloads
from raysweep.analyses.movement import turns
from raysweep.analyses.question import Question
from raysweep.fits.comparison import Joint
from raysweep.fits.result import EXACT
from raysweep.report.figures.fitted_places import PlaceLine, places_figure
from raysweep.reporting.analyses import agreement, trend
from raysweep.reporting.analyses.fitted_places import Places
from raysweep.reporting.analyses.movement import movement, movement_words
from raysweep.reporting.analyses.place_widths import sure
from raysweep.reporting.document.parts import question_first

TRANSFER = workloads.get("linear_transfer")


def moving(*places: float, half: float = 0.3, **columns: Any) -> pd.DataFrame:
    """Places over gamma at two depths alike, with intervals of one width."""
    one = pd.DataFrame({"gamma": np.arange(len(places)) / 10, "low": places, "high": places, **columns})
    one = one.assign(low=one["low"] - half, high=one["high"] + half, status="located")
    return pd.concat([one.assign(depth=1), one.assign(depth=2)], ignore_index=True)


def test_a_place_that_turns_between_the_ends_goes_up_and_down() -> None:
    for places in ((2.0, 5.0, 1.0, 2.1), (2.0, 0.0, 5.0, 2.1), (2.0, 5.0, 2.1)):
        table = moving(*places)
        moves, still = movement_words(table, ["gamma", "depth"], TRANSFER)
        assert moves == "goes up and down with gamma (2 of 2 comparisons)"
        assert still.startswith("shows no clear move with depth (0 of ")
        (text,) = movement(table, ["gamma", "depth"], "zero", TRANSFER)
        assert "with gamma (0 to " in text
        assert "it goes up and down in 2 of 2 settings" in text


def test_a_place_whose_ends_do_not_tell_is_not_said_to_turn() -> None:
    rising = moving(1.0, 2.0, 3.0, 2.0)
    rising.loc[rising["gamma"] == 0.3, ["low", "high"]] = (0.0, 9.0)  # the last interval holds everything
    near = moving(2.0, 2.4, 2.0)
    by_chance = moving(2.0, 2.7, 2.0)  # one by one the intervals do not meet; three at once are a fifth wider
    bounds = moving(2.0, 5.0, 2.0)
    bounds.loc[bounds["gamma"] == 0.1, "status"] = "censored_high"
    for table in (rising, near, by_chance, bounds):
        moves, still = movement_words(table, ["gamma", "depth"], TRANSFER)
        assert moves == ""
        assert "no clear move with gamma (0 of 2 comparisons)" in still


def test_places_that_do_not_move_are_said_to_turn_in_at_most_five_percent_of_settings() -> None:
    random = np.random.default_rng(1)
    for count in (3, 10):
        found = random.normal(size=(2000, count))
        tables = (pd.DataFrame({"low": one - 1.96, "high": one + 1.96, "status": "located"}) for one in found)
        assert np.mean([turns(table) for table in tables]) <= 0.05
    far = pd.DataFrame({"low": [0.0, 6.0, 0.0], "high": [3.92, 9.92, 3.92], "status": "located"})
    assert turns(far)


def runs(*rows: tuple[str, bool, bool]) -> pd.DataFrame:
    """Trends (status, turns back, throughout), tested on draws that differ."""
    table = pd.DataFrame(rows, columns=["status", "turns_back", "throughout"])
    return table.assign(changes="", closed_form="", note="", method="Student's t")


def said_of(table: pd.DataFrame) -> tuple[str, str]:
    asked = Question(pd.DataFrame(), {"metric": "risk_scratch", "x": "gamma"}, TRANSFER, "trend")
    return trend.of_several(table, asked)


def test_a_trend_that_turns_back_holds_overall_and_each_direction_says_its_own_exceptions() -> None:
    one_way = runs(("rises", True, False), ("rises", False, False))
    headline, detail = said_of(one_way)
    assert headline == "risk_scratch rises overall with gamma in both settings, with a clear fall in between in 1"
    assert detail == "tested with p < 0.05 (Holm)"
    headline, detail = said_of(runs(("rises", True, False), ("rises", False, True), ("falls", True, False)))
    assert headline == (
        "risk_scratch rises overall with gamma in 2 of 3 settings, with a clear fall in between in 1, falls in 1"
    )
    assert detail == ("rises throughout in 1; falls with a clear rise in between in 1; tested with p < 0.05 (Holm)")


def test_throughout_is_said_of_the_values_that_were_tried_and_nothing_is_tested_on_equal_draws() -> None:
    every = runs(("rises", False, True), ("rises", False, True), ("rises", False, True))
    assert said_of(every)[0] == "risk_scratch rises throughout with gamma, at the values tried, in all 3 settings"
    assert said_of(every.assign(method=EXACT))[1] == "exact: draws do not differ in it"


def places_with(methods: list[str]) -> Places:
    rows = pd.DataFrame({"seed": [0, 1, 0, 1], "overlap_angle": [0.0, 0.0, 90.0, 90.0], "risk_finetune": 0.5})
    asked = Question(rows, {"metric": "risk_finetune", "x": "overlap_angle"}, TRANSFER, "boundary")
    estimate = np.array([40.0, 50.0, 60.0])
    table = pd.DataFrame({"gamma": [0.1, 0.2, 0.3], "status": "located", "note": "", "theory": np.nan})
    half = np.array([1.0, 2.0, 9.0])
    exact = [method == EXACT for method in methods]
    table = table.assign(estimate=estimate, low=estimate - half, high=estimate + half, exact=exact)
    return Places(asked, table, ["gamma"], "zero", "setting", "boundary", "the sign changes at {place}")


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        (["t", "t", "t"], "zero typically ± 2°, the widest 60.0 [51.0, 69.0]° (95 %)"),
        (
            ["t", "t", EXACT],
            "zero typically ± 1.5°, the widest 50.0 [48.0, 52.0]° (95 %; 1 more is exact, as nothing in it is random)",
        ),
        ([EXACT] * 3, "zero without chance, its intervals are those of the interpolation"),
    ],
)
def test_widths_are_those_of_curves_with_chance(methods: list[str], said: str) -> None:
    places = places_with(methods)
    assert sure(places) == said
    nothing = np.full(3, np.nan)
    line = PlaceLine("", "", places.table, places.table["gamma"].to_numpy(float), nothing)
    figure, told = places_figure([("", [line])], "overlap_angle", "gamma", TRANSFER, 0.95, "at the zero", {})
    assert ("spread of interpolations" in told) == (set(methods) == {EXACT})
    assert ("95 % interval" in told) == (set(methods) != {EXACT})
    assert figure.axes[0].get_yscale() == "linear"  # degrees always


def test_degrees_are_never_on_a_logarithmic_axis() -> None:
    places = places_with(["t"] * 3)
    for x, scale in (("overlap_angle", "linear"), ("gamma", "log")):
        table = places.table.assign(estimate=[1.0, 10.0, 100.0], low=[0.9, 9.0, 90.0], high=[1.1, 11.0, 110.0])
        line = PlaceLine("", "", table, table["gamma"].to_numpy(float), np.full(3, np.nan))
        figure, _ = places_figure([("", [line])], x, "gamma", TRANSFER, 0.95, "at the zero", {})
        assert figure.axes[0].get_yscale() == scale


def test_every_metric_that_differs_from_theory_is_named() -> None:
    one = Joint(z=4.0, mean=1.0, error=0.2, draws=9, skewness=0.0, averages=np.zeros(9))
    headline, detail = agreement.verdict(
        {name: replace(one, z=z) for name, z in zip("abcd", (4, 5, 6, 1), strict=True)}, 7
    )
    assert headline == "theory and experiment differ in 3 of 4 metrics: c, b, a"
    assert detail.startswith("c: z = +6.0")
    assert "a: z" not in detail


@pytest.mark.parametrize(("z", "opened"), [(1.0, False), (2.6, True), (6.0, False)])
def test_a_difference_from_theory_that_chance_may_have_made_is_open(z: float, opened: bool) -> None:
    one = Joint(z=z, mean=1.0, error=0.2, draws=9, skewness=0.0, averages=np.zeros(9))
    said = agreement.open_words({"risk": one, "error": replace(one, z=0.0), "loss": None})
    assert said == "whether theory and experiment differ by chance in risk (deciding it takes other seeds)" * opened


@pytest.mark.parametrize(
    ("asked", "question", "around"),
    [
        ("Does it pay? Theory says so.", "Does it pay?", "Theory says so."),
        ("Does it pay? And when?", "Does it pay? And when?", ""),
        ("A sweep of depth.", "A sweep of depth.", ""),
    ],
)
def test_what_stands_after_the_last_question_is_no_question(asked: str, question: str, around: str) -> None:
    assert question_first(asked) == (question, around)


def test_estimates_that_all_lean_one_way_are_said_to_though_their_intervals_meet() -> None:
    """Each comparison by itself shows nothing: five that all fall are no chance, four may be."""
    rows = [
        {"depth": depth, "gamma": gamma, "status": "located", "estimate": place, "low": place - 2, "high": place + 2}
        for gamma in range(5)
        for depth, place in ((2, 10.0 + gamma), (4, 9.0 + gamma))
    ]
    table = pd.DataFrame(rows)
    moves, still = movement_words(table, ["depth", "gamma"], TRANSFER)
    assert "fall" not in moves
    assert "depth (0 of 5 comparisons, though all estimates fall)" in still
    assert "though" not in " ".join(movement_words(table[table.gamma < 4], ["depth", "gamma"], TRANSFER))
    mixed = table.assign(estimate=np.where(table.index == 1, 12.0, table["estimate"]))
    assert "though" not in " ".join(movement_words(mixed, ["depth", "gamma"], TRANSFER)).split("gamma")[0]
