"""The analysis `joint_optimum`: two axes that are best together."""

import functools

import numpy as np
import pytest
from transfer_rows import rows_with

import raysweep
from raysweep.analyses.finding import Outcome
from raysweep.errors import InputError
from raysweep.report.first_tables import first_rows
from raysweep.report.tables import table_of

RATES, BATCHES, WIDTHS = np.geomspace(1e-4, 1e-1, 9), (16, 32, 64, 128, 256, 512, 1024), (64, 128, 256)


def best(width):
    """The rate and the batch that are best at a width."""
    return 0.004 * (width / 64) ** -0.5, 128.0 * (width / 64) ** 0.25


def runs(largest=np.inf, batches=BATCHES):
    """One run per cell of a bowl whose axes are tilted. Rates above `largest` diverge."""

    def loss(rows, random):
        lr, bs = best(rows["width"])
        u, v = np.log(rows["lr"] / lr), np.log(rows["bs"] / bs)
        loss = 2 + 0.05 * (u - 0.5 * v) ** 2 + 0.03 * v**2 + 0.01 * random.standard_normal(len(rows))
        return loss.where(rows["lr"] <= largest)

    return rows_with({"width": WIDTHS, "lr": RATES, "bs": batches}, 1, loss=loss)[["lr", "bs", "width", "loss"]]


def asked(frame, metric="loss", axes=("lr", "bs")):
    questions = [{"joint_optimum": {"axes": list(axes)}}]
    return raysweep.analyse(frame, metric, axes=["lr", "bs"], by="width", questions=questions)


@functools.cache
def usual():
    """What is found of these runs."""
    return asked(runs())


def test_both_best_values_lie_in_their_intervals_with_one_run_per_cell():
    result = usual()
    table = result.table
    truth = [value for width in WIDTHS for value in best(width)]
    assert table["axis"].tolist() == ["lr", "bs"] * len(WIDTHS)
    assert set(table["outcome"]) == {Outcome.LOCATED}
    assert ((table["low"] < truth) & (table["high"] > truth)).all()
    assert (table["high"] / table["low"] < 3).all()
    assert (np.abs(np.log(table["choice"] / truth)) < 0.5).all()
    assert (table["regret"] < 0.01).all()


def test_the_points_like_the_best_surround_it_and_are_a_small_part():
    result = usual()[0]
    alike = result.tables["joint_optimum_alike"]
    (plot,) = result.plots()
    assert len(plot.panels) == len(WIDTHS)
    for panel, (width, part) in zip(plot.panels, alike.groupby("width"), strict=True):
        lr, bs = best(int(width))
        assert part["lr"].min() < lr < part["lr"].max()
        assert part["bs"].min() < bs < part["bs"].max()
        assert len(part) == panel.alike.sum() < 0.2 * panel.alike.size
        assert len(panel.runs) == len(RATES) * len(BATCHES)


@pytest.mark.long
def test_the_best_of_an_opposite_metric_is_the_same_place():
    frame = runs()
    least = asked(frame).table
    most = asked(frame.assign(gain=-frame["loss"]).drop(columns="loss"), "gain:maximize").table
    np.testing.assert_allclose(most["estimate"], least["estimate"], rtol=1e-6)


def test_cells_that_diverged_are_no_runs_and_nothing_is_best_there():
    result = asked(runs(largest=0.03))
    assert result.table["estimate"].notna().all()
    assert "no best one is sought" in asked(runs().replace({"lr": {RATES[3]: 0.0}})).answers[0]  # 0 may be best
    (plot,) = result[0].plots()
    assert {len(panel.diverged) for panel in plot.panels} == {2 * len(BATCHES)}
    assert (result.table[result.table["axis"] == "lr"]["high"] < 0.03).all()


def test_single_cells_that_diverged_beside_a_wall_move_no_best_rate():
    frame, random = runs(), np.random.default_rng(4)
    lr, bs = best(frame["width"])
    above = np.log2(frame["lr"] / lr) - 0.5 * np.log2(frame["bs"] / bs)
    frame["loss"] = frame["loss"].mask((above > 1) | (random.random(len(frame)) < 0.1))
    table = asked(frame).table
    truth = np.array([value for width in WIDTHS for value in best(width)])
    assert (~(table["low"] > truth) & ~(table["high"] < truth)).all()


def test_a_best_rate_that_moves_with_a_batch_whose_best_value_is_open_has_only_a_bound():
    result = asked(runs(batches=(2, 4, 8, 16, 32, 64)))
    table, rates = result.table, result.table[result.table["axis"] == "lr"]
    assert result.answers[0].startswith("The best lr for loss is at least ")
    assert set(rates["outcome"]) == {Outcome.BOUND_HIGH}
    assert (rates["low"] < [best(width)[0] for width in WIDTHS]).all()
    assert set(table[table["axis"] == "bs"]["outcome"]) <= {Outcome.EDGE_HIGH, Outcome.BOUND_HIGH}


def test_too_few_values_of_one_axis_leave_only_that_one_open():
    frame = runs()
    table = asked(frame[frame["bs"].isin([64, 128, 256])]).table
    assert set(table[table["axis"] == "bs"]["outcome"]) == {Outcome.UNDECIDED}
    assert set(table[table["axis"] == "lr"]["outcome"]) == {Outcome.LOCATED}


def test_what_would_decide_an_axis_is_said_of_that_axis():
    answer = asked(runs()[lambda frame: frame["bs"] <= 64])
    table = table_of(answer[0], answer.workload, first_rows(answer[0], 4))
    lr, bs, needed = (next(k for k, head in enumerate(table.head) if name in head) for name in ("lr", "bs", "needs"))
    assert len(table.rows) == 3
    assert all("[" in line[lr] and line[bs] == "undecided" for line in table.rows)
    assert {line[needed] for line in table.rows} == {"more values of bs"}


@pytest.mark.parametrize("axes", [["lr"], ["lr", "rate"], ["lr", "lr"]])
def test_two_axes_are_needed(axes):
    with pytest.raises(InputError, match="axes"):
        asked(runs(), axes=axes)
