"""The surface and the law at fixed hyperparameters, held against closed forms, scikit-learn and simulated ranks."""

import numpy as np
import pytest
from scipy.stats import chisquare, multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from raysweep.fits.surface.kernel import apart, matern
from raysweep.fits.surface.law import SCATTER, Place, fit_law
from raysweep.fits.surface.posterior import FLAT, SMALL, Cells, Sample, _padded, paths, state

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
    weights = np.r_[np.full(surface.h.shape[-1], 1e4), np.full(features.shape[-1] - surface.h.shape[-1], hypers.bend2)]
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


def drawn_exponents(count):
    """(true exponents, draws of their law), with the scatter drawn from its prior."""
    axes = np.array([(a, b) for a in (1.0, 3.0, 9.0, 27.0) for b in (1.0, 4.0, 16.0)])
    out = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        power, scatter = rng.uniform(-1, 1, 2), SCATTER * abs(rng.standard_normal())
        seen = np.log(axes) @ power + np.hypot(scatter, 0.2) * rng.standard_normal(len(axes))
        spread = 0.2 * rng.standard_normal((len(axes), 400))
        law = fit_law(
            [Place(place + shift, -20.0, 20.0, 0.0, 0.0) for place, shift in zip(seen, spread, strict=True)], axes
        )
        out.append((power, law.coefficients[:, 1:]))
    return out


def test_true_exponents_have_uniform_ranks_among_the_draws_of_a_law():
    drawn = drawn_exponents(80)

    def p_of_ranks(narrower):
        centred = [(power - values.mean(0), narrower * (values - values.mean(0))) for power, values in drawn]
        ranks = np.concatenate([(values < power).mean(0) for power, values in centred])
        return float(chisquare(np.histogram(ranks, bins=8, range=(0, 1))[0]).pvalue)

    assert p_of_ranks(1.0) > 0.001
    assert p_of_ranks(0.5) < 0.001
