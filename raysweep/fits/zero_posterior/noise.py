"""Covariances of the noise along a curve, weighed by the scatter between draws (importance sampling, no Markov chain).

A draw's noise at t is the sum of independent noise, a tilt and a smooth curve of the draw, all three growing or
shrinking along t, and a shift of the draw. What this structure misses is learned where draws are many: the covariance
is inverse Wishart about the structure, which is worth `freedom` draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, gammaln, ndtr

# Draws that differ by a few smooth curves only have a scatter matrix of low rank, for which no structure is likely. So
# each point gets independent noise of this share of its standard deviation, which widens intervals by 1 in 1,000.
FLOOR = 0.05
LARGEST_DIP = 1e-4  # a standard deviation below this share of the median one is a chance, or rounding
# Medians and spreads (of logarithms) a priori: shares of the deviation of a value between draws, and of the grid.
INDEPENDENT, SHIFT, TILT, SMOOTH, LENGTH = (-0.7, 1.5), (-0.7, 1.5), (-1.5, 1.5), (-1.5, 1.5), (np.log(0.3), 0.5)
GROWTH = 1.2  # the spread of the logarithm of noise at the end over noise at the start
FREEDOM = (2.0, 200.0)
COORDINATES = 8
PROPOSED, ENOUGH, ROUNDS = 200, 60, 20  # samples in a round; the effective number that is enough; rounds at most
NUGGET = 1e-6  # of the variance of a logarithm
TAILS = 6.0  # degrees of freedom of the proposals
KEPT = 32
LEAST = 1e-3  # no quantile of the size of the noise is taken beyond this chance
# The share of a point's variance that is independent noise at least. Where it is rounded away, determinants of nearly
# shared noise are wrong by any amount; the scatter has 0.0025 of it (FLOOR).
TINY = 1e-6
CERTAIN = 1e6  # degrees of freedom of an error that is given
# By how much (in logarithms) the deviation at a point may differ from the structure's, smoothly along t.
APART, ALONG = 0.5, 0.3


@dataclass(frozen=True, eq=False)
class Pattern:
    """The draws that have values at the same points."""

    at: np.ndarray  # the indices of these points
    draws: int  # how many draws
    mean: np.ndarray  # their mean (points of the pattern,)
    scatter: np.ndarray  # the sum of squares and products about the mean, a square matrix


@dataclass(frozen=True, eq=False)
class Scatter:
    """The draws of one curve."""

    t: np.ndarray  # (points,), from 0 to 1
    patterns: tuple[Pattern, ...]  # the pattern with most points first
    draws: int  # how many draws in total
    deviation: float  # the standard deviation between draws, pooled over the points
    # deviations, counts: (points,), the standard deviation between draws and the number of draws at each point.
    deviations: np.ndarray
    counts: np.ndarray
    profile: np.ndarray  # (points,), the logarithm of the standard deviation at each point about its mean, smoothed


def scatter_of(t: np.ndarray, values: np.ndarray) -> Scatter:
    """The sufficient statistics of values[draw, point]; every point has a value in some draw."""
    present = np.isfinite(values)
    values, present = values[present.any(axis=1)], present[present.any(axis=1)]
    count = present.sum(axis=0)
    square = np.nansum((values - np.nanmean(values, axis=0)) ** 2, axis=0)
    floor = np.diag(FLOOR**2 * square / np.maximum(count - 1, 1))
    patterns = []
    for key in np.unique(present, axis=0):
        rows = values[(present == key).all(axis=1)][:, key]
        rest = rows - rows.mean(axis=0)
        scatter = rest.T @ rest + (len(rows) - 1) * floor[np.ix_(key, key)]
        patterns.append(Pattern(np.flatnonzero(key), len(rows), rows.mean(axis=0), scatter))
    patterns.sort(key=lambda each: -len(each.at))
    deviation = float(np.sqrt(square.sum() / max(int((count - 1).clip(0).sum()), 1)))
    deviations = np.sqrt(square / np.maximum(count - 1, 1))
    return Scatter(t, tuple(patterns), len(values), deviation, deviations, count, _profile(t, deviations, count))


def _profile(t: np.ndarray, deviations: np.ndarray, count: np.ndarray) -> np.ndarray:
    """A cubic in t, shrunk to a constant where draws are few, and what it misses as far as it is more than chance.

    Draws that are all equal at a point, such as accuracies in ties, do not say how large the noise is there.
    """
    measured = (count > 1) & (deviations > 0)
    least = LARGEST_DIP * np.median(deviations[measured])
    logarithm = np.log(np.where(measured, np.maximum(deviations, least), 1.0))
    chance = 0.5 / np.maximum(count - 1, 0.5)  # the variance of the logarithm of a standard deviation
    powers = np.stack([np.ones(len(t)), t - 0.5, (t - 0.5) ** 2, (t - 0.5) ** 3], axis=1)
    weighted = powers * (measured / chance)[:, None]
    smooth = powers @ np.linalg.solve(powers.T @ weighted + np.diag([0.01, 0.25, 0.25, 0.25]), weighted.T @ logarithm)
    rest = np.where(measured, logarithm - smooth, 0.0)
    spread = max(float(np.mean(rest[measured] ** 2 - chance[measured])), 0.0)
    smooth = smooth + spread / (spread + chance) * rest
    return np.asarray(smooth - smooth.mean())


@dataclass(frozen=True, eq=False)
class Measured:
    """The mean curve at the points as the draws give it, for each covariance of the noise: KEPT, or 1 without noise."""

    mean: np.ndarray  # (covariances, points), by generalized least squares where values are missing
    covariance: np.ndarray  # (covariances, points, points), of this mean
    degrees: np.ndarray  # (covariances, points), with how many degrees of freedom the draws tell the size of its noise


def with_errors(mean: np.ndarray, errors: np.ndarray) -> Measured:
    """A curve whose values at the points are known up to these standard errors, both (points,)."""
    return Measured(mean[None], np.diag(errors**2)[None], np.full((1, len(mean)), CERTAIN))


def measured(scatter: Scatter, rng: np.random.Generator) -> Measured:
    """Sample covariances of the noise from their posterior given the scatter between draws."""
    z, weight = _importance_sample(scatter, rng)
    cumulative = np.cumsum(weight)
    kept = np.searchsorted(cumulative / cumulative[-1], (np.arange(KEPT) + 0.5) / KEPT)
    noise, freedom = _structure(z[kept], scatter)
    noise, degrees = _matched(noise, scatter)
    _, mean, covariance = _evidence(noise, freedom, scatter, completed=True)
    # Under an inverse Wishart posterior the noise of a weighted mean has Student's tails.
    worth = freedom + scatter.draws
    factor = (worth - 1) / rng.chisquare(worth + 1)
    return Measured(mean, covariance * factor[:, None, None], degrees)


def with_tails(data: Measured, weight: np.ndarray, rng: np.random.Generator) -> Measured:
    """The samples with noise as unknown in size as few draws leave it: together they have the tails of Student's t.

    weight: (KEPT,), of each sample.

    The noise of each sample is made larger or smaller by a quantile of its own of the chi-square distribution. They are
    given to samples that are weighed already: the mean curve tells by its scatter about a smooth one how large the
    noise of single points is, but not how large that which a draw's points share, so it must not choose among them.
    """
    order = rng.permutation(len(weight))
    below = np.empty(len(weight))
    below[order] = np.cumsum(weight[order]) - weight[order] / 2
    chance = np.clip(below / weight.sum(), LEAST, 1 - LEAST)
    factor = np.sqrt(data.degrees / chdtri(data.degrees, chance[:, None]))
    return Measured(data.mean, data.covariance * factor[:, :, None] * factor[:, None, :], data.degrees)


def _importance_sample(scatter: Scatter, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (samples, COORDINATES) and their weights, from rounds whose proposals follow the weighted samples.

    The posterior is approached by powers of the likelihood, so that no round rests on a few samples. All rounds count,
    weighed by the mixture of all proposals.
    """
    d = COORDINATES
    constant = gammaln((TAILS + d) / 2) - gammaln(TAILS / 2) - d / 2 * np.log(TAILS / 2)
    z, likelihood, densities = np.empty((0, d)), np.empty(0), np.empty((0, 0))
    proposals: list[tuple[np.ndarray, np.ndarray]] = []
    mean, covariance, power = np.zeros(d), np.eye(d), 0.0

    def density(z: np.ndarray, number: int) -> np.ndarray:
        mean, root = proposals[number]
        square = (np.linalg.solve(root, (z - mean).T) ** 2).sum(axis=0)
        shape = constant - 0.5 * (TAILS + d) * np.log1p(square / TAILS) if number else -0.5 * square
        return np.asarray(shape - np.log(np.diag(root)).sum())

    for number in range(ROUNDS):
        root = np.linalg.cholesky(covariance)
        stretch = np.sqrt(TAILS / rng.chisquare(TAILS, (PROPOSED, 1))) if number else 1.0
        new = mean + stretch * rng.standard_normal((PROPOSED, d)) @ root.T
        before = np.array([density(new, earlier) for earlier in range(number)]).reshape(number, PROPOSED)
        proposals.append((mean, root))
        z = np.concatenate([z, new])
        likelihood = np.concatenate([likelihood, _likelihood(new, scatter)])
        densities = np.concatenate([np.concatenate([densities, before], axis=1), density(z, number)[None]])
        base = -0.5 * (z**2).sum(axis=1) - np.logaddexp.reduce(densities, axis=0)
        above = likelihood - likelihood.max()
        low, high = power, 1.0
        if _effective(above + base) >= ENOUGH:
            return z, _shares(above + base)
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (middle, high) if _effective(middle * above + base) > ENOUGH else (low, middle)
        power = low
        weight = _shares(power * above + base)
        mean = weight @ z
        covariance = 1.1 * (z - mean).T @ ((z - mean) * weight[:, None]) + 1e-3 * np.eye(d)
    return z, _shares(above + base)


