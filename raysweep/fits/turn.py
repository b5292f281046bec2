"""Turns of curves with one run per point whose standard errors are given, such as accuracies of checkpoints.

A curve turns if it clearly rises to some stretch and clearly falls from it to its end. The statistic is the largest
difference, in standard errors, between the mean of a stretch and that of the rest of the curve after it (of what is
before it, for the rise). Its distribution without a turn is simulated: errors on the best curve that goes one way.
Neighbouring points of one run are never used to estimate noise: a training run's checkpoints share their test items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from raysweep.fits.draws import means_with_errors
from raysweep.fits.reasons import Reason, because
from raysweep.fits.result import Fit, Status, fitted
from raysweep.fits.statistics import LEVEL, holm, normal_quantile
from raysweep.lazy import pd

SIMULATED, MORE = 199, 1999  # curves without a turn; more for a p up to `PROMISING`
PROMISING = 0.1
# With fewer simulated curves beyond, p is that of the extreme-value distribution (Gumbel) with their moments, whose
# tail is heavier than that of a maximum of normal variables.
COUNTED = 10
RESAMPLED = 400
CLEAR = 2.0
FEWEST = 5
METHOD = "test against level curves, with the known errors"
LONGEST = 40  # points at most at which stretches begin and end


@dataclass(frozen=True)
class Turn:
    """The turn of one curve, in the units of x and y."""

    estimate: float = np.nan  # the best of the points
    # low, high: the points next to those that may be the best by profile likelihood, because the curve may turn between
    # points.
    low: float = np.nan
    high: float = np.nan
    p: float = np.nan  # of no turn, two tests of which the larger counts
    base: float = np.nan  # the first value
    # fall, fall_low, fall_high: from the best value to the end, above 0 where the end is worse; fall_low is above 0
    # where p is at most 1 - level. The fall and all ends are NaN where p is above `PROMISING`.
    fall: float = np.nan
    fall_low: float = np.nan
    fall_high: float = np.nan


def find_turn(
    x: np.ndarray, y: np.ndarray, error: np.ndarray, *, turn: str = "min", level: float = LEVEL, seed: int = 0
) -> Turn:
    """Whether and where a curve turns. x: (points,), sorted. y, error: its values and their standard errors, above 0.

    With fewer than `FEWEST` points p is 1. So it is if a typical value of the curve is not clearly better than its
    first one: a model that begins at chance level and stays there has no turn.
    """
    if len(x) < FEWEST:
        return Turn(p=1.0, base=float(y[0]) if len(y) else np.nan)
    z = y if turn == "max" else -y
    weight, rng = 1 / error**2, np.random.default_rng(seed)
    p, price = _p(z, weight, level, rng)
    rises = np.median(z) - z[0] > CLEAR * np.hypot(np.median(error), error[0])
    p = max(p, _p(z[::-1], weight[::-1], level, rng)[0]) if rises else 1.0
    fit, squares = unimodal(z, weight)
    peak, fall = int(squares.argmin()), float(fit.max() - fit[-1])
    if p > PROMISING:
        return Turn(float(x[peak]), p=p, base=float(y[0]))
    ends = np.flatnonzero(squares - squares.min() <= normal_quantile(level) ** 2)[[0, -1]]
    low, high = float(x[max(ends[0] - 1, 0)]), float(x[min(ends[1] + 1, len(x) - 1)])
    some = [unimodal(fit + error * rng.standard_normal(len(z)), weight)[0] for _ in range(RESAMPLED)]
    falls = np.array([each.max() - each[-1] for each in some])
    bias = falls.mean() - fall  # the largest of many is too high
    least, most = _largest_fall(z[None], weight, price)[0], 2 * fall - np.quantile(falls, (1 - level) / 2) + bias / 2
    return Turn(float(x[peak]), low, high, p, float(y[0]), fall - bias, float(least), float(most))


def fit_turns(
    parts: Sequence[pd.DataFrame], x: str, y: str, error: str, level: float = LEVEL, *, turn: str = "min"
) -> Fit:
    """The turns of several curves: located where p, by Holm's correction for all curves, is at most 1 - level.

    parts: the rows of each curve, ok or not; runs at one x are averaged. The table has a row per curve, with p, p_holm,
    base, fall, fall_low and fall_high besides the columns of all places.
    """
    lines, rows = [], 0
    for part in parts:
        good = part[(part["status"] == "ok") & np.isfinite(part[y].to_numpy(float)) & (part[error] > 0)]
        good = good[np.isfinite(good[x].to_numpy(float))]
        points = means_with_errors(good, [x], y, error)
        at, values, errors = (points[name].to_numpy(float) for name in (x, y, error))
        best = find_turn(at, values, errors, turn=turn, level=level)
        rows += len(good)
        lines.append({**vars(best), "points": len(points), "draws": int(points["_runs"].max()) if len(points) else 0})
    table = pd.DataFrame(lines)
    table["p_holm"] = holm(table["p"].to_numpy())
    located = (table["p_holm"] <= 1 - level).to_numpy()
    table.loc[~located, ["estimate", "low", "high"]] = np.nan
    few = table["points"] < FEWEST
    table["status"] = np.where(located, Status.LOCATED, Status.UNDETERMINED)
    reasons = [
        because(Reason.NONE if good else Reason.TOO_FEW_POINTS if short else Reason.NO_TURN, points=n, least=FEWEST)
        for good, short, n in zip(located, few, table["points"], strict=True)
    ]
    table = table.assign(
        **pd.DataFrame(reasons), turn=turn, exact=False, halved=False, method=METHOD, method_spread=np.nan
    )
    return fitted("inflection", table, level=level, rows=rows, method=METHOD)


def unimodal(z: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least-squares curve that rises to one point and falls after it, and the sum of squares of the best one with
    its peak at each point."""
    fits = []
    for peak, (value, mass) in enumerate(zip(z, weight, strict=True)):
        rise = isotonic_regression(z[:peak], weights=weight[:peak]).x if peak else z[:0]
        after = slice(peak + 1, None)
        fall = isotonic_regression(z[after], weights=weight[after], increasing=False).x if peak + 1 < len(z) else z[:0]
        sides, masses = np.concatenate([rise, fall]), np.delete(weight, peak)
        down = np.argsort(-sides)  # the peak is pooled with all that would be above it
        top = (np.cumsum([mass * value, *(masses * sides)[down]]) / np.cumsum([mass, *masses[down]])).max()
        fits.append(np.insert(np.minimum(sides, top), peak, top))
    squares = (weight * (z - np.array(fits)) ** 2).sum(axis=1)
    return fits[int(squares.argmin())], squares


