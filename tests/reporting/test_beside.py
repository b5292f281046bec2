"""The first answer of `curves`: in how many cells a metric is higher or lower than another one, or above or below 0."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import run
from scipy.stats import ttest_1samp
from spaces import small_space
from test_report import TRANSFER

from raysweep.reporting.analyses.beside import Held, held_against, held_against_zero

SIGNS = ("transfer helps", "transfer hurts")
METRIC, OTHER = "risk_finetune", "risk_scratch"


def cells(shifts: list[float], draws: int = 8, noise: float = 0.01, common: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """Rows of one cell per shift: the other metric is 1, the metric is larger by the shift and by noise, of whose
    variance draws share the part `common` between cells. Without a shift (NaN) the metric is equal to the other one."""
    random = np.random.default_rng(seed)
    of_cell, of_draw = random.normal(size=(len(shifts), draws)), random.normal(size=draws)
    scatter = noise * (np.sqrt(1 - common) * of_cell + np.sqrt(common) * of_draw)
    values = 1 + np.where(np.isnan(shifts)[:, None], 0.0, np.array(shifts)[:, None] + scatter)
    place, draw = np.indices(values.shape)
    columns = {"gamma": place.ravel().astype(float), "seed": draw.ravel(), METRIC: values.ravel(), OTHER: 1.0}
    return pd.DataFrame(columns).assign(status="ok")


def against(rows: pd.DataFrame) -> Held | None:
    """The metric beside the other one."""
    return held_against(rows, ["gamma"], METRIC, OTHER, TRANSFER, 0.95)


def against_zero(rows: pd.DataFrame) -> Held | None:
    """How far the metric lies above or below 0."""
    rows = rows.assign(**{METRIC: rows[METRIC] - 1})
    return held_against_zero(rows, ["gamma"], METRIC, SIGNS, TRANSFER, 0.95)


def words(held: Held | None) -> str:
    """What is said, the detail after a semicolon; it must be something."""
    assert held is not None
    return f"{held.words}; {held.detail}"


def test_cells_above_and_below_are_counted_and_the_ratio_is_said_with_its_cells() -> None:
    held = against(cells([0.05, 2.0, -0.5, 0.0, np.nan], noise=0.001))
    assert words(held) == (
        "risk_finetune is higher than risk_scratch in 2 of 5 cells (γ ≤ 1), lower in 1 (γ = 2), equal in 1 (γ = 4), "
        "no clear difference in 1 (γ = 3; known to ± 0.055 % of risk_scratch); higher: 1.05 to 3 times as large, most "
        "at γ = 1; lower: 0.5 times as large, at γ = 2; tested with p < 0.05 (Holm)"
    )
    assert held
    assert held.words.endswith(
        ", no clear difference in 1 (γ = 3; known to ± 0.055 % of risk_scratch)"
    )  # sizes and the test are the detail
    assert held.undecided == (
        "whether risk_finetune is higher or lower than risk_scratch in 1 of 5 cells "
        "(deciding it takes more than 8 seeds)"
    )


def test_where_nothing_differs_or_nothing_is_clear_that_is_the_answer() -> None:
    equal, unclear = against(cells([np.nan, np.nan])), against(cells([0.0, 0.0], seed=1))
    assert equal == Held("risk_finetune is equal to risk_scratch in both cells", "no draw differs", "")
    assert (
        words(unclear)
        == "risk_finetune is not shown to differ from risk_scratch in any of 2 cells; tested with p < 0.05 (Holm)"
    )
    both = words(against(cells([0.0, np.nan])))
    assert both.startswith(
        "risk_finetune is neither higher nor lower than risk_scratch in any of 2 cells: equal in 1 (γ = 1), "
    )


def test_a_metric_is_held_against_a_named_constant() -> None:
    """Values near 1, beside a constant of 1 and of 0."""
    rows = cells([0.05, 2.0, -0.5, 0.0, np.nan], noise=0.001)
    one = held_against(rows, ["gamma"], METRIC, "all (1)", TRANSFER, 0.95, constant=1.0)
    assert words(one) == words(against(rows)).replace(OTHER, "all (1)")  # the other metric is 1 in every row
    zero = held_against(rows.assign(**{METRIC: 0.0}), ["gamma"], METRIC, "none (0)", TRANSFER, 0.95, constant=0.0)
    assert zero is not None
    assert zero.words == "risk_finetune is equal to none (0) in all 5 cells"


def test_one_draw_or_draws_without_a_variance_decide_nothing() -> None:
    rows = cells([0.5, 0.5])
    assert against(rows[rows["seed"] == 0]) is None
    assert against(rows.assign(status="diverged")) is None
    heavy = replace(TRANSFER, heavy_tailed=lambda metric, columns: np.ones(len(columns["gamma"]), dtype=bool))
    assert held_against(rows, ["gamma"], METRIC, OTHER, heavy, 0.95) is None
    only = rows[(rows["gamma"] == 0) | (rows["seed"] == 0)]  # the other cell has one draw
    assert " in the only cell; " in words(against(only))


def test_signs_that_mean_something_are_said_as_what_they_mean() -> None:
    held = against_zero(cells([0.5, 2.0, -0.25, 0.0, np.nan], noise=0.001))
    assert words(held) == (
        "transfer helps in 2 of 4 cells (γ ≤ 1), hurts in 1 (γ = 2), no clear effect in 1 (γ = 3; known to ± 0.00055); "
        "helps: by 0.5 to 2, most at γ = 1; hurts: by 0.25, at γ = 2; exactly 0 in 1 more cell; "
        "measured by risk_finetune, tested with p < 0.05 (Holm)"
    )
    assert held
    assert held.undecided.startswith("whether transfer helps or hurts in 1 of 4 cells")
    assert words(against_zero(cells([-0.5, -2.0], noise=0.001))).startswith(
        "transfer hurts in both cells; by 0.5 to 2, most at γ = 1; "
    )
    rounding = cells([0.5, 1e-13], noise=0.0)
    assert "in 1 of 1 cell (γ = 0); by 0.5, at γ = 0; exactly 0 in 1 more cell; " in words(against_zero(rounding))
    none = words(against_zero(cells([0.0, np.nan])))
    assert none.startswith(
        "in none of 1 cell is it shown that transfer helps or hurts: the effect is known to ± 0.005; "
        "exactly 0 in 1 more cell; "
    )
    always = words(against_zero(cells([np.nan, np.nan])))
    assert always == "risk_finetune is 0 in every draw; measured by risk_finetune, tested with p < 0.05 (Holm)"


def test_cells_that_are_zero_by_design_cost_the_others_no_probability() -> None:
    """A difference with p = 0.03 by itself is clear beside any number of them."""
    values = np.array([0.1, 1.9, 0.4, 1.3, -0.2, 1.2, 0.6, 0.1])
    assert 0.01 < ttest_1samp(values, 0).pvalue < 0.05
    rows = cells([0.0, *[np.nan] * 9]).assign(**{OTHER: 0.0})
    rows[METRIC] = np.where(rows["gamma"] == 0, np.resize(values, len(rows)), 0.0)
    assert words(against(rows)).startswith(
        "risk_finetune is higher than risk_scratch in 1 of 10 cells (γ = 0), equal in 9 (γ ≥ 1); by 0.675, at γ = 0; "
    )


@pytest.mark.parametrize("common", [0.0, 0.8])
def test_a_wrong_claim_is_made_in_at_most_five_percent_of_sweeps(common: float) -> None:
    turns = 400
    wrong = sum(
        " is higher than " in words(held) or " is lower than " in words(held)
        for seed in range(turns)
        for held in [against(cells([0.0] * 6, common=common, seed=seed))]
    )
    assert wrong / turns <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / turns)
    if not common:  # independent cells use the probability up
        assert wrong / turns >= 0.02


def test_the_answer_of_a_report_begins_with_it(tmp_path: Path) -> None:
    curves = {"metric": METRIC, "beside": OTHER, "x": "overlap_angle"}
    space = small_space(
        seeds=6, axes={"overlap_angle": [10, 30, 80], "gamma": [0.3, 1.0]}, analysis=[{"curves": curves}]
    )
    report = run(tmp_path, space).report(tmp_path / "report")
    assert report.answer[0].startswith("Risk after fine-tuning is lower than risk from scratch in ")
    signs = [{"curves": {"metric": "transferability_finetune", "x": "overlap_angle"}}]
    sweep = run(tmp_path, small_space(seeds=6, axes={"overlap_angle": [10, 80]}, name="signs", analysis=signs))
    assert (
        sweep.report(tmp_path / "signs")
        .answer[0]
        .startswith("Transfer helps in 1 of 2 cells (θ = 10°), hurts in 1 (θ = 80°). ")
    )
