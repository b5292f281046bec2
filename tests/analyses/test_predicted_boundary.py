"""Predicted zeros beside measured ones, both known."""

import numpy as np
import pytest
from transfer_rows import TRANSFER, rows_with

from raysweep.analyses.finding import Needed, Outcome
from raysweep.analyses.kinds import predicted_boundary
from raysweep.analyses.question import Question

ASKED = {"law": "risk_scratch", "meets": "risk_linear"}


def finding_of(zero, slope=-1.0):
    """A law 100 n^slope that meets 0.5 at n = 200 for slope -1, and a metric that changes sign at `zero`."""

    def law(rows, random):
        return 100 * rows["pretrain_length"] ** slope * np.exp(0.02 * random.standard_normal(len(rows)))

    def gain(rows, random):
        return np.log(zero / rows["pretrain_length"]) + 0.05 * random.standard_normal(len(rows))

    axes = {"depth": [1, 2], "pretrain_length": [50, 100, 200, 400, 800]}
    rows = rows_with(axes, 6, risk_scratch=law, transferability_finetune=gain).assign(risk_linear=0.5)
    options = {**ASKED, "metric": "transferability_finetune", "x": "pretrain_length"}
    return predicted_boundary.run(Question(rows, options, TRANSFER, "name"))


@pytest.mark.parametrize(
    ("zero", "outcome"), [(200.0, Outcome.AGREES), (330.0, Outcome.LOWER), (120.0, Outcome.HIGHER)]
)
def test_a_prediction_agrees_or_is_too_low_or_too_high(zero, outcome):
    finding = finding_of(zero)
    table = finding.table
    assert (table["outcome"] == outcome).all()
    assert table["predicted"].to_numpy() == pytest.approx([200, 200], rel=0.03)
    assert table["estimate"].to_numpy() == pytest.approx([zero, zero], rel=0.06)
    assert ((table["low"] <= zero) & (zero <= table["high"])).all()
    assert table["ratio"].to_numpy() == pytest.approx(2 * [200 / zero], rel=0.08)
    assert (table["needed"] == "").all()
    assert finding.facts == ASKED


def test_a_law_without_a_slope_leaves_it_open():
    finding = finding_of(200.0, slope=0.0)
    assert (finding.table["outcome"] == Outcome.UNDECIDED).all()
    assert (finding.table["reason"] == "slope_unclear").all()
    assert (finding.table["needed"] == Needed.MORE_DRAWS).all()


def test_both_places_stand_in_one_figure():
    (plot,) = finding_of(200.0).plots()
    measured, predicted = plot.panels[0].lines
    assert measured.along == "depth"
    assert [line.where for line in (measured, predicted)] == [{"zero": "measured"}, {"zero": "predicted"}]
    assert predicted.table["estimate"].to_numpy() == pytest.approx([200, 200], rel=0.03)
