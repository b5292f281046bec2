"""By what factor the best rate of a setting differs from that of the first one."""

import numpy as np
import pytest
from transfer_rows import TRANSFER, rows_with

from raysweep.analyses.finding import NOTHING, Needed, Nothing, Outcome
from raysweep.analyses.kinds.shift import run
from raysweep.analyses.question import Question
from raysweep.report.figures import drawn


def bowls(factors, draws=4):
    """Losses whose best rate is 0.003 times a factor for each depth, at two lengths."""

    def loss(rows, random):
        distance = np.log(rows["finetune_lr"] / (0.003 * rows["depth"].map(factors)))
        return distance**2 + rows["seed"] + 0.01 * random.standard_normal(len(rows))

    axes = {"depth": factors, "pretrain_length": [1.0, 10.0], "finetune_lr": np.geomspace(1e-4, 1e-1, 11)}
    return rows_with(axes, draws, risk_finetune=loss)


def finding_of(rows):
    options = {"metric": "risk_finetune", "x": "finetune_lr", "over": "pretrain_length"}
    return run(Question(rows, options, TRANSFER, "shift"))


@pytest.mark.parametrize("draws", [4, 1])
def test_each_other_setting_has_its_factor_with_an_interval(draws):
    one = finding_of(bowls({1: 1.0, 2: 2.0, 3: 0.5, 4: 1.0}, draws))
    assert one.table["depth"].tolist() == [2, 3, 4]
    assert one.table["outcome"].tolist() == [Outcome.HIGHER, Outcome.LOWER, Outcome.UNCLEAR]
    assert one.table["estimate"].to_numpy() == pytest.approx([2, 0.5, 1], rel=0.02)
    assert ((one.table["low"] <= one.table["estimate"]) & (one.table["estimate"] <= one.table["high"])).all()
    assert one.table["needed"].tolist() == ["", "", Needed.MORE_DRAWS]
    assert (one.facts["base"], one.facts["over"]) == ({"depth": 1}, "pretrain_length")
    ((_, figure, _),) = drawn(one, TRANSFER)
    (panel,) = figure.axes
    assert [label.get_text() for label in panel.get_yticklabels()] == ["L = 2", "L = 3", "L = 4"]
    clear, grey = (bars.lines[0].get_xdata() for bars in panel.containers)
    assert [*clear, *grey] == pytest.approx(one.table["estimate"].to_numpy())
    assert len(grey) == 1


def test_a_setting_without_a_best_rate_is_undecided_and_not_drawn():
    rows = bowls({1: 1.0, 2: 1.0})
    rows.loc[rows["depth"] == 2, "risk_finetune"] = -np.log(rows["finetune_lr"]) + rows["seed"]
    one = finding_of(rows)
    (row,) = one.table.to_dict("records")
    assert (row["outcome"], row["needed"], row["left_out"]) == (Outcome.UNDECIDED, "", 2)
    assert list(one.plots()) == []


def test_one_setting_is_compared_with_nothing():
    assert finding_of(bowls({1: 1.0})).facts[NOTHING] == Nothing.ONE_SETTING
