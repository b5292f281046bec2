"""Turns of curves with one run per point and known standard errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import raysweep
from raysweep.analyses.finding import Outcome
from raysweep.fits.known_turn import fit_known_turns, known_turn, unimodal
from raysweep.fits.result import Status

STEPS = np.arange(0.0, 145.0, 8.0)
ERROR = np.full(len(STEPS), 0.012)


def rising(plateau: float = 0.3) -> np.ndarray:
    return 0.25 + plateau * (1 - np.exp(-STEPS / 25))


def turning(fall: float) -> np.ndarray:
    return rising() - fall * np.clip((STEPS - 60) / 84, 0, 1)


def test_a_curve_that_only_rises_turns_in_at_most_five_percent() -> None:
    rng = np.random.default_rng(0)
    p = [
        known_turn(STEPS, rising(0.1 * (k % 4)) + ERROR * rng.standard_normal(len(STEPS)), ERROR, turn="max").p
        for k in range(80)
    ]
    assert np.mean(np.array(p) <= 0.05) <= 0.11  # 0.05, plus what chance does to 80


def test_a_clear_fall_is_found_with_its_place_and_size() -> None:
    rng = np.random.default_rng(1)
    places, falls = [], []
    for seed in range(10):
        found = known_turn(STEPS, turning(0.1) + ERROR * rng.standard_normal(len(STEPS)), ERROR, turn="max", seed=seed)
        assert found.p < 0.001
        places.append(found.low <= 64 <= found.high)
        falls.append(found.fall_low <= 0.1 - 0.3 * (np.exp(-60 / 25) - np.exp(-144 / 25)) <= found.fall_high)
    assert np.mean(places) >= 0.7
    assert np.mean(falls) >= 0.7


def test_a_curve_at_chance_level_has_no_turn_even_if_it_leaves_it_for_a_while() -> None:
    level = np.where((STEPS > 0) & (STEPS < 30), 0.6, 0.37)
    assert known_turn(STEPS, level, ERROR, turn="max").p == 1.0
    assert known_turn(STEPS[:4], rising()[:4], ERROR[:4], turn="max").p == 1.0


def test_a_loss_turns_upwards() -> None:
    found = known_turn(STEPS, -turning(0.1), ERROR, turn="min")
    assert (found.p < 0.001, found.estimate) == (True, known_turn(STEPS, turning(0.1), ERROR, turn="max").estimate)


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
    found = fit_known_turns(parts, "step", "acc", "error", turn="max").table
    assert found["status"].tolist() == [Status.LOCATED, *[Status.UNDETERMINED] * 9]
    assert found.loc[0, "p_holm"] == pytest.approx(10 * found.loc[0, "p"])


def test_a_table_with_known_errors_is_asked_where_its_curves_turn() -> None:
    found = raysweep.analyse(
        table([turning(0.12), rising(), rising()]),
        metric="acc:maximize",
        axes="step",
        by="task",
        error="error",
        questions=[{"inflection": {"x": "step"}}],
    )
    assert found.table["outcome"].tolist() == [Outcome.LOCATED, Outcome.UNCLEAR, Outcome.UNCLEAR]
    assert found.table.loc[0, "fall_low"] > 0
    assert (found.table["base"] < 0.3).all()