def _shares(logarithm: np.ndarray) -> np.ndarray:
    weight = np.exp(logarithm - logarithm.max())
    return np.asarray(weight / weight.sum())


def _effective(logarithm: np.ndarray) -> float:
    return float(1 / (_shares(logarithm) ** 2).sum())


def _likelihood(z: np.ndarray, scatter: Scatter) -> np.ndarray:
    likelihood = _evidence(*_structure(z, scatter), scatter, completed=False)[0]
    return np.where(np.isfinite(likelihood), likelihood, -1e300)


def _structure(z: np.ndarray, scatter: Scatter) -> tuple[np.ndarray, np.ndarray]:
    """(the covariances of the noise of one draw (samples, points, points), freedom (samples,)) at coordinates z."""
    t, c = scatter.t, scatter.t - 0.5
    independent, shift, tilt, smooth = (
        scatter.deviation * np.exp(middle + spread * z[:, k])[:, None, None]
        for k, (middle, spread) in enumerate((INDEPENDENT, SHIFT, TILT, SMOOTH))
    )
    length = np.exp(LENGTH[0] + LENGTH[1] * z[:, 4])[:, None, None]
    growth = np.exp(GROWTH * z[:, 5][:, None] * c + ndtr(z[:, 6])[:, None] * scatter.profile)
    covariance = independent**2 * np.eye(len(t)) + 4 * tilt**2 * np.outer(c, c)
    covariance = covariance + smooth**2 * np.exp(-0.5 * ((t[:, None] - t) / length) ** 2)
    covariance = covariance * growth[:, :, None] * growth[:, None, :] + shift**2
    freedom = FREEDOM[0] * (FREEDOM[1] / FREEDOM[0]) ** ndtr(z[:, 7])
    return covariance * (1 + TINY * np.eye(len(t))), freedom


