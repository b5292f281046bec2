"""The posterior of a surface, from one run per cell or more.

In compressed heights above the best cell of a slice, in units of the slice,

    g_s(x) = F(x - m_s) mu + H(x) b_s + d_s(x) + noise,   b_s ~ N(0, diag(tau²)),   d_s ~ GP(0, amplitude² Matérn 5/2)

H is a full quadratic. F is H, normal bumps at a grid of nodes around the lowest point m_s, and lines that begin at
knots near it: the form of the curve, a knee or a cusp included, is learned from all slices. Slopes change at knots by
Student's t with `BEND_DEGREES` degrees of freedom.
mu, tau, amplitude, the length scales and the noise are shared by all slices: how rough neighbouring cells are, over all
slices, says how large the noise is. A run's noise is Student's t with `DEGREES` degrees of freedom and the variance
base² + (growth · height)² in units of the slice, times a factor of its slice and one that drifts along the axes. Where
cells have several draws, their scatter informs the same variance. A cell that diverged, or is above `CAP`, is at least
that high.

Nodes and knots are placed on a fit without them, or the noise of the lowest cells would become a shape. Where
neighbouring cells agree no more than in any order, nothing is decided.

Hyperparameters have weak priors; answers use draws of their Laplace approximation, and at each of them draws of mu and
of the m_s by Gibbs' sampler.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from raysweep.fits.statistics import LEVEL
from raysweep.fits.surface.kernel import (
    KNOTS,
    apart,
    basis,
    bumps,
    compressed,
    hinges,
    matern,
    matern_slope,
    nodes,
    restored,
)
from raysweep.fits.surface.units import units, usual_gap

DEGREES = 4.0
BEND_DEGREES = 3.0  # Few, because a kink is one large change of slope and a smooth curve has none
CAP = 12.0  # units above which heights say no more
CAP_ERROR = 0.25  # the standard error of a capped height, as a share of it
SCALE_ROWS = 6.0  # rows' worth of prior that the noise of a slice is that of all
# Rounds without bumps and lines, then with them. Placed first at the lowest cells of slices they take their noise for a
# shape: then places are located in pure noise.
START, ROUNDS = 3, 6
# Prior sd of the log by which noise grows from mid-axis to its end. (Step Law's grows 7-fold towards high rates.)
DRIFT = 1.0
FEW = 2  # draws a cell up to which only the other cells say how large the noise is
ORDERS, ANY_ORDER, SMALL_SHARE = 999, 0.2, 0.02
ROUNDING = 1e-9  # orders that are no farther apart, such as one and its reverse, are as smooth
FLAT = 100.0  # the prior variance of the level of a slice, in compressed heights squared
SMALL = 1e-8
# Gaps of the grid around its lowest cell where the lowest point of the mean surface is sought, and that of draws along
# one axis or two; at how many points.
NEAR, POINTS = 1.5, 31
FAR, MOVES = 6.0, 121
SWEEPS, KEPT, APART = 40, 4, 6  # sweeps of the sampler, how many of the last ones are kept, and how far apart
FARTHEST = 20  # hyperparameters more prior standard deviations away are not looked at
HYPERS = 8  # draws of the hyperparameters


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a surface, one row per cell."""

    x: np.ndarray  # shape (n, d), in units in which distances count (log of a logarithmic axis)
    y: np.ndarray  # mean over draws, to be minimized; ignored where a cell diverged
    slices: np.ndarray  # the number of the slice, from 0
    draws: np.ndarray  # how many ok draws the mean has
    scatter: np.ndarray  # the sum of squared deviations of the draws from it
    error: np.ndarray  # the standard error of y if given, else NaN
    diverged: np.ndarray  # whether the cell is above everything


