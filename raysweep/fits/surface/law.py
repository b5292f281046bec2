"""The best value of an axis as a product of powers of the slices' axes, off the joint draws of the slices' places.

log best_s ~ N(constant + sum_k exponent_k log axis_ks, scatter²). A slice is its draws of the place, not a point: the
likelihood of the law is the mean over these draws, and draws at an end of the grid say "there or beyond". The law is
drawn by importance resampling from a t distribution around its mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr

from raysweep.fits.reasons import Reason
from raysweep.fits.statistics import LEVEL

INNER = 48  # draws of a slice's place inside of its grid, evenly by rank
BLUR = 0.3  # the width of each, a normal distribution, in standard deviations of all of them
SCATTER = 0.5  # the half-normal prior of the scatter of slices around the law, in log
BEYOND = 0.5  # grid lengths beyond either end at which the place may lie, all equally likely a priori
SPARE = 2  # a law needs as many slices more than coefficients
PROPOSED, KEPT, DEGREES = 4000, 2000, 5
ROUNDS = 2


@dataclass(frozen=True, eq=False)
class Place:
    """Where a slice is best, on a log scale."""

    draws: np.ndarray  # inside of its grid
    low: float  # low, high: the ends of the grid
    high: float
    below: float  # below, above: the share of all draws at each end
    above: float
    common: float = 0.0  # a standard error that all slices share, as far as their curves have one form


@dataclass(frozen=True, eq=False)
class Law:
    """Draws of a law."""

    coefficients: np.ndarray  # (draws, 1 + axes): the log of the best value at the centre, then the exponents
    scatter: np.ndarray  # (draws,)
    likely: np.ndarray  # (draws, slices), the log likelihood of each slice
    logs: np.ndarray  # (slices, axes), the logs of their axes
    reason: Reason = Reason.NONE  # why there is no law; then there are no draws

    def at(self, logs: np.ndarray, rng: np.random.Generator, *, new: bool = True) -> np.ndarray:
        """Draws of the log of the best value where the axes have these logs (points, axes): (draws, points).

        new: of a new slice there, with its scatter; else of the law itself.
        """
        places = self.coefficients @ np.column_stack([np.ones(len(logs)), logs - self.logs.mean(0)]).T
        return places + self.scatter[:, None] * rng.standard_normal(places.shape) if new else places

    def without(self, s: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of the log of the best value of the slice s as a new one, from the other slices: (draws,)."""
        weight = np.exp(-self.likely[:, s] + self.likely[:, s].min())
        some = rng.choice(len(weight), len(weight), p=weight / weight.sum())
        return self.at(self.logs[[s]], rng)[some, 0]

    def exponents(self, level: float = LEVEL) -> np.ndarray:
        """(low, median, high, p) of each exponent, p two-sided of 0: (4, axes); NaN without a law."""
        values = self.coefficients[:, 1:]
        if not len(values):
            return np.full((4, values.shape[1]), np.nan)
        interval = np.quantile(values, [(1 - level) / 2, 0.5, (1 + level) / 2], axis=0)
        p = 2 * np.minimum((values > 0).mean(0), (values < 0).mean(0))
        return np.vstack([interval, np.maximum(p, 1 / len(values))])


def fit_law(places: Sequence[Place], axes: np.ndarray, seed: int = 0) -> Law:
    """Draw the law. axes: (slices, axes), above 0.

    There is none with fewer slices than coefficients and `SPARE`, or if the axes vary together.
    """
    logs = np.log(np.asarray(axes, dtype=float))
    size = logs.shape[1] + 1
    design = np.column_stack([np.ones(len(logs)), logs - logs.mean(0)]) if len(logs) else np.empty((0, size))
    reason = Reason.NONE
    if len(places) < size + SPARE:
        reason = Reason.TOO_FEW_SLICES
    elif np.linalg.matrix_rank(design, tol=1e-6 * np.sqrt(len(logs))) < size:
        reason = Reason.AXES_TOGETHER
    if reason:
        return Law(np.empty((0, size)), np.empty(0), np.empty((0, len(logs))), logs, reason)
    data = _data(places)
    theta = _mode(data, design)
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(_covariance(lambda one: -_value(data, design, one[None])[0], theta))
    for _ in range(ROUNDS):  # the second proposal has the moments of the first one's draws
        z = rng.standard_normal((PROPOSED, size + 1))
        t = z / np.sqrt(rng.chisquare(DEGREES, (PROPOSED, 1)) / DEGREES)
        some = theta + t @ root.T
        weight = _value(data, design, some) + 0.5 * (DEGREES + size + 1) * np.log1p((t**2).sum(1) / DEGREES)
        weight = np.exp(weight - logsumexp(weight))
        theta = weight @ some
        root = np.linalg.cholesky((some - theta).T @ ((some - theta) * weight[:, None]) + 1e-10 * np.eye(size + 1))
    kept = some[rng.choice(PROPOSED, KEPT, p=weight)]
    likely = _likely(data, design, kept)
    kept[:, 0] += np.median([place.common for place in places]) * rng.standard_normal(KEPT)
    return Law(kept[:, :-1], np.exp(kept[:, -1]), likely, logs)


