"""How a loss goes on along a length: the average of a power law, a broken power law, a U-shape and an S-shape.

With v, the log of the length, from 0 at the shortest to 1 at the longest,

    loss = level + sum_k weight_k column_k(v; theta) + noise,    noise ~ N(0, sigma²).

Weights and level have normal priors and are integrated out; theta is drawn by importance sampling from t distributions
around its moments, as the law of a best rate is; sigma lies on a grid and is similar in all curves.
Each family counts by its marginal likelihood. Coverage: `python -m benchmarks.forecasts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax
from scipy.stats import multivariate_t, norm

NOISES = np.geomspace(1e-3, 0.6, 22)
"""Of a value, as a share of the curve's range."""
TYPICAL, FACTOR, APART = 0.03, 1.4, 0.7
"""The prior of the noise that curves share: log-normal. Each has its own, so far from it in log."""
PRIOR = log_softmax(-0.5 * (np.log(NOISES / TYPICAL) / FACTOR) ** 2)
WIDE = 1.5
"""The prior standard deviation of the level and of what the form changes within the range, as a share of it."""
FEWEST = 5
"""A curve has at least so many lengths."""
LOG_RATE, STRAIGHT, BREAK = (np.log(2), 1.0), (np.log(0.01), 1.0), (0.6, 0.5)
"""Mean and standard deviation of the log of a rate (an exponent times the log of longest over shortest), of one that is
nearly 0, a logarithm, and of the place of a break or turn."""
STEP = ((np.log(5), 0.7), (1.0, 0.6))
"""The same of the rate of an S-shape, and of its middle."""
LIMIT = 2.6
"""Priors end so many standard deviations from their means."""
SHARPNESS = 8.0
"""Of a break: it takes this part of the range."""
PROPOSED, KEPT, ROUNDS, DEGREES, FROM_PRIOR = 1000, 4000, 3, 5, 0.25