@dataclass(frozen=True, eq=False)
class Hypers:
    """Hyperparameters, from their logarithms in the order of `Surface.theta`; drift stands there as it is."""

    tau2: np.ndarray
    length: np.ndarray
    amplitude2: float
    drift: np.ndarray
    bump2: float
    bend2: float
    base2: float
    growth2: float

    def one_run(self, x: np.ndarray, height: np.ndarray) -> np.ndarray:
        """The variance of a run at points x (..., d) on the scale of the model, at these compressed heights (...)."""
        return np.asarray((self.base2 + self.growth2 * np.expm1(height) ** 2) * np.exp(2 * (x @ self.drift - height)))


@dataclass(frozen=True, eq=False)
class State:
    """The posterior of all slices at given hyperparameters."""

    hypers: Hypers
    lower_inverse: np.ndarray  # inverse of the Cholesky factor of each slice's covariance, shape (s, n, n)
    rest: np.ndarray  # the whitened data less the shared mean
    whitened: np.ndarray  # the whitened basis
    mean: np.ndarray  # mean, covariance: of mu
    covariance: np.ndarray
    value: float  # minus the log posterior


@dataclass(frozen=True, eq=False)
class Sample:
    """A draw of all that slices share, and of where each has its lowest point: shape (s, d)."""

    hypers: Hypers
    lower_inverse: np.ndarray  # as in `State`
    mean: np.ndarray  # a draw of mu
    lowest: np.ndarray
    rest: np.ndarray  # the whitened data less their mean


@dataclass(eq=False)
class Surface:
    """A fitted surface. Slices are padded to the size of the largest; `mask` says which entries are cells."""

    x: np.ndarray
    g: np.ndarray
    mask: np.ndarray
    draws: np.ndarray
    scatter: np.ndarray
    extra: np.ndarray
    capped: np.ndarray
    floor: np.ndarray
    unit: np.ndarray
    centre: np.ndarray
    width: np.ndarray
    h: np.ndarray = field(init=False)
    height: np.ndarray = field(init=False)
    weight: np.ndarray = field(init=False)
    scale: np.ndarray = field(init=False)
    theta: np.ndarray = field(init=False)
    lowest: np.ndarray = field(init=False)
    bent: bool = field(init=False, default=True)
    structured: np.ndarray = field(init=False)
    gap: np.ndarray = field(init=False)
    bends: np.ndarray = field(init=False)
    nodes: np.ndarray = field(init=False)
    samples: list[Sample] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.h = basis(self.x) * self.mask[..., None]
        self.height = np.maximum(self.g, 0) * self.mask
        self.weight = np.ones_like(self.g)
        self.scale = np.ones((len(self.g), 1))
        self.theta = self.prior[:, 0].copy()
        self.lowest = self.x[np.arange(len(self.g)), np.where(self.mask, self.g, np.inf).argmin(1)]
        inside = [x[mask] for x, mask in zip(self.x, self.mask, strict=True)]
        self.gap = np.array([usual_gap(x[:, k] for x in inside) for k in range(self.x.shape[-1])])
        self.bends = np.ones(self.x.shape[-1] * len(KNOTS))
        self.nodes = nodes((self.x - self.lowest[:, None])[self.mask], self.gap)

    @property
    def prior(self) -> np.ndarray:
        """Mean and standard deviation of the logarithm of each hyperparameter, shape (k, 2)."""
        p, d = self.h.shape[-1], self.x.shape[-1]
        return np.array(
            [(0.0, 1.5)] * (p - 1)
            + [(np.log(0.7), 0.7)] * d
            + [(0.0, DRIFT)] * d
            + [(np.log(0.5), 1.0), (np.log(0.5), 1.0), (np.log(0.2), 1.0), (np.log(0.05), 1.5), (np.log(0.1), 1.0)]
        )

    def hypers(self, theta: np.ndarray) -> Hypers:
        """The hyperparameters at these logarithms."""
        p, d = self.h.shape[-1], self.x.shape[-1]
        e = np.exp(theta)
        tau2 = np.concatenate([[FLAT], e[: p - 1] ** 2])
        amplitude2, bump2, bend2, base2, growth2 = (float(one) for one in e[-5:] ** 2)
        drift = theta[p - 1 + d : p - 1 + 2 * d]
        return Hypers(tau2, e[p - 1 : p - 1 + d], amplitude2, drift, bump2, bend2, base2, growth2)

    def features(self, x: np.ndarray, lowest: np.ndarray) -> np.ndarray:
        """What the shared mean is a sum of, at points x (..., n, d) of slices with these lowest points (..., d)."""
        lines, quadratic = hinges(x, lowest, self.gap), basis(x)
        quadratic = np.broadcast_to(quadratic, (*lines.shape[:-1], quadratic.shape[-1]))
        form = np.concatenate([bumps(x, lowest, self.gap, self.nodes), lines], axis=-1)
        return np.concatenate([quadratic, self.bent * form], axis=-1)

    def cell_features(self) -> np.ndarray:
        """The features of all cells, (s, n, p)."""
        return np.asarray(self.features(self.x, self.lowest) * self.mask[..., None])

    def weak(self, hypers: Hypers, bends: np.ndarray) -> np.ndarray:
        """The prior precision of what `features` are multiplied by. bends: that of each change of slope, relative."""
        count = self.h.shape[-1]
        return np.r_[np.full(count, 1e-4), np.full(len(self.nodes), 1 / hypers.bump2), 1 / (hypers.bend2 * bends)]

    def noise(self, hypers: Hypers) -> np.ndarray:
        """The variance of one run in each cell."""
        return hypers.one_run(self.x, self.height) * self.scale

    def scaled(self, points: np.ndarray) -> np.ndarray:
        """Points, in the units of `Cells.x`, on the scale of the model: -1 to 1 over all cells."""
        return (points - self.centre) / self.width

    def heights(self, s: int, values: np.ndarray) -> np.ndarray:
        """Heights above the best cell of a slice, in the units of y, from compressed ones."""
        return np.asarray(self.unit[s] * restored(values))


