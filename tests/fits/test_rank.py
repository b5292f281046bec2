"""Rank correlation and R² over units: what they are, and how often intervals hold those of the population."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from raysweep.fits.correlation import difference, explained, of_ranks
from raysweep.fits.reasons import Reason

pytestmark = pytest.mark.simulation  # of the fits alone: where they change


def test_it_is_spearmans_with_bonett_and_wrights_interval():
    x, y = np.random.default_rng(0).standard_normal((2, 12))
    result, low, high = of_ranks(x, y)
    assert result == pytest.approx(float(spearmanr(x, y).statistic))
    half = 2.228139 * np.sqrt((1 + result**2 / 2) / 9)  # Student's t, 10 degrees
    assert (low, high) == pytest.approx((np.tanh(np.arctanh(result) - half), np.tanh(np.arctanh(result) + half)))
    assert of_ranks(np.exp(3 * x), y) == (result, low, high)
    assert of_ranks(x, -y) == pytest.approx((-result, -high, -low))


def test_table_1_of_d_has_0_7_and_0_8_over_five_targets_and_says_little():
    """Webcam, Stanford Cars, Caltech-101, Synthetic, CUB-200: test error and deviation, fixed and fine-tuned."""
    fixed = of_ranks(np.array([0.096, 0.165, 0.059, 0.015, 0.262]), np.array([0.45, 24.2, 6.24, 0.81, 35.10]))
    tuned = of_ranks(np.array([0.94, 3.70, 1.22, 0.65, 2.38]), np.array([0.45, 13.95, 4.57, 0.75, 21.04]))
    assert fixed[0] == pytest.approx(0.7)
    assert tuned[0] == pytest.approx(0.8)
    assert fixed[1] < tuned[1] < 0 < 0.98 < fixed[2] < tuned[2]


def test_ranks_in_perfect_order_have_an_interval_that_ends_at_one():
    result, low, high = of_ranks(np.arange(8.0), np.arange(8.0) ** 3)
    assert (result, high) == (1, 1)
    assert 0.8 < low < 0.9
    assert of_ranks(np.arange(8.0), -np.arange(8.0)) == pytest.approx((-1, -1, -low))


def test_where_there_is_none_it_is_not_a_number():
    assert np.isnan(of_ranks(np.ones(9), np.arange(9.0))).all()
    result, low, high = of_ranks(np.arange(4.0), np.array([0.0, 2, 1, 3]))
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
    truth = of_ranks(*made(rng, 200_000))[0]
    inside, width = [], []
    for _ in range(600):
        _, low, high = of_ranks(*made(rng, units))
        inside.append(low <= truth <= high)
        width.append(high - low)
    assert np.mean(inside) >= 0.93 - 0.02  # two standard errors of 600 samples
    if units > 5:
        assert np.mean(width) < 1.6


# R²


def test_it_is_the_square_of_the_mean_correlation_and_its_interval_is_a_jackknife_of_units():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 12))
    y = x + rng.standard_normal((3, 12))
    estimate = explained(x, y)
    each = np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(x, y, strict=True)])
    assert estimate.r_squared == pytest.approx(np.tanh(np.arctanh(each).mean()) ** 2)
    assert estimate.over_draws == pytest.approx((each**2).std(ddof=1))
    assert (estimate.draws, estimate.units, estimate.reason) == (3, 12, Reason.NONE)
    cut = [[np.corrcoef(np.delete(a, i), np.delete(b, i))[0, 1] for a, b in zip(x, y, strict=True)] for i in range(12)]
    left = np.arctanh(cut).mean(1)
    error = np.sqrt(11 / 12 * ((left - left.mean()) ** 2).sum())
    bounds = np.tanh(np.arctanh(each).mean() + np.array([-1, 1]) * 2.20098516 * error)  # Student's t, 11 degrees
    assert (estimate.low, estimate.high) == pytest.approx(tuple(bounds**2))
    falling = explained(x, -y)
    assert (falling.r_squared, falling.low, falling.high) == pytest.approx(
        (estimate.r_squared, estimate.low, estimate.high)
    )
    assert falling.correlation == pytest.approx(-estimate.correlation)


def test_a_line_explains_everything_and_a_unit_without_a_value_is_left_out():
    x = np.array([[1.0, 2.0, 4.0, 8.0, 9.0, np.nan], [2.0, 1.0, 5.0, 7.0, np.inf, 3.0]])
    estimate = explained(x, 3 - 2 * x)
    assert (estimate.units, estimate.r_squared) == (4, pytest.approx(1))
    assert estimate.correlation == pytest.approx(-1)
    assert estimate.low == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(("units", "value", "reason"), [(3, 1.0, Reason.TOO_FEW_UNITS), (5, 0.0, Reason.NO_VARIATION)])
def test_where_there_is_none_it_says_why(units, value, reason):
    x = value * np.arange(units, dtype=float)[None]
    estimate = explained(x, np.random.default_rng(0).standard_normal((1, units)))
    assert np.isnan(estimate.r_squared)
    assert estimate.reason == reason


@pytest.mark.parametrize("value", [0.1, 7.7, 1e9 + 0.1])
def test_a_predictor_that_varies_by_rounding_only_explains_nothing(value):
    # no power of two divides the count, so that the mean of equal values is rounded
    y = np.random.default_rng(0).standard_normal((3, 11))
    estimate = explained(np.full((3, 11), value), y)
    assert np.isnan(estimate.r_squared)
    assert estimate.reason == Reason.NO_VARIATION
    assert np.isnan(difference(np.full((3, 11), value), y, y)).all()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_r_squared_does_not_depend_on_units(scale):
    x, y = np.random.default_rng(0).standard_normal((2, 3, 11))
    assert vars(explained(scale * x, y)) == pytest.approx(vars(explained(x, y)))


def pairs(rho, skewed=0.0):
    """Pairs of normal numbers of this correlation; skewed: then the first as exp(skewed · it)."""

    def made(rng, count):
        x = rng.standard_normal(count)
        y = rho * x + np.sqrt(1 - rho**2) * rng.standard_normal(count)
        return np.exp(skewed * x) if skewed else x, y

    return made


def squared(x, y):
    x, y = (each - each.mean(-1, keepdims=True) for each in (x, y))
    return np.asarray((x * y).sum(-1) ** 2 / ((x * x).sum(-1) * (y * y).sum(-1)))


@pytest.mark.parametrize(
    ("made", "least", "bootstrap"),
    [(pairs(0.0), 0.93, 0.0), (pairs(0.6), 0.91, 0.91), (pairs(0.93), 0.92, 0.95), (pairs(0.95, 0.7), 0.83, 0.75)],
)
def test_intervals_over_twenty_units_hold_the_population_as_often_as_said(made, least, bootstrap):
    """0.95 is claimed. bootstrap: the percentile bootstrap of the same samples holds it at most so often."""
    rng = np.random.default_rng(1)
    truth = float(squared(*made(rng, 2_000_000)))
    inside, inside_bootstrap = [], []
    for _ in range(400):
        x, y = made(rng, 20)
        estimate = explained(x[None], y[None])
        inside.append(estimate.low <= truth + 1e-6 and truth <= estimate.high)
        drawn = rng.integers(0, 20, (300, 20))
        low, high = np.quantile(squared(x[drawn], y[drawn]), [0.025, 0.975])
        inside_bootstrap.append(low <= truth <= high)
    assert np.mean(inside) >= least
    assert np.mean(inside_bootstrap) <= bootstrap


def test_the_difference_of_two_predictors_holds_its_value():
    """y = a + b + noise: a line in a explains 1/3, one in a + b explains 2/3."""
    rng, inside = np.random.default_rng(2), []
    for _ in range(400):
        a, b, noise = rng.standard_normal((3, 1, 20))
        result, low, high = difference(a + b, a, a + b + noise)
        assert low < result < high
        inside.append(low <= 1 / 3 <= high)
    assert np.mean(inside) >= 0.9