def power_law(v: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """theta: log rate. As all forms: v (points,), theta (n, size), to (n, points, columns)."""
    return _fall(v, np.exp(theta))[..., None]


def broken_power_law(v: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """theta: log rates before and after the break, and its place."""
    first, last, w = np.exp(theta[:, :1]), np.exp(theta[:, 1:2]), np.r_[0, 1, v]
    bent = (last - first) / SHARPNESS * np.logaddexp(0, SHARPNESS * (w - theta[:, 2:]))
    start, end, form = np.split(np.exp(-first * w - bent), [1, 2], axis=1)
    return np.asarray((form - end) / (start - end))[..., None]


def two_powers(v: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """A fall and a rise. theta: their log rates."""
    return np.stack([_fall(v, np.exp(theta[:, :1])), _fall(1 - v, np.exp(theta[:, 1:]))], axis=-1)


def valley(v: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Straight sides in v. theta: the logs of their slopes, and where they meet."""
    down, up, place = np.exp(theta[:, :1]), np.exp(theta[:, 1:2]), theta[:, 2:]
    inside = np.logaddexp(-down * (np.linspace(0, 1, 9) - place), up * (np.linspace(0, 1, 9) - place))
    low, high = inside.min(1, keepdims=True), inside.max(1, keepdims=True)
    return np.asarray((np.logaddexp(-down * (v - place), up * (v - place)) - low) / (high - low))[..., None]


def logistic(v: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """From one level to another. theta: the log of its rate, and the middle, which may lie beyond the range."""
    rate, place = np.exp(theta[:, :1]), theta[:, 1:]
    steeper = np.logaddexp(0, rate * -place) - np.logaddexp(0, rate * (v - place))
    return np.asarray(np.expm1(rate * (v - 1)) / np.expm1(-rate) * np.exp(steeper))[..., None]


def exponential(v: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Exponential in a power of the length, to a floor. theta: the log of its rate, and where one e-folding is done."""
    rate, place = np.exp(theta[:, :1]), theta[:, 1:]
    first, last, done = (-np.expm1(-np.exp(rate * (w - place))) for w in (0.0, 1.0, v))
    return np.asarray((last - done) / np.maximum(last - first, 1e-100))[..., None]


def power_and_exponential(v: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The sum of both, each with its weight."""
    return np.concatenate([power_law(v, theta[:, :1]), exponential(v, theta[:, 1:])], axis=-1)


def beginning(v: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Faster and faster, as an S-shape begins. theta: log rate."""
    return _fall(1 - v, np.exp(theta))[..., None]


def _fall(v: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Exponential, from 1 at v = 0 to 0 at v = 1."""
    return np.asarray(np.expm1(-rate * (v - 1)) / np.expm1(rate))


class Form(NamedTuple):
    """One form of a loss. priors: mean and standard deviation of each theta. turns: whether its weights are above 0.
    share: its prior probability."""

    family: str
    columns: Callable[[np.ndarray, np.ndarray], np.ndarray]
    priors: tuple[tuple[float, float], ...]
    turns: bool
    share: float


FORMS = (
    Form("power law", power_law, (LOG_RATE,), False, 1 / 6),
    Form("power law", power_law, (STRAIGHT,), False, 1 / 12),
    Form("broken power law", broken_power_law, (LOG_RATE, LOG_RATE, BREAK), False, 1 / 8),
    Form("broken power law", power_and_exponential, (LOG_RATE, *STEP), True, 1 / 8),
    Form("U-shape", two_powers, (LOG_RATE, LOG_RATE), True, 1 / 8),
    Form("U-shape", valley, (LOG_RATE, LOG_RATE, BREAK), True, 1 / 8),
    Form("S-shape", logistic, STEP, False, 1 / 16),
    Form("S-shape", exponential, STEP, False, 1 / 8),
    Form("S-shape", beginning, (LOG_RATE,), False, 1 / 16),
)


class LossCurve(NamedTuple):
    """Draws of one curve. parts: (form, theta (n, size), level and weights (n, 1 + columns), noise (n,)) each, in units
    of the curve: v and (loss - centre) / scale. families: their probabilities."""

    parts: Sequence[tuple[Form, np.ndarray, np.ndarray, np.ndarray]]
    families: dict[str, float]
    low: float
    high: float
    centre: float
    scale: float

    def at(self, logs: np.ndarray, rng: np.random.Generator, *, new: bool = True) -> np.ndarray:
        """Draws of the loss where the length has these logs: (draws, points). new: of a new value, with its noise."""
        v, values = (np.asarray(logs) - self.low) / (self.high - self.low), []
        for form, theta, weights, noise in self.parts:
            mean = np.einsum("nkp,np->nk", _design(form, v, theta), weights)
            values.append(mean + new * noise[:, None] * rng.standard_normal(mean.shape))
        return self.centre + self.scale * np.concatenate(values)


def fit_losses(curves: Sequence[tuple[np.ndarray, np.ndarray]], seed: int = 0) -> list[LossCurve]:
    """Draw each curve. curves: (logs of the lengths, at least `FEWEST` different ones, losses) each."""
    rng = np.random.default_rng(seed)
    typical = float(np.median([np.ptp(losses) for _, losses in curves]))
    units, drawn = [], []
    for logs, losses in curves:
        centre, low, high = float(losses.mean()), float(logs.min()), float(logs.max())
        scale = max(float(np.ptp(losses)), 0.2 * typical, 1e-9 * abs(centre), 1e-300)
        units.append((low, high, centre, scale))
        drawn.append([_drawn(form, (logs - low) / (high - low), (losses - centre) / scale, rng) for form in FORMS])
    apart = log_softmax(-0.5 * (np.log(NOISES[:, None] / NOISES) / APART) ** 2, axis=1)  # (shared, of a curve)
    weights = [[one.weight[:, None] + one.value + np.log(one.form.share) for one in parts] for parts in drawn]
    likely = np.array([logsumexp(np.concatenate(one), axis=0) for one in weights])
    shared = logsumexp(apart + likely[:, None], axis=-1)  # (curves, shared)
    noises = [logsumexp((PRIOR + shared.sum(0) - one)[:, None] + apart, axis=0) for one in shared]
    return [_curve(*one, rng) for one in zip(drawn, noises, units, strict=True)]


class _Drawn(NamedTuple):
    """A form on one curve: theta (n, size), log importance weights (n,), and for each noise the log likelihood, the
    means of level and weights and the Cholesky factor of their precision."""

    form: Form
    theta: np.ndarray
    weight: np.ndarray
    value: np.ndarray
    mean: np.ndarray
    root: np.ndarray


def _drawn(form: Form, v: np.ndarray, losses: np.ndarray, rng: np.random.Generator) -> _Drawn:
    mean, sd = np.array(form.priors).T
    size, centre, root = len(mean), mean, np.diag(sd)
    for _ in range(ROUNDS):  # each proposal has the moments of the draws before it
        z = rng.standard_normal((PROPOSED, size)) / np.sqrt(rng.chisquare(DEGREES, (PROPOSED, 1)) / DEGREES)
        theta = np.where(rng.random((PROPOSED, 1)) < FROM_PRIOR, mean + z * sd, centre + z @ root.T)
        density = partial(multivariate_t.logpdf, theta, df=DEGREES)
        near, wide = density(centre, root @ root.T), density(mean, np.diag(sd**2))
        weight = norm.logpdf(theta, mean, sd).sum(1)
        weight -= np.logaddexp(near + np.log(1 - FROM_PRIOR), wide + np.log(FROM_PRIOR)) + np.log(PROPOSED)
        weight[(np.abs(theta - mean) >= LIMIT * sd).any(1)] = -np.inf
        theta = np.clip(theta, mean - LIMIT * sd, mean + LIMIT * sd)
        drawn = _Drawn(form, theta, weight, *_linear(_design(form, v, theta), losses))
        share = softmax(logsumexp(drawn.value + PRIOR, axis=1) + weight)
        centre = share @ theta
        root = np.linalg.cholesky((theta - centre).T @ ((theta - centre) * share[:, None]) + 1e-4 * np.eye(size))
    return drawn


def _design(form: Form, v: np.ndarray, theta: np.ndarray) -> np.ndarray:
    columns = form.columns(v, theta)
    return np.concatenate([np.ones_like(columns[..., :1]), columns], axis=-1)


def _linear(design: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The log likelihood (n, noises) with level and weights integrated out, and their normal distributions."""
    size, variance = design.shape[-1], NOISES**2
    square = np.swapaxes(design, 1, 2) @ design
    precision = square[:, None] / variance[:, None, None] + np.eye(size) / WIDE**2
    right = (losses @ design)[:, None] / variance[:, None]
    root, mean = np.linalg.cholesky(precision), np.linalg.solve(precision, right[..., None])[..., 0]
    value = -0.5 * (losses @ losses / variance - (right * mean).sum(-1) + len(losses) * np.log(2 * np.pi * variance))
    return value - np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(-1) - size * np.log(WIDE), mean, root


def _curve(drawn: Sequence[_Drawn], noise: np.ndarray, units: Sequence[float], rng: np.random.Generator) -> LossCurve:
    """Joint draws of one curve, given the log probability of its noise from the others."""
    parts, totals, families = [], np.empty(len(FORMS)), dict.fromkeys((form.family for form in FORMS), 0.0)
    for k, one in enumerate(drawn):
        value = (one.weight[:, None] + one.value + noise).ravel()
        totals[k] = logsumexp(value) + np.log(one.form.share)
        theta, level = np.divmod(rng.choice(len(value), KEPT, p=softmax(value)), len(NOISES))
        z = rng.standard_normal((KEPT, one.mean.shape[-1], 1))
        weights = one.mean[theta, level] + np.linalg.solve(np.swapaxes(one.root[theta, level], 1, 2), z)[..., 0]
        right = (weights[:, 1:] > 0).all(1) | (not one.form.turns)
        with np.errstate(divide="ignore"):  # a form whose signs no draw has
            totals[k] += np.log(right.mean()) + one.form.turns * (weights.shape[1] - 1) * np.log(2)
        parts.append((one.form, one.theta[theta[right]], weights[right], NOISES[level[right]]))
    shares, kept = softmax(totals), []
    for (form, *values), share in zip(parts, shares.tolist(), strict=True):
        families[form.family] += share
        if count := round(KEPT * share):
            some = rng.choice(len(values[0]), count)
            kept.append((form, *(one[some] for one in values)))
    return LossCurve(kept, families, *units)
