"""The Gaussian process of a surface: likelihood of its hyperparameters with gradient, and what it says at points.

In the units of `Cells`, the mean over draws of slice s is

    g_s(z) = h(z) (mu + b_s) + d_s(z),    b_s ~ N(0, diag tau^2),    d_s ~ GP(0, size^2 Matern),

with h a full quadratic; the Matern kernel is of order 5/2, and for a share `rough` of 3/2. A run deviates by noise of
variance scale_s (floor^2 + (growth x height)^2), Student's t of TAILS degrees by weights. Where draws share all cells
of a slice, a share of it is smooth in the draw. Of two axes, cells that share a value of one share noise too
(`line`: the same batches in the same order). Slices share all hyperparameters, and mu, which is integrated out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from raysweep.fits.surface.cells import Cells
from raysweep.fits.surface.covariance import (
    distances,
    matern,
    matern_slope,
    quadratic,
    rough_matern,
    rough_matern_slope,
)

TAILS = 4.0  # degrees of freedom of the noise of one run
LEVEL = 10.0  # standard deviation of the level of a slice, in units
LOST = 1e3  # standard deviation of g where it is lost: it says nothing of the surface beside it
PRIORS = {  # median and standard deviation of the logarithm (of SHARES: of the logit)
    "tau": (1.0, 1.5),
    "length": (0.7, 0.7),  # the axis is 2 long
    "size": (0.5, 1.0),
    "floor": (0.05, 1.5),
    "growth": (0.1, 1.0),
    "line": (0.02, 1.5),
    "rough": (0.5, 1.5),
    "share": (0.3, 1.5),
    "draw_length": (0.7, 0.7),
}
SHARES = ("rough", "share")


@dataclass(frozen=True, eq=False)
class Weights:
    """What is updated between fits of the hyperparameters.

    height: (slices, cells), of the mean surface above its lowest cell. weight: of each cell's noise, Student's t.
    scale: (slices,), variance of a slice relative to the shared one.
    """

    height: np.ndarray
    weight: np.ndarray
    scale: np.ndarray


@dataclass(frozen=True, eq=False)
class State:
    """The posterior given hyperparameters. chol_inverse: (slices, cells, cells), of the covariance of the data.
    mu, mu_covariance: of the shared quadratic. whitened: (slices, cells), data minus the mean, whitened; basis: the
    quadratic, whitened. value: minus the log likelihood."""

    theta: np.ndarray
    chol_inverse: np.ndarray
    mu: np.ndarray
    mu_covariance: np.ndarray
    whitened: np.ndarray
    basis: np.ndarray
    value: float


class Model:
    """Covariances of a surface as functions of hyperparameters theta (logarithms), and their likelihood."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.squares = distances(cells.z, cells.z)
        self.basis = quadratic(cells.z) * cells.there[..., None]
        self.terms, self.axes = self.basis.shape[-1], cells.z.shape[-1]
        self.both = cells.there[:, :, None] & cells.there[:, None, :]
        self.smooth_draws = bool(cells.runs.complete.any())
        names = ["tau"] * (self.terms - 1) + ["length"] * self.axes + ["size", "rough"]
        names += [] if cells.errors_known else ["floor", "growth"]
        names += ["line"] * self.axes if self.axes > 1 and not cells.errors_known else []
        names += ["share", *["draw_length"] * self.axes] if self.smooth_draws and not cells.errors_known else []
        self.names = np.array(names)
        centre = [PRIORS[name][0] for name in names]
        self.centre = np.array(
            [np.log(c / (1 - c) if name in SHARES else c) for c, name in zip(centre, names, strict=True)]
        )
        self.width = np.array([PRIORS[name][1] for name in names])
        self.eye = np.eye(cells.there.shape[1])
        self.lines = self.squares < 1e-12

    def part(self, theta: np.ndarray, name: str) -> np.ndarray:
        """The hyperparameters of one name, in their units; empty if the model has none."""
        values = theta[self.names == name]
        return np.asarray(1 / (1 + np.exp(-values)) if name in SHARES else np.exp(values))

    def tau_squared(self, theta: np.ndarray) -> np.ndarray:
        """(terms,), of each coefficient of the quadratic."""
        return np.concatenate([[LEVEL**2], self.part(theta, "tau") ** 2])

    def prior(self, theta: np.ndarray, a: np.ndarray, b: np.ndarray, ha: np.ndarray, hb: np.ndarray) -> np.ndarray:
        """Covariance of the surface between points a and b, whose quadratics are ha and hb."""
        length, size = self.part(theta, "length"), self.part(theta, "size")[0]
        squares, rough = np.tensordot(length**-2.0, distances(a, b), 1), self.part(theta, "rough")[0]
        kernel = (1 - rough) * matern(squares) + rough * rough_matern(squares)
        return np.asarray(size**2 * kernel + (ha * self.tau_squared(theta)) @ np.swapaxes(hb, -1, -2))

    def run_variance(self, theta: np.ndarray, height: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Variance of one run, (slices, ...), at these heights. scale: (slices,)."""
        if self.cells.errors_known:
            return np.zeros_like(height)
        floor, growth = self.part(theta, "floor")[0], self.part(theta, "growth")[0]
        return np.asarray((floor**2 + (growth * height) ** 2) * scale.reshape(-1, *[1] * (height.ndim - 1)))

    def draw_kernel(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """(share of the noise that is smooth in a draw, its correlation, squares of distance / length)."""
        if "share" not in self.names:
            return 0.0, self.eye, np.zeros(())
        squares = np.tensordot(self.part(theta, "draw_length") ** -2.0, self.squares, 1)
        return float(self.part(theta, "share")[0]), matern(squares), squares

    def noise(self, theta: np.ndarray, given: Weights) -> np.ndarray:
        """Covariance of the noise of the cells' means, (slices, cells, cells)."""
        cells, (share, kernel, _) = self.cells, self.draw_kernel(theta)
        variance = self.run_variance(theta, given.height, given.scale)
        deviation = np.sqrt(variance)
        common = share * cells.runs.shared * kernel * deviation[:, :, None] * deviation[:, None, :]
        if "line" in self.names:
            common = common + np.tensordot(self.part(theta, "line") ** 2, self.lines, 1)
        own = (1 - share) * variance / cells.count / given.weight + cells.variance + np.where(cells.lost, LOST**2, 0)
        return np.asarray(common + self.eye * (own + 1e-9)[:, None, :])

    def state(self, theta: np.ndarray, given: Weights) -> State:
        """The posterior given theta. Raises LinAlgError where a covariance is singular."""
        z, h = self.cells.z, self.basis
        covariance = np.where(self.both, self.prior(theta, z, z, h, h) + self.noise(theta, given), self.eye)
        root = np.linalg.cholesky(covariance)
        inverse = np.linalg.inv(root)
        basis, data = inverse @ h, np.einsum("snm,sm->sn", inverse, self.cells.g)
        precision = np.einsum("snp,snq->pq", basis, basis) + 1e-4 * np.eye(self.terms)
        mu = np.linalg.solve(precision, np.einsum("snp,sn->p", basis, data))
        whitened = data - basis @ mu
        value = (
            0.5 * np.sum(whitened**2) + np.log(np.einsum("snn->sn", root)).sum() + 0.5 * np.linalg.slogdet(precision)[1]
        )
        return State(theta, inverse, mu, np.linalg.inv(precision), whitened, basis, float(value))

    def objective(self, theta: np.ndarray, given: Weights) -> tuple[float, np.ndarray]:
        """Minus the log posterior of theta and its gradient; very large where a covariance is singular."""
        z = (theta - self.centre) / self.width
        try:
            state = self.state(theta, given)
            scatter, by_scatter = self.scatter(theta, given)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(theta)
        inverse = state.chol_inverse
        kh = np.swapaxes(inverse, 1, 2) @ np.concatenate([state.basis, state.whitened[..., None]], axis=-1)
        kb, alpha = kh[..., :-1], kh[..., -1:]
        change = np.swapaxes(inverse, 1, 2) @ inverse - kb @ state.mu_covariance @ np.swapaxes(kb, 1, 2)
        change = (change - alpha * np.swapaxes(alpha, 1, 2)) * self.both
        gradient = np.zeros_like(theta)
        tau2, length, size = self.tau_squared(theta), self.part(theta, "length"), self.part(theta, "size")[0]
        gradient[self.names == "tau"] = (tau2 * np.sum(self.basis * (change @ self.basis), axis=(0, 1)))[1:]
        squares = np.tensordot(length**-2.0, self.squares, 1)
        rough = self.part(theta, "rough")[0]
        steep = change * ((1 - rough) * matern_slope(squares) + rough * rough_matern_slope(squares))
        gradient[self.names == "length"] = [
            size**2 * np.sum(steep * d) / one**2 for d, one in zip(self.squares, length, strict=True)
        ]
        smooth, bent = np.sum(change * matern(squares)), np.sum(change * rough_matern(squares))
        gradient[self.names == "size"] = size**2 * ((1 - rough) * smooth + rough * bent)
        gradient[self.names == "rough"] = 0.5 * size**2 * rough * (1 - rough) * (bent - smooth)
        cells = self.cells
        if "line" in self.names:
            lines = np.array([np.sum(change * line) for line in self.lines])
            gradient[self.names == "line"] = self.part(theta, "line") ** 2 * lines
        own = self.eye / (cells.count * given.weight)[:, None, :]
        gradient += self.by_noise(theta, given, 0.5 * change, own, cells.runs.shared) + by_scatter
        return state.value + scatter + 0.5 * float(np.sum(z**2)), gradient + z / self.width

    def scatter(self, theta: np.ndarray, given: Weights) -> tuple[float, np.ndarray]:
        """Minus the log likelihood of the scatter of draws within cells, and its gradient."""
        cells = self.cells
        if cells.errors_known or not (cells.runs.degrees.any() or self.smooth_draws):
            return 0.0, np.zeros_like(theta)
        variance = self.run_variance(theta, given.height, given.scale) + cells.variance + 1e-9
        value = 0.5 * float(np.sum(cells.runs.degrees * np.log(variance) + cells.runs.squares / variance))
        change = self.eye * (0.5 * (cells.runs.degrees - cells.runs.squares / variance) / variance)[:, None, :]
        ones = np.ones((1, 1, 1))
        if not self.smooth_draws:
            return value, self.by_noise(theta, given, change, self.eye[None], ones)
        share, kernel, _ = self.draw_kernel(theta)
        inside = cells.runs.complete[:, :, None] & cells.runs.complete[:, None, :]
        deviation = np.sqrt(self.run_variance(theta, given.height, given.scale))
        outer = deviation[:, :, None] * deviation[:, None, :]
        covariance = outer * ((1 - share) * self.eye + share * kernel) + self.eye * (cells.variance + 1e-9)[:, None, :]
        covariance = np.where(inside, covariance, self.eye)
        inverse = np.linalg.inv(covariance)
        value += 0.5 * float(
            np.sum(cells.runs.draws * np.linalg.slogdet(covariance)[1]) + np.sum(inverse * cells.runs.scatter)
        )
        whole = cells.runs.draws[:, None, None] * inverse - inverse @ cells.runs.scatter @ inverse
        return value, self.by_noise(theta, given, change + 0.5 * whole * inside, self.eye[None], ones)

    def by_noise(
        self, theta: np.ndarray, given: Weights, change: np.ndarray, own: np.ndarray, shared: np.ndarray
    ) -> np.ndarray:
        """The gradient of sum(change * V), V = deviation deviation' ((1 - share) own + share shared kernel)."""
        out = np.zeros_like(theta)
        if self.cells.errors_known:
            return out
        share, kernel, squares = self.draw_kernel(theta)
        variance = self.run_variance(theta, given.height, given.scale)
        deviation = np.sqrt(variance)
        change = change * deviation[:, :, None] * deviation[:, None, :]
        common = shared * kernel if share else np.zeros((1, 1, 1))
        by_cell = np.sum(change * ((1 - share) * own + share * common), axis=2)
        floor = self.part(theta, "floor")[0] ** 2 * given.scale[:, None] / variance
        out[self.names == "floor"] = 2 * np.sum(by_cell * floor)
        out[self.names == "growth"] = 2 * np.sum(by_cell * (1 - floor))
        if share:
            out[self.names == "share"] = share * (1 - share) * np.sum(change * (common - own))
            steep = 2 * share * change * shared * matern_slope(squares)
            lengths = self.part(theta, "draw_length")
            out[self.names == "draw_length"] = [
                np.sum(steep * d) / one**2 for d, one in zip(self.squares, lengths, strict=True)
            ]
        return out

    def at_points(self, state: State, z: np.ndarray, slices: np.ndarray) -> tuple[np.ndarray, Callable[[], np.ndarray]]:
        """(mean, gives the covariance) of the surface at points z[slices, points, axes] of some slices."""
        h, theta = quadratic(z), state.theta
        cross = self.prior(theta, self.cells.z[slices], z, self.basis[slices], h) * self.cells.there[slices, :, None]
        solved = state.chol_inverse[slices] @ cross
        left = h - np.swapaxes(solved, 1, 2) @ state.basis[slices]
        mean = h @ state.mu + np.einsum("snm,sn->sm", solved, state.whitened[slices])

        def covariance() -> np.ndarray:
            own = self.prior(theta, z, z, h, h) - np.swapaxes(solved, 1, 2) @ solved
            return np.asarray(own + left @ state.mu_covariance @ np.swapaxes(left, 1, 2))

        return mean, covariance

    def at_cells(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the surface at the cells, (slices, cells) each."""
        mean, covariance = self.at_points(state, self.cells.z, np.arange(len(self.cells.z)))
        there = self.cells.there
        return mean * there, np.maximum(np.einsum("snn->sn", covariance()), 0) * there
