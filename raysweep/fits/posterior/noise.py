"""The draws of one curve, scaled, and what they say of the mean curve under each structure of their noise.

A draw is mean curve + level + noise. The noise has a structured covariance N (independent, tilt, smooth; changing
along the curve). If no value is missing, the true covariance of a draw is inverse Wishart around N, worth `freedom`
draws, so that what the draws share along the curve is learned from their scatter where there are enough of them.

Where draws differ in a tilt and a wave and in nothing else, their scatter says nothing of all other directions. A curve
that fits exactly there would make the tilt seem smaller, too, because one covariance has one share of Student's t. So
their mean has some independent noise that is not part of that covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import legvander
from scipy.special import gammainccinv, gammaln, ndtr

from raysweep.fits.posterior.prior import CurveParameters
from raysweep.fits.statistics import two_way_anova

NOISE = (
    *("independent", "growth", "growth_square", "growth_cube", "with_height"),
    *("tilt", "smooth", "smooth_length", "freedom"),
)
INDEPENDENT = (-3.0, 0.3)  # decades of the deviation of all residuals between which the size of independent noise lies
OF_A_DRAW = (-2.0, 0.6)  # and those of what a draw shares along the curve: three draws show its size to a factor of 3
FREEDOM = 2.0, 200.0  # draws that the structure of the noise is worth
DIGITS = 10  # of the range of the mean curve
LEAST_NOISE = 1e-6  # of the range of the mean curve: less is lost in rounding

JITTER = 1e-13
LEAST = 1e-3  # of the deviation of all residuals: independent noise below it is not told from none
HIDDEN = 0.05  # of that deviation: independent noise of a draw beside what the covariance says


@dataclass(frozen=True, eq=False)
class CurveData:
    """The draws of one curve in units without dimension."""

    t: np.ndarray  # (points,), from 0 to 1, increasing
    mean: np.ndarray  # (points,), the mean curve; its lowest point is 0
    residual: np.ndarray  # (draws, points), value - mean - the level of the draw; NaN where missing
    deviation: float  # the standard deviation of the residuals
    contrasts: np.ndarray  # (points - 1, points), orthonormal rows orthogonal to 1: all that values without a level say


def curve_data(x: np.ndarray, values: np.ndarray) -> CurveData:
    """Scale the draws of a curve.

    x: (points,), increasing, finite, at least two.
    values: (draws, points), finite or NaN (missing), each point in some draw. At least two draws share two points.
    """
    values = values[np.isfinite(values).any(axis=1)]
    present = np.isfinite(values)
    draws, points = values.shape
    t = (x - x[0]) / (x[-1] - x[0])
    curve = two_way_anova(values).curve
    offset, scale = float(curve.min()), float(np.ptp(curve)) or 1.0
    mean, scaled = (curve - offset) / scale, (values - offset) / scale
    residual = scaled - mean
    residual -= np.nanmean(residual, axis=1, keepdims=True)
    # What rounding leaves of a draw's level must not change the answer.
    mean, residual = np.round(mean, DIGITS), np.round(residual, DIGITS)
    degrees = max(present.sum() - points - (draws - 1), 1)
    deviation = float(np.sqrt(np.nansum(residual**2) / degrees))
    contrasts = np.linalg.svd(np.eye(points) - 1 / points)[2][: points - 1]
    return CurveData(t, mean, residual, max(deviation, LEAST_NOISE), contrasts)


@dataclass(frozen=True, eq=False)
class Seen:
    """What the draws say of contrasts of (mean curve - mean of the data), for each particle."""

    estimate: np.ndarray  # (particles, contrasts)
    covariance: np.ndarray  # (particles, contrasts, contrasts), of the estimate given the mean curve
    freedom: np.ndarray  # (particles,), the degrees of freedom of its Student t distribution; inf if it is normal
    evidence: np.ndarray  # (particles,), the log density of everything in the draws but the estimate
    hidden: float  # the variance of each contrast that is not part of the covariance

    def chosen(self, p: CurveParameters) -> tuple[np.ndarray, np.ndarray]:
        """(estimate, covariance) for each curve: the structure that `choice` says, at the quantile that `tail` says.

        A Student t distribution is a normal distribution whose variance is divided by chi squared over its degrees of
        freedom.
        """
        count = len(self.evidence)
        index = np.minimum((ndtr(p.choice) * count).astype(int), count - 1)
        freedom = self.freedom[index]
        finite = np.isfinite(freedom)
        half = np.where(finite, freedom, 2.0) / 2
        share = np.where(finite, np.maximum(gammainccinv(half, ndtr(p.tail)) / half, 1e-3), 1.0)
        hidden = self.hidden * np.eye(self.estimate.shape[1])
        return self.estimate[index], self.covariance[index] / share[:, None, None] + hidden


def size_at(z: np.ndarray, decades: tuple[float, float]) -> np.ndarray:
    """The size at a standard normal coordinate: its logarithm is uniform between the decades."""
    return np.asarray(10 ** (decades[0] + (decades[1] - decades[0]) * ndtr(z)))


def noise_parameters(z: np.ndarray, data: CurveData) -> dict[str, np.ndarray]:
    """The parameters of structures of noise, each (particles,), at coordinates z (particles, NOISE), which are standard
    normal a priori.

    independent: the standard deviation of the independent noise of one value, in the middle.
    tilt, smooth: those of a tilt of each draw (at the ends) and of a smooth curve of each draw (in the middle).
    smooth_length: the correlation length of that smooth curve.
    growth: (particles, 3), the coefficients of the logarithm of the noise along t, in Legendre polynomials.
    with_height: the independent noise grows by this factor of the height above the lowest point.
    freedom: how many draws the structure of the noise is worth, against the scatter that the draws show.

    The sizes have coordinates of their own. With shares of one size, a tilt that is large beside the independent noise
    would have to be large in the prior, too, and few particles would find it.
    """
    c = dict(zip(NOISE, z.T, strict=True))
    return {
        "independent": data.deviation * size_at(c["independent"], INDEPENDENT),
        "tilt": data.deviation * size_at(c["tilt"], OF_A_DRAW),
        "smooth": data.deviation * size_at(c["smooth"], OF_A_DRAW),
        "smooth_length": np.exp(np.log(0.3) + 0.5 * c["smooth_length"]),
        "growth": np.stack([0.8 * c["growth"], 0.5 * c["growth_square"], 0.3 * c["growth_cube"]], axis=1),
        "with_height": np.exp(np.log(0.2) + 1.3 * c["with_height"]),
        "freedom": FREEDOM[0] * (FREEDOM[1] / FREEDOM[0]) ** ndtr(c["freedom"]),
    }


def structured(p: dict[str, np.ndarray], data: CurveData) -> np.ndarray:
    """The structured covariance of one draw: (particles, points, points)."""
    t = data.t
    height = 1 + p["with_height"][:, None] * np.abs(data.mean)
    out = np.exp(-0.5 * ((t[:, None] - t) / p["smooth_length"][:, None, None]) ** 2) * p["smooth"][:, None, None] ** 2
    out = out + p["tilt"][:, None, None] ** 2 * 4 * np.outer(t - 0.5, t - 0.5)
    diagonal = np.arange(len(t))
    out[:, diagonal, diagonal] += (p["independent"][:, None] * height) ** 2
    along = np.exp(p["growth"] @ legvander(2 * t - 1, 3)[:, 1:].T)
    out *= along[:, :, None] * along[:, None, :]
    out[:, diagonal, diagonal] += (LEAST * data.deviation) ** 2
    return np.asarray(out)


def seen(p: dict[str, np.ndarray], data: CurveData) -> Seen:
    """What the draws say of the mean curve under each particle's noise."""
    covariance = structured(p, data)
    hidden = float((HIDDEN * data.deviation) ** 2 / len(data.residual))
    if np.isfinite(data.residual).all():
        return from_scatter(p, covariance, data, hidden)
    return from_patterns(covariance, data, hidden)


