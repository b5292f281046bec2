"""Rank correlations that are known, over draws and over cells."""

import numpy as np
import pytest
from transfer_rows import TRANSFER, finding_of, rows_with

from raysweep.analyses.finding import Needed, Outcome
from raysweep.fits.correlation import of_ranks
from raysweep.report.sentences import sentence

AXES = {"overlap_angle": [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0], "noise": [0.0, 0.3]}
SWAPPED = dict(zip(AXES["overlap_angle"], [0, 2, 1, 3, 5, 4, 6, 7], strict=True))


def relation(draws=8, **options):
    """The divergence orders the cells of each noise, with two swaps; the distance is noise."""
    frame = rows_with(
        AXES,
        draws,
        kl_divergence=lambda rows, _: np.where(rows["noise"] > 0, np.inf, rows["overlap_angle"].map(SWAPPED)),
        wasserstein_1=lambda rows, random: random.standard_normal(len(rows)),
        risk_finetune=lambda rows, _: rows["overlap_angle"] + 100 * rows["noise"],
    )
    return finding_of(frame, AXES, "relation", **{"x": "kl_divergence", "y": "risk_finetune", **options})


def test_each_group_has_its_own_correlation_and_infinite_values_rank_last():
    finding = relation(by=["noise"])
    first, second = finding.table.to_dict("records")
    swaps = 1 - 6 * 4 / (8 * 63)
    assert (first["outcome"], first["noise"]) == (Outcome.RISES, 0.0)
    assert [first["estimate"], first["low"], first["high"]] == pytest.approx([swaps] * 3)
    assert (second["outcome"], second["reason"], second["needed"]) == (Outcome.UNDECIDED, "no_variation", "")
    assert finding.facts["infinite"] == 64
    assert finding.facts["overall"]["cells"] == 16
    assert finding.tables["relation_ranks"]["noise"].isna().tolist() == [True, False, False]
    (plot,) = finding.plots()
    assert [len(cloud.x) for cloud in plot.clouds] == [8, 8]


def test_noise_predicts_nothing_and_more_seeds_would_tell():
    (row,) = relation(x="wasserstein_1").table.to_dict("records")
    assert row["outcome"] == Outcome.UNCLEAR
    assert row["low"] < 0 < row["high"]
    assert (row["needed"], row["needed_number"]) == (Needed.MORE_DRAWS, 8)


def test_of_cells_that_are_a_sample_draws_do_not_shorten_the_interval():
    chosen = {"sample": "cells", "where": {"noise": 0.0}}
    (few,), (many,) = (relation(draws, **chosen).table.to_dict("records") for draws in (1, 20))
    expected = of_ranks(np.arange(8), np.array(list(SWAPPED.values())))
    assert (few["estimate"], few["low"], few["high"]) == pytest.approx(expected)
    assert (many["low"], many["high"]) == pytest.approx(expected[1:])
    (row,) = relation(sample="cells", where={"noise": 0.0, "overlap_angle": [10.0, 20.0, 30.0, 40.0]}).table.to_dict(
        "records"
    )
    assert (row["outcome"], row["needed"], row["needed_number"]) == (Outcome.MEASURED, Needed.MORE_UNITS, 4)


def test_a_metric_that_falls_and_then_rises_with_another_is_not_told_by_a_rank_correlation():
    angles = {"overlap_angle": [float(k) for k in range(1, 13)]}

    def valley(rows, random):
        return (rows["overlap_angle"] - 6) ** 2 + 0.1 * random.standard_normal(len(rows))

    frame = rows_with(angles, 6, kl_divergence=lambda rows, _: rows["overlap_angle"], risk_finetune=valley)
    for sign, said in ((1, "falls, then rises"), (-1, "rises, then falls")):
        turned = frame.assign(risk_finetune=sign * frame["risk_finetune"])
        finding = finding_of(turned, angles, "relation", x="kl_divergence", y="risk_finetune")
        assert (finding.table["outcome"].tolist(), finding.table["needed"].tolist()) == ([Outcome.TURNS], [""])
        said = f"Not monotonically: risk after fine-tuning {said} with Kullback-Leibler divergence"
        assert sentence(finding, TRANSFER).startswith(said)
