"""Predictors that explain a metric fully, in part or not at all, over units; and rank correlations that are known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from transfer_rows import TRANSFER, finding_of, rows_with

from raysweep.analyses.finding import Needed, Outcome
from raysweep.analyses.kinds.r_squared import of_group
from raysweep.fits import correlation
from raysweep.report.first_tables import first_table
from raysweep.report.sentences import sentence

UNITS = {"overlap_angle": np.linspace(4, 80, 20).tolist(), "gamma": [0.2, 0.4], "depth": [2, 3]}
AXES = {"overlap_angle": [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0], "noise": [0.0, 0.3]}
SWAPPED = dict(zip(AXES["overlap_angle"], [0, 2, 1, 3, 5, 4, 6, 7], strict=True))


def explained(**options):
    """At depth 2 risk_linear explains risk_finetune without rest, at depth 3 neither predictor does."""
    frame = rows_with(
        UNITS,
        3,
        risk_linear=lambda rows, random: random.standard_normal(len(rows)),
        risk_finetune=lambda rows, random: random.standard_normal(len(rows)),
        risk_scratch=lambda rows, random: random.standard_normal(len(rows)),
    )
    frame["risk_finetune"] = np.where(frame["depth"] == 2, 2 - 3 * frame["risk_linear"], frame["risk_finetune"])
    asked = {"metric": "risk_finetune", "predictors": ["risk_linear", "risk_scratch"], "x": "gamma"}
    return finding_of(frame, UNITS, "r_squared", **{**asked, "unit": "overlap_angle", **options})


def test_the_predictor_that_clearly_explains_more_than_all_others_is_the_best():
    finding = explained()
    shown = first_table(finding, TRANSFER)
    assert (shown.rows[0][1], "Clearly best for L = 2: on the same" in shown.note) == ("1.00", True)
    both = (finding.table, *finding.tables.values())  # a column where it is clear, and one for all others
    more, values = (pd.concat([one, one.query("depth == 3").assign(depth=4)], ignore_index=True) for one in both)
    split = first_table(replace(finding, table=more, tables={"values": values}), TRANSFER)
    assert split.head[1:] == ["R², L = 2", "R², L ≥ 3"]
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


@pytest.mark.parametrize(("explains", "least", "most"), [(0.8, 0, 0.08), (0.4, 0.6, 1)])
def test_predictors_are_compared_on_the_same_units(explains, least, most):
    """How often one of two is clearly the best: of equal R², or of 0.8 and 0.4. Their intervals are apart in 2 %."""
    random, told = np.random.default_rng(0), 0
    at = pd.MultiIndex.from_product([range(5), range(20)], names=["seed", "pair"])
    for _ in range(200):
        unit, alike, *own = random.standard_normal((4, 20))
        shares, errors = np.array([[0.8], [explains]]), 2 * alike + np.array(own)
        one, other = np.tile(np.sqrt(shares) * unit + np.sqrt((1 - shares) / 5) * errors, 5)
        rows = pd.DataFrame({"y": np.tile(unit, 5) + 0.5 * random.standard_normal(100), "one": one, "other": other}, at)
        told += of_group(rows.reset_index(), "y", ["one", "other"], "pair", 0.95)[1]["outcome"] == Outcome.BEST
    assert least <= told / 200 <= most


def test_one_predictor_is_measured_and_too_few_units_are_not():
    assert set(explained(predictors="risk_linear").table["outcome"]) == {Outcome.MEASURED}
    few = explained(where={"overlap_angle": UNITS["overlap_angle"][:3]}).table
    assert set(few["outcome"]) == {Outcome.UNDECIDED}
    assert set(few["needed"]) == {Needed.MORE_UNITS}


def test_the_estimate_of_noise_lies_in_its_interval():
    x, y = np.random.default_rng(0).standard_normal((2, 20, 30))
    one = correlation.explained(x, y)
    assert one.low <= one.r_squared <= one.high


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
    expected = correlation.of_ranks(np.arange(8), np.array(list(SWAPPED.values())))
    assert (few["estimate"], few["low"], few["high"]) == pytest.approx(expected)
    assert (many["low"], many["high"]) == pytest.approx(expected[1:])
    chosen["where"]["overlap_angle"] = [10.0, 20.0, 30.0, 40.0]
    (row,) = relation(**chosen).table.to_dict("records")
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
