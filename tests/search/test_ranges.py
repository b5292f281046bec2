"""Axes that are ranges, or conditional: a search asks for any value inside, the same each time; equal cells are one."""

import numpy as np
import pandas
import pytest
from auditing import interrupted
from conftest import ok, run
from spaces import space_over, written

import raysweep
from raysweep.errors import InputError
from raysweep.space.schema import validate

AXES = {
    "lr": {"range": [1e-4, 1e-1], "log": True},
    "width": {"range": [2, 9]},
    "optimizer": ["adam", "sgd"],
    "momentum": {"range": [0, 1], "when": {"optimizer": "sgd"}},
}
TPE = {"optuna": {"metric": "loss", "cells": 100}}


def asked(search, **changes):
    return {"name": "valley", "workload": "valley", "axes": AXES, "search": search, **changes}


def same(one, other):
    pandas.testing.assert_frame_equal(one.drop(columns="seconds"), other.drop(columns="seconds"), check_exact=True)


def test_random_cells_fill_their_ranges_evenly_on_their_scale(sandbox, storage):
    table = run(storage, asked({"random": {"cells": 400}})).results()
    assert table["cell"].nunique() == len(table) == 400
    assert table["lr"].between(1e-4, 1e-1).all()
    in_log = np.histogram(np.log10(table["lr"]), bins=3, range=(-4, -1))[0]
    assert in_log.min() > 100  # 133 expected, with a standard error of 9
    assert sorted(table["width"].unique()) == list(range(2, 10))
    assert table["width"].value_counts().min() > 25  # 50 expected, with a standard error of 7
    assert table["width"].dtype == np.int64
    adam = table[table["optimizer"] == "adam"]
    assert 150 < len(adam) < 250
    assert set(adam["momentum"]) == {0.0}
    assert table[table["optimizer"] == "sgd"]["momentum"].nunique() == 400 - len(adam)


def test_an_infinite_value_stands_beside_a_range(storage):
    axes = {"pretrain_length": [1.0, np.inf], "noise": {"range": [0.1, 0.5]}}
    space = space_over("linear_transfer", axes, name="ends", fixed={"dim": 20}, search={"random": {"cells": 8}})
    table = run(storage, space).results()
    assert set(table["pretrain_length"]) == {1.0, np.inf}
    same(raysweep.open("ends", storage=storage).results(), table)


def test_a_random_search_with_more_cells_begins_with_the_same_ones_in_the_same_order(sandbox, storage):
    few, many = (run(storage / str(n), asked({"random": {"cells": n}})).results() for n in (10, 30))
    same(few, many.head(10))
    with pytest.raises(
        InputError, match="^search: the sweep valley exists with .* --name, or ask for the same search$"
    ):
        run(storage / "10", asked({"random": {"cells": 30}}))  # no sweep grows so


def test_a_small_range_of_whole_numbers_ends_when_all_are_there(sandbox, storage):
    table = run(storage, asked({"random": {"cells": 20}}, axes={"width": {"range": [1, 3], "log": True}})).results()
    assert sorted(table["width"]) == [1, 2, 3]


def test_optuna_finds_the_best_place_within_ranges(sandbox, storage):
    table = run(storage, asked(TPE)).results()
    assert len(table) == 100
    best = table.loc[table["loss"].idxmin()]
    assert best["optimizer"] == "sgd"
    assert best["width"] == 6
    assert best["loss"] < 0.2  # 0.1 is the least, nesterov being false
    assert table["loss"].tail(30).median() < table["loss"].head(30).median()


@pytest.mark.parametrize(
    ("search", "stops"),
    [({"optuna": {"metric": "loss", "cells": 40}}, (1, 3)), ({"random": {"cells": 60}}, (1, 2))],
    ids=["optuna", "random"],
)
def test_a_sweep_that_is_interrupted_ends_with_the_same_rows_in_the_same_order(search, stops, sandbox, storage):
    space = asked(search, seeds=2)
    whole = run(storage / "whole", space).results()
    for place, segments in enumerate(stops):
        with interrupted(storage / str(place) / "valley", segments):
            run(storage / str(place), space)
        begun = raysweep.open("valley", storage / str(place)).results()
        assert 0 < len(begun) < len(whole)
        same(run(storage / str(place), space).results(), whole)
        same(raysweep.open("valley", storage / str(place)).results(), whole)


def test_rows_stay_though_the_search_would_ask_for_others_now(sandbox, storage, monkeypatch):
    """As after an update of Optuna: the values of a row are in the row."""
    before = run(storage, asked({"optuna": {"metric": "loss", "cells": 12}})).results()
    monkeypatch.setattr("raysweep.search.optuna_study.ROUND", 5)
    sweep = raysweep.open("valley", storage)
    same(sweep.results(), before)
    after = run(storage, asked({"optuna": {"metric": "loss", "cells": 12}})).results()
    assert set(before["cell"]) < set(after["cell"])


@pytest.mark.long
def test_the_rows_are_the_same_on_ray(sandbox, storage, ray_cluster):
    space = asked({"optuna": {"metric": "loss", "cells": 24}})
    here, there = (run(storage / name, space, executor=name, workers=2) for name in ("inline", "ray"))
    same(there.results(), here.results())