def _matched(noise: np.ndarray, scatter: Scatter) -> tuple[np.ndarray, np.ndarray]:
    """Covariances (samples, points, points) whose deviations at the points are nearer to those between the draws, and
    with how many degrees of freedom the draws tell these deviations, (samples, points).

    Where draws share nearly all of their noise, the structure is chosen by how they differ from one another, and may
    miss how large the noise is at a point. The logarithms of the deviations are corrected by the posterior mean of a
    smooth Gaussian process; n draws show them with the covariance correlation**2 / (2 (n - 1)), n at two points the
    larger number, because the draws of one are mostly among those of the other. The degrees at a point are those of a
    variance that is known as well as the mean of these logarithms over the points near it, weighed by their n - 1. They
    are n - 1 where points share their noise, and more where each has its own.
    """
    deviation = np.sqrt(np.diagonal(noise, axis1=1, axis2=2))
    measured_at = np.flatnonzero((scatter.counts > 1) & (scatter.deviations > 0))
    missed = np.log(scatter.deviations[measured_at]) - np.log(deviation[:, measured_at])
    correlation = _part(noise / deviation[:, :, None] / deviation[:, None, :], measured_at)
    spare = scatter.counts[measured_at] - 1.0
    chance = correlation**2 / (2 * np.maximum(spare[:, None], spare))
    near = np.exp(-0.5 * ((scatter.t[:, None] - scatter.t[measured_at]) / ALONG) ** 2)
    inside = APART**2 * near[measured_at] + chance + NUGGET * np.eye(len(measured_at))
    factor = np.exp((APART**2 * near @ np.linalg.solve(inside, missed[:, :, None]))[:, :, 0])
    share = near * spare / (near * spare).sum(axis=1, keepdims=True)
    degrees = 1 / (2 * ((share @ chance) * share).sum(axis=2))
    return np.asarray(noise * factor[:, :, None] * factor[:, None, :]), degrees