def fit_surface(cells: Cells) -> Surface:
    """The posterior at its mode.

    A bend beside the end of the grid can look like noise that grows towards it. Where noise grows so, the mode that has
    bumps and lines from the beginning is taken if it is more likely and its noise grows less.

    Raises ValueError if no slice has two cells of different values.
    """
    surface, value = _at_mode(cells, START)
    growing = _growing(surface)
    if growing > DRIFT:
        other, other_value = _at_mode(cells, 0)
        surface = other if other_value < value and _growing(other) < growing else surface
    rng = np.random.default_rng(1)
    for theta in _hyper_draws(surface, rng):
        surface.samples += _sampled(surface, state(surface, theta), rng)
    return surface


def _growing(surface: Surface) -> float:
    """By how much the log of the noise grows from mid-axis to an end."""
    return float(np.abs(surface.hypers(surface.theta).drift).max())


def _at_mode(cells: Cells, start: int) -> tuple[Surface, float]:
    """(a surface at a mode of its hyperparameters, minus the log posterior there).

    start: rounds without bumps and lines.
    """
    from scipy.optimize import minimize  # slow to load, and reports without a surface load this file

    surface = _padded(cells)
    surface.structured = structured(surface)
    for number in range(START + ROUNDS):
        surface.bent = number >= start
        optimum = minimize(
            partial(_objective, surface),
            surface.theta,
            (surface.cell_features(),),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 60 if number + 1 == START + ROUNDS else 20, "ftol": 1e-9},
        )
        surface.theta = optimum.x
        _reweigh(surface)
    return surface, float(optimum.fun)


