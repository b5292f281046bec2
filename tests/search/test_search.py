"""A search computes less than the grid and finds the same, wherever it is interrupted."""

import numpy as np
import pytest
from conftest import run as run_space
from spaces import space_over

from raysweep.fits import fit_boundary

AXES = {"overlap_angle": {"linspace": [2, 90, 45]}, "gamma": [0.2, 0.5, 0.8, 1.5]}
GRID = space_over("linear_transfer", AXES, name="sought", fixed={"dim": 200, "noise": 0.2}, seeds=8)


def run(storage, search, **options):
    return run_space(storage, {**GRID, "search": search}, **options)


def cells(sweep):
    return set(sweep.results()["cell"])


def interpolated_zero(x, values):
    """Where the straight lines between points, falling or rising, are zero first."""
    at, value = x.to_numpy(), values.to_numpy()
    k = int(np.flatnonzero(value[:-1] * value[1:] <= 0)[0])
    return float(at[k] - value[k] * (at[k + 1] - at[k]) / (value[k + 1] - value[k]))


def test_a_boundary_search_finds_the_line_of_the_grid_with_a_fraction_of_its_cells(storage):
    metric = "transferability_linear"
    found = run(storage, {"boundary": {"metric": metric, "budget": 100}})
    grid = run(storage / "grid", "grid")
    assert cells(found) < cells(grid)
    assert len(cells(found)) <= 60 < len(cells(grid)) / 2
    tables = [fit_boundary(sweep.results(), "overlap_angle", "gamma", metric, "seed").table for sweep in (found, grid)]
    assert tables[0]["status"].tolist() == tables[1]["status"].tolist() == ["located"] * 4
    theory = grid.results().groupby(["gamma", "overlap_angle"])[f"{metric}_theory"].mean().reset_index()
    zeros = [interpolated_zero(part["overlap_angle"], part[f"{metric}_theory"]) for _, part in theory.groupby("gamma")]
    for table in tables:  # cells far from the zero say how draws differ: both are right, and not the same to a digit
        assert ((table["low"] < zeros) & (zeros < table["high"])).all()
    errors, widths = ([np.abs(table["estimate"] - zeros) for table in tables], [t["high"] - t["low"] for t in tables])
    assert np.sqrt((errors[0] ** 2).mean()) < 1.2 * np.sqrt((errors[1] ** 2).mean())
    assert np.median(widths[0] / widths[1]) < 1.2
    shared = found.results().merge(grid.results(), on=["cell", "seed"], suffixes=("", "_grid"))
    assert np.allclose(shared[metric], shared[f"{metric}_grid"], rtol=1e-9, atol=1e-12)


def test_the_gap_that_holds_the_sign_change_is_closed(storage):
    """Without noise in the mean's sign, bisection must end with two neighbours of opposite sign in every slice."""
    asked = {"boundary": {"metric": "transferability_finetune", "budget": 100}}
    rows = run(storage, asked, fixed={"engine": "theory"}, seeds=1).results()
    angles = np.linspace(2, 90, 45)
    for gamma, part in rows[rows["gamma"] < 1].groupby("gamma"):
        part = part.sort_values("overlap_angle")
        place = int(np.flatnonzero(np.diff(np.sign(part["transferability_finetune"])))[0])
        low, high = part["overlap_angle"].iloc[[place, place + 1]]
        assert np.searchsorted(angles, high) - np.searchsorted(angles, low) == 1, gamma
    assert len(rows[rows["gamma"] > 1]) == 5  # zero everywhere: nothing to look for


def sought(storage, folder, kind, axes, budget, **changes):
    """A search in y = x + seed: eight draws have the mean x + 3.5, certain to 2.05; `added` does nothing to it."""
    space = {"name": "sandy", "workload": "sandbox", "axes": axes, "fixed": {"folder": str(folder)}, "seeds": 8}
    return run_space(storage, {**space, "search": {kind: {"metric": "y", "x": "x", "budget": budget}}, **changes})


def test_a_zero_among_cells_whose_sign_the_draws_do_not_tell_is_closed_in_on(sandbox, storage, tmp_path):
    """The five that it starts with have the signs - - ? + +; soon there are more of no sign, side by side."""
    table = sought(storage, tmp_path, "boundary", {"x": {"linspace": [-10, 2, 49]}}, 49).results()
    computed = np.unique(table["x"])
    assert set(np.arange(-5.75, -1, 0.25)) <= set(computed)  # the first and the last of them have a sign
    assert len(computed) < 30


@pytest.mark.parametrize("kind", ["boundary", "optimum"])
def test_a_budget_that_is_too_small_is_shared_by_the_slices(kind, sandbox, storage, tmp_path):
    axes = {"added": [float(n) for n in range(6)], "x": {"linspace": [-10, 2, 65]}}
    before = set()
    for budget in (4, 20, 33):
        found = sought(storage / str(budget), tmp_path, kind, axes, budget)
        counts = found.results().groupby("added")["cell"].nunique().reindex(axes["added"], fill_value=0)
        assert counts.sum() == budget
        assert counts.max() - counts.min() <= 1, counts
        assert before <= cells(found)  # more budget takes nothing away
        before = cells(found)


def test_what_a_slice_does_not_need_goes_to_the_others(sandbox, storage, tmp_path):
    axes = {"added": [0.0, 1.0, 2.0], "x": {"linspace": [-10, 2, 65]}}
    small = [{"added": 1.0, "x": [float(f"{x:.12g}") for x in np.linspace(-10, 2, 65)[3:]]}]
    found = sought(storage, tmp_path, "boundary", axes, 24, exclude=small)
    assert found.results().groupby("added")["cell"].nunique().tolist() == [11, 3, 10]


def test_an_optimum_search_closes_in_on_the_best_cell(storage):
    metric = "transferability_finetune"
    options = {"optimum": {"metric": metric, "x": "pretrain_length", "budget": 40}}
    axes = {"pretrain_length": {"geomspace": [0.1, 30, 49]}, "overlap_angle": [30, 60], "gamma": [0.5]}
    found = run(storage, options, axes=axes, fixed={"init_scale": 0.1})
    grid = run(storage / "grid", "grid", axes=axes, fixed={"init_scale": 0.1})
    assert len(cells(found)) <= 30
    means = [sweep.results().groupby(["overlap_angle", "pretrain_length"])[metric].mean() for sweep in (found, grid)]
    best = [mean.groupby("overlap_angle").idxmax() for mean in means]
    assert best[0].tolist() == best[1].tolist()


def test_a_random_search_is_a_fixed_subset_of_the_grid_and_keeps_it_when_an_axis_grows(sandbox, storage, tmp_path):
    def chosen(name, values, count=20):
        fixed, search = {"folder": str(tmp_path)}, {"random": {"cells": count}}
        space = {"name": "sandy", "workload": "sandbox", "axes": {"x": values}, "fixed": fixed, "search": search}
        found = run_space(storage / name, space)
        assert cells(found) <= set(found.cells.ids)
        return cells(found)

    hundred = [float(x) for x in range(100)]
    first = chosen("first", hundred)
    assert len(first) == 20
    assert first == chosen("again", hundred)
    for number, more in enumerate(([*hundred, 100.0], [-1.0, *hundred], [*hundred[:50], 49.5, *hundred[50:]])):
        assert len(first & chosen(f"more-{number}", more)) >= 19
    assert first < chosen("thirty", hundred, 30)
    grown = chosen("first", [float(x) for x in range(110)])
    assert first <= grown  # what was computed stays, chosen now or not
    assert 20 <= len(grown) <= 30
