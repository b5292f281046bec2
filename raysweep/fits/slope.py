"""The slope of the log optimal rate over the log length, with an interval, from the posterior of each length's curve.

The errors of two lengths are not independent, because the same draws are used at both: a draw may have its optimum at
larger rates everywhere, which does not change the slope, or at larger rates for large lengths, which does. How the
draws move each optimum is estimated to first order, and the variance of the slope is a compromise between what these
movements show (as many degrees of freedom as draws, less one) and independence (worth INDEPENDENT degrees of freedom),
as in moderated tests (Smyth 2004, doi:10.2202/1544-6115.1027).

The interval of one length also holds what its points leave open about the form of the curve. If forms are alike, this
moves the optima of all lengths the same way, and not the slope. So where the optima lie nearer to a line than their
intervals let expect, the slope's interval is shorter, by the same kind of compromise. Optima off a line change nothing.
"""

from __future__ import annotations

import numpy as np

from raysweep.fits.at_best_lr import RateRows
from raysweep.fits.optimum import along_rates
from raysweep.fits.posterior.curve import SEED, curve_posterior
from raysweep.fits.posterior.places import minimum_places
from raysweep.fits.result import Status
from raysweep.fits.statistics import normal_quantile, t_quantile, two_way_anova
from raysweep.lazy import pd

EXACT_PLACES = 1440  # places between the ends of an interval without noise, all equally likely
INDEPENDENT = 4.0  # degrees of freedom that the independence of lengths is worth
SCATTERED = 2  # degrees of freedom that the intervals of single lengths are worth, against the scatter about the line


def fit_slope(
    table: pd.DataFrame, rows: RateRows, y: str, turn: str, level: float, exact: bool
) -> tuple[float, float, float, float]:
    """(slope, intercept, low, high) of the least-squares line of log optimal rate over log length.

    Slope and intercept are NaN unless the optimum is located at every length of the table of its fit. The interval
    (low, high) has the uncertainty of the optima with two bounds, and the most extreme values that the one bound of the
    others allows.
    """
    x = np.log(table[rows.length].to_numpy(float))
    weights = (x - x.mean()) / max(float(((x - x.mean()) ** 2).sum()), 1e-300)
    bounded = (np.isfinite(table["high"]) & (table["low"] > 0)).to_numpy()
    slope = intercept = np.nan
    low = high = 0.0
    if bounded.any():
        low, middle, high, rates = bounded_part(table[bounded], weights[bounded], rows, y, turn, level, exact)
        if (table["status"] == Status.LOCATED).all():
            slope, intercept = middle, float(rates.mean() - middle * x.mean())
    below, above = open_part(table[~bounded], weights[~bounded])
    return slope, intercept, low + below, high + above


def bounded_part(
    table: pd.DataFrame, weights: np.ndarray, rows: RateRows, y: str, turn: str, level: float, exact: bool
) -> tuple[float, float, float, np.ndarray]:
    """(low, middle, high) of the weighted sum of the log optimal rates of lengths with two bounds; and these rates."""
    at = np.log(table[rows.length].to_numpy(float))
    samples, moves = [], []
    for k, row in enumerate(table.to_dict("records")):
        rng = np.random.default_rng([k, SEED])
        if exact:
            sample = np.linspace(np.log(row["low"]), np.log(row["high"]), EXACT_PLACES)
        else:
            sample, move = sampled_optimum(rows, row[rows.length], row["diverged_from"], y, turn)
            moves.append(move)
        samples.append(rng.permutation(sample))
    log_rates = np.array(samples)
    middle = np.median(log_rates, axis=1)
    sums = weights @ log_rates
    tail = (1 - level) / 2
    low, high = np.quantile(sums, [tail, 1 - tail])
    centre = float(weights @ middle)
    if exact:
        return float(low), centre, float(high), middle
    widened = widening(log_rates, np.array(moves), weights, level) ** 2
    scattered = narrowing(at, log_rates, level) ** 2
    wider = float(np.sqrt(widened - (1 - scattered) * min(widened, 1.0)))  # what draws move together leaves no scatter
    return centre - wider * (centre - float(low)), centre, centre + wider * (float(high) - centre), middle


