"""A power law says whether the metric grows or falls with the axis, and in how many settings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from test_beside import METRIC
from test_report import TRANSFER

from raysweep.analyses.question import Question
from raysweep.fits.power_law import clear_signs
from raysweep.fits.statistics import t_quantile
from raysweep.reporting.analyses.power_law import power_law_section


def laws(exponents: Sequence[float]) -> pd.DataFrame:
    """One setting per exponent: the metric is a power of gamma, but for noise of a few percent."""
    gamma, draws = np.array([0.1, 0.2, 0.4, 0.8]), 6
    noise = np.random.default_rng(0).normal(0, 0.02, (len(exponents), draws, len(gamma)))
    values = np.exp(np.array(exponents)[:, None, None] * np.log(gamma) + noise)
    depth, seed, place = np.indices(values.shape)
    columns = {"depth": depth.ravel() + 1, "seed": seed.ravel(), "gamma": gamma[place.ravel()], METRIC: values.ravel()}
    return pd.DataFrame(columns).assign(status="ok", cell="c")


@pytest.mark.parametrize(
    ("exponents", "begins"),
    [
        ([0.5, 0.7], "risk_finetune grows with gamma to the power 0."),
        ([-0.5, -0.7], "risk_finetune falls with gamma to the power -0."),
        ([0.5, 0.7, 0.0], "risk_finetune grows with gamma in 2 of 3 settings, not clear in 1: log-log slope "),
        (
            [0.5, -0.7, 0.0],
            "risk_finetune grows with gamma in 1 of 3 settings, falls with gamma in 1, not clear in 1: log-log slope ",
        ),
        ([0.0, 0.0], "risk_finetune is not shown to grow or fall with gamma: log-log slope "),
    ],
)
def test_the_way_is_said_with_the_number_of_settings_that_show_it(exponents: list[float], begins: str) -> None:
    asked = Question(laws(exponents), {"metric": METRIC, "x": "gamma"}, TRANSFER, "power_law")
    assert power_law_section(asked).headline.startswith(begins)


def test_one_draw_decides_nothing_unless_the_metric_has_no_noise() -> None:
    options = {"metric": METRIC, "x": "gamma"}
    single = laws([0.5, 0.7]).query("seed == 0")
    one = power_law_section(Question(single[single["depth"] == 1], options, TRANSFER, "power_law"))
    assert one.headline.startswith("risk_finetune is not shown to grow or fall with gamma: log-log slope 0.")
    assert one.headline.endswith(" (a single draw has no interval)")
    assert one.undecided == "whether risk_finetune grows or falls with gamma (deciding it takes more than 1 seed)"
    both = power_law_section(Question(single, options, TRANSFER, "power_law"))
    assert "not shown to grow or fall" in both.headline
    assert "95 %" not in both.whole
    assert "in 2 of 2 settings (deciding it takes more than 1 seed)" in both.undecided
    exact = single.assign(**{METRIC: single["gamma"] ** 2, f"{METRIC}_theory": single["gamma"] ** 2})
    sure = power_law_section(Question(exact[exact["depth"] == 1], options, TRANSFER, "power_law"))
    assert sure.headline.startswith("risk_finetune grows with gamma to the power 2 (exact)")
    assert not sure.undecided


def test_of_exponents_that_are_zero_any_is_said_to_grow_or_fall_in_five_percent_of_sweeps() -> None:
    turns, settings, draws = 400, 5, 6
    slopes = np.random.default_rng(1).normal(size=(turns, settings, draws))
    half = t_quantile(0.95, draws - 1) * slopes.std(axis=-1, ddof=1) / np.sqrt(draws)
    mean = slopes.mean(axis=-1)
    wrong = 0
    for own, wide in zip(mean, half, strict=True):
        wrong += bool(clear_signs(own, own - wide, own + wide, np.full(settings, draws), 0.95).any())
    assert 0.02 <= wrong / turns <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / turns)