def log_determinant(matrix: np.ndarray) -> np.ndarray:
    """The log determinant of positive definite matrices (..., n, n)."""
    root = np.linalg.cholesky(matrix)
    return np.asarray(2 * np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1))


def from_scatter(p: dict[str, np.ndarray], covariance: np.ndarray, data: CurveData, hidden: float) -> Seen:
    """Without missing values: the covariance of a draw is marginalized.

    Given the scatter W of n draws, the mean of the draws has a multivariate Student t distribution about the curve,
    with freedom + n - 1 degrees of freedom and the matrix (freedom N + W) / (n (freedom + n - 1)).
    """
    contrasts, draws = data.contrasts, len(data.residual)
    q = len(contrasts)
    projected = data.residual @ contrasts.T
    centre = projected.mean(axis=0)
    prior = p["freedom"][:, None, None] * (contrasts @ covariance @ contrasts.T)
    trace = np.trace(prior, axis1=1, axis2=2)[:, None, None] / q
    prior = prior + JITTER * trace * np.eye(q)
    total = prior + (projected - centre).T @ (projected - centre)
    degrees = p["freedom"] + q - 1
    halves = np.arange(q)
    gamma = gammaln((degrees[:, None] + draws - 1 - halves) / 2) - gammaln((degrees[:, None] - halves) / 2)
    evidence = (
        0.5 * degrees * log_determinant(prior)
        - 0.5 * (degrees + draws - 1) * log_determinant(total)
        + gamma.sum(axis=1)
    )
    freedom = p["freedom"] + draws - 1
    covariance = total / (draws * freedom)[:, None, None]
    return Seen(np.tile(centre, (len(prior), 1)), covariance, freedom, evidence, hidden)


