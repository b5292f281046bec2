"""An axis that is there only under a condition: cells that are the same are one cell, in every search."""

import pytest
from conftest import run

import raysweep
from raysweep.errors import InputError
from raysweep.space.schema import validate

AXES = {
    "optimizer": ["adam", "sgd", "nag"],
    "lr": {"geomspace": [1e-4, 1, 5]},
    "momentum": {"values": [0.0, 0.5, 0.9], "when": {"optimizer": ["sgd", "nag"]}},
    "nesterov": {"values": [True, False], "when": {"momentum": 0.9, "optimizer": "sgd"}},
}


def asked(**changes):
    return {"name": "valley", "workload": "valley", "axes": AXES, "seeds": 2, **changes}


def test_where_a_condition_does_not_hold_the_default_stands_and_same_cells_are_one(sandbox, storage):
    table = run(storage, asked()).results()
    assert len(table) == 2 * 5 * (1 + 3 + 1 + 3)  # adam; sgd with three momenta, one of them twice; nag with three
    assert table["cell"].nunique() == len(table) / 2
    adam = table[table["optimizer"] == "adam"]
    assert set(adam["momentum"]) == {0.0}
    assert not adam["nesterov"].any()
    with_switch = table[table["nesterov"].astype(bool)]
    assert set(zip(with_switch["optimizer"], with_switch["momentum"], strict=True)) == {("sgd", 0.9)}


def test_a_cell_is_the_same_cell_with_and_without_the_condition(sandbox, storage):
    plain = run(storage / "plain", asked(axes={"optimizer": ["adam"], "lr": [0.1]}))
    conditional = run(storage / "when", asked(axes={**AXES, "lr": [0.1]}))
    assert set(plain.cells.ids) < set(conditional.cells.ids)


def test_more_values_extend_a_sweep_and_another_condition_is_another_question(sandbox, storage):
    two = {**AXES, "optimizer": ["adam", "sgd"], "momentum": {"values": [0.0, 0.9], "when": {"optimizer": "sgd"}}}
    before = run(storage, asked(axes=two))
    with_nag = {**two, "optimizer": ["adam", "sgd", "nag"]}
    more = run(storage, asked(axes={**with_nag, "momentum": AXES["momentum"]}))  # with nag too, which is new
    assert set(before.cells.ids) < set(more.cells.ids)
    other = {**with_nag, "momentum": {"values": [0.0, 0.5, 0.9], "when": {"optimizer": ["adam", "sgd"]}}}
    with pytest.raises(InputError, match=r"axes.momentum.when: the sweep valley exists with momentum when"):
        run(storage, asked(axes=other))


def test_a_record_keeps_the_condition(sandbox, storage):
    run(storage, asked())
    again = raysweep.open("valley", storage)
    assert list(again.space.when) == ["momentum", "nesterov"]
    assert again.space.when["momentum"] == {"optimizer": ["sgd", "nag"]}
    assert len(again.cells) == 40
    assert validate(again.space.as_dict()) == again.space


@pytest.mark.parametrize(
    "search", [{"random": {"cells": 12}}, {"optimum": {"metric": "loss", "x": "lr", "budget": 40}}]
)
def test_searches_take_categories_booleans_and_conditions(search, sandbox, storage):
    whole = set(run(storage / "grid", asked()).cells.ids)
    found = run(storage / "found", asked(search=search))
    table = found.results()
    assert set(table["cell"]) <= whole
    if "optimum" in search:
        best = table.loc[table["loss"].idxmin()]
        assert (best["lr"], best["optimizer"], best["momentum"], best["nesterov"]) == (0.01, "sgd", 0.9, True)
    else:
        assert table["cell"].nunique() == 12
