"""What a report says of symmetric draws."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

from raysweep import workloads
from raysweep.analyses.closed_form import displacements
from raysweep.analyses.design import Design
from raysweep.reporting import symmetric_draws

METRIC = "transferability_finetune"
TRANSFER = workloads.get("linear_transfer")
SPACE = {"analysis": [{"boundary": {"metric": METRIC, "x": "overlap_angle"}}]}


def rows(means: list[float], between: float, within: float, status: str = "ok") -> pandas.DataFrame:
    """Two draws a cell with this variance between them, and within each."""
    values = np.add.outer(means, np.sqrt(between / 2) * np.array([-1, 1])).ravel()
    return pandas.DataFrame(
        {
            "cell": np.repeat([f"cell {mean}" for mean in means], 2),
            "seed": np.tile([0, 1], len(means)),
            "status": status,
            "gamma": 0.5,
            "symmetric": True,
            METRIC: values,
            f"{METRIC}_sign_spread": np.sqrt(within),
        }
    )


def said(frame: pandas.DataFrame) -> str:
    return symmetric_draws.sentences(frame, Design((SPACE,), ("a",)), TRANSFER)


def test_the_factor_is_the_variance_of_a_choice_over_that_of_the_mean_of_the_choices() -> None:
    table = symmetric_draws.factors(rows([1.0, -2.0], between=0.1, within=1.4), METRIC, TRANSFER)
    assert table["factor"].tolist() == pytest.approx([15, 15])
    assert table["plain"].tolist() == pytest.approx([1.5, 1.5])


def test_a_report_says_by_how_much_and_how_much_near_the_sign_change() -> None:
    frame = pandas.concat([rows([5.0, -5.0], 1.0, 2.0), rows([0.1], 0.1, 1.4)])
    text = said(frame)
    assert f"{METRIC} 3 in the median of 3 cells" in text
    assert "15 where the mean is within a plain draw's standard deviation of 0" in text
    assert TRANSFER.symmetry is not None
    assert TRANSFER.symmetry.signs in text


def test_what_is_left_out_counts_in_no_factor() -> None:
    frame = pandas.concat([rows([5.0, -5.0], 1.0, 2.0), rows([1.0], 1e-6, 2.0, status="diverged")])
    assert "3 in the median of 2 cells" in said(frame)
    heavy = rows([5.0], 1.0, 2.0).assign(gamma=1.0, noise=0.2, risk_scratch_sign_spread=1.0, risk_scratch=[1.0, 2.0])
    assert symmetric_draws.factors(heavy, "risk_scratch", TRANSFER).empty


def test_plain_draws_are_not_spoken_of_and_some_rows_are_named() -> None:
    frame = rows([5.0, -5.0], 1.0, 2.0)
    assert said(frame.assign(symmetric=False)) == ""
    assert said(frame.drop(columns="symmetric")) == ""
    assert "of the rows with symmetric true" in said(pandas.concat([frame, frame.assign(symmetric=False)]))
    assert said(frame.drop(columns=f"{METRIC}_sign_spread")).endswith("of the label noise.")  # engine theory has none
    assert "factor" not in said(frame[frame["seed"] == 0])


def test_a_slice_whose_draws_all_have_the_exact_zero_tests_nothing() -> None:
    """At depth 1 every symmetric draw has its zero at 60 degrees: what is left there is rounding, and no scatter."""
    angles, draws = np.linspace(50, 70, 11), np.arange(5)
    depth, angle, seed = (each.ravel() for each in np.meshgrid([1, 2], angles, draws, indexing="ij"))
    zero = 60 + np.where(depth == 1, 1e-14, 0.5) * np.array([-1, 2, -1, 2, 1])[seed]
    frame = pandas.DataFrame({"depth": depth, "angle": angle, "seed": seed, "status": "ok", METRIC: zero - angle})
    table = pandas.DataFrame({"depth": [1, 2], "status": "located", "scale": "linear", "theory": 60.0})
    found = displacements(frame, table, "angle", "depth", METRIC)
    assert found.shape == (5, 1)
    assert found[0].tolist() == pytest.approx([-0.5, 1, -0.5, 1, 0.5])