def structured(surface: Surface, seed: int = 0) -> np.ndarray:
    """Whether each slice has a shape, (slices,): else its best place would be read off noise.

    Its compressed heights lie nearer to their neighbours' and to a quadratic than in other orders: over all slices in
    all but 5 % of the orders, in the slice in all but `ANY_ORDER`. A slice with given errors or more than `FEW` draws a
    cell is not tested: it measures its noise itself.
    """
    rng, out = np.random.default_rng(seed), np.ones(len(surface.g), dtype=bool)
    rough = {}
    for s, mask in enumerate(surface.mask):
        x, g = surface.x[s, mask], surface.g[s, mask]
        quadratic, _ = np.linalg.qr(basis(x))
        if len(g) <= quadratic.shape[1] or np.median(surface.draws[s, mask]) > FEW or np.ptp(g) == 0:
            continue
        away = np.abs(x[:, None] - x).sum(-1) + np.diag(np.full(len(x), np.inf))
        near = np.argsort(away, axis=1, kind="stable")[:, : 2 * x.shape[1]]
        orders = np.vstack([g, *(rng.permutation(g) for _ in range(ORDERS))]) - g.mean()
        apart = ((orders[..., None] - orders[:, near]) ** 2).sum((1, 2)) / (g.var() * len(g))
        left = 1 - ((orders @ quadratic) ** 2).sum(1) / (g.var() * len(g))
        rough[s] = np.log(apart) + np.log(np.maximum(left, 0) + SMALL_SHARE)
    if rough:
        total = np.sum(list(rough.values()), axis=0)
        every = (total[1:] <= total[0] + ROUNDING).mean() <= 1 - LEVEL
        of_each = ((one[1:] <= one[0] + ROUNDING).mean() <= ANY_ORDER for one in rough.values())
        out[list(rough)] = [every and one for one in of_each]
    return out


def _padded(cells: Cells) -> Surface:
    """The cells by slice, in compressed heights, before any fit."""
    good = ~cells.diverged
    count = int(cells.slices.max()) + 1
    floor = np.full(count, np.inf)
    np.minimum.at(floor, cells.slices[good], cells.y[good])
    height = np.full(len(cells.y), np.inf)
    height[good] = cells.y[good] - floor[cells.slices[good]]
    if not (np.isfinite(height) & (height > 0)).any():
        raise ValueError("all cells are equal")
    low, high = cells.x.min(0), cells.x.max(0)
    centre, width = (low + high) / 2, np.maximum((high - low) / 2, 1e-12)
    x = (cells.x - centre) / width
    unit = units(x, height, cells.slices)
    of_cell = unit[cells.slices]
    order = np.argsort(cells.slices, kind="stable")
    sizes = np.bincount(cells.slices, minlength=count)
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    at = (cells.slices[order], place)

    def spread(values: Any, fill: float = 0.0) -> np.ndarray:
        out = np.full((count, sizes.max(), *np.shape(values)[1:]), fill)
        out[at] = np.asarray(values)[order]
        return out

    in_units = height / of_cell
    capped = in_units > CAP
    g = compressed(np.minimum(in_units, CAP))
    slope = 1 / (1 + np.clip(in_units, 0, CAP)) / of_cell  # of a compressed height by y
    given = np.isfinite(cells.error)
    extra = np.where(capped, (CAP_ERROR * compressed(np.array(CAP))) ** 2, 0.0)
    extra += np.where(given, (slope * np.where(given, cells.error, 0)) ** 2, 0.0)
    return Surface(
        x=spread(x),
        g=spread(g),
        mask=spread(np.ones(len(cells.y))).astype(bool),
        draws=spread(np.where(given, np.inf, np.maximum(cells.draws, 1)), 1.0),
        scatter=spread(np.where(capped | given, 0.0, cells.scatter * slope**2)),
        extra=spread(extra),
        capped=spread(capped).astype(bool),
        floor=floor,
        unit=unit,
        centre=centre,
        width=width,
    )


