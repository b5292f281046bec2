"""The surface and the law at fixed hyperparameters, held against closed forms, scikit-learn and simulated ranks; and
the law of best values: powers of the slices' axes, from one run per cell."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare, multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from raysweep.fits.reasons import Reason
from raysweep.fits.surface.kernel import apart, matern
from raysweep.fits.surface.law import SCATTER, Place, fit_law, held_out
from raysweep.fits.surface.posterior import FLAT, SMALL, Cells, Sample, _padded, paths, state
from raysweep.fits.surface.slice_places import slice_places

pytestmark = pytest.mark.simulation  # of the fits alone: where they change

SIZES = (7, 5)


def surface_of(rng):
    """Two slices of 7 and 5 cells of one axis."""
    x = np.concatenate([np.sort(rng.uniform(-1, 1, size)) for size in SIZES])
    count = len(x)
    return _padded(
        Cells(
            x=x[:, None],
            y=x**2 + 0.1 * rng.standard_normal(count),
            slices=np.repeat([0, 1], SIZES),
            draws=np.ones(count),
            scatter=np.zeros(count),
            error=np.full(count, np.nan),
            diverged=np.zeros(count, dtype=bool),
        )
    )


def test_the_marginal_likelihood_is_that_of_the_joint_normal_distribution_of_all_cells():
    surface = surface_of(np.random.default_rng(0))
    theta = surface.prior[:, 0] + 0.2
    now, hypers = state(surface, theta), surface.hypers(theta)
    cells = [(s, k) for s, size in enumerate(SIZES) for k in range(size)]
    features = surface.features(surface.x, surface.lowest)
    sizes = (surface.h.shape[-1], len(surface.nodes), len(surface.bends))
    weights = np.repeat([1e4, hypers.bump2, hypers.bend2], sizes)
    f, h = (np.array([each[s, k] for s, k in cells]) for each in (features, surface.h))
    same = np.equal.outer(*[[s for s, _ in cells]] * 2)
    x, g, noise = (
        np.array([each[s, k] for s, k in cells]) for each in (surface.x, surface.g, surface.noise(hypers) + SMALL)
    )
    smooth = hypers.amplitude2 * matern(apart(x, x, hypers.length)) + (h * hypers.tau2) @ h.T
    whole = (f * weights) @ f.T + same * smooth + np.diag(noise)
    expected = -multivariate_normal(np.zeros(len(g)), whole).logpdf(g) - 0.5 * len(g) * np.log(2 * np.pi)
    assert now.value == pytest.approx(expected, rel=1e-6)


def test_paths_have_the_moments_of_scikit_learns_gaussian_process():
    surface = surface_of(np.random.default_rng(1))
    theta = surface.prior[:, 0].copy()
    theta[:2] = -20.0  # slices differ by their level and smoothly, not by a slope
    now, hypers = state(surface, theta), surface.hypers(theta)
    surface.samples = [Sample(hypers, now.lower_inverse, now.mean, surface.lowest, now.rest)]
    points = np.linspace(-0.9, 0.9, 5)
    drawn = paths(surface, 1, points[:, None], 40_000, np.random.default_rng(0))
    shared = surface.features(surface.scaled(points[:, None]), surface.lowest[1]) @ now.mean
    x, cells = surface.x[1, : SIZES[1]], slice(0, SIZES[1])
    rest = surface.g[1, cells] - surface.features(x, surface.lowest[1]) @ now.mean
    kernel = ConstantKernel(FLAT) + ConstantKernel(hypers.amplitude2) * Matern(hypers.length, nu=2.5)
    noise = surface.noise(hypers)[1, cells] + SMALL
    oracle = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(x, rest)
    mean, covariance = oracle.predict(surface.scaled(points[:, None]), return_cov=True)
    error = np.sqrt(np.diag(covariance) / len(drawn))
    assert (np.abs(drawn.mean(0) - shared - mean) < 5 * error).all()
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.04 * covariance.max())


def test_true_exponents_have_uniform_ranks_among_the_draws_of_a_law():
    """With the scatter drawn from its prior."""
    axes = np.array([(a, b) for a in (1.0, 3.0, 9.0, 27.0) for b in (1.0, 4.0, 16.0)])
    drawn = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        power, scatter = rng.uniform(-1, 1, 2), SCATTER * abs(rng.standard_normal())
        seen = np.log(axes) @ power + np.hypot(scatter, 0.2) * rng.standard_normal(len(axes))
        spread = 0.2 * rng.standard_normal((len(axes), 400))
        law = fit_law(
            [Place(place + shift, -20.0, 20.0, 0.0, 0.0) for place, shift in zip(seen, spread, strict=True)], axes
        )
        drawn.append((power, law.coefficients[:, 1:]))

    def p_of_ranks(narrower):
        centred = [(power - values.mean(0), narrower * (values - values.mean(0))) for power, values in drawn]
        ranks = np.concatenate([(values < power).mean(0) for power, values in centred])
        return float(chisquare(np.histogram(ranks, bins=8, range=(0, 1))[0]).pvalue)

    assert p_of_ranks(1.0) > 0.001
    assert p_of_ranks(0.5) < 0.001


# The law of best values

POWERS = np.array([-0.6, 0.3])
AXES = np.array([(width, length) for width in np.geomspace(1, 100, 5) for length in np.geomspace(1, 30, 4)])


def places(seed, scatter=0.1, low=-9.0, high=-3.0):
    """Draws of the best values of slices that follow the powers, with errors of 0.15 and this scatter."""
    rng = np.random.default_rng(seed)
    truth = -5 + np.log(AXES) @ POWERS + scatter * rng.standard_normal(len(AXES))
    out = []
    for one in truth:
        draws = one + 0.15 * rng.standard_normal() + 0.15 * rng.standard_normal(500)
        inside = draws[(draws > low) & (draws < high)]
        out.append(Place(inside, low, high, float((draws <= low).mean()), float((draws >= high).mean())))
    return out


@pytest.mark.parametrize(("low", "high"), [(-9.0, -3.0), (-7.0, -5.0)])
def test_exponents_are_covered_whether_places_are_located_or_bounds(low, high):
    covered = []
    for seed in range(12):
        below, middle, above, p = fit_law(places(seed, low=low, high=high), AXES).exponents()
        covered += [*((below < POWERS) & (above > POWERS))]
        assert np.abs(middle - POWERS).max() < 0.3
        assert (p >= 1 / 2000).all()
    assert np.mean(covered) >= 0.83


def test_a_new_setting_lies_in_its_interval():
    covered = []
    for seed in range(12):
        law, rng = fit_law(places(seed), AXES), np.random.default_rng(seed)
        logs = np.log(np.array([[3.0, 5.0], [40.0, 2.0], [200.0, 60.0]]))
        new = -5 + logs @ POWERS + 0.1 * rng.standard_normal(3)
        low, high = np.quantile(law.at(logs, rng), [0.025, 0.975], axis=0)
        covered += [*((low < new) & (new < high))]
    assert np.mean(covered) >= 0.83


def test_held_out_slices_are_forecast_and_a_slice_that_breaks_the_law_is_not():
    every = places(3)
    largest = AXES[:, 0] == AXES[:, 0].max()
    assert held_out(every, AXES, largest, 0.95).mean() >= 0.75
    last = every[-1]
    every[-1] = Place(last.draws + 2, last.low, last.high, 0.0, 0.0)
    assert held_out(every, AXES, np.arange(len(AXES)) == len(AXES) - 1, 0.95).tolist() == [0.0]


def test_an_axis_that_does_not_belong_has_a_power_that_holds_zero():
    more = np.column_stack([AXES, np.tile([1.0, 7.0, 2.0, 5.0, 3.0], 4)])
    low, _, high, p = fit_law(places(1), more).exponents()
    assert low[2] < 0 < high[2]
    assert p[2] > 0.05
    assert (p[:2] < 0.01).all()


def test_two_axes_have_their_best_values_jointly():
    rng = np.random.default_rng(0)
    rates, batches = np.geomspace(1e-4, 1e-1, 9), np.geomspace(8, 512, 7)
    lines = []
    for width in (1.0, 2.0, 4.0, 8.0, 16.0):
        for lr in rates:
            for batch in batches:
                a, b = np.log(lr / (4e-3 / width**0.5)), np.log(batch / 64)
                loss = 2 + 0.1 * a**2 + 0.1 * b**2 - 0.1 * a * b + 0.02 * rng.standard_normal()
                lines.append({"width": width, "lr": lr, "batch": batch, "loss": loss})
    result = slice_places(pd.DataFrame(lines), ["lr", "batch"], "loss", ["width"], turn="min")
    expected = [place for place in result.places if place is not None]
    law = fit_law(expected, np.array(result.slices.settings))
    low, _, high, _ = law.exponents()
    assert low[0] < -0.5 < high[0]
    assert high[0] - low[0] < 0.6


def test_without_any_place_there_is_no_law():
    assert fit_law([], np.empty((0, 2))).reason == Reason.TOO_FEW_SLICES
