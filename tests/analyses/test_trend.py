"""Slopes that are known, and whether a curve goes one way throughout."""

import numpy as np
import pytest
from transfer_rows import TRANSFER, finding_of, rows_with

from raysweep.analyses.finding import Needed, Outcome
from raysweep.report.sentences import sentence
from raysweep.report.tables import table_of

AXES = {"overlap_angle": np.linspace(10, 90, 9).tolist(), "gamma": [0.2, 0.4, 0.6]}


def trend(noise=0.02, draws=8, **options):
    """The risk rises by 0.01 a degree, with a dip at γ = 0.4, and stays at γ = 0.6. Theory has no dip."""

    def line(rows):
        return np.where(rows["gamma"] == 0.6, 0.0, 0.01 * rows["overlap_angle"])

    def values(rows, random):
        dip = np.where((rows["gamma"] == 0.4) & rows["overlap_angle"].between(35, 55), -0.3, 0.0)
        return line(rows) + dip + noise * random.standard_normal(len(rows))

    frame = rows_with(AXES, draws, risk_finetune=values, risk_finetune_theory=lambda rows, _: line(rows))
    return finding_of(frame, AXES, "trend", metric="risk_finetune", x="overlap_angle", **options)


def test_the_slope_lies_in_its_interval_and_a_dip_is_no_rise_throughout():
    finding = trend(words={"rises": "far tasks transfer badly", "falls": "far tasks transfer well"})
    plain, dipped, flat = finding.table.to_dict("records")
    assert [row["outcome"] for row in (plain, dipped, flat)] == [Outcome.RISES, Outcome.RISES, Outcome.UNCLEAR]
    assert plain["low"] < 0.01 < plain["high"]
    assert plain["theory"] == pytest.approx(0.01)
    assert (plain["throughout"], plain["turns_back"]) == (True, False)
    assert (dipped["throughout"], dipped["turns_back"]) == (False, True)
    assert (flat["needed"], flat["needed_number"], flat["theory"]) == (Needed.MORE_DRAWS, 8, 0)
    table = finding.tables["trend_trends"]
    assert (table["p_holm"] > table["p_value"]).tolist() == [True, True, False]
    assert finding.meanings["rises"] == "far tasks transfer badly"
    assert table["closed_form"].tolist() == ["rises_throughout", "rises_throughout", ""]
    (plot,) = finding.plots()
    assert (plot.name, plot.every) == ("trend_curves", 3)


def test_a_curve_without_noise_has_an_exact_slope_equal_to_theory_s():
    plain, _, flat = trend(noise=0.0).table.to_dict("records")
    assert plain["low"] == plain["high"] == plain["theory"] == pytest.approx(0.01)
    assert flat["outcome"] == Outcome.NO_EFFECT


def test_a_trend_has_the_means_at_both_ends_of_its_axis():
    finding = trend()
    assert finding.facts["ends"] == [10.0, 90.0]
    np.testing.assert_allclose(finding.table[["first", "last"]][:2], [[0.1, 0.9]] * 2, atol=0.03)
    table = table_of(finding, TRANSFER, range(3))
    assert table.head[1:3] == ["at θ = 10°", "at θ = 90°"]
    assert [float(text) for text in table.rows[0][1:3]] == pytest.approx([0.1, 0.9], abs=0.03)
    assert "(by 0.200)" in sentence(trend(noise=1e-4, where={"overlap_angle": [10.0, 30.0], "gamma": [0.2]}), TRANSFER)


def test_two_values_test_a_trend_and_one_value_or_one_draw_does_not():
    two = trend(where={"overlap_angle": AXES["overlap_angle"][:2]})
    assert two.table[["outcome", "throughout"]].iloc[0].tolist() == [Outcome.RISES, False]
    ((plot,), (other,)) = two.plots(), trend().plots()  # two values of x are two lines over another axis
    assert (plot.x, len(plot.panels[0].lines), other.x) == ("gamma", 2, "overlap_angle")
    assert set(trend(where={"overlap_angle": [10.0]}).table["needed"]) == {Needed.MORE_X}
    assert set(trend(draws=1).table["needed"]) == {Needed.MORE_DRAWS}