def state(surface: Surface, theta: np.ndarray, features: np.ndarray | None = None) -> State:
    """The posterior at these hyperparameters. Raises LinAlgError if a covariance is not positive.

    features: those of the cells, where they are known.
    """
    hypers, mask = surface.hypers(theta), surface.mask
    prior = _covariance(hypers, surface.x, surface.x, surface.h, surface.h)
    prior = np.where(mask[:, :, None] & mask[:, None, :], prior, 0.0)
    variance = (surface.noise(hypers) / surface.draws + surface.extra) / surface.weight  # an unlikely cell counts less
    diagonal = np.where(mask, variance + SMALL, 1.0)
    every = np.arange(prior.shape[1])
    prior[:, every, every] += diagonal
    lower = np.linalg.cholesky(prior)
    inverse = np.linalg.inv(lower)
    if features is None:
        features = surface.cell_features()
    white = inverse @ np.concatenate([features, surface.g[..., None]], axis=-1)
    whitened, data = white[..., :-1], white[..., -1]
    weak = surface.weak(hypers, surface.bends)
    flat = whitened.reshape(-1, len(weak))
    precision = flat.T @ flat + np.diag(weak)
    mean = np.linalg.solve(precision, flat.T @ data.ravel())
    rest = data - whitened @ mean
    value = 0.5 * float(np.sum(rest**2) + mean @ (weak * mean)) + float(np.log(lower[:, every, every]).sum())
    value += 0.5 * float(np.linalg.slogdet(precision)[1] - np.log(weak).sum())
    return State(hypers, inverse, rest, whitened, mean, np.linalg.inv(precision), value)


def _covariance(hypers: Hypers, a: np.ndarray, b: np.ndarray, ha: np.ndarray, hb: np.ndarray) -> np.ndarray:
    """The prior covariance of a slice between points a and b, without the shared mean."""
    smooth = hypers.amplitude2 * matern(apart(a, b, hypers.length))
    return np.asarray(smooth + (ha * hypers.tau2) @ np.swapaxes(hb, -1, -2))


def _objective(surface: Surface, theta: np.ndarray, features: np.ndarray) -> tuple[float, np.ndarray]:
    """Minus the log posterior of the hyperparameters, the shared mean integrated out, and its gradient."""
    prior = surface.prior
    z = (theta - prior[:, 0]) / prior[:, 1]
    if np.abs(z).max() > FARTHEST:
        return 1e10, np.zeros_like(theta)
    try:
        now = state(surface, theta, features)
    except np.linalg.LinAlgError:
        return 1e10, np.zeros_like(theta)
    hypers, mask = now.hypers, surface.mask
    inverse_t = np.swapaxes(now.lower_inverse, 1, 2)
    back, alpha = inverse_t @ now.whitened, inverse_t @ now.rest[..., None]
    slope = inverse_t @ now.lower_inverse - back @ now.covariance @ np.swapaxes(back, 1, 2)
    slope = (slope - alpha * np.swapaxes(alpha, 1, 2)) * (mask[:, :, None] & mask[:, None, :])
    squares = apart(surface.x, surface.x, hypers.length)
    by_length = slope * matern_slope(squares)
    gradient = list((hypers.tau2 * np.sum(surface.h * (slope @ surface.h), (0, 1)))[1:])
    gradient += [0.5 * hypers.amplitude2 * float(np.sum(by_length * one)) for one in squares]
    by_amplitude = hypers.amplitude2 * float(np.sum(slope * matern(squares)))
    squared = now.mean**2 + np.diag(now.covariance)
    first, last = surface.h.shape[-1], -len(surface.bends)
    by_bump = len(surface.nodes) - float(squared[first:last].sum()) / hypers.bump2
    by_bend = len(surface.bends) - float(np.sum(squared[last:] / surface.bends)) / hypers.bend2
    # a cell's own mean, and the scatter of its draws
    one_run = surface.noise(hypers)
    by_mean = np.einsum("snn->sn", slope) / surface.weight / surface.draws * mask
    free = np.where(np.isfinite(surface.draws), surface.draws - 1, 0.0) * (mask & ~surface.capped)
    by_scatter = (free - surface.scatter / one_run) / one_run
    by_noise = (by_mean + by_scatter) * one_run
    gradient += [*np.einsum("sn,snd->d", by_noise, surface.x), by_amplitude, by_bump, by_bend]
    grown = hypers.growth2 * np.expm1(surface.height) ** 2
    gradient += [float(np.sum(by_noise * part / (hypers.base2 + grown))) for part in (hypers.base2, grown)]
    value = now.value + 0.5 * float(np.sum(free * np.log(one_run) + surface.scatter / one_run))
    return value + 0.5 * float(np.sum(z**2)), np.array(gradient) + z / prior[:, 1]


