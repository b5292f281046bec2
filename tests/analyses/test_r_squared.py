"""Predictors that explain a metric fully, in part or not at all, over units."""

import numpy as np
import pytest
from transfer_rows import finding_of, rows_with

from raysweep.analyses.finding import Needed, Outcome
from raysweep.fits import correlation

AXES = {"overlap_angle": np.linspace(4, 80, 20).tolist(), "gamma": [0.2, 0.4], "depth": [2, 3]}


def explained(**options):
    """At depth 2 risk_linear explains risk_finetune without rest, at depth 3 neither predictor does."""
    frame = rows_with(
        AXES,
        3,
        risk_linear=lambda rows, random: random.standard_normal(len(rows)),
        risk_finetune=lambda rows, random: random.standard_normal(len(rows)),
        risk_scratch=lambda rows, random: random.standard_normal(len(rows)),
    )
    frame["risk_finetune"] = np.where(frame["depth"] == 2, 2 - 3 * frame["risk_linear"], frame["risk_finetune"])
    asked = {"metric": "risk_finetune", "predictors": ["risk_linear", "risk_scratch"], "x": "gamma"}
    return finding_of(frame, AXES, "r_squared", **{**asked, "unit": "overlap_angle", **options})


def test_the_predictor_whose_interval_lies_above_all_others_is_the_best():
    finding = explained()
    table = finding.table.set_index("depth")
    assert (table.loc[2, "outcome"] == Outcome.BEST).all()
    assert (table.loc[2, "predictor"] == "risk_linear").all()
    assert table.loc[2, "estimate"].to_numpy() == pytest.approx([1, 1])
    assert (table.loc[3, "outcome"] == Outcome.UNCLEAR).all()
    assert (table.loc[3, "high"] < 0.6).all()
    assert table.loc[3, ["needed", "needed_number"]].to_numpy().tolist() == [[Needed.MORE_UNITS, 20]] * 2
    assert len(finding.tables["r_squared_values"]) == 8
    (plot,) = finding.plots()
    assert [(dict(panel.where), len(panel.lines)) for panel in plot.panels] == [({"depth": 2}, 2), ({"depth": 3}, 2)]


def test_one_predictor_is_measured_and_too_few_units_are_not():
    assert set(explained(predictors="risk_linear").table["outcome"]) == {Outcome.MEASURED}
    few = explained(where={"overlap_angle": AXES["overlap_angle"][:3]}).table
    assert set(few["outcome"]) == {Outcome.UNDECIDED}
    assert set(few["needed"]) == {Needed.MORE_UNITS}


def test_the_estimate_of_noise_lies_in_its_interval():
    x, y = np.random.default_rng(0).standard_normal((2, 20, 30))
    one = correlation.explained(x, y)
    assert one.low <= one.r_squared <= one.high