def _evidence(
    noise: np.ndarray, freedom: np.ndarray, scatter: Scatter, completed: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(log likelihood of the scatter, mean curve, its covariance) for covariances of the noise worth `freedom` draws.

    The mean curve is free.

    With draws at all points the likelihood is that of an inverse Wishart covariance. Draws with missing points follow
    the covariance that the complete draws give, and then, if `completed`, add what they say to it (one step of
    expectation); the likelihood does not need that.
    """
    points, first = len(scatter.t), scatter.patterns[0]
    prior = freedom[:, None, None] * noise
    likelihood, complete = np.zeros(len(noise)), len(first.at) == points and first.draws > 1
    rest = scatter.patterns[1:] if complete else scatter.patterns
    if complete:
        degrees, halves = freedom + points + 1, np.arange(points) / 2
        more = first.draws - 1
        total = prior + first.scatter
        likelihood = 0.5 * (degrees * np.linalg.slogdet(prior)[1] - (degrees + more) * np.linalg.slogdet(total)[1])
        likelihood += gammaln(0.5 * (degrees + more)[:, None] - halves).sum(axis=1)
        likelihood -= gammaln(0.5 * degrees[:, None] - halves).sum(axis=1)
        noise = total / (freedom + more)[:, None, None]
        if not rest:
            return likelihood, np.broadcast_to(first.mean, (len(noise), points)), noise / first.draws
    patterns = scatter.patterns
    mean, covariance, precise = _combined(noise, patterns)
    for each in rest:
        inverse = np.linalg.inv(_part(noise, each.at))
        square = each.scatter + each.draws * np.outer(each.mean, each.mean)
        likelihood = (
            likelihood + 0.5 * each.draws * np.linalg.slogdet(inverse)[1] - 0.5 * (inverse * square).sum((1, 2))
        )
    if complete:
        inverse = np.linalg.inv(noise)
        likelihood = likelihood + 0.5 * np.linalg.slogdet(inverse)[1]
        likelihood = likelihood - 0.5 * first.draws * ((inverse @ first.mean) * first.mean).sum(axis=1)
    likelihood = likelihood + 0.5 * (mean * precise).sum(axis=1) + 0.5 * np.linalg.slogdet(covariance)[1]
    if not completed:
        return likelihood, mean, covariance
    expected = prior + (first.scatter if complete else 0.0)
    for each in rest:
        onto = noise[:, :, each.at] @ np.linalg.inv(_part(noise, each.at))
        error = each.mean - mean[:, each.at]
        square = each.scatter + each.draws * error[:, :, None] * error[:, None, :]
        expected = expected + onto @ square @ np.swapaxes(onto, 1, 2)
        expected = expected + each.draws * (noise - onto @ noise[:, each.at])
    noise = expected / (freedom + scatter.draws - 1)[:, None, None]
    mean, covariance, _ = _combined(noise, patterns)
    return likelihood, mean, covariance


def _part(covariance: np.ndarray, at: np.ndarray) -> np.ndarray:
    return np.asarray(covariance[:, at[:, None], at])


def _combined(noise: np.ndarray, patterns: tuple[Pattern, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean curve by generalized least squares, its covariance, precision @ mean) for each covariance of the noise."""
    precision, total = np.zeros_like(noise), np.zeros(noise.shape[:2])
    for each in patterns:
        inverse = each.draws * np.linalg.inv(_part(noise, each.at))
        precision[:, each.at[:, None], each.at] += inverse
        total[:, each.at] += inverse @ each.mean
    covariance = np.linalg.inv(precision)
    return (covariance @ total[:, :, None])[:, :, 0], covariance, total
