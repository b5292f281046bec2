"""The posterior of a surface: hyperparameters by importance sampling about their mode, and joint sample paths."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from raysweep.fits.surface.cells import TOP, Cells
from raysweep.fits.surface.model import TAILS, Model, State, Weights

ROUNDS = 4
PRIOR_CELLS = 6.0  # what the noise shared by all slices counts in that of one slice
TRIED, KEPT = 64, 12  # hyperparameters drawn about the mode, and kept in proportion to their posterior
WIDER = 1.2  # than the Laplace approximation
MOST = 2e7  # entries of covariances held at once


@dataclass(frozen=True, eq=False)
class Posterior:
    """states: given each of KEPT draws of the hyperparameters. mode: their most likely value. given: the weights."""

    model: Model
    given: Weights
    mode: np.ndarray
    states: tuple[State, ...]

    @property
    def cells(self) -> Cells:
        """The data."""
        return self.model.cells

    def paths(self, z: np.ndarray, count: int, seed: int = 0, of: np.ndarray | None = None) -> np.ndarray:
        """Joint draws of each slice's surface, (slices, paths, points), at z[slices, points, axes], in the units of g.

        count: at least so many paths, equally many given each state. of: the slices of z; None for all.
        """
        slices, points, _ = z.shape
        of = np.arange(slices) if of is None else of
        each = -(-count // len(self.states))
        out = np.empty((slices, each * len(self.states), points))
        step = max(int(MOST / points**2), 1)
        normal = np.random.default_rng(seed)
        for first in range(0, slices, step):
            part = slice(first, min(first + step, slices))
            for k, state in enumerate(self.states):
                mean, covariance = self.model.at_points(state, z[part], of[part])
                spread = covariance()
                jitter = 1e-8 * np.maximum(np.einsum("snn->s", spread) / points, 1e-12)
                root = rooted(spread, jitter)
                random = normal.standard_normal((len(mean), each, points))
                out[part, k * each : (k + 1) * each] = mean[:, None] + random @ np.swapaxes(root, 1, 2)
        return out


def rooted(covariance: np.ndarray, jitter: np.ndarray) -> np.ndarray:
    """A square root of each covariance[slices, n, n]; more jitter where rounding left one indefinite."""
    eye = np.eye(covariance.shape[1])
    for _ in range(4):
        try:
            return np.linalg.cholesky(covariance + jitter[:, None, None] * eye)
        except np.linalg.LinAlgError:
            jitter = 30 * jitter
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0))[:, None, :])


def posterior_of(cells: Cells, seed: int = 0) -> Posterior:
    """Fit the hyperparameters and draw from their posterior."""
    model = Model(cells)
    shape = cells.there.shape
    # at first alike everywhere: heights of the data would make the noise of each cell what its own error is
    given = Weights(np.ones(shape) * cells.there, np.ones(shape), np.ones(shape[0]))
    theta = model.centre
    for _ in range(ROUNDS):
        theta = minimize(
            model.objective, theta, (given,), jac=True, method="L-BFGS-B", options={"maxiter": 40, "ftol": 1e-7}
        ).x
        given = updated(model, theta, given)
    theta = minimize(model.objective, theta, (given,), jac=True, method="L-BFGS-B").x
    states = tuple(model.state(each, given) for each in draws_of(model, theta, given, seed))
    return Posterior(model, given, theta, states)


def updated(model: Model, theta: np.ndarray, given: Weights) -> Weights:
    """Heights, weights and scales from the surface given theta."""
    cells = model.cells
    mean, variance = model.at_cells(model.state(theta, given))
    if cells.compressed:
        height = np.maximum(mean - np.where(cells.there, mean, np.inf).min(axis=1, keepdims=True), 0)
        height = np.minimum(height, TOP) * cells.there
    else:
        height = np.abs(mean)
    given = replace(given, height=height)
    if cells.errors_known:
        return given
    misfit = ((cells.g - mean) ** 2 + variance) * ~cells.lost * cells.there
    expected = np.einsum("snn->sn", model.noise(theta, replace(given, weight=np.ones_like(height))))
    tails = TAILS * cells.count
    weight = np.where(cells.lost, 1.0, (tails + 1) / (tails + misfit / expected))
    scale = given.scale
    if len(scale) > 2:
        run = model.run_variance(theta, height, np.ones_like(scale)) + 1e-12
        inner = np.einsum("snn->sn", cells.runs.scatter) * cells.runs.complete + cells.runs.squares
        degrees = cells.runs.degrees + cells.runs.draws[:, None] * cells.runs.complete
        parts = (weight * misfit * cells.count / run + inner / run).sum(axis=1)
        scale = (PRIOR_CELLS + parts) / (PRIOR_CELLS + ((cells.there & ~cells.lost) + degrees).sum(axis=1))
        scale /= np.exp(np.log(scale).mean())
    return replace(given, weight=weight, scale=scale)


def draws_of(model: Model, mode: np.ndarray, given: Weights, seed: int) -> np.ndarray:
    """Draws of the hyperparameters, (KEPT, hyperparameters): a Laplace approximation, resampled by importance."""
    step, size = 0.02, len(mode)
    lines = [model.objective(mode + s * step * unit, given)[1] for unit in np.eye(size) for s in (1, -1)]
    curvature = (np.array(lines[::2]) - np.array(lines[1::2])) / (2 * step)
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    root = vectors / np.sqrt(np.maximum(values, model.width.max() ** -2.0))
    rng = np.random.default_rng(seed)
    z = np.clip(WIDER * rng.standard_normal((TRIED, size)), -3, 3)
    tried = mode + z @ root.T
    density = np.array([-model.objective(theta, given)[0] for theta in tried]) + 0.5 * np.sum((z / WIDER) ** 2, axis=1)
    weight = np.exp(density - density.max())
    weight = np.minimum(weight, weight.mean() * np.sqrt(TRIED))  # truncated importance sampling (Ionides 2008)
    places = (rng.random() + np.arange(KEPT)) / KEPT
    return np.asarray(tried[np.searchsorted(np.cumsum(weight) / weight.sum(), places).clip(max=TRIED - 1)])
