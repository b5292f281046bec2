"""Optuna's Gaussian process: fewer cells than TPE where the metric is smooth, and the same ones each time."""

import math
import sys

import numpy as np
import pytest
from conftest import QUIET, refused

from raysweep import search
from raysweep.errors import InputError
from raysweep.plan.cells import enumerate_cells
from raysweep.space.schema import validate

RANGES = {"lr": {"range": [1e-5, 1], "log": True}, "width": {"range": [1, 30]}}
LR = {"lr": RANGES["lr"]}


def asked(sampler, axes, count, **changes):
    options = {"metric": "loss", "cells": count, "sampler": sampler}
    return {"name": "valley", "workload": "valley", "axes": axes, "search": {"optuna": options}, **changes}


def found(space, place=(-2, 6)):
    """The cells of each round on a bowl whose lowest point, 0, is at a `place`: log10 of the rate, and the width."""
    checked = validate(space)
    cells = enumerate_cells(checked)
    known = set()

    def draws(cell, metric):
        return np.array([loss(cells.parameters(cell), place)]) if cell in known else None

    while True:
        rounds = search.rounds(checked, cells, draws)
        if {cell for chosen in rounds for cell in chosen} <= known:
            return [[cells.parameters(cell) for cell in chosen] for chosen in rounds]
        known.update(cell for chosen in rounds for cell in chosen)


def loss(cell, place):
    return (math.log10(cell["lr"]) - place[0]) ** 2 + 0.05 * (cell["width"] - place[1]) ** 2


@pytest.mark.simulation
def test_it_comes_nearer_to_a_smooth_optimum_than_tpe_with_the_same_cells(sandbox):
    for place in ((-2, 6), (-3.3, 21)):
        best = {
            sampler: min(loss(cell, place) for cells in found(asked(sampler, RANGES, 24), place) for cell in cells)
            for sampler in ("tpe", "gp")
        }
        assert best["gp"] < 0.02, place  # the rate within a factor 1.4
        assert best["gp"] < best["tpe"], place


@pytest.mark.long
def test_the_cells_of_a_round_are_apart_though_none_has_a_result_yet(sandbox):
    for chosen in found(asked("gp", LR, 16))[1:]:
        assert len(chosen) == 8
        places = np.sort(np.log10([cell["lr"] for cell in chosen]))
        assert np.diff(places).min() > 1e-3  # of 5 decades; without regard to the others they would be the same


@pytest.mark.long
def test_it_finds_the_best_of_listed_values_and_computes_none_twice(sandbox):
    axes = {"lr": {"geomspace": [1e-4, 1, 41]}, "optimizer": ["adam", "sgd"]}
    cells = [cell for chosen in found(asked("gp", axes, 20)) for cell in chosen]
    assert len({tuple(cell.values()) for cell in cells}) == len(cells) == 20
    assert min(loss(cell, (-2, 6)) for cell in cells) == pytest.approx(0)


@pytest.mark.parametrize(
    ("axes", "count"),
    [({"lr": [0.001, 0.01, 0.1], "width": [2, 6, 7, 9]}, 12), ({"width": {"range": [1, 3]}}, 3)],
    ids=["listed", "range"],
)
def test_it_ends_when_there_are_no_other_cells(axes, count, sandbox):
    assert sum(len(chosen) for chosen in found(asked("gp", axes, 20))) == count
    left = [{"width": 2}] if count == 12 else []
    assert sum(len(chosen) for chosen in found(asked("gp", axes, 20, exclude=left))) == count - 3 * len(left)


@pytest.mark.long
def test_the_last_digits_of_a_result_do_not_change_what_it_asks_for(sandbox):
    """They may differ between packs, and so between numbers of workers."""
    space = validate(asked("gp", LR, 20))

    def chosen(factor):
        cells = enumerate_cells(space)
        rounds = []
        for _ in range(3):
            known = {cell for cells_of_round in rounds for cell in cells_of_round}

            def draws(cell, metric, known=known):
                return np.array([factor * loss(cells.parameters(cell), (-2, 6))]) if cell in known else None

            rounds = search.rounds(space, cells, draws)
        return cells.columns["lr"].tolist()

    assert len(chosen(1.0)) == 20
    assert chosen(1.0) == chosen(1.0 + 1e-14)


def test_a_sampler_that_is_not_there_is_one_line(sandbox, call, storage, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    space = "search={optuna: {metric: risk_linear, cells: 5, sampler: gp}}"
    needs = "search.optuna.sampler: gp needs torch: pip install torch, or say tpe\n"
    refused(call("run", "quickstart", "--set", space, "--storage", storage, *QUIET), needs)
    assert not storage.exists()
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(InputError, match="gp needs scipy and torch: pip install scipy torch"):
        validate(asked("gp", RANGES, 5))
