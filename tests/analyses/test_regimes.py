"""How the best rate changes with the length: the verdict of each setting, its slope, and what would decide it."""

import numpy as np
import pytest
from transfer_rows import TRANSFER, rows_with

from raysweep.analyses.finding import Needed, Outcome
from raysweep.analyses.kinds.regime import run
from raysweep.analyses.question import Question
from raysweep.fits.reasons import Reason
from raysweep.report.notes import notes

LENGTHS = (1.0, 10.0, 100.0, 1000.0)


def bowls(slopes, draws=4, noise=0.02, lengths=LENGTHS):
    """One depth per slope: losses whose best rate is 0.003 · length^slope; the pretraining loss falls with length."""

    def before(rows, random):
        return -np.log(rows["pretrain_length"]) + noise * random.standard_normal(len(rows))

    def loss(rows, random):
        best = 0.003 * rows["pretrain_length"] ** np.take(slopes, rows["depth"] - 1)
        return np.log(rows["finetune_lr"] / best) ** 2 + rows["seed"] + before(rows, random)

    rates = np.geomspace(1e-5, 1e-1, 13)
    axes = {"depth": range(1, 1 + len(slopes)), "pretrain_length": lengths, "finetune_lr": rates}
    return rows_with(axes, draws, finetune_loss=loss, pretrain_loss_after=before).assign(pretrain_loss=1.0)


def finding_of(rows, **options):
    given = {"metric": "finetune_loss", "lr": "finetune_lr", "length": "pretrain_length", **options}
    return run(Question(rows, given, TRANSFER, "regime"))


def test_each_setting_has_the_verdict_that_the_interval_of_its_slope_proves():
    table = finding_of(bowls([0.0, 0.2, -0.25, -0.6])).table
    assert table["outcome"].tolist() == [
        Outcome.CONSTANT,
        Outcome.INCREASING,
        Outcome.SLOWLY_DECREASING,
        Outcome.QUICKLY_DECREASING,
    ]
    assert table["estimate"].to_numpy() == pytest.approx([0, 0.2, -0.25, -0.6], abs=0.02)
    assert ((table["low"] <= table["estimate"]) & (table["estimate"] <= table["high"])).all()
    assert (table["needed"] == "").all()
    assert table["lengths_located"].tolist() == [4] * 4


def test_losses_that_both_improve_are_the_quick_case_of_the_paper_whatever_the_slope():
    one = finding_of(bowls([0.0]), metrics=["pretrain_loss_after"])
    assert one.table["paper_case"].tolist() == ["quickly decreasing"]
    assert one.facts == {"length": "pretrain_length", "cases": {"quickly decreasing": 1}}
    assert finding_of(bowls([0.0])).facts["cases"] == {}


@pytest.mark.parametrize("draws", [1, pytest.param(4, marks=pytest.mark.long)])
def test_the_longest_lengths_are_forecast_from_the_others(draws):
    lengths = tuple(np.geomspace(1, 100, 7))
    rows = bowls([-0.25, 0.2], draws=draws, noise=0.1, lengths=lengths)
    one = finding_of(rows)
    assert one.facts["longest_out"] == {"inside": 4, "of": 4, "settings": 2}
    message = "The largest values of pretraining time, forecast from the others: 4 of 4 inside their 95 % interval"
    assert f"{message} in 2 settings." in notes(one, TRANSFER)
    moved = dict(zip(rates := np.unique(rows["finetune_lr"]), np.roll(rates, 5), strict=True))
    rows["finetune_lr"] = rows["finetune_lr"].map(moved).where(rows["pretrain_length"] > 40, rows["finetune_lr"])
    assert finding_of(rows).facts["longest_out"]["inside"] < 2
    five = tuple(np.geomspace(1, 100, 5))
    assert finding_of(bowls([0.2], lengths=five)).facts["longest_out"] == {"inside": 1, "of": 1, "settings": 1}
    assert "longest_out" not in finding_of(bowls([0.0])).facts  # four lengths are too few


def test_best_rates_beyond_the_grid_leave_a_side_open_and_rates_there_decide_it():
    rows = bowls([-0.6])
    (row,) = finding_of(rows[rows["finetune_lr"] > 2e-4]).table.to_dict("records")
    assert row["lengths_bounded"] > 0
    assert (row["outcome"], row["needed"]) == (Outcome.DECREASING, Needed.SMALLER_X)
    single = finding_of(rows[rows["finetune_lr"] == rows["finetune_lr"].min()])  # no best rate is drawn
    assert [plot.name for plot in single.plots()] == ["regime_finetune_loss"]
    assert row["needed_number"] == pytest.approx(rows["finetune_lr"][rows["finetune_lr"] > 2e-4].min())


def test_one_run_per_cell_is_enough_where_settings_pool_their_noise():
    slopes, lengths = [0.2, 0.5, -0.25, -0.9], tuple(np.geomspace(1, 100, 6))
    rows = bowls(slopes, draws=1, noise=0.1, lengths=lengths)
    one = finding_of(rows)
    assert one.table["outcome"].tolist()[1:] == [
        Outcome.INCREASING,
        Outcome.SLOWLY_DECREASING,
        Outcome.QUICKLY_DECREASING,
    ]
    assert one.table["estimate"].to_numpy() == pytest.approx(slopes, abs=0.1)
    assert ((one.table["low"] < slopes) & (slopes < one.table["high"])).all()
    assert (one.table["high"] - one.table["low"] < 0.5).all()
    assert one.table["lengths_located"].tolist() == [6] * 4
    rates = one.tables["regime_rates"]
    truth = 0.003 * rates["pretrain_length"] ** np.repeat(slopes, 6)
    assert rates["depth"].tolist() == np.repeat([1, 2, 3, 4], 6).tolist()
    assert ((rates["low"] < truth) & (truth < rates["high"])).mean() >= 0.9
    for depth in (2, 3):  # each alone: slices of one setting are those of the whole in its order
        alone = rates[rates["depth"] == depth]
        assert np.log(alone["estimate"]).diff().mean() * slopes[depth - 1] > 0


def test_too_few_lengths_need_more_of_them():
    (row,) = finding_of(bowls([0.0], lengths=LENGTHS[:2])).table.to_dict("records")
    assert (row["outcome"], row["needed"]) == (Outcome.UNDECIDED, Needed.MORE_X)
    (row,) = finding_of(bowls([0.0], draws=1, lengths=LENGTHS[:3])).table.to_dict("records")
    assert (row["outcome"], row["reason"], row["needed"]) == (Outcome.UNDECIDED, Reason.TOO_FEW_LENGTHS, Needed.MORE_X)


def test_figures_have_the_best_rates_and_each_metric_at_them():
    rates, first, other = finding_of(bowls([0.0]), metrics=["pretrain_loss_after"]).plots()
    assert (rates.name, first.metric, other.metric) == ("regime_rates", "finetune_loss", "pretrain_loss_after")
    (best,), (line, *fixed) = rates.panels[0].lines, other.panels[0].lines
    assert (line.where, fixed[0].where, len(fixed)) == ({"finetune_lr": "best"}, {"finetune_lr": 1e-5}, 7)
    assert best.table["estimate"].to_numpy() == pytest.approx([0.003] * 4, rel=0.1)
    assert line.base is not None
