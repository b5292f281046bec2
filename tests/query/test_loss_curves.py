"""How losses go on along a length: against brute force, and how often the intervals hold a new value."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm

from benchmarks.forecasts import OTHERS, OWN, measured
from raysweep.query import loss_curves
from raysweep.query.loss_curves import FACTOR, FORMS, LIMIT, NOISES, TYPICAL, WIDE, fit_losses

LOGS = np.linspace(0, np.log(100), 8)


@pytest.mark.long
def test_a_power_law_alone_forecasts_as_brute_force_does(monkeypatch):
    losses = 2 + np.exp(-0.4 * LOGS) + 0.02 * np.random.default_rng(3).standard_normal(8)
    monkeypatch.setattr(loss_curves, "FORMS", FORMS[:1])
    monkeypatch.setattr(loss_curves, "APART", 1e-3)
    (curve,) = fit_losses([(LOGS, losses)])
    at = LOGS[-1] + np.log(2)
    drawn = curve.at(np.array([at]), np.random.default_rng(0))[:, 0]

    y, v = (losses - losses.mean()) / np.ptp(losses), np.r_[LOGS, at] / LOGS[-1]
    weights, means, deviations = [], [], []
    for z in np.linspace(-LIMIT, LIMIT, 201):
        rate = 2 * np.exp(z)
        x = np.column_stack([np.ones(9), (np.exp(-rate * v) - np.exp(-rate)) / (1 - np.exp(-rate))])
        for noise in NOISES:
            joint = WIDE**2 * x @ x.T + noise**2 * np.eye(9)
            gain = np.linalg.solve(joint[:8, :8], joint[:8, 8])
            prior = norm.logpdf(z) + norm.logpdf(np.log(noise / TYPICAL) / FACTOR)
            weights.append(multivariate_normal.logpdf(y, cov=joint[:8, :8]) + prior)
            means.append(gain @ y)
            deviations.append(np.sqrt(joint[8, 8] - gain @ joint[:8, 8]))
    weight, values = np.exp(np.array(weights) - max(weights)), np.linspace(-0.6, -0.2, 2001)
    below = weight @ norm.cdf((values - np.array(means)[:, None]) / np.array(deviations)[:, None]) / weight.sum()
    for share in (0.05, 0.5, 0.95):
        exact = losses.mean() + np.ptp(losses) * np.interp(share, below, values)
        assert np.quantile(drawn, share) == pytest.approx(exact, abs=0.003)


@pytest.mark.parametrize(
    ("family", "losses"),
    [
        ("power law", 2 + np.exp(-0.8 * LOGS)),
        ("broken power law", 2 + np.exp(-1.2 * LOGS + 1.1 * np.logaddexp(0, 8 * (LOGS - 1.5)) / 8)),
        ("U-shape", 2 + 0.1 * (LOGS - 2.5) ** 2),
        ("S-shape", 2 - 0.05 * np.exp(0.8 * LOGS)),
        ("S-shape", 2 + np.exp(-np.exp(LOGS) / 50)),
    ],
)
def test_a_clear_form_gets_the_largest_share(family, losses):
    (curve,) = fit_losses([(LOGS, losses + 0.003 * np.random.default_rng(0).standard_normal(8))])
    assert max(curve.families, key=lambda name: curve.families[name]) == family
    assert sum(curve.families.values()) == pytest.approx(1)


def test_a_loss_that_falls_exponentially_to_a_floor_ends_there():
    rng = np.random.default_rng(0)
    (curve,) = fit_losses([(LOGS, 2 + np.exp(-np.exp(LOGS) / 50) + 0.003 * rng.standard_normal(8))])
    low, high = np.quantile(curve.at(LOGS[-1] + np.log([4, 8]), rng), [0.025, 0.975], axis=0)
    assert ((low < 2) & (high > 2)).all()


@pytest.mark.long
def test_intervals_hold_new_values_of_all_forms_as_often_as_they_say():
    table = pd.concat([measured(name, k) for name in OWN | OTHERS for k in range(100, 103)])
    shares = table.groupby("where")["inside"].mean()
    assert len(table) > 100
    assert shares["inside"] > 0.88
    assert shares["at 2 times the longest"] > 0.85
    inside = table[table["where"] == "inside"]
    assert inside.groupby("noise")["width"].median().max() < 0.6  # and say something
    assert (inside["width"] < 4 * inside["noise"] + 0.5).all()


def test_the_interval_grows_with_the_distance_and_with_the_noise():
    rng = np.random.default_rng(0)
    at, widths = LOGS[-1] + np.log([1, 2, 8]), []
    for noise in (0.005, 0.05):
        (curve,) = fit_losses([(LOGS, 2 + np.exp(-0.4 * LOGS) + noise * rng.standard_normal(8))])
        widths.append(np.ptp(np.quantile(curve.at(at, rng), [0.025, 0.975], axis=0), axis=0))
    assert (np.diff(widths, axis=1) > 0).all()
    assert (widths[1] > 2 * widths[0]).all()


def test_equal_losses_and_a_unit_change_nothing_but_the_scale():
    (level,) = fit_losses([(LOGS, np.full(8, 3.0))])
    assert level.at(LOGS[-1:] + 1, np.random.default_rng(0)) == pytest.approx(3)
    losses = 2 + np.exp(-LOGS) + 0.01 * np.random.default_rng(1).standard_normal(8)
    (one,), (other,) = fit_losses([(LOGS, losses)]), fit_losses([(LOGS + 5, 1000 * losses)])
    drawn = [curve.at(np.array([at]), np.random.default_rng(0)) for curve, at in ((one, 5.0), (other, 10.0))]
    assert drawn[1] == pytest.approx(1000 * drawn[0])
