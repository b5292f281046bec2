"""A reference engine as the control variate of the engines that are compared with it."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

from raysweep import workloads
from raysweep.reporting.analyses import control_variate

TRANSFER = workloads.get("linear_transfer")
METRIC = "risk_finetune"


def paired(reference: np.ndarray, difference: np.ndarray, more: int = 0) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """The pairs and the rows of the reference; arrays (cells, draws); the first draws of the reference are paired and
    the last `more` are not."""
    cells, draws = reference.shape
    known = pandas.DataFrame(
        {
            "depth": np.repeat(np.arange(1, cells + 1), draws),
            "seed": np.tile(np.arange(draws), cells),
            METRIC: reference.ravel(),
            f"{METRIC}_theory": 7.0,
        }
    )
    pairs = known.assign(engine="network", metric=METRIC, difference=difference.ravel())
    pairs = pairs.assign(value=pairs[METRIC] + pairs["difference"])[pairs["seed"] < draws - more]
    return pairs.drop(columns=[METRIC, f"{METRIC}_theory"]), known


def table(reference: np.ndarray, difference: np.ndarray, closed_form: bool, more: int = 0) -> pandas.DataFrame:
    pairs, known = paired(reference, difference, more)
    return control_variate.by_reference(pairs, known, ["depth"], TRANSFER, closed_form)


def test_with_a_closed_form_only_the_difference_is_uncertain() -> None:
    (line,) = table(np.array([[6.0, 8, 9]]), np.array([[0.1, 0.2, 0.3]]), closed_form=True).to_dict("records")
    assert line["mean"] == pytest.approx(23.6 / 3)
    assert line["mean_by_reference"] == pytest.approx(7.2)
    assert line["error_by_reference"] == pytest.approx(0.1 / np.sqrt(3))
    assert line["times_less_variance"] == pytest.approx(np.var([6.1, 8.2, 9.3], ddof=1) / 0.01)


def test_without_one_further_draws_of_the_reference_give_its_expectation() -> None:
    reference, difference = np.array([[6.0, 8, 10, 14]]), np.array([[0.1, 0.3, np.nan, np.nan]])
    (line,) = table(reference, difference, closed_form=False, more=2).to_dict("records")
    assert line["mean_by_reference"] == pytest.approx(12.2)
    assert line["error_by_reference"] == pytest.approx(np.sqrt(0.02 / 2 + 8 / 2))
    assert table(reference[:, :3], difference[:, :3], closed_form=False, more=1).empty  # of one draw no error is known


def test_the_estimate_is_unbiased_and_its_error_right() -> None:
    """1,000 cells of 6 draws of an engine whose mean is 7.5, with 20 further draws of the reference."""
    random = np.random.default_rng(0)
    reference, difference = 7 + random.normal(size=(1000, 26)), 0.5 + 0.3 * random.normal(size=(1000, 26))
    for closed_form, error in ((True, 0.3 / np.sqrt(6)), (False, np.sqrt(0.09 / 6 + 1 / 20))):
        found = table(reference, difference, closed_form, more=20)
        miss = found["mean_by_reference"] - 7.5
        assert abs(miss.mean()) < 3.3 * error / np.sqrt(1000)
        assert miss.std() == pytest.approx(error, rel=0.08)
        assert np.sqrt((found["error_by_reference"] ** 2).mean()) == pytest.approx(error, rel=0.08)


def test_engines_that_are_equal_have_the_reference_s_mean_exactly() -> None:
    found = table(np.array([[6.0, 8, 9]]), np.full((1, 3), 1e-16), closed_form=True)
    assert found["times_less_variance"].tolist() == [np.inf]
    assert "of network ∞ in 1 cell" in control_variate.sentence(found, "limit")
