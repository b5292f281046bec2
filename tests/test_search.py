"""A search computes less than the grid and finds the same, wherever it is interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import QUIET, Outcome

import raysweep
from raysweep.reporting import fit_boundary
from raysweep.sweep import Sweep

GRID: dict[str, Any] = {
    "name": "sought", "workload": "linear_transfer",
    "axes": {"overlap_angle": {"linspace": [2, 90, 45]}, "gamma": [0.2, 0.5, 0.8, 1.5]},
    "fixed": {"dim": 200, "noise": 0.2}, "seeds": 8,
}


def run(storage: Path, search: dict[str, Any] | str, **options: Any) -> Sweep:
    return raysweep.run({**GRID, "search": search}, storage=storage, executor="inline", tracking_uri="none",
                        report=False, say=lambda line: None, **options)


def cells(sweep: Sweep) -> set[str]:
    return set(sweep.results()["cell"])


def test_a_boundary_search_finds_the_line_of_the_grid_with_a_fraction_of_its_cells(storage: Path) -> None:
    metric = "transferability_linear"
    found = run(storage, {"boundary": {"metric": metric, "budget": 100}})
    grid = run(storage / "grid", "grid")
    assert cells(found) < cells(grid)
    assert len(cells(found)) <= 60 < len(cells(grid)) / 2
    tables = [fit_boundary(sweep.results(), "overlap_angle", "gamma", metric, "seed").table for sweep in (found, grid)]
    assert tables[0]["status"].tolist() == tables[1]["status"].tolist() == ["located"] * 4
    assert np.abs(tables[0]["estimate"] - tables[1]["estimate"]).max() < 0.2  # degrees; a cell is 2 wide
    shared = found.results().merge(grid.results(), on=["cell", "seed"], suffixes=("", "_grid"))
    assert np.allclose(shared[metric], shared[f"{metric}_grid"], rtol=1e-9, atol=1e-12)


def test_the_gap_that_holds_the_sign_change_is_closed(storage: Path) -> None:
    """Without noise in the mean's sign, bisection must end with two neighbours of opposite sign in every slice."""
    rows = run(storage, {"boundary": {"metric": "transferability_finetune", "budget": 100}}, fixed={"engine": "theory"},
               seeds=1).results()
    angles = np.linspace(2, 90, 45)
    for gamma, part in rows[rows["gamma"] < 1].groupby("gamma"):
        part = part.sort_values("overlap_angle")
        place = int(np.flatnonzero(np.diff(np.sign(part["transferability_finetune"])))[0])
        low, high = part["overlap_angle"].iloc[[place, place + 1]]
        assert np.searchsorted(angles, high) - np.searchsorted(angles, low) == 1, gamma
    assert len(rows[rows["gamma"] > 1]) == 5  # zero everywhere: nothing to look for


def test_a_budget_is_kept_and_a_greater_one_goes_on(storage: Path, call: Any) -> None:
    small = run(storage, {"boundary": {"metric": "transferability_linear", "budget": 12}})
    assert len(cells(small)) == 12
    refused: Outcome = call("run", "quickstart", "--set", "search={boundary: {budget: 3}}", *QUIET)
    assert refused.code == 2
    assert refused.err.startswith("search.boundary.metric: missing")


def test_an_optimum_search_closes_in_on_the_best_cell(storage: Path) -> None:
    metric = "transferability_finetune"
    options = {"optimum": {"metric": metric, "x": "pretrain_length", "budget": 40}}
    axes = {"pretrain_length": {"geomspace": [0.1, 30, 49]}, "overlap_angle": [30, 60], "gamma": [0.5]}
    found = run(storage, options, axes=axes, fixed={"init_scale": 0.1})
    grid = run(storage / "grid", "grid", axes=axes, fixed={"init_scale": 0.1})
    assert len(cells(found)) <= 30
    means = [sweep.results().groupby(["overlap_angle", "pretrain_length"])[metric].mean() for sweep in (found, grid)]
    best = [mean.groupby("overlap_angle").idxmax() for mean in means]
    assert best[0].tolist() == best[1].tolist()


def test_a_random_search_is_a_fixed_subset_of_the_grid(storage: Path) -> None:
    first, again = (run(storage / name, {"random": {"cells": 20}}) for name in ("first", "again"))
    assert len(cells(first)) == 20
    assert cells(first) == cells(again) < set(first.cells.ids)


def test_optuna_asks_for_the_same_cells_after_an_interruption(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = {"optuna": {"metric": "risk_linear", "cells": 24}}
    whole = run(storage / "whole", search)
    from raysweep import trial

    compute, packs = trial.run_pack, []

    def stop_after_two(*arguments: Any) -> Path:
        if len(packs) == 2:
            raise KeyboardInterrupt
        packs.append(arguments)
        return compute(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(trial, "run_pack", stop_after_two)
        with pytest.raises(KeyboardInterrupt):
            run(storage / "stopped", search)
    resumed = run(storage / "stopped", search)
    assert len(cells(whole)) == 24
    assert cells(whole) == cells(resumed)
    mean = whole.results().groupby("cell")["risk_linear"].mean()
    grid = run(storage / "grid", "grid").results().groupby("cell")["risk_linear"].mean()
    assert mean.min() <= grid.quantile(0.05)  # it looks where the metric is small
