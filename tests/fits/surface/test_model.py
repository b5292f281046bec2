"""The Gaussian process of a surface against closed forms and another implementation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import kstest, multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern
from surfaces import parabola, sweep

from raysweep.fits.surface.cells import Cells, cells_of
from raysweep.fits.surface.model import LEVEL, TAILS, Model, Weights
from raysweep.fits.surface.paths import posterior_of


def plain(cells: Cells) -> Weights:
    """Weights of 1 and heights of the data."""
    return Weights(np.abs(cells.g), np.ones(cells.g.shape), np.ones(len(cells.g)))


def theta_of(model: Model, **values: float) -> np.ndarray:
    """Hyperparameters at their prior medians, but for those given."""
    theta = model.centre.copy()
    for name, value in values.items():
        theta[model.names == name] = np.log(value / (1 - value) if name == "rough" else value)
    return theta


def two_axes(runs: int = 1) -> Cells:
    """Three slices of 20 cells."""
    frame = sweep(parabola, slices=12, rates=5, runs=runs)
    frame = frame.assign(batch=2.0 ** (frame["slice"] % 4), slice=(frame["slice"] - 1) // 4)
    return cells_of(frame, ["rate", "batch"], "loss", ["slice"], "seed")


def test_it_predicts_as_another_gaussian_process_does() -> None:
    frame = sweep(parabola, slices=1).assign(error=0.1)
    cells = cells_of(frame, ["rate"], "loss", [], error="error", compressed=False)
    model = Model(cells)
    state = model.state(theta_of(model, tau=1e-6, length=0.6, size=0.8, rough=1e-9), plain(cells))
    at = np.linspace(-1, 1, 7)
    mean, covariance = model.at_points(state, at[None, :, None], np.array([0]))
    flat = ConstantKernel(1e4) * DotProduct(1.0) ** 2  # an almost flat prior of quadratics, as that of mu
    other = GaussianProcessRegressor(flat + 0.64 * Matern(0.6, nu=2.5), alpha=cells.variance[0], optimizer=None)
    expected, spread = other.fit(cells.z[0], cells.g[0]).predict(at[:, None], return_cov=True)
    assert mean[0] == pytest.approx(expected, abs=2e-3)
    assert covariance()[0] == pytest.approx(spread, abs=2e-4)


def test_its_likelihood_is_that_of_one_normal_distribution_of_all_data() -> None:
    cells = cells_of(sweep(parabola, slices=3, rates=6), ["rate"], "loss", ["slice"])
    model, given = Model(cells), plain(cells)
    theta = theta_of(model, tau=0.4, size=0.3)
    slices, n = cells.g.shape
    h = np.concatenate(model.basis)
    covariance = 1e4 * h @ h.T
    for s in range(slices):
        part = slice(s * n, (s + 1) * n)
        own = model.basis[s] @ np.diag([LEVEL**2, 0.16, 0.16]) @ model.basis[s].T
        r = np.abs(cells.z[s] - cells.z[s].T) / 0.7
        smooth = (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)
        rough = (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)
        variance = 0.05**2 + (0.1 * given.height[s]) ** 2 + cells.variance[s] + 1e-9
        covariance[part, part] += own + 0.09 * 0.5 * (smooth + rough) + np.diag(variance)
    exact = -multivariate_normal.logpdf(cells.g.ravel(), np.zeros(slices * n), covariance)
    shared = 3 * np.log(100) + 0.5 * slices * n * np.log(2 * np.pi)
    assert model.state(theta, given).value + shared == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("kind", ["one run", "draws", "two axes", "two axes, draws", "draws of their own"])
def test_its_gradient_is_that_of_finite_differences(kind: str) -> None:
    if kind.startswith("two axes"):
        cells = two_axes(3 if "draws" in kind else 1)
    else:
        frame = sweep(parabola, slices=3, rates=6, runs=1 if kind == "one run" else 3)
        cells = cells_of(frame.drop(index=[2, 3]), ["rate"], "loss", ["slice"], "seed" if kind == "draws" else None)
    model = Model(cells)
    rng = np.random.default_rng(0)
    given = replace(plain(cells), weight=rng.uniform(0.5, 1.5, cells.g.shape), scale=np.array([0.5, 1.0, 2.0]))
    theta = model.centre + 0.3 * rng.standard_normal(len(model.centre))
    numeric = approx_fprime(theta, lambda at: model.objective(at, given)[0], 1e-6)
    assert model.objective(theta, given)[1] == pytest.approx(numeric, rel=1e-4, abs=1e-3)


@pytest.mark.long
def test_simulated_surfaces_rank_uniformly_among_the_paths_fitted_to_them() -> None:
    template = cells_of(sweep(parabola, slices=8, rates=9), ["rate"], "loss", ["slice"], compressed=False)
    model, rng, ranks = Model(template), np.random.default_rng(0), []
    grid = np.tile(np.linspace(-1, 1, 5)[:, None], (8, 1, 1))
    at = np.concatenate([template.z, grid], axis=1)
    h = np.stack([np.ones_like(at[..., 0]), at[..., 0], at[..., 0] ** 2], axis=-1)
    for _ in range(60):
        theta = model.centre + 0.5 * model.width * rng.standard_normal(len(model.centre))
        prior = model.prior(theta, at, at, h, h) + 1e-8 * np.eye(at.shape[1])
        f = np.einsum("snm,sm->sn", np.linalg.cholesky(prior), rng.standard_normal(at.shape[:2])) + h @ [0, 0, 2.0]
        height = np.abs(f[:, :9])
        deviation = np.sqrt(model.run_variance(theta, height, np.ones(8)))
        g = f[:, :9] + deviation * rng.standard_t(TAILS, height.shape)
        paths = posterior_of(replace(template, g=g)).paths(grid, 240)
        ranks.append((paths[..., ::2] < f[:, None, 9::2]).mean(axis=1).ravel()[rng.permutation(24)[:4]])
    assert kstest(np.concatenate(ranks), "uniform").pvalue > 0.01
    share = np.mean(np.abs(np.concatenate(ranks) - 0.5) <= 0.475)
    assert 0.9 <= share <= 0.985
