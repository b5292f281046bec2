"""Rank correlation over units: what it is, and how often its interval holds the value of the population."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from raysweep.fits.rank import over_units

pytestmark = pytest.mark.simulation  # of the fits alone: where they change


def test_it_is_spearmans_with_bonett_and_wrights_interval():
    x, y = np.random.default_rng(0).standard_normal((2, 12))
    result, low, high = over_units(x, y)
    assert result == pytest.approx(float(spearmanr(x, y).statistic))
    half = 2.228139 * np.sqrt((1 + result**2 / 2) / 9)  # Student's t, 10 degrees
    assert (low, high) == pytest.approx((np.tanh(np.arctanh(result) - half), np.tanh(np.arctanh(result) + half)))
    assert over_units(np.exp(3 * x), y) == (result, low, high)
    assert over_units(x, -y) == pytest.approx((-result, -high, -low))


def test_table_1_of_d_has_0_7_and_0_8_over_five_targets_and_says_little():
    """Webcam, Stanford Cars, Caltech-101, Synthetic, CUB-200: test error and deviation, fixed and fine-tuned."""
    fixed = over_units(np.array([0.096, 0.165, 0.059, 0.015, 0.262]), np.array([0.45, 24.2, 6.24, 0.81, 35.10]))
    tuned = over_units(np.array([0.94, 3.70, 1.22, 0.65, 2.38]), np.array([0.45, 13.95, 4.57, 0.75, 21.04]))
    assert fixed[0] == pytest.approx(0.7)
    assert tuned[0] == pytest.approx(0.8)
    assert fixed[1] < tuned[1] < 0 < 0.98 < fixed[2] < tuned[2]


def test_ranks_in_perfect_order_have_an_interval_that_ends_at_one():
    result, low, high = over_units(np.arange(8.0), np.arange(8.0) ** 3)
    assert (result, high) == (1, 1)
    assert 0.8 < low < 0.9
    assert over_units(np.arange(8.0), -np.arange(8.0)) == pytest.approx((-1, -1, -low))


def test_where_there_is_none_it_is_not_a_number():
    assert np.isnan(over_units(np.ones(9), np.arange(9.0))).all()
    result, low, high = over_units(np.arange(4.0), np.array([0.0, 2, 1, 3]))
    assert result == pytest.approx(0.8)
    assert np.isnan([low, high]).all()


def normal(rho):
    def made(rng, count):
        x = rng.standard_normal(count)
        return x, rho * x + np.sqrt(1 - rho**2) * rng.standard_normal(count)

    return made


def heavy(rho):
    """Student's t of 3 degrees in both: extremes come together."""

    def made(rng, count):
        x, y = normal(rho)(rng, count)
        scale = np.sqrt(3 / rng.chisquare(3, count))
        return x * scale, y * scale

    return made


def two_groups(rng, count):
    """A correlation between two groups of units and none within."""
    group = rng.integers(0, 2, count) * 4
    return group + rng.standard_normal(count), group + rng.standard_normal(count)


@pytest.mark.parametrize("units", [5, 8, 12, 20])
@pytest.mark.parametrize(
    "made",
    [normal(0.0), normal(0.5), normal(0.8), normal(0.95), heavy(0.8), heavy(0.95), two_groups],
    ids=["none", "0.5", "0.8", "0.95", "heavy 0.8", "heavy 0.95", "two groups"],
)
def test_intervals_hold_the_value_of_the_population_as_often_as_said(made, units):
    rng = np.random.default_rng(1)
    truth = over_units(*made(rng, 200_000))[0]
    inside, width = [], []
    for _ in range(600):
        _, low, high = over_units(*made(rng, units))
        inside.append(low <= truth <= high)
        width.append(high - low)
    assert np.mean(inside) >= 0.93 - 0.02  # two standard errors of 600 samples
    if units > 5:
        assert np.mean(width) < 1.6
