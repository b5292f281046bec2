"""The cell shown first of single runs is as good as it is said to be: a small version of `benchmarks/best_cells`."""

import itertools

import numpy as np
import pandas as pd
import pytest

from benchmarks.best_cells import ALL_SHAPES, measured
from raysweep.fits.surface.single_runs import COUNT, cell_values, drawn_together, run_errors


def swept(shapes, noises, shares, numbers):
    every = itertools.product(shapes, noises, shares, numbers)
    return pd.DataFrame([measured(shape, noise, share, (6, 7), number) for shape, noise, share, number in every])


def test_the_first_cell_of_single_runs_lies_in_its_interval_and_is_not_too_low():
    table = swept(("knee", "power", "noise alone"), ("normal", "t3"), (1.0,), range(2))
    assert table["coverage"].sum() >= 11
    assert not table["lost"].any()
    assert table["raw bias"].mean() < -1
    assert abs(table["bias"].mean()) < 0.5


@pytest.mark.simulation
def test_every_family_of_single_runs_is_covered():
    table = swept(ALL_SHAPES, ("normal", "t3"), (0.05, 0.3, 1.0), range(20, 23))
    assert 0.92 <= table["coverage"].mean() <= 0.98
    assert table.groupby("shape")["coverage"].mean().min() >= 0.8
    assert table["lost"].mean() <= 0.02
    assert abs(table["bias"].mean()) < 0.15


def test_slices_that_differ_by_their_errors_alone_are_drawn_together():
    """Ten measurements of one value: the lowest of them is drawn to it; of very different values each stays."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(10)
    draws = noise + rng.standard_normal((COUNT, 10))
    alike = drawn_together(draws, np.arange(10))
    assert alike.mean(0).min() > 0.4 * noise.min()
    assert alike.std(0).max() < 0.9
    apart = drawn_together(draws + 30 * np.arange(10), np.arange(10))
    np.testing.assert_allclose(apart.mean(0), noise + 30 * np.arange(10), atol=0.2)
    two = draws[:, :2]
    assert drawn_together(two, np.arange(2)) is two


def test_draws_of_cells_turn_with_the_metric_in_any_order_of_rows():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"size": np.repeat(np.arange(4), 6), "x": np.tile(np.arange(6.0), 4)})
    frame["mean"] = (frame["x"] - 2.5) ** 2 + 0.3 * rng.standard_normal(len(frame))
    frame = frame.assign(draws=1, standard_error=np.nan)
    least = cell_values(frame, "x", ["size", "x"], turn="min", logarithmic=False)
    mixed = frame.assign(mean=-frame["mean"]).sample(frac=1, random_state=0)
    back = mixed.index.argsort()
    most = cell_values(mixed, "x", ["size", "x"], turn="max", logarithmic=False)
    assert least.shape == (COUNT, 24)
    np.testing.assert_allclose(-most[:, back], least, rtol=1e-6)
    how = {"x": "x", "keys": ["size", "x"], "turn": "min", "logarithmic": False}
    errors = run_errors(frame.loc[mixed.index], **how)
    np.testing.assert_allclose(errors[back], run_errors(frame, **how), rtol=1e-6)
    assert cell_values(frame.assign(mean=1.0), "x", ["size", "x"], turn="min", logarithmic=False) is None