def test_mlflow_the_report_and_debug_know_the_cells(sandbox, storage, database, call):
    import mlflow

    space = asked({"optuna": {"metric": "loss", "cells": 12}}, analysis=[{"curves": {"metric": "loss", "x": "lr"}}])
    found = run(storage, space, tracking_uri=f"sqlite:///{database}", report=True)
    text = (storage / "valley" / "report" / "report.md").read_text()
    assert "lr = 0.0001 to 0.1 (log)" in text
    assert "width = 2 to 9" in text
    mlflow.set_tracking_uri(f"sqlite:///{database}")
    runs = mlflow.search_runs(search_all_experiments=True)
    table = found.results()
    assert set(table["lr"].map(str)) <= set(runs["params.lr"])
    first = table.iloc[0]
    outcome = ok(call("debug", "valley", first["cell"], "--storage", storage))
    assert f"{first['lr']}" in outcome.out


def test_a_dry_run_counts_what_the_search_may_ask_for(sandbox, storage, call, tmp_path):
    space = written(tmp_path, asked({"random": {"cells": 30}}, seeds=2))
    outcome = call("run", space, "--storage", storage, "--dry-run")
    assert "30 cells x 2 draws = 60 rows" in outcome.out
    assert "0.0001 to 0.1, in log" in outcome.out
    assert not storage.exists()


def test_a_record_keeps_the_ranges_and_another_range_is_another_question(sandbox, storage):
    search = {"random": {"cells": 5}}
    run(storage, asked(search))
    again = raysweep.open("valley", storage).space
    assert again.ranges == {"lr": "log", "width": "linear", "momentum": "linear"}
    assert again.scale == {"lr": "log"}
    assert validate(again.as_dict()) == again
    run(storage, asked(search, seeds=2))  # more seeds extend it
    for axis, value in (
        ("lr", {"range": [1e-4, 1.0], "log": True}),
        ("lr", {"range": [1e-4, 1e-1]}),
        ("lr", [1e-4, 1e-1]),
        ("optimizer", ["adam", "sgd", "nag"]),
    ):
        with pytest.raises(InputError, match=rf"axes\.{axis}: the sweep valley exists with "):
            run(storage, asked(search, axes={**AXES, axis: value}))


def test_cells_that_the_workload_refuses_are_not_asked_for(storage):
    axes = {"frozen_layers": {"range": [0, 5]}, "depth": {"range": [1, 6]}}
    space = space_over("linear_transfer", axes, name="deep", fixed={"dim": 20}, search={"random": {"cells": 8}})
    table = run(storage, space).results()
    assert len(table) == 8
    assert (table["frozen_layers"] < table["depth"]).all()
    with pytest.raises(InputError, match=r"^axes.frozen_layers: "):
        run(storage / "none", {**space, "axes": {"frozen_layers": {"range": [6, 9]}, "depth": {"range": [1, 5]}}})
    assert not (storage / "none" / "deep").exists()


UNDER = {
    "optimizer": ["adam", "sgd", "nag"],
    "lr": {"geomspace": [1e-4, 1, 5]},
    "momentum": {"values": [0.0, 0.5, 0.9], "when": {"optimizer": ["sgd", "nag"]}},
    "nesterov": {"values": [True, False], "when": {"momentum": 0.9, "optimizer": "sgd"}},
}


def conditional(**changes):
    return {"name": "valley", "workload": "valley", "axes": UNDER, "seeds": 2, **changes}


def test_where_a_condition_does_not_hold_the_default_stands_and_same_cells_are_one(sandbox, storage):
    table = run(storage, conditional()).results()
    assert len(table) == 2 * 5 * (1 + 3 + 1 + 3)  # adam; sgd with three momenta, one of them twice; nag with three
    assert table["cell"].nunique() == len(table) / 2
    adam = table[table["optimizer"] == "adam"]
    assert set(adam["momentum"]) == {0.0}
    assert not adam["nesterov"].any()
    with_switch = table[table["nesterov"].astype(bool)]
    assert set(zip(with_switch["optimizer"], with_switch["momentum"], strict=True)) == {("sgd", 0.9)}


def test_more_values_extend_a_sweep_and_another_condition_is_another_question(sandbox, storage):
    two = {**UNDER, "optimizer": ["adam", "sgd"], "momentum": {"values": [0.0, 0.9], "when": {"optimizer": "sgd"}}}
    before = run(storage, conditional(axes=two))
    with_nag = {**two, "optimizer": ["adam", "sgd", "nag"]}
    more = run(storage, conditional(axes={**with_nag, "momentum": UNDER["momentum"]}))  # with nag too, which is new
    assert set(before.cells.ids) < set(more.cells.ids)
    other = {**with_nag, "momentum": {"values": [0.0, 0.5, 0.9], "when": {"optimizer": ["adam", "sgd"]}}}
    with pytest.raises(InputError, match=r"axes.momentum.when: the sweep valley exists with momentum when"):
        run(storage, conditional(axes=other))


def test_a_record_keeps_the_condition(sandbox, storage):
    run(storage, conditional())
    again = raysweep.open("valley", storage)
    assert list(again.space.when) == ["momentum", "nesterov"]
    assert again.space.when["momentum"] == {"optimizer": ["sgd", "nag"]}
    assert len(again.cells) == 40
    assert validate(again.space.as_dict()) == again.space


@pytest.mark.parametrize(
    "search", [{"random": {"cells": 12}}, {"optimum": {"metric": "loss", "x": "lr", "budget": 40}}]
)
def test_searches_take_categories_booleans_and_conditions(search, sandbox, storage):
    whole = set(run(storage / "grid", conditional()).cells.ids)
    found = run(storage / "found", conditional(search=search))
    table = found.results()
    assert set(table["cell"]) <= whole
    if "optimum" in search:
        best = table.loc[table["loss"].idxmin()]
        assert (best["lr"], best["optimizer"], best["momentum"], best["nesterov"]) == (0.01, "sgd", 0.9, True)
    else:
        assert table["cell"].nunique() == 12