def from_patterns(covariance: np.ndarray, data: CurveData, hidden: float) -> Seen:
    """With missing values: generalized least squares over draws with the structured covariance."""
    contrasts, points = data.contrasts, len(data.t)
    particles = len(covariance)
    information, right = np.zeros((particles, points, points)), np.zeros((particles, points))
    evidence = np.zeros(particles)
    present = np.isfinite(data.residual)
    for pattern in np.unique(present, axis=0):
        rows = data.residual[(present == pattern).all(axis=1)][:, pattern]
        at = np.flatnonzero(pattern)
        inner = covariance[:, at[:, None], at]
        inner = inner + JITTER * np.trace(inner, axis1=1, axis2=2)[:, None, None] * np.eye(len(at))
        root = np.linalg.inv(np.linalg.cholesky(inner))
        precision = np.swapaxes(root, 1, 2) @ root
        evidence += len(rows) * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        ones = precision.sum(axis=2)  # a flat prior of the draw's level
        total = ones.sum(axis=1)
        precision = precision - ones[:, :, None] * ones[:, None, :] / total[:, None, None]
        evidence -= 0.5 * len(rows) * np.log(total)
        evidence -= 0.5 * np.einsum("si,bij,sj->b", rows, precision, rows)
        information[:, at[:, None], at] += len(rows) * precision
        right[:, at] += precision @ rows.sum(axis=0)
    inner = contrasts @ information @ contrasts.T
    inner = inner + JITTER * np.trace(inner, axis1=1, axis2=2)[:, None, None] * np.eye(len(contrasts))
    root = np.linalg.inv(np.linalg.cholesky(inner))
    spread = np.swapaxes(root, 1, 2) @ root
    projected = right @ contrasts.T
    estimate = (spread @ projected[:, :, None])[:, :, 0]
    evidence += 0.5 * (projected * estimate).sum(axis=1)
    evidence += np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return Seen(estimate, spread, np.full(particles, np.inf), evidence, hidden)