def sampled_optimum(rows: RateRows, length: float, limit: float, y: str, turn: str) -> tuple[np.ndarray, np.ndarray]:
    """(log optimal rates drawn from the posterior, how each draw moves the optimum) of one length.

    The movements are to first order and up to a factor: the covariance between the place of a path's minimum and the
    path, times the draw's residuals. They have an entry for each draw of `rows`, 0 for one that is not there.

    limit: the rate from which most draws diverged. An optimum at the last rate below it may lie anywhere between the
        rate before that and the limit.
    """
    curves = rows.curves(length, limit, y, turn)
    axis, u, values = along_rates(curves, logarithmic=True)
    places = minimum_places(curve_posterior(u, values))  # the same as of the fit of the optimum
    fit = two_way_anova(values)
    residual = fit.residual - np.nanmean(fit.residual, axis=0)
    paths = places.paths - places.paths.mean(axis=1, keepdims=True)
    covariance = (places.at - places.at.mean()) @ paths / len(paths)
    weight = np.interp((u - u[0]) / (u[-1] - u[0]), places.t, covariance)
    names = np.sort(rows.frame[rows.seed].unique())
    move = np.zeros(len(names))
    move[np.searchsorted(names, curves.seeds)] = np.nan_to_num(residual) @ weight
    sample = u[0] + places.at * (u[-1] - u[0])
    if np.isfinite(limit):
        last = places.at >= 1
        sample[last] = np.linspace(u[-2], axis.coordinate(np.array(limit)), int(last.sum()))
    return np.log(axis.unit) + sample, move


def widening(log_rates: np.ndarray, moves: np.ndarray, weights: np.ndarray, level: float) -> float:
    """The factor from an interval of weights @ log_rates (lengths, samples) that takes lengths as independent to one
    that knows how draws move them together. moves: (lengths, draws), in any unit."""
    freedom = moves.shape[1] - 1
    deviation = np.diff(np.quantile(log_rates, [0.16, 0.84], axis=1), axis=0)[0] / 2
    size = np.sqrt((moves**2).sum(axis=1, keepdims=True) / freedom)
    together = weights * deviation @ np.divide(moves, size, out=np.zeros_like(moves), where=size > 0)
    alone = float(((weights * deviation) ** 2).sum())
    if not alone > 0:
        return 1.0
    ratio = (INDEPENDENT + float((together**2).sum()) / alone) / (INDEPENDENT + freedom)
    return float(np.sqrt(ratio)) * t_quantile(level, INDEPENDENT + freedom) / normal_quantile(level)


def narrowing(x: np.ndarray, log_rates: np.ndarray, level: float) -> float:
    """The factor, at most 1, from an interval that takes the spread of each optimum, log_rates (lengths, samples), as
    its error to one that looks at how far the optima lie from a line over the log lengths x."""
    freedom = len(x) - 2
    low, middle, high = np.quantile(log_rates, [0.16, 0.5, 0.84], axis=1)
    line = np.stack([np.ones_like(x), x], axis=1)
    rest = np.eye(len(x)) - line @ np.linalg.pinv(line)
    expected = float(np.diag(rest) @ ((high - low) / 2) ** 2)  # rest is a projection
    if freedom < 1 or not expected > 0:
        return 1.0
    scatter = freedom * float(((rest @ middle) ** 2).sum()) / expected
    ratio = (SCATTERED + scatter) / (SCATTERED + freedom)
    return min(1.0, float(np.sqrt(ratio)) * t_quantile(level, SCATTERED + freedom) / normal_quantile(level))


def open_part(table: pd.DataFrame, weights: np.ndarray) -> tuple[float, float]:
    """(low, high) of the weighted sum of the log optimal rates with one bound."""
    low, high = table["low"].to_numpy(float), table["high"].to_numpy(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_low = np.where(low > 0, np.log(low), -np.inf)
        bounds = np.stack([weights * log_low, weights * np.log(high)])
    bounds = np.where(weights == 0, 0.0, bounds)  # a length at the mean has no effect on the slope
    return float(bounds.min(axis=0).sum()), float(bounds.max(axis=0).sum())
