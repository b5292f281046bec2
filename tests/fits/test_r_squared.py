"""R² over units: what it is, and how often its interval holds the value of the population."""

import numpy as np
import pytest

from raysweep.fits.r_squared import difference, explained
from raysweep.fits.reasons import Reason

pytestmark = pytest.mark.simulation  # of the fits alone: where they change


def test_it_is_the_mean_squared_correlation_and_its_interval_is_a_jackknife_of_units():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 12))
    y = x + rng.standard_normal((3, 12))
    estimate = explained(x, y)
    each = np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(x, y, strict=True)])
    assert estimate.r_squared == pytest.approx((each**2).mean())
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


def normal(rho, skewed=0.0):
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
    [(normal(0.0), 0.93, 0.0), (normal(0.6), 0.91, 0.91), (normal(0.93), 0.92, 0.95), (normal(0.95, 0.7), 0.83, 0.75)],
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
