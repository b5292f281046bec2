"""Rows are stopped early by their curves, the same ones however the sweep is computed."""

import hashlib
import math

import numpy as np
import pandas
import pytest
from auditing import interrupted
from conftest import run
from spaces import space_over

import raysweep
from raysweep.errors import InputError
from raysweep.trial.context import Context, Log
from raysweep.trial.early_stopping import Rule

ASHA = {"metric": "loss", "rule": "asha", "grace": 1, "reduction": 2, "first": 4}
MEDIAN = {"metric": "loss", "rule": "median", "grace": 2, "first": 4}


def asked(early_stopping, **changes):
    axes = {"lr": {"geomspace": [1e-4, 1e-1, 7]}, "width": [3, 4, 5, 6]}
    usual = {"axes": axes, "fixed": {"steps": 8}, "early_stopping": early_stopping, "seeds": 2}
    return space_over("valley", **{**usual, **changes})


def same(one, other):
    columns = ["cell", "seed", "status", "loss", "accuracy"]
    pandas.testing.assert_frame_equal(one[columns], other[columns], check_exact=True)


def curve(loss):
    return [loss + (8 - step) / 8 for step in range(1, 9)]


def by_hand(table, rule):
    """The step at which each row is stopped, 9 for none, by rounds of 4, 4, 8, 16, ... cells in the order of hashes."""
    cells = table.drop_duplicates("cell")
    values = {row.cell: [float(row.lr), int(row.width)] for row in cells.itertuples(index=False)}
    order = sorted(values, key=lambda cell: hashlib.sha256(repr(values[cell]).encode()).digest())
    losses = cells.set_index("cell")["loss"]
    last = {}
    first, size = 0, 4
    while first < len(order):
        before = order[:first]
        for cell in order[first : first + size]:
            mine = curve(losses[cell])
            last[cell] = 9
            for step in range(1, 9):
                if rule["rule"] == "median":
                    others = [curve(losses[o])[step - 1] for o in before if last[o] == 9 for _ in range(2)]
                    worse = step >= 2 and len(others) >= 4 and min(mine[:step]) > np.median(others)
                else:
                    others = [curve(losses[o])[step - 1] for o in before if last[o] >= step for _ in range(2)]
                    rung = step in (1, 2, 4, 8) and len(others) >= 4
                    worse = rung and mine[step - 1] > sorted(others)[len(others) // 2 - 1]
                if worse:
                    last[cell] = step
                    break
        first, size = first + size, first + size
    return {(cell, seed): step for cell, step in last.items() for seed in (0, 1)}


@pytest.mark.parametrize("rule", [MEDIAN, ASHA], ids=["median", "asha"])
def test_exactly_those_rows_are_stopped_that_a_hand_count_says(rule, sandbox, storage):
    table = run(storage, asked(rule)).results()
    assert len(table) == 7 * 4 * 2
    expected = by_hand(table, rule)
    found = {
        (row.cell, row.seed): int(row.accuracy) if row.accuracy > 0 else 9 for row in table.itertuples(index=False)
    }
    assert found == expected
    assert (table["status"] == "stopped").tolist() == (table["accuracy"] > 0).tolist()
    stopped = (table["status"] == "stopped").sum()
    assert 10 < stopped < 50
    assert table.loc[table["loss"].idxmin()]["status"] == "ok"


@pytest.mark.parametrize("rule", [MEDIAN, ASHA], ids=["median", "asha"])
def test_the_same_rows_are_stopped_after_an_interruption_anywhere(rule, sandbox, storage):
    whole = run(storage / "whole", asked(rule)).results()
    for segments in (1, 2, 3, 4):
        place = storage / str(segments)
        with interrupted(place / "valley", segments):
            run(place, asked(rule))
        assert len(raysweep.open("valley", place).results()) < len(whole)
        same(run(place, asked(rule)).results(), whole)


@pytest.mark.long
def test_the_same_rows_are_stopped_on_ray(sandbox, storage, ray_cluster):
    here, there = (run(storage / name, asked(ASHA), executor=name, workers=2) for name in ("inline", "ray"))
    assert "stopped" in set(here.results()["status"])
    same(there.results(), here.results())


def test_searches_stop_rows_and_leave_them_out_of_what_they_learn(sandbox, storage):
    axes = {"lr": {"range": [1e-4, 1e-1], "log": True}, "width": {"range": [2, 9]}}
    for search in ({"random": {"cells": 40}}, {"optuna": {"metric": "loss", "cells": 40}}):
        space = asked(MEDIAN, axes=axes, search=search, seeds=1)
        table = run(storage / next(iter(search)), space).results()
        assert len(table) == 40
        assert 3 < (table["status"] == "stopped").sum() < 35
        assert not (table["status"].head(4) == "stopped").any()  # in the order in which they are asked for


def test_the_report_and_the_status_count_stopped_rows_and_no_mean_has_them(sandbox, storage, call):
    space = asked(ASHA, analysis=[{"curves": {"metric": "loss", "x": "lr"}}])
    table = run(storage, space, report=True).results()
    count = (table["status"] == "stopped").sum()
    text = (storage / "valley" / "report" / "report.md").read_text()
    assert f"{count} rows stopped early by the asha rule on loss" in text
    assert "does not depend on the order in which trials finish" in text
    means = pandas.read_csv(storage / "valley" / "report" / "tables" / "curves_loss.csv")
    assert means["draws"].sum() == len(table) - count
    assert f"{count} stopped" in call("status", "valley", "--storage", storage).out


def train(lr, seed, log=None, steps=8):
    """Accuracy rises to 1 / lr."""
    for step in range(1, steps + 1):
        log(step, accuracy=step / steps / lr)
        if log.stop():
            break
    return {"accuracy": step / steps / lr}


def test_a_function_is_stopped_by_its_log_in_the_direction_that_it_states(storage):
    rule = {"metric": "accuracy", "first": 4}
    axes = {"lr": [float(x) for x in range(1, 17)]}
    table = run(storage, train, axes=axes, metrics={"accuracy": "maximize"}, early_stopping=rule).results()
    good, stopped = (table[table["status"] == status] for status in ("ok", "stopped"))
    assert len(good) + len(stopped) == 16
    assert len(stopped) >= 3
    assert good["lr"].min() == 1.0
    assert good["lr"].median() < stopped["lr"].median()


def test_rows_of_one_call_are_told_one_by_one():
    rule = Rule("loss", False, "median", 1, 4)
    rule.learn(
        [{"status": "ok", "curves": {"fit": {"step": [1.0, 2.0], "loss": [x, x]}}} for x in (1.0, 2.0, 3.0, 4.0)]
    )
    assert rule.tables == {"fit": ([1.0, 2.0], [2.5, 2.5])}
    context = Context("fit", 3, together=True, rule=rule)
    context.log(1, loss=np.asarray([2.0, 3.0, np.nan]))
    assert context.stop().tolist() == [False, True, False]
    context.log(2, loss=np.asarray([9.0, 1.0, 9.0]))  # the best so far counts, and who was told is told again
    assert context.stop().tolist() == [False, True, True]
    context.log(3, loss=9.0)  # no other came so far
    assert context.stop().tolist() == [False, True, True]


def test_few_rows_failed_rows_and_other_stages_stop_nothing():
    rule = Rule("loss", False, "asha", 1, 4)
    three = [{"status": "ok", "curves": {"fit": {"step": [1.0], "loss": [x]}}} for x in (1.0, 2.0, 3.0)]
    rule.learn([*three, {"status": "failed", "curves": {"fit": {"step": [1.0], "loss": [4.0]}}}, {"status": "ok"}])
    assert rule.tables == {"fit": ([], [])}
    rule.learn([*three, *three])
    log = Log(Context("pretrain", 1, rule=rule))
    log(1, loss=math.inf)
    assert log.stop() is False
    kept = object()
    context = Context("fit", 1, progress=kept, rule=rule)  # it would be an artifact of other sweeps too
    context.log(1, loss=math.inf)
    assert context.stop() is False
    context = Context("fit", 1, rule=rule)
    context.log(1, loss=math.inf)
    assert context.stop() is True


def test_more_seeds_and_other_rules_are_refused(sandbox, storage):
    run(storage, asked(ASHA))
    with pytest.raises(
        InputError, match=r"^seeds: the sweep valley exists with 2 seeds, and rows that are stopped early"
    ):
        run(storage, asked(ASHA, seeds=3))
    with pytest.raises(InputError, match=r"^early_stopping: the sweep valley exists with "):
        run(storage, asked(MEDIAN))