def _reweigh(surface: Surface) -> None:
    """One step towards heavy tails: heights, the noise of each slice, weights and what capped cells stand for."""
    now = state(surface, surface.theta)
    mask = surface.mask
    prior = _covariance(now.hypers, surface.x, surface.x, surface.h, surface.h)
    prior = np.where(mask[:, :, None] & mask[:, None, :], prior, 0.0)
    gain = now.lower_inverse @ prior
    mean = (surface.features(surface.x, surface.lowest) @ now.mean + np.einsum("snm,sn->sm", gain, now.rest)) * mask
    variance = np.maximum(np.einsum("snn->sn", prior) - np.einsum("snm,snm->sm", gain, gain), 0) * mask
    low = np.where(mask, mean, np.inf).min(1, keepdims=True)
    surface.lowest = _lowest(surface, now, np.where(mask, mean, np.inf).argmin(1))
    surface.height = np.where(mask, np.clip(mean - low, 0, compressed(np.array(CAP))), 0)
    surface.g = np.where(surface.capped, np.maximum(mean, compressed(np.array(CAP))), surface.g)
    if surface.bent:
        last = -len(surface.bends)
        sizes = (now.mean[last:] ** 2 + np.diag(now.covariance)[last:]) / now.hypers.bend2
        surface.bends = (BEND_DEGREES + sizes) / (BEND_DEGREES + 1)
    squares = (surface.g - mean) ** 2 + variance
    if len(surface.g) > 2:
        ratio = surface.weight * squares / (surface.noise(now.hypers) / surface.draws + surface.extra)
        rows = mask & ~surface.capped
        ratio = np.where(rows, ratio * surface.scale, 0).sum(1, keepdims=True)
        scale = (SCALE_ROWS + ratio) / (SCALE_ROWS + rows.sum(1, keepdims=True))
        surface.scale = scale / np.exp(np.log(scale).mean())
    noise = surface.noise(now.hypers) / surface.draws + surface.extra
    surface.weight = (DEGREES + 1) / (DEGREES + squares / noise)


def _lowest(surface: Surface, now: State, cells: np.ndarray) -> np.ndarray:
    """The lowest point of the mean surface of each slice around its lowest cell, within the slice's cells."""
    every = np.arange(len(cells))
    steps = np.linspace(-NEAR, NEAR, POINTS)
    moves = np.stack([each.ravel() for each in np.meshgrid(*[steps] * surface.x.shape[-1], indexing="ij")], axis=-1)
    points = surface.x[every, cells][:, None, :] + moves * surface.gap
    inside = np.where(surface.mask[..., None], surface.x, np.nan)
    points = np.clip(points, np.nanmin(inside, axis=1)[:, None, :], np.nanmax(inside, axis=1)[:, None, :])
    hz = basis(points)
    prior = _covariance(now.hypers, surface.x, points, surface.h, hz) * surface.mask[..., None]
    mean = surface.features(points, surface.lowest) @ now.mean
    mean += np.einsum("snm,sn->sm", now.lower_inverse @ prior, now.rest)
    return points[every, mean.argmin(1)]


