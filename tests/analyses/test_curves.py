"""Means of cells, and whether they are higher than what they stand beside."""

import pandas as pd
import pytest
from transfer_rows import finding_of, rows_with

import raysweep
from raysweep.analyses.finding import Needed, Outcome

AXES = {"overlap_angle": [10.0, 45.0, 80.0], "gamma": [0.2, 0.4]}


def curves(**options):
    """The gain is 0 at 45°, and the risk after fine-tuning lies as far below that from scratch."""

    def gain(rows):
        return (45 - rows["overlap_angle"]) / 35

    def noisy(rows, random):
        return gain(rows) + 0.01 * random.standard_normal(len(rows))

    frame = rows_with(AXES, 8, transferability_finetune=noisy, risk_scratch=lambda rows, _: 3.0 + rows["seed"])
    frame["risk_finetune"] = frame["risk_scratch"] - frame["transferability_finetune"]
    return finding_of(frame, AXES, "curves", x="overlap_angle", **options)


def test_a_metric_whose_signs_mean_something_is_told_from_zero():
    finding = curves(metric="transferability_finetune")
    table = finding.table.set_index("overlap_angle")
    outcomes = {10.0: Outcome.HIGHER, 45.0: Outcome.UNCLEAR, 80.0: Outcome.LOWER}
    for angle, outcome in outcomes.items():
        assert (table.loc[angle, "outcome"] == outcome).all()
        assert table.loc[angle, "estimate"].to_numpy() == pytest.approx((45 - angle) / 35, abs=0.02)
    assert table.loc[45.0, ["needed", "needed_number"]].to_numpy().tolist() == [[Needed.MORE_DRAWS, 8]] * 2
    assert finding.meanings == {"positive": "transfer helps", "negative": "transfer hurts"}


def test_two_metrics_are_compared_draw_by_draw():
    finding = curves(metric="risk_finetune", beside="risk_scratch", words={"positive": "worse", "negative": "better"})
    table = finding.table.set_index("overlap_angle")
    assert (table.loc[10.0, "outcome"] == Outcome.LOWER).all()
    assert (table.loc[80.0, "outcome"] == Outcome.HIGHER).all()
    assert table["beside"].to_numpy() == pytest.approx(6.5)
    assert list(finding.tables) == ["curves_risk_finetune", "curves_risk_scratch"]
    assert finding.meanings["negative"] == "better"


def test_an_axis_may_be_called_size():
    frame = pd.DataFrame({"size": [1, 1, 8, 8], "seed": [0, 1, 0, 1], "a": [1.0, 1.1, 2.0, 2.1], "b": [2, 2.101, 1, 1]})
    asked = [{"curves": {"metric": "a", "x": "size", "beside": "b"}}]
    table = raysweep.analyse(frame, ["a", "b"], "size", questions=asked, seed="seed").table
    assert table[["size", "estimate", "beside"]].values.tolist() == [[1, 1.05, 2.0505], [8, 2.05, 1.0]]


def test_each_constant_has_its_outcomes():
    table = curves(metric="transferability_finetune", lines={"low": -5.0, "high": 5.0}).table
    by_line = table.groupby("against")["outcome"].unique()
    assert by_line["low"].tolist() == [Outcome.HIGHER]
    assert by_line["high"].tolist() == [Outcome.LOWER]


def test_without_anything_beside_it_a_mean_is_measured():
    finding = curves(metrics=["risk_scratch", "risk_finetune"])
    assert (finding.table["outcome"] == Outcome.MEASURED).all()
    assert list(finding.keys) == ["metric", "gamma", "overlap_angle"]
    first, second = finding.plots()
    assert (first.metric, second.name, first.every) == ("risk_scratch", "curves_risk_finetune", 2)
