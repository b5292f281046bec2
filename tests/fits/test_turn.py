"""Turns of curves with one run per point and known standard errors."""

import numpy as np
import pandas as pd
import pytest

import raysweep
from raysweep.analyses.rows import cell_means
from raysweep.fits.result import Status
from raysweep.fits.turn import find_turn, fit_turns, unimodal
from raysweep.report.first_tables import first_rows, first_table
from raysweep.report.tables import table_of

STEPS = np.arange(0.0, 145.0, 8.0)
ERROR = np.full(len(STEPS), 0.012)


def rising(plateau=0.3):
    return 0.25 + plateau * (1 - np.exp(-STEPS / 25))


def turning(fall):
    return rising() - fall * np.clip((STEPS - 60) / 84, 0, 1)


@pytest.mark.simulation
def test_a_curve_that_only_rises_seldom_turns():
    rng = np.random.default_rng(0)
    noisy = (rising(0.1 * (k % 4)) + ERROR * rng.standard_normal(len(STEPS)) for k in range(400))
    p = [find_turn(STEPS, one, ERROR, turn="max").p for one in noisy]
    assert np.mean(np.array(p) <= 0.05) <= 0.05


def test_a_fall_is_above_zero_just_where_p_is_small():
    rng = np.random.default_rng(4)
    clear = []
    for seed, fall in enumerate(np.linspace(0.0, 0.06, 24)):
        turn = find_turn(STEPS, turning(fall) + ERROR * rng.standard_normal(len(STEPS)), ERROR, turn="max", seed=seed)
        if np.isfinite(turn.fall_low):
            clear.append((turn.p <= 0.05, turn.fall_low > 0))
    assert all(small == above for small, above in clear)
    assert {small for small, _ in clear} == {True, False}


@pytest.mark.simulation
def test_a_clear_fall_is_found_with_its_place_and_size():
    rng = np.random.default_rng(1)
    places, falls, distances = [], [], []
    true = float(turning(0.1).max() - turning(0.1)[-1])
    for seed in range(40):
        turn = find_turn(STEPS, turning(0.1) + ERROR * rng.standard_normal(len(STEPS)), ERROR, turn="max", seed=seed)
        assert turn.p < 0.01
        places.append(turn.low <= 64 <= turn.high)
        falls.append(turn.fall_low <= true <= turn.fall_high)
        distances.append(turn.fall - true)
    assert np.mean(places) >= 0.9
    assert np.mean(falls) >= 0.9
    assert abs(np.mean(distances)) <= 0.015  # without the correction 0.02


def test_a_curve_at_chance_level_has_no_turn_even_if_it_leaves_it_for_a_while():
    level = np.where((STEPS > 0) & (STEPS < 30), 0.6, 0.37)
    assert find_turn(STEPS, level, ERROR, turn="max").p == 1.0
    assert find_turn(STEPS[:4], rising()[:4], ERROR[:4], turn="max").p == 1.0


def test_the_unimodal_fit_is_the_nearest_curve_of_its_kind():
    z = np.array([0.0, 2.0, 1.0, 3.0, 1.0, 2.0])
    fit, squares = unimodal(z, np.ones(6))
    np.testing.assert_allclose(fit, [0, 1.5, 1.5, 3, 1.5, 1.5])
    np.testing.assert_allclose(squares, [5.5, 2.5, 2.5, 1, 2.5, 2.5])


def test_a_place_that_the_points_rule_out_is_not_in_its_interval():
    steep = np.array([0.30, 0.36, 0.41, 0.41, 0.42, 0.41, 0.42, 0.41, 0.36, 0.36, 0.37, 0.36])
    turn = find_turn(np.arange(12.0), steep, np.full(12, 0.01), turn="max")
    assert (turn.low, turn.high, turn.p < 0.05) == (1.0, 8.0, True)


def table(curves):
    rng = np.random.default_rng(2)
    parts = [
        pd.DataFrame({"step": STEPS, "task": k, "acc": one + ERROR * rng.standard_normal(len(STEPS)), "error": ERROR})
        for k, one in enumerate(curves)
    ]
    return pd.concat(parts, ignore_index=True)


def test_p_is_adjusted_for_all_curves():
    frame = table([turning(0.1), *[rising()] * 9]).assign(status="ok")
    parts = [part for _, part in frame.groupby("task")]
    result = fit_turns(parts, "step", "acc", "error", turn="max").table
    assert result["status"].tolist() == [Status.LOCATED, *[Status.UNDETERMINED] * 9]
    assert result.loc[0, "p_holm"] == pytest.approx(10 * result.loc[0, "p"])


def test_the_page_begins_with_the_clearest_turns_and_says_their_p_and_fall():
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
    assert shown.head == ["task", "step at the highest acc [95 % interval]", "fall to the end", "p, adjusted"]
    assert (shown.rows[0][0], shown.rows[0][-1], shown.rows[1][1]) == ("task 9", "< 0.0001", "no clear turn")
    page = first_table(answer[0], answer.workload)  # those that say the same stand in one row
    assert [line[0] for line in page.rows] == ["task 9", "9 settings"]


def test_a_point_with_a_known_error_has_the_interval_of_it():
    answer = raysweep.analyse(table([rising()]), "acc:maximize", "step", "task", error="error")
    means = cell_means(answer.runs.rows, "step", "acc", answer.workload)
    np.testing.assert_allclose(means.high - means.centre, 1.959964 * ERROR)