def _p(z: np.ndarray, weight: np.ndarray, level: float, rng: np.random.Generator) -> tuple[float, float]:
    """(the probability of such a fall to the end in a level curve, what such a fall has in standard errors at the
    level)."""
    error, observed = weight**-0.5, float(_largest_fall(z[None], weight)[0])
    for count in (SIMULATED, MORE):
        every = _largest_fall(error * rng.standard_normal((count, len(z))), weight)
        beyond = int((every >= observed).sum())
        p = (1 + beyond) / (count + 1)
        if p > PROMISING:
            break
    if beyond < COUNTED:
        scale = every.std() * np.sqrt(6) / np.pi
        p = float(-np.expm1(-np.exp(-(observed - every.mean()) / scale - np.euler_gamma)))
    return p, float(np.quantile(every, level, method="higher"))


def _largest_fall(z: np.ndarray, weight: np.ndarray, price: float | None = None) -> np.ndarray:
    """The largest fall from the mean of a stretch to that of all points from some later one on: (curves,). z: (curves,
    points). In standard errors; with a `price` in the units of z, less so many standard errors."""
    points = z.shape[1]
    marks = np.unique(np.linspace(0, points, min(points, LONGEST) + 1).round().astype(int))
    sums = np.concatenate([np.zeros((len(z), 1)), np.cumsum(z * weight, axis=1)], axis=1)[:, marks]
    mass = np.concatenate([[0.0], np.cumsum(weight)])[marks]
    first, last = np.triu_indices(len(marks), 1)
    means = (sums[:, last] - sums[:, first]) / (mass[last] - mass[first])
    variance = 1 / (mass[last] - mass[first])
    out = np.full(len(z), -np.inf)
    for s in range(1, len(marks) - 1):  # the rest begins at mark s
        before = last <= s
        size = means[:, before] - ((sums[:, -1] - sums[:, s]) / (mass[-1] - mass[s]))[:, None]
        error = np.sqrt(variance[before] + 1 / (mass[-1] - mass[s]))
        size = size / error if price is None else size - price * error
        out = np.maximum(out, size.max(axis=1))
    return out
