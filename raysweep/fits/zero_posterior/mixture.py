"""The posterior of a mean curve: components weighed by evidence, each a Gaussian process given the draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from raysweep.fits.zero_posterior.noise import KEPT, Measured, measured, scatter_of, with_errors, with_tails
from raysweep.fits.zero_posterior.shapes import Breaks, Drawn, Shape, breaks, drawn, shapes

SEED = 20240229  # the same numbers every time
COMPONENTS = 200
# The power of the evidence by which components are weighed. No curve has one of these shapes exactly, and at 1 the
# shape that fits best by chance gets too much weight: intervals cover 0.94 at 1, 0.96 at 0.5, 0.97 at 0.35, of 466
# curves (benchmarks/boundaries.py).
TEMPER = 0.5
TRIED = 3  # covariances of the noise by which shapes are chosen before all are combined
NEGLIGIBLE = 5e-3  # the chance below which a shape is left out
ROUNDED = 1e-9  # of the largest variance
NUGGET = 1e-11  # the variance added at the points so that matrices stay positive
NEAR, KINKS_NEAR = 1, 3  # how many cells beside a change of sign may hold the zero or a jump; a kink that matters
ATTEMPTS, RARE = 4, 0.05  # kinks whose share of places in their cell is below RARE are left out in the next attempt


@dataclass(frozen=True, eq=False)
class Mixture:
    """The posterior of a mean curve; x is scaled to t in 0..1, and values so that the largest |mean| is 1."""

    t: np.ndarray  # (points,)
    weights: np.ndarray  # (components,), adding to 1
    shapes: list[Shape]  # of each component
    noise: np.ndarray  # (components,), which covariance of the noise in `data`
    data: Measured  # the mean curve at the points with its covariance, for each covariance of the noise
    bent: Drawn  # the break of each component, as drawn
    number: np.ndarray  # (components,), which break, -1 without

    def moments(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(mean, standard deviation) of each component at t (n,), each (components, n)."""
        distinct, shape, pair, inverse, rest = self._pairs
        across = np.stack([each.covariance(self.t, t) for each in distinct])
        alone = np.stack([each.variance(t) for each in distinct])
        gain = inverse @ across[shape]  # (pairs, points, n)
        mean = (rest[:, None, :] @ gain[pair])[:, 0]
        mean += self.bent.curve(t)
        variance = alone[shape] - (gain**2).sum(axis=1)
        return mean, np.sqrt(np.maximum(variance, NUGGET))[pair]

    def positive(self, t: np.ndarray) -> np.ndarray:
        """The chance that the curve is above zero at each t."""
        mean, deviation = self.moments(t)
        return np.asarray(self.weights @ ndtr(mean / deviation))

    def jump_chances(self) -> np.ndarray:
        """The chance of a jump in each cell of the grid, (points - 1,)."""
        jumps = self.bent.jump != 0
        cell = np.searchsorted(self.t, self.bent.place[jumps]) - 1
        return np.bincount(cell, weights=self.weights[jumps], minlength=len(self.t) - 1)

    def noise_share(self, t: float) -> float:
        """Which share of the variance of the curve at t is noise, which more draws would remove.

        That is what vanishes if the posterior mean at the points is the truth.
        """
        expected = np.broadcast_to(self.weights @ self.moments(self.t)[0], self.data.mean.shape)
        change, jump, place = (self._middle(each) for each in (self.bent.change, self.bent.jump, self.bent.place))
        bent = Drawn(change, jump, np.where(jump == 0, place, self.bent.place))  # draws do not say where a jump is
        truth = replace(self.data, mean=expected, covariance=np.zeros_like(self.data.covariance))
        variances = []
        for mixture in (self, replace(self, data=truth, bent=bent)):
            mean, deviation = (each[:, 0] for each in mixture.moments(np.array([t])))
            variances.append(float(self.weights @ (deviation**2 + (mean - self.weights @ mean) ** 2)))
        return 1 - min(variances[1] / variances[0], 1.0)

    @cached_property
    def _pairs(self) -> tuple[list[Shape], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(the distinct shapes; which of them each pair of shape and noise has; which pair each component has; of a
        pair, the inverse of the root of the covariance of the data; of a component, this @ the data less the break)."""
        distinct = {shape: number for number, shape in enumerate(dict.fromkeys(self.shapes))}
        which = np.array([distinct[shape] for shape in self.shapes])
        pairs, pair = np.unique(np.stack([which, self.noise]), axis=1, return_inverse=True)
        inside = np.stack([shape.covariance(self.t, self.t) for shape in distinct])
        inverse = np.linalg.inv(_root(inside[pairs[0]] + self.data.covariance[pairs[1]]))
        rest = self.data.mean[self.noise] - self.bent.curve(self.t)
        return list(distinct), pairs[0], pair, inverse, (inverse[pair] @ rest[:, :, None])[:, :, 0]

    def _middle(self, values: np.ndarray) -> np.ndarray:
        """The values of the components, those of one break their mean."""
        result = values.copy()
        for number in np.unique(self.number[self.number >= 0]):
            same = self.number == number
            result[same] = np.average(values[same], weights=self.weights[same])
        return result


def mixture(t: np.ndarray, values: np.ndarray, exact: bool = False, errors: np.ndarray | None = None) -> Mixture:
    """The posterior of the mean curve of values[draw, point] at t from 0 to 1.

    exact: the mean has no noise. errors: (points,), the standard errors of the mean. Without both at least two draws
        must differ somewhere.
    """
    rng = np.random.default_rng(SEED)
    mean = np.nanmean(values, axis=0)
    scale = float(np.abs(mean).max())
    if exact or errors is not None:
        data = with_errors(mean / scale, np.zeros(len(t)) if errors is None else errors / scale)
    else:
        data = measured(scatter_of(t, values / scale), rng)
    change = np.flatnonzero(mean[:-1] * mean[1:] <= 0)
    if not len(change):
        change = np.array([np.argmin(np.abs(mean[:-1]) + np.abs(mean[1:]))])
    cells = np.arange(len(t) - 1)
    near = cells[(cells >= change.min() - NEAR) & (cells <= change.max() + NEAR)]
    every, covariances, chances = shapes(tuple(t), tuple(near))
    kinked = cells[(cells >= change.min() - KINKS_NEAR) & (cells <= change.max() + KINKS_NEAR)]
    bent = breaks(t, kinked, near)
    some = slice(0, None, KEPT // TRIED + 1)
    tried = _evidence(covariances, Measured(data.mean[some], data.covariance[some], data.degrees[some]), bent)[0]
    excluded = np.zeros(1 + len(bent.size))
    for attempt in range(ATTEMPTS):
        weight = np.logaddexp.reduce(tried + chances[:, None, None] + excluded, axis=2)
        weight -= np.logaddexp.reduce(weight, axis=0)
        kept = np.flatnonzero(weight.max(axis=1) > np.log(NEGLIGIBLE) / TEMPER)
        evidence, (precision, total) = _evidence(covariances[kept], data, bent)
        shape, noise, number = _picked(TEMPER * (evidence + chances[kept][:, None, None] + excluded))
        broken_ones = tuple(each[number >= 0] for each in (shape, noise, number))
        broken, ratio = drawn(bent, number, precision[broken_ones], total[broken_ones], rng)
        if (ratio > 0).sum() >= COMPONENTS / 2:
            break
        # Kinks that the draws would put outside of their cells do not exist, however well they would fit.
        outside = np.array([k for k in np.unique(number[number >= 0]) if ratio[number == k].mean() < RARE], dtype=int)
        excluded[1 + (outside if attempt < ATTEMPTS - 2 else np.flatnonzero(~bent.jumps))] = -np.inf
    data = with_tails(data, np.bincount(noise, weights=ratio, minlength=len(data.mean)), rng)
    whole = ratio > 0
    bends = Drawn(broken.change[whole], broken.jump[whole], broken.place[whole])
    chosen = [every[kept[k]] for k in shape[whole]]
    return Mixture(t, ratio[whole] / ratio.sum(), chosen, noise[whole], data, bends, number[whole])


def _picked(evidence: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(shape, noise, break) of COMPONENTS components, drawn systematically by evidence (shapes, noises, 1 + breaks)."""
    weight = np.exp(evidence - evidence.max())
    order = np.argsort(-weight, axis=None)
    cumulative = np.cumsum(weight.ravel()[order])
    picked = order[np.searchsorted(cumulative / cumulative[-1], (np.arange(COMPONENTS) + 0.5) / COMPONENTS)]
    shape, noise, number = np.unravel_index(picked, weight.shape)
    return shape, noise, number - 1


def _root(covariance: np.ndarray) -> np.ndarray:
    """The Cholesky factors of covariances, with a nugget; a larger one where rounding leaves one not positive."""
    unit = np.eye(covariance.shape[-1])
    try:
        return np.linalg.cholesky(covariance + NUGGET * unit)
    except np.linalg.LinAlgError:
        size = np.abs(covariance).max(axis=(-1, -2), keepdims=True)
        return np.linalg.cholesky(covariance + (NUGGET + ROUNDED * size) * unit)


def _evidence(
    covariances: np.ndarray, data: Measured, bent: Breaks
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Log evidence (shapes, noises, 1 + breaks), without a break first, and the posterior of what each break adds.

    That is the precision (shapes, noises, breaks, 2, 2) of the two coefficients of its basis, and precision @ mean.
    """
    points, count = covariances.shape[-1], len(bent.size)
    root = _root(covariances[:, None] + data.covariance)
    inverse = np.linalg.inv(root)
    white = (inverse @ data.mean[:, :, None])[..., 0]
    basis = (inverse @ bent.basis.transpose(1, 0, 2).reshape(points, 2 * count)).reshape(*white.shape, count, 2)
    slope, shift = basis[..., 0], basis[..., 1]
    a, b, c = 1 + (slope**2).sum(axis=2), (slope * shift).sum(axis=2), 1 + (shift**2).sum(axis=2)
    u, v = (slope * white[..., None]).sum(axis=2), (shift * white[..., None]).sum(axis=2)
    determinant = a * c - b**2
    straight = -np.log(np.diagonal(root, axis1=2, axis2=3)).sum(axis=2) - 0.5 * (white**2).sum(axis=2)
    gain = 0.5 * (c * u**2 - 2 * b * u * v + a * v**2) / determinant - 0.5 * np.log(determinant)
    evidence = np.concatenate(
        [straight[..., None] + np.log(1 - bent.chance.sum()), straight[..., None] + gain + np.log(bent.chance)], axis=2
    )
    precision = np.stack([np.stack([a, b], axis=-1), np.stack([b, c], axis=-1)], axis=-2)
    return evidence, (precision, np.stack([u, v], axis=-1))
