"""Metrics that have the means of their closed form, or not."""

import numpy as np
import pytest
from transfer_rows import finding_of, rows_with

from raysweep.analyses.finding import Needed, Outcome

AXES = {"overlap_angle": [10.0, 30.0, 50.0], "gamma": [0.2, 0.6]}


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
