"""Turns of curves with one run per point and known standard errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import raysweep
from raysweep.analyses.finding import Outcome
from raysweep.analyses.rows import cell_means
from raysweep.fits.result import Status
from raysweep.fits.turn import find_turn, fit_turns, unimodal
from raysweep.report.tables import first_rows, table_of

STEPS = np.arange(0.0, 145.0, 8.0)
ERROR = np.full(len(STEPS), 0.012)


def rising(plateau: float = 0.3) -> np.ndarray:
    return 0.25 + plateau * (1 - np.exp(-STEPS / 25))


def turning(fall: float) -> np.ndarray:
    return rising() - fall * np.clip((STEPS - 60) / 84, 0, 1)


@pytest.mark.simulation
def test_a_curve_that_only_rises_turns_in_at_most_five_percent() -> None:
    rng = np.random.default_rng(0)
    p = [
        find_turn(STEPS, rising(0.1 * (k % 4)) + ERROR * rng.standard_normal(len(STEPS)), ERROR, turn="max").p
        for k in range(80)
    ]
    assert np.mean(np.array(p) <= 0.05) <= 0.11  # 0.05, plus what chance does to 80


@pytest.mark.simulation
def test_a_clear_fall_is_found_with_its_place_and_size() -> None:
    rng = np.random.default_rng(1)
    places, falls = [], []
    for seed in range(10):
        turn = find_turn(STEPS, turning(0.1) + ERROR * rng.standard_normal(len(STEPS)), ERROR, turn="max", seed=seed)
        assert turn.p < 0.001
        places.append(turn.low <= 64 <= turn.high)
        falls.append(turn.fall_low <= 0.1 - 0.3 * (np.exp(-60 / 25) - np.exp(-144 / 25)) <= turn.fall_high)
    assert np.mean(places) >= 0.9
    assert np.mean(falls) >= 0.7


def test_a_curve_at_chance_level_has_no_turn_even_if_it_leaves_it_for_a_while() -> None:
    level = np.where((STEPS > 0) & (STEPS < 30), 0.6, 0.37)
    assert find_turn(STEPS, level, ERROR, turn="max").p == 1.0
    assert find_turn(STEPS[:4], rising()[:4], ERROR[:4], turn="max").p == 1.0


def test_a_loss_turns_upwards() -> None:
    turn = find_turn(STEPS, -turning(0.1), ERROR, turn="min")
    assert (turn.p < 0.001, turn.estimate) == (True, find_turn(STEPS, turning(0.1), ERROR, turn="max").estimate)


def test_the_unimodal_fit_is_the_nearest_curve_of_its_kind() -> None:
    z = np.array([0.0, 2.0, 1.0, 3.0, 1.0, 2.0])
    np.testing.assert_allclose(unimodal(z, np.ones(6)), [0, 1.5, 1.5, 3, 1.5, 1.5])


def table(curves: list[np.ndarray]) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    parts = [
        pd.DataFrame({"step": STEPS, "task": k, "acc": one + ERROR * rng.standard_normal(len(STEPS)), "error": ERROR})
        for k, one in enumerate(curves)
    ]
    return pd.concat(parts, ignore_index=True)


def test_p_is_adjusted_for_all_curves() -> None:
    frame = table([turning(0.1), *[rising()] * 9]).assign(status="ok")
    parts = [part for _, part in frame.groupby("task")]
    result = fit_turns(parts, "step", "acc", "error", turn="max").table
    assert result["status"].tolist() == [Status.LOCATED, *[Status.UNDETERMINED] * 9]
    assert result.loc[0, "p_holm"] == pytest.approx(10 * result.loc[0, "p"])


def test_a_table_with_known_errors_is_asked_where_its_curves_turn() -> None:
    answer = raysweep.analyse(
        table([turning(0.12), rising(), rising()]),
        metric="acc:maximize",
        axes="step",
        by="task",
        error="error",
        questions=[{"inflection": {"x": "step"}}],
    )
    assert answer.table["outcome"].tolist() == [Outcome.LOCATED, Outcome.UNCLEAR, Outcome.UNCLEAR]
    assert answer.table.loc[0, "fall_low"] > 0
    assert (answer.table["base"] < 0.3).all()


def test_the_page_begins_with_the_clearest_turns_and_says_their_p_and_fall() -> None:
    answer = raysweep.analyse(
        table([rising()] * 9 + [turning(0.12)]).assign(task=lambda frame: frame["task"].map("task {}".format)),
        metric="acc:maximize",
        axes="step",
        by="task",
        error="error",
        questions=[{"inflection": {"x": "step"}}],
    )
    chosen = first_rows(answer[0])
    assert (len(chosen), answer.table.loc[chosen[0], "task"]) == (8, "task 9")
    shown = table_of(answer[0], answer.workload, chosen)
    assert shown.head == ["task", "turning point [95 % interval]", "first value", "fall to the end", "p, adjusted"]
    assert (shown.rows[0][0], shown.rows[0][-1], shown.rows[1][1]) == ("task 9", "< 0.0001", "–")


def test_a_point_with_a_known_error_has_the_interval_of_it() -> None:
    answer = raysweep.analyse(table([rising()]), "acc:maximize", "step", "task", error="error")
    means = cell_means(answer.runs.rows, "step", "acc", answer.workload)
    np.testing.assert_allclose(means.high - means.centre, 1.959964 * ERROR)
