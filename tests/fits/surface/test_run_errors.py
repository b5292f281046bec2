"""The error of single runs, pooled over the slices of a grid."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.single_runs import measured
from raysweep.fits.surface.noise import axis_of, run_errors

pytestmark = pytest.mark.simulation  # of the fits alone: where they change

KEYS = ["size", "lr"]


def cells(noise, slices, values, seed):
    """(one run per rate and size, the true loss): a parabola that flattens."""
    rng = np.random.default_rng(seed)
    size, lr = (grid.ravel() for grid in np.meshgrid(np.arange(slices), np.geomspace(1e-4, 1e-1, values)))
    truth = 2 + 0.01 * size + np.log1p(0.1 * np.log(lr / 2e-3) ** 2)
    frame = pd.DataFrame({"size": size, "lr": lr, "mean": truth + noise * rng.standard_normal(size.size)})
    return frame.assign(draws=1, standard_error=np.nan), truth


def test_the_axis_is_the_one_that_slices_vary_along():
    frame, _ = cells(0.1, 6, 11, 0)
    assert axis_of(frame, KEYS) == "lr"
    assert axis_of(frame.head(10), KEYS) is None
    random = frame.assign(size=np.arange(len(frame)) * 1.0, lr=np.random.default_rng(0).random(len(frame)))
    assert axis_of(random, KEYS) is None


def test_intervals_of_single_runs_hold_the_truth_in_95_percent():
    inside = []
    for seed in range(6):
        frame, truth = cells(0.05, 8, 11, seed)
        errors = run_errors(frame, "lr", KEYS, turn="min", logarithmic=True)
        inside.append(np.abs(frame["mean"] - truth) < 1.96 * errors)
    assert 0.92 < np.mean(inside) < 0.98


def test_the_error_of_noise_alone_is_its_size():
    inside = []
    for seed in range(6):
        frame, _ = cells(0.0, 8, 11, seed)
        noise = np.random.default_rng(seed).standard_normal(len(frame))
        errors = run_errors(frame.assign(mean=noise), "lr", KEYS, turn="min", logarithmic=True)
        inside.append(np.abs(noise) < 1.96 * errors)
    assert 0.92 < np.mean(inside) < 0.98


def test_a_maximum_has_the_same_errors_in_any_order_of_rows():
    frame, _ = cells(0.05, 6, 9, 1)
    least = run_errors(frame, "lr", KEYS, turn="min", logarithmic=True)
    mixed = frame.sample(frac=1, random_state=0)
    most = run_errors(mixed.assign(mean=-mixed["mean"]), "lr", KEYS, turn="max", logarithmic=True)
    np.testing.assert_allclose(pd.Series(most, mixed.index).sort_index(), least, rtol=1e-6)


def test_equal_cells_have_no_error():
    frame, _ = cells(0.0, 6, 9, 1)
    assert run_errors(frame.assign(mean=1.0), "lr", KEYS, turn="min", logarithmic=True) is None


@pytest.mark.parametrize("noise", [0.02, 0.2])
def test_near_the_best_the_error_follows_the_noise(noise):
    frame, truth = cells(noise, 12, 11, 3)
    errors = run_errors(frame, "lr", KEYS, turn="min", logarithmic=True)
    assert 0.7 * noise < np.median(errors[truth < truth.min() + 0.3]) < 1.5 * noise


def test_the_benchmark_of_single_runs_covers_a_knee():
    one = measured("knee", "normal", (6, 7), 0)
    assert 0.8 < one["coverage"] <= 1
