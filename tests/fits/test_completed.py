"""Draws that were not computed are predicted from other cells: means stay right, and so do their errors."""

import math

import numpy as np
import pandas as pd
import pytest
from functions import quietly

from raysweep.fits.completed import completed, completed_rows
from raysweep.search.curves import REACHED

N, FEW = 100, 12


def two_slices(rng, shared):
    """100 draws of three cells in each of two slices, whose noise shares so much variance. Means are cells' numbers."""
    factors = rng.standard_normal((N, 3))
    own = rng.standard_normal((N, 3))
    level = 5 * rng.standard_normal((N, 1))
    return np.arange(3) + level + factors, np.arange(3) + 2 * (np.sqrt(shared) * factors + np.sqrt(1 - shared) * own)


def with_few(values, few=FEW):
    return np.where(np.arange(len(values))[:, None] < few, values, np.nan)


@pytest.mark.parametrize(("shared", "gain"), [(0.0, 0.6), (0.99, 4.0)])
def test_means_are_unbiased_and_their_errors_are_as_large_as_the_scatter_says(shared, gain):
    rng = np.random.default_rng(1)
    errors, said = [], []
    for _ in range(800):
        first, second = two_slices(rng, shared)
        _, found = completed([first, with_few(second)])
        step = found[:, 2] - found[:, 0]
        errors.append(step.mean() - 2)
        said.append(step.var(ddof=1) / N)
    truth = np.mean(np.square(errors))
    assert abs(np.mean(errors)) < 3.5 * np.std(errors) / np.sqrt(800)
    assert 0.95 <= np.mean(said) / truth <= 1.7  # never smaller than it is
    assert 8 / FEW / truth > gain  # 8 = the variance of one draw: so many times fewer draws


def test_equal_draws_in_every_cell_are_left_as_they_are_but_for_the_level_of_a_draw():
    first, second = two_slices(np.random.default_rng(2), 0.5)
    for whole, found in zip((first, second), completed([first, second]), strict=True):
        level = whole.mean(axis=1, keepdims=True)
        assert found == pytest.approx(whole - level + level.mean(), rel=1e-7, abs=1e-7)


def test_a_cell_with_a_lost_draw_keeps_the_draws_that_it_has():
    first, second = two_slices(np.random.default_rng(3), 0.9)
    second[4, 1] = np.nan
    _, found = completed([first, with_few(second)])
    assert np.isfinite(found).sum(axis=0).tolist() == [N, FEW - 1, N]


def test_rows_of_a_table_are_completed_slice_by_slice():
    first, second = two_slices(np.random.default_rng(4), 0.9)
    rows = [
        {"slice": number, "x": x, "seed": draw, "y": values[draw, x], "status": "ok"}
        for number, values in enumerate((first, with_few(second)))
        for draw, x in np.argwhere(np.isfinite(values))
    ]
    rows.append({"slice": 1, "x": 3, "seed": 0, "y": np.nan, "status": "diverged"})
    found = completed_rows(pd.DataFrame(rows), "x", "y", ["slice"])
    for number, values in enumerate(completed([first, with_few(second)])):
        table = found[(found["slice"] == number) & (found["x"] < 3)].pivot(index="seed", columns="x", values="y")
        assert table.to_numpy() == pytest.approx(values, rel=1e-7)
    assert found[found["x"] == 3]["status"].tolist() == ["diverged"]


def training(lr, width=1, seed=0):
    """A valley whose place moves with the width and, in all widths alike, with the draw."""
    draw = np.random.default_rng(seed)
    place = -2.5 + 0.1 * width + 0.4 * draw.standard_normal()
    own = 0.01 * np.random.default_rng([seed, width]).standard_normal()
    return {"loss": (math.log10(lr) - place) ** 2 + own * math.log10(lr) + draw.standard_normal()}


def test_slices_whose_draws_vary_alike_share_them_and_the_report_has_the_intervals(storage):
    sweep = quietly(
        training,
        storage,
        axes={"lr": {"geomspace": [1e-5, 1.0, 13]}, "width": [1, 2, 3, 4]},
        seeds=400,
        executor="inline",
        analysis=[{"optimum": {"metric": "loss", "x": "lr"}}],
        precision={"optimum": 1.3},
    )
    draws = sweep.results().groupby(["width", "lr"])["seed"].nunique().groupby("width").max().sort_values()
    assert draws.iloc[-1] > 70  # (2.7 x 0.4 / log10 1.3)^2 = 90 for a slice alone, at the level of four
    assert draws.iloc[-2] < 45
    verdicts = sweep.state().verdicts
    assert [each.state for each in verdicts] == [REACHED] * 4
    (found,) = sweep.findings()
    table = found.tables["optimum_optima"]
    half = np.log(table["high_simultaneous"] / table["low_simultaneous"]) / 2
    assert half.to_numpy() == pytest.approx([each.half for each in verdicts], rel=1e-3)
    assert (half <= np.log(1.3)).all()
    assert (table["draws"] == draws.sort_index().to_numpy()).all()
    truth = 10 ** (-2.5 + 0.1 * table["width"])
    assert ((table["low_simultaneous"] < truth) & (truth < table["high_simultaneous"])).all()
