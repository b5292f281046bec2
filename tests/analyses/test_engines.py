"""Engines whose differences to the reference are a power of the step, constant, or none."""

import numpy as np
import pytest
from transfer_rows import TRANSFER, finding_of, rows_with

from raysweep.analyses.finding import Outcome
from raysweep.report.sentences import sentence

AXES = {"engine": ["limit", "network"], "finetune_lr": [0.001, 0.01, 0.1], "depth": [2, 3]}
METRICS = ["risk_finetune", "risk_scratch", "risk_linear"]


def with_error(error):
    """What all engines share in a draw, and the error of the network."""

    def values(rows, random):
        return random.standard_normal(6)[rows["seed"]] + np.where(rows["engine"] == "network", error(rows), 0.0)

    return values


def engines(**options):
    """The network's risks have an error of order `depth` - 1, one that is constant, and none; draws vary far more."""
    frame = rows_with(
        AXES,
        6,
        risk_finetune=with_error(lambda rows: 2 * rows["finetune_lr"] ** (rows["depth"] - 1)),
        risk_scratch=with_error(lambda rows: 0.004),
        risk_linear=with_error(lambda rows: 0.0),
    )
    return finding_of(frame, AXES, "engines", metrics=METRICS, **options)


def test_the_order_of_a_difference_is_found_on_the_same_draws():
    finding = engines(by=["depth"])
    table = finding.table.set_index(["metric", "depth"])
    for depth in (2, 3):
        assert table.loc[("risk_finetune", depth), "outcome"] == Outcome.INCREASING
        assert table.loc[("risk_finetune", depth), "estimate"] == pytest.approx(depth - 1)
        assert table.loc[("risk_scratch", depth), "outcome"] == Outcome.CONSTANT
        assert table.loc[("risk_scratch", depth), "size"] == pytest.approx(0.004)
        assert table.loc[("risk_linear", depth), "outcome"] == Outcome.NO_EFFECT
    whole = finding.tables["engines_differences"].query("metric == 'risk_finetune' and depth == 2")
    assert whole["median"].to_numpy() == pytest.approx([0.002, 0.02, 0.2])
    (plot,) = finding.plots()
    shown = {one.where["metric"]: [line.where["depth"] for line in one.lines] for one in plot.panels}
    assert shown == {"risk_finetune": [2, 3], "risk_scratch": [2, 3]}  # risk_linear is equal


def test_rows_that_are_pooled_are_named():
    finding = engines()
    assert finding.facts["pooled"] == ["depth"]
    assert len(finding.table) == 3
    assert sentence(finding, TRANSFER) == (  # none speaks for another
        "Risk after fine-tuning approaches limit as fine-tuning rate → 0 (order 1.02); "
        "risk of linear transfer: equal; risk from scratch: constant difference."
    )
