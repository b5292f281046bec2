"""Two sweeps are compared draw by draw: what is said of the differences, and how far their intervals can be trusted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import raysweep
from raysweep.fits.comparison import over_cells, paired, per_cell


def wave(x: int, height: float, seed: int) -> float:
    return height * (-1) ** (x + seed)


def dotted(x: int, height: float, seed: int) -> float:
    if x != seed:
        raise ValueError("no such draw")
    return height


def compared(function: Callable[..., Any], storage: Path) -> str:
    """What the comparison of a function at two heights says, over two cells and two draws."""
    quiet: dict[str, Any] = {"storage": storage, "tracking_uri": "none", "executor": "inline", "report": False}
    flat, high = (
        raysweep.run(
            function, name=f"at{height}", axes={"x": [0, 1]}, fixed={"height": height}, seeds=2, say=print, **quiet
        )
        for height in (0.0, 1.0)
    )
    return str(flat.compare(high))


def test_differences_that_cancel_are_not_called_none(storage: Path) -> None:
    said = compared(wave, storage)
    assert "is 0 on average in every draw" in said
    assert "of 2 cells" in said


def test_cells_that_lack_draws_have_no_mean_over_cells(storage: Path) -> None:
    assert "no mean over cells, since no cell has all of 2 shared draws in both sweeps" in compared(dotted, storage)


def differing(truth: np.ndarray, rng: np.random.Generator, draws: int = 6, own: float = 0.2) -> pd.DataFrame:
    """Pairs of two sweeps over cells x that share most of their scatter; `own` is what a draw of one has alone."""
    cells = len(truth)
    shared, alone = rng.standard_normal((draws, 1)), rng.standard_normal((draws, 1))
    first = 5 * shared + 0.1 * rng.standard_normal((draws, cells))
    second = 5 * shared + own * alone + 0.1 * rng.standard_normal((draws, cells)) + truth
    grid = pd.DataFrame({"x": np.tile(np.arange(cells), draws), "seed": np.repeat(np.arange(draws), cells)})
    grid = grid.assign(status="ok", y=first.ravel())
    return paired(grid, grid.assign(y=second.ravel()), ["x"], "y")


def test_the_interval_of_a_difference_covers() -> None:
    rng = np.random.default_rng(0)
    truth = np.linspace(-0.2, 0.3, 2000)
    table = per_cell(differing(truth, rng, own=0.0), ["x"])
    assert ((table["low"] <= truth) & (truth <= table["high"])).mean() == pytest.approx(0.95, abs=0.015)
    # the draw is the unit: what all cells of a draw share does not average out over cells
    means = [over_cells(differing(truth[::500], rng), ["x"]) for _ in range(150)]
    covered = [mean.low <= truth[::500].mean() <= mean.high for mean in means]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.04)


def test_cells_that_do_not_differ_are_seldom_said_to() -> None:
    rng = np.random.default_rng(1)
    tables = [per_cell(differing(np.zeros(12), rng), ["x"]) for _ in range(100)]
    assert np.mean([(table["status"] != "no clear difference").any() for table in tables]) <= 0.09
    assert (per_cell(differing(np.full(12, 3.0), rng), ["x"])["status"] == "higher").all()


def test_pairs_need_both_draws_and_a_single_one_tests_nothing() -> None:
    one = pd.DataFrame({"x": [1, 1, 2, 2, 3], "seed": [0, 1, 0, 1, 0], "status": "ok", "y": [1.0, 2.0, 3.0, 4.0, 5.0]})
    other = one.assign(y=one["y"] + 0.5, status=["ok", "diverged", "ok", "ok", "ok"])
    table = per_cell(paired(one, other, ["x"], "y"), ["x"]).set_index("x")
    assert table["draws"].tolist() == [1, 2, 1]
    assert table["status"].tolist() == ["not tested", "higher", "not tested"]
    assert table.loc[2, "low"] == table.loc[2, "high"] == 0.5  # every draw differs alike
    assert np.isnan(table.loc[1, "low"])
