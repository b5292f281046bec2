"""The powers with which a metric grows, and what would decide it; and predicted zeros beside measured ones."""

import numpy as np
import pandas as pd
import pytest
from transfer_rows import TRANSFER, rows_with

from raysweep.analyses.finding import Needed, Outcome
from raysweep.analyses.kinds import predicted_boundary
from raysweep.analyses.kinds.power_law import run
from raysweep.analyses.question import Question

METRIC = "risk_finetune"
ASKED = {"law": "risk_scratch", "meets": "risk_linear"}


def laws(exponents, draws=6):
    """One setting per exponent: the metric is a power of gamma, but for noise of a few percent."""
    gamma = np.array([0.1, 0.2, 0.4, 0.8])
    noise = np.random.default_rng(0).normal(0, 0.02, (len(exponents), draws, len(gamma)))
    values = np.exp(np.array(exponents)[:, None, None] * np.log(gamma) + noise)
    depth, seed, place = np.indices(values.shape)
    columns = {"depth": depth.ravel() + 1, "seed": seed.ravel(), "gamma": gamma[place.ravel()], METRIC: values.ravel()}
    return pd.DataFrame(columns).assign(status="ok", cell="c")


def finding_of(rows):
    return run(Question(rows, {"metric": METRIC, "x": "gamma"}, TRANSFER, "power_law"))


def test_each_setting_rises_falls_or_is_unclear_with_its_exponent():
    table = finding_of(laws([0.5, -0.7, 0.0])).table
    assert table["outcome"].tolist() == [Outcome.RISES, Outcome.FALLS, Outcome.UNCLEAR]
    assert table["estimate"].to_numpy() == pytest.approx([0.5, -0.7, 0.0], abs=0.02)
    assert ((table["low"] < table["estimate"]) & (table["estimate"] < table["high"])).all()
    assert table["needed"].tolist() == ["", "", Needed.MORE_DRAWS]
    assert table["needed_number"].iloc[2] == 6


def test_one_draw_decides_nothing_unless_the_metric_has_no_noise():
    single = laws([0.5], draws=1)
    (row,) = finding_of(single).table.to_dict("records")
    assert (row["outcome"], row["needed"], row["needed_number"]) == (Outcome.UNDECIDED, Needed.MORE_DRAWS, 1)
    exact = single.assign(**{METRIC: single["gamma"] ** 2, f"{METRIC}_theory": single["gamma"] ** 2})
    (row,) = finding_of(exact).table.to_dict("records")
    assert row["outcome"] == Outcome.RISES
    assert (row["estimate"], row["low"], row["high"], row["theory"]) == pytest.approx((2, 2, 2, 2))


def test_a_bend_that_is_shown_is_counted_and_drawn_beside_the_line():
    rows = laws([0.5, 0.5])
    bent = rows["depth"] == 2
    rows.loc[bent, METRIC] *= np.exp(np.log(rows["gamma"][bent]) ** 2)
    one = finding_of(rows)
    assert one.table["bends"].tolist() == [False, True]
    assert one.facts["bends"] == 1
    (plot,) = one.plots()
    straight, curved = (line for panel in plot.panels for line in panel.lines)
    assert np.abs(np.log(straight.means.centre / straight.fitted)).max() < 0.05
    assert np.abs(np.log(curved.means.centre / curved.fitted)).max() > 0.3
    assert curved.where == {"depth": 2}


def test_values_that_are_not_positive_have_no_power_and_few_points_need_more():
    negative = laws([0.5]).assign(**{METRIC: -1.0})
    (row,) = finding_of(negative).table.to_dict("records")
    assert (row["outcome"], row["needed"], np.isnan(row["estimate"])) == (Outcome.UNDECIDED, "", True)
    (row,) = finding_of(laws([0.5]).query("gamma < 0.3")).table.to_dict("records")
    assert (row["outcome"], row["needed"]) == (Outcome.UNDECIDED, Needed.MORE_X)


def prediction(zero, slope=-1.0):
    """A law 100 n^slope that meets 0.5 at n = 200 for slope -1, and a metric that changes sign at `zero`."""

    def law(rows, random):
        return 100 * rows["pretrain_length"] ** slope * np.exp(0.02 * random.standard_normal(len(rows)))

    def gain(rows, random):
        return np.log(zero / rows["pretrain_length"]) + 0.05 * random.standard_normal(len(rows))

    axes = {"depth": [1, 2], "pretrain_length": [50, 100, 200, 400, 800]}
    rows = rows_with(axes, 6, risk_scratch=law, transferability_finetune=gain).assign(risk_linear=0.5)
    options = {**ASKED, "metric": "transferability_finetune", "x": "pretrain_length"}
    return predicted_boundary.run(Question(rows, options, TRANSFER, "name"))


@pytest.mark.parametrize(("zero", "outcome"), [(200, Outcome.AGREES), (330, Outcome.LOWER), (120, Outcome.HIGHER)])
def test_a_prediction_agrees_or_is_too_low_or_too_high(zero, outcome):
    finding = prediction(zero)
    table = finding.table
    assert (table["outcome"] == outcome).all()
    assert table["predicted"].to_numpy() == pytest.approx([200, 200], rel=0.03)
    assert table["estimate"].to_numpy() == pytest.approx([zero, zero], rel=0.06)
    assert ((table["low"] <= zero) & (zero <= table["high"])).all()
    assert table["ratio"].to_numpy() == pytest.approx(2 * [200 / zero], rel=0.08)
    assert (table["needed"] == "").all()
    assert finding.facts == ASKED


def test_a_law_without_a_slope_leaves_it_open():
    finding = prediction(200.0, slope=0.0)
    assert (finding.table["outcome"] == Outcome.UNDECIDED).all()
    assert (finding.table["reason"] == "slope_unclear").all()
    assert (finding.table["needed"] == Needed.MORE_DRAWS).all()


def test_both_places_stand_in_one_figure():
    (plot,) = prediction(200.0).plots()
    measured, predicted = plot.panels[0].lines
    assert measured.along == "depth"
    assert [line.where for line in (measured, predicted)] == [{"zero": "measured"}, {"zero": "predicted"}]
    assert predicted.table["estimate"].to_numpy() == pytest.approx([200, 200], rel=0.03)
