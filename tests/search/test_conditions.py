"""An axis that is there only under a condition: cells that are the same are one cell, in every search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from auditing import interrupted
from conftest import Outcome, run

import raysweep
from raysweep.errors import InputError
from raysweep.space.schema import validate

AXES: dict[str, Any] = {
    "optimizer": ["adam", "sgd", "nag"],
    "lr": {"geomspace": [1e-4, 1, 5]},
    "momentum": {"values": [0.0, 0.5, 0.9], "when": {"optimizer": ["sgd", "nag"]}},
    "nesterov": {"values": [True, False], "when": {"momentum": 0.9, "optimizer": "sgd"}},
}


def asked(**changes: Any) -> dict[str, Any]:
    return {"name": "valley", "workload": "valley", "axes": AXES, "seeds": 2, **changes}


def refused(path: str, *parts: str, **changes: Any) -> None:
    with pytest.raises(InputError) as found:
        validate(asked(**changes))
    assert str(found.value).startswith(f"{path}: "), found.value
    for part in parts:
        assert part in str(found.value)


def test_where_a_condition_does_not_hold_the_default_stands_and_same_cells_are_one(
    sandbox: Path, storage: Path
) -> None:
    table = run(storage, asked()).results()
    assert len(table) == 2 * 5 * (1 + 3 + 1 + 3)  # adam; sgd with three momenta, one of them twice; nag with three
    assert table["cell"].nunique() == len(table) / 2
    adam = table[table["optimizer"] == "adam"]
    assert set(adam["momentum"]) == {0.0}
    assert not adam["nesterov"].any()
    with_switch = table[table["nesterov"].astype(bool)]
    assert set(zip(with_switch["optimizer"], with_switch["momentum"], strict=True)) == {("sgd", 0.9)}


def test_a_cell_is_the_same_cell_with_and_without_the_condition(sandbox: Path, storage: Path) -> None:
    plain = run(storage / "plain", asked(axes={"optimizer": ["adam"], "lr": [0.1]}))
    conditional = run(storage / "when", asked(axes={**AXES, "lr": [0.1]}))
    assert set(plain.cells.ids) < set(conditional.cells.ids)


def test_more_values_extend_a_sweep_and_another_condition_is_another_question(sandbox: Path, storage: Path) -> None:
    two = {**AXES, "optimizer": ["adam", "sgd"], "momentum": {"values": [0.0, 0.9], "when": {"optimizer": "sgd"}}}
    before = run(storage, asked(axes=two))
    with_nag = {**two, "optimizer": ["adam", "sgd", "nag"]}
    more = run(storage, asked(axes={**with_nag, "momentum": AXES["momentum"]}))  # with nag too, which is new
    assert set(before.cells.ids) < set(more.cells.ids)
    other = {**with_nag, "momentum": {"values": [0.0, 0.5, 0.9], "when": {"optimizer": ["adam", "sgd"]}}}
    with pytest.raises(InputError, match=r"axes.momentum.when: the sweep valley exists with momentum when"):
        run(storage, asked(axes=other))


def test_a_condition_that_cannot_be_is_refused_at_its_key(sandbox: Path) -> None:
    def momentum(when: Any, **axes: Any) -> dict[str, Any]:
        return {**AXES, "momentum": {"values": [0.0, 0.9], "when": when}, **axes}

    refused("axes.momentum.when.optimiser", "unknown axis", "optimizer", axes=momentum({"optimiser": "sgd"}))
    refused("axes.momentum.when.optimizer", "expected one of adam", axes=momentum({"optimizer": "rmsprop"}))
    refused("axes.momentum.when.lr", "not on the axis", axes=momentum({"lr": 0.3}))
    refused("axes.momentum.when.width", "unknown axis", axes=momentum({"width": 3}))
    refused("axes.momentum.when", "{axis: value or values}", axes=momentum({}))
    refused("axes.momentum.when", "{axis: value or values}", axes=momentum("sgd"))
    refused("axes.momentum.when", "circle", axes=momentum({"nesterov": True}))
    refused("axes.momentum.when", "circle", axes=momentum({"momentum": 0.9}))
    refused("axes.momentum", "or when", "where", axes={**AXES, "momentum": {"values": [0.0], "where": {}}})
    refused("axes.momentum", "none of them", axes={**AXES, "momentum": {"when": {"optimizer": "sgd"}}})
    chained = {"values": [True, False], "when": {"momentum": 0.9, "optimizer": "adam"}}
    refused(
        "axes.nesterov.when.optimizer",
        "momentum is there only when optimizer is sgd or nag",
        axes={**AXES, "nesterov": chained},
    )


def test_a_condition_that_no_cell_satisfies_is_refused_before_anything_is_there(
    sandbox: Path, storage: Path, call: Any, tmp_path: Path
) -> None:
    import yaml

    path = tmp_path / "space.yaml"
    path.write_text(yaml.safe_dump(asked(exclude=[{"momentum": 0.9, "optimizer": "sgd"}])))
    found: Outcome = call("run", path, "--storage", storage)
    assert found.code == 2
    assert found.err.startswith("axes.nesterov.when: no cell satisfies it")
    assert not storage.exists()


def test_a_record_keeps_the_condition(sandbox: Path, storage: Path) -> None:
    run(storage, asked())
    again = raysweep.open("valley", storage)
    assert list(again.space.when) == ["momentum", "nesterov"]
    assert again.space.when["momentum"] == {"optimizer": ["sgd", "nag"]}
    assert len(again.cells) == 40
    assert validate(again.space.as_dict()) == again.space


@pytest.mark.parametrize(
    "search", [{"random": {"cells": 12}}, {"optimum": {"metric": "loss", "x": "lr", "budget": 40}}]
)
def test_searches_take_categories_booleans_and_conditions(search: Any, sandbox: Path, storage: Path) -> None:
    whole = set(run(storage / "grid", asked()).cells.ids)
    found = run(storage / "found", asked(search=search))
    table = found.results()
    assert set(table["cell"]) <= whole
    if "optimum" in search:
        best = table.loc[table["loss"].idxmin()]
        assert (best["lr"], best["optimizer"], best["momentum"], best["nesterov"]) == (0.01, "sgd", 0.9, True)
    else:
        assert table["cell"].nunique() == 12


@pytest.mark.simulation
def test_optuna_finds_the_best_place_among_categories_and_conditions_and_again_after_an_interruption(
    sandbox: Path, storage: Path
) -> None:
    axes = {**AXES, "lr": {"geomspace": [1e-4, 1, 41]}, "width": [2, 4, 6, 8]}
    space = asked(axes=axes, search={"optuna": {"metric": "loss", "cells": 120}}, seeds=1)
    table = run(storage, space).results()
    best = table.loc[table["loss"].idxmin()]
    assert (best["optimizer"], best["momentum"], best["nesterov"], best["width"]) == ("sgd", 0.9, True, 6)
    assert best["loss"] < 0.05  # of 1,312 cells, 7 have less
    with interrupted(storage / "stopped" / "valley", 3):
        run(storage / "stopped", space)
    resumed = run(storage / "stopped", space).results()
    assert resumed["cell"].tolist() == table["cell"].tolist()
    assert resumed["loss"].tolist() == table["loss"].tolist()
