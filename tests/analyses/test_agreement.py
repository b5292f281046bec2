"""Metrics with or without the means of their closed form; engines whose differences are a power, constant or none."""

import numpy as np
import pytest
from transfer_rows import TRANSFER, finding_of, rows_with

from raysweep.analyses.finding import Needed, Outcome
from raysweep.report.sentences import sentence

AXES = {"overlap_angle": [10.0, 30.0, 50.0], "gamma": [0.2, 0.6]}
ENGINES = {"engine": ["limit", "network"], "finetune_lr": [0.001, 0.01, 0.1], "depth": [2, 3]}
METRICS = ["risk_finetune", "risk_scratch", "risk_linear"]


def agreement(shift, draws=20, noise=0.1):
    """risk_scratch has its closed form, and risk_linear lies `shift` above it."""
    frame = rows_with(
        AXES,
        draws,
        risk_scratch_theory=lambda rows, _: rows["gamma"],
        risk_scratch=lambda rows, random: rows["gamma"] + noise * random.standard_normal(len(rows)),
        risk_linear_theory=lambda rows, _: rows["gamma"],
        risk_linear=lambda rows, random: rows["gamma"] + shift + noise * random.standard_normal(len(rows)),
    )
    return finding_of(frame, AXES, "agreement")


def test_a_shift_of_all_cells_is_a_difference_in_standard_deviations_of_a_draw():
    finding = agreement(shift=0.1)
    same, shifted = finding.table.to_dict("records")
    assert (same["metric"], same["outcome"]) == ("risk_scratch", Outcome.AGREES)
    assert same["low"] < 0 < same["high"]
    assert (shifted["metric"], shifted["outcome"]) == ("risk_linear", Outcome.DIFFERS)
    assert shifted["low"] < 1 < shifted["high"]
    assert shifted["estimate"] == pytest.approx(1, abs=0.3)
    assert shifted["p_value"] < 1e-6
    assert shifted["needed"] == ""
    assert [len(table) for table in finding.tables.values()] == [6, 6]
    assert [plot.name for plot in finding.plots()] == ["agreement_risk_scratch", "agreement_risk_linear"]


def test_too_few_seeds_test_nothing_and_more_would():
    table = agreement(shift=0.1, draws=3).table
    assert (table["outcome"] == Outcome.UNDECIDED).all()
    assert table[["needed", "needed_number"]].to_numpy().tolist() == [[Needed.MORE_DRAWS, 3]] * 2


def test_without_noise_each_cell_must_be_equal():
    table = agreement(shift=1e-3, noise=0.0).table
    assert table["outcome"].tolist() == [Outcome.AGREES, Outcome.DIFFERS]
    assert np.isnan(table["estimate"]).all()


def test_without_a_closed_form_there_is_nothing_to_compare():
    frame = rows_with(AXES, 5, risk_scratch=lambda rows, _: rows["gamma"])
    finding = finding_of(frame, AXES, "agreement", metrics=["risk_scratch"])
    assert len(finding.table) == 0
    assert (finding.facts["nothing"], finding.facts["about"]) == ("no_closed_form", "risk_scratch")


def with_error(error):
    """What all engines share in a draw, and the error of the network."""

    def values(rows, random):
        return random.standard_normal(6)[rows["seed"]] + np.where(rows["engine"] == "network", error(rows), 0.0)

    return values


def engines(**options):
    """The network's risks have an error of order `depth` - 1, one that is constant, and none; draws vary far more."""
    frame = rows_with(
        ENGINES,
        6,
        risk_finetune=with_error(lambda rows: 2 * rows["finetune_lr"] ** (rows["depth"] - 1)),
        risk_scratch=with_error(lambda rows: 0.004),
        risk_linear=with_error(lambda rows: 0.0),
    )
    return finding_of(frame, ENGINES, "engines", metrics=METRICS, **options)


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