def held_out(places: Sequence[Place], axes: np.ndarray, out: np.ndarray, level: float, seed: int = 0) -> np.ndarray:
    """Whether the interval of a new slice, from the law of the other slices, holds each slice that is held out: NaN
    where there is no law. out: which slices are held out at once, (slices,) of bool."""
    kept = [place for place, gone in zip(places, out, strict=True) if not gone]
    law = fit_law(kept, axes[~out], seed)
    if law.reason:
        return np.full(int(out.sum()), np.nan)
    rng = np.random.default_rng(seed)
    new = law.at(np.log(axes[out]), rng)
    return np.array(
        [inside(places[s], new[:, k], level, rng) for k, s in enumerate(np.flatnonzero(out).tolist())], dtype=float
    )


def inside(place: Place, new: np.ndarray, level: float, rng: np.random.Generator) -> bool:
    """Whether draws of a forecast and of a place are as near as their spread allows. new: (draws,), in log."""
    share = max(1 - place.below - place.above, 0.0)
    draws = rng.choice(place.draws, len(new)) if len(place.draws) else new
    larger = share * (draws > new).mean() + place.above * (0.5 + 0.5 * (new < place.high).mean())
    larger += place.below * 0.5 * (new < place.low).mean()
    tail = (1 - level) / 2
    return bool(tail <= larger <= 1 - tail)


@dataclass(frozen=True, eq=False)
class _Data:
    """The slices as arrays."""

    centres: np.ndarray  # (slices, INNER), of the draws inside
    inner: np.ndarray  # (slices,), the log weight of each of them
    width: np.ndarray  # (slices,), that of each of them
    edges: np.ndarray  # (slices, 2), the ends of the grids
    outer: np.ndarray  # (slices, 2), the log weights beyond them


def _data(places: Sequence[Place]) -> _Data:
    centres, inner, width = np.zeros((len(places), INNER)), np.full(len(places), -np.inf), np.ones(len(places))
    ranks = (np.arange(INNER) + 0.5) / INNER
    for s, place in enumerate(places):
        if len(place.draws):
            mean, sd = place.draws.mean(), max(float(place.draws.std()), 1e-6)
            width[s] = BLUR * sd
            centres[s] = mean + (np.quantile(place.draws, ranks) - mean) * np.sqrt(1 - BLUR**2)
            inner[s] = np.log(max(1 - place.below - place.above, 1e-12) / INNER)
    edges = np.array([(place.low, place.high) for place in places])
    shares = np.array([(place.below, place.above) for place in places])
    with np.errstate(divide="ignore"):
        outer = np.log(shares / (BEYOND * np.maximum(np.ptp(edges, axis=1), 1e-9))[:, None])
    return _Data(centres, inner, width, edges, outer)


def _value(data: _Data, design: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The log posterior of draws (n, coefficients and the log of the scatter), up to a constant: (n,)."""
    prior = theta[:, -1] - 0.5 * (np.exp(np.clip(theta[:, -1], -12, 5)) / SCATTER) ** 2
    return np.asarray(_likely(data, design, theta).sum(1) + prior)


def _likely(data: _Data, design: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The log likelihood of each slice: (n, slices)."""
    out = []
    for some in np.array_split(theta, max(1, len(theta) * len(design) // 20_000)):
        mean, scatter = some[:, :-1] @ design.T, np.exp(np.clip(some[:, -1:], -12, 5))
        spread = np.sqrt(scatter**2 + data.width**2)  # (n, slices)
        z = (data.centres - mean[..., None]) / spread[..., None]
        inside = logsumexp(-0.5 * z**2, axis=-1) - np.log(spread * np.sqrt(2 * np.pi)) + data.inner
        with np.errstate(divide="ignore"):
            below = data.outer[:, 0] + np.log(ndtr((data.edges[:, 0] - mean) / scatter))
            above = data.outer[:, 1] + np.log(ndtr((mean - data.edges[:, 1]) / scatter))
        out.append(np.maximum(np.logaddexp(inside, np.logaddexp(below, above)), -1e4))
    return np.concatenate(out)


def _mode(data: _Data, design: np.ndarray) -> np.ndarray:
    """The most likely coefficients and log scatter, from a line through the middles of the slices."""
    from scipy.optimize import minimize  # slow to load, and figures of other analyses load this file

    middle = np.where(np.isfinite(data.inner), data.centres.mean(1), data.edges.mean(1))
    middle = np.where(data.outer[:, 0] > data.inner + np.log(INNER), data.edges[:, 0], middle)
    middle = np.where(data.outer[:, 1] > data.inner + np.log(INNER), data.edges[:, 1], middle)
    line, *_ = np.linalg.lstsq(design, middle, rcond=None)
    start = np.r_[line, np.log(0.2)]
    optimum = minimize(
        lambda one: -_value(data, design, one[None])[0],
        start,
        method="Nelder-Mead",
        options={"maxiter": 4000, "fatol": 1e-4, "xatol": 1e-4},
    )
    return np.asarray(optimum.x)


def _covariance(objective: Callable[[np.ndarray], float], mode: np.ndarray, step: float = 1e-2) -> np.ndarray:
    """The inverse of the Hessian of an objective at its mode, with eigenvalues that a proposal can have."""
    size = len(mode)
    moves = step * np.eye(size)
    hessian = np.empty((size, size))
    for i in range(size):
        for j in range(i, size):
            corners = [objective(mode + a * moves[i] + b * moves[j]) * a * b for a in (-1, 1) for b in (-1, 1)]
            hessian[i, j] = hessian[j, i] = sum(corners) / (4 * step**2)
    values, vectors = np.linalg.eigh(hessian)
    return np.asarray((vectors / np.clip(values, 0.5, None)) @ vectors.T)