def _hyper_draws(surface: Surface, rng: np.random.Generator) -> list[np.ndarray]:
    """Draws of the hyperparameters from the Laplace approximation at the mode."""
    step = 0.02
    features = surface.cell_features()
    rows = [
        (
            _objective(surface, surface.theta + move, features)[1]
            - _objective(surface, surface.theta - move, features)[1]
        )
        / (2 * step)
        for move in np.eye(len(surface.theta)) * step
    ]
    values, vectors = np.linalg.eigh((np.array(rows) + np.array(rows).T) / 2)
    root = vectors / np.sqrt(np.maximum(values, 1 / surface.prior[:, 1].max() ** 2))
    z = rng.standard_normal((HYPERS, len(surface.theta)))
    return list(surface.theta + np.clip(z @ root.T, -2, 2))


def _sampled(surface: Surface, now: State, rng: np.random.Generator) -> list[Sample]:
    """Draws of mu and of the lowest points by Gibbs' sampler, at the hyperparameters of a state."""
    mask, lowest, inverse = surface.mask, surface.lowest, now.lower_inverse
    inside = np.where(mask[..., None], surface.x, np.nan)
    low, high = np.nanmin(inside, axis=1)[:, None, :], np.nanmax(inside, axis=1)[:, None, :]
    # with much noise, or a level side, it may lie far away; one beyond an end stands at that end
    steps = np.linspace(-FAR, FAR, MOVES)[:, None] if low.shape[-1] == 1 else rng.uniform(-NEAR, NEAR, (MOVES // 2, 2))
    candidates = np.clip(surface.lowest[:, None, :] + steps * surface.gap, low, high)
    every = surface.features(surface.x[:, None], candidates) * mask[:, None, :, None]  # (s, candidates, n, p)
    white = inverse[:, None] @ every
    data = np.einsum("snm,sm->sn", inverse, surface.g)
    bends = surface.bends
    chosen = np.abs(candidates - lowest[:, None, :]).sum(-1).argmin(1)
    slices, out = np.arange(len(chosen)), []
    for sweep in range(SWEEPS):
        weak = surface.weak(now.hypers, bends)
        w = white[slices, chosen]
        flat = w.reshape(-1, w.shape[-1])
        precision = flat.T @ flat + np.diag(weak)
        root = np.linalg.cholesky(np.linalg.inv(precision))
        mean = np.linalg.solve(precision, flat.T @ data.ravel()) + root @ rng.standard_normal(len(weak))
        gamma = 2 * rng.standard_gamma((BEND_DEGREES + 1) / 2, len(bends))
        bends = (BEND_DEGREES + mean[-len(bends) :] ** 2 / now.hypers.bend2) / gamma
        rest = data[:, None] - white @ mean
        likely = -0.5 * np.sum(rest**2, axis=-1)
        chosen = np.argmax(likely + rng.gumbel(size=likely.shape), axis=1)
        if sweep >= SWEEPS - KEPT * APART and (SWEEPS - 1 - sweep) % APART == 0:
            out.append(Sample(now.hypers, inverse, mean, candidates[slices, chosen], rest[slices, chosen]))
    return out


def paths(surface: Surface, s: int, points: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Joint draws of the compressed surface of a slice: (count, m). points: (m, d), in the units of `Cells.x`."""
    size = int(surface.mask[s].sum())
    z = surface.scaled(points)
    hz = basis(z)
    x, h = surface.x[s, :size], surface.h[s, :size]
    out, each = [], -(-count // len(surface.samples))
    for k, sample in enumerate(surface.samples):
        if k % KEPT == 0:
            gain = sample.lower_inverse[s, :size, :size] @ _covariance(sample.hypers, x, z, h, hz)
            values, vectors = np.linalg.eigh(_covariance(sample.hypers, z, z, hz, hz) - gain.T @ gain)
            root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T  # no sign of a vector decides a draw
        mean = surface.features(z, sample.lowest[s]) @ sample.mean + gain.T @ sample.rest[s, :size]
        out.append(mean + rng.standard_normal((each, len(z))) @ root)
    return np.concatenate(out)[rng.permutation(each * len(out))[:count]]
