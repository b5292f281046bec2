"""Does a metric rise or fall along an axis? A test, not an impression: progressive sensitivity (O §3.3, Thm 4.6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from raysweep.reporting.additive import additive_fit, rise, rises_by_chance, smooth_within_draws
from raysweep.reporting.draws import draw_curves, log_axis, usable
from raysweep.reporting.signs import independent_points, t_quantile

if TYPE_CHECKING:
    import pandas as pd

RISES, FALLS, UNCLEAR, UNTESTED = "rises", "falls", "no clear trend", "not tested"
FEWEST_POINTS = 3


@dataclass(frozen=True)
class Trend:
    """slope: of the mean over draws, by least squares, per unit of x or (logarithmic) per factor of ten; low, high: its
    interval. p_value: two-sided, of no slope. p_against: of the curve never going the other way between two points (a
    small one says that it does, somewhere). NaN where there is nothing to say."""

    slope: float
    low: float
    high: float
    p_value: float
    p_against: float
    logarithmic: bool
    points: int
    draws: int
    method: str
    note: str = ""


def fit_trend(frame: pd.DataFrame, x: str, y: str, seed: str, level: float = 0.95, *,
              logarithmic: bool | None = None) -> Trend:
    """The trend of `y` over `x`: rows as for `fit_inflection`; x = 0 (on a logarithmic axis) and inf stay outside;
    logarithmic: whether it is one, None to guess.

    Where draws differ by smooth curves the draw is the unit (Student's t on each draw's own slope), else the noise is
    pooled over all points, the draw effect removed. Raises ValueError for an unknown column.
    """
    rows, _ = usable(frame, y, [x, seed])
    curves = draw_curves(rows, x, y, seed)
    finite = np.isfinite(curves.x)
    logarithmic = log_axis(curves.x[finite & (curves.x > 0)], logarithmic)
    use = finite & (curves.x > 0) if logarithmic else finite
    at, values = curves.x[use], curves.values[:, use]
    values = values[np.isfinite(values).any(axis=1)]
    draws, points = values.shape
    nothing = Trend(np.nan, np.nan, np.nan, np.nan, np.nan, logarithmic, points, draws, "none")
    if points < FEWEST_POINTS or draws < 2:
        return replace(nothing, note=f"{points} points and {draws} draws: too few")
    u = np.log10(at) if logarithmic else at
    centred = u - u.mean()
    weights = centred / (centred**2).sum()
    fit = additive_fit(values)
    complete = values[np.isfinite(values).all(axis=1)]
    slope = float(weights @ fit.curve)
    if smooth_within_draws(fit) and len(complete) >= 2:
        error, degrees = float((complete @ weights).std(ddof=1) / np.sqrt(len(complete))), len(complete) - 1
        slope, method = float((complete @ weights).mean()), "per draw: Student's t on each draw's slope"
        against = per_draw_against(complete, np.sign(slope))
    elif fit.degrees > 0:
        error, degrees = float(np.sqrt(np.sum((weights @ fit.factor) ** 2))), fit.degrees
        method = "additive: pooled variance, draw effect removed"
        against = pooled_against(fit.curve, values, fit.variance, fit.degrees, np.sign(slope))
    else:
        return nothing
    if not error > 1e-12 * max(abs(slope), 1e-300):  # draws without noise: the slope is what it is
        if slope == 0:
            return nothing
        against = float(not (np.sign(slope) * np.diff(fit.curve) < -1e-12 * np.ptp(fit.curve)).any())
        return Trend(slope, slope, slope, 0.0, against, logarithmic, points, draws, "exact: draws do not differ")
    half = t_quantile(level, degrees) * error
    chance = two_sided(slope / error, degrees)
    return Trend(slope, slope - half, slope + half, chance, against, logarithmic, points, draws, method)


def two_sided(score: float, degrees: int) -> float:
    """The two-sided p-value of Student's t."""
    from scipy.special import stdtr

    return float(2 * stdtr(degrees, -abs(score)))


def pooled_against(curve: np.ndarray, values: np.ndarray, variance: float, degrees: int, sign: float) -> float:
    """How probable it is that a curve that never goes against `sign` seems to do so at least as clearly (simulated for
    equal means, the hardest such curve)."""
    if not variance > 0:
        return float("nan")
    count = np.isfinite(values).sum(axis=0)
    seen = float(rise(-sign * curve * np.sqrt(count / variance)))
    chance = rises_by_chance(len(curve), degrees)
    return float((1 + (chance >= seen).sum()) / (1 + len(chance)))


def per_draw_against(complete: np.ndarray, sign: float) -> float:
    """The same with the draw as the unit: Student's t on the clearest step against `sign` between any two points, for
    as many looks as there are points that move on their own (Bonferroni)."""
    draws, points = complete.shape
    first, second = np.triu_indices(points, 1)
    steps = -sign * (complete[:, second] - complete[:, first])
    error = steps.std(axis=0, ddof=1) / np.sqrt(draws)
    scores = np.divide(steps.mean(axis=0), error, out=np.zeros(len(error)), where=error > 0)
    looks = max(1.0, independent_points(np.diff(complete, axis=1)))
    return float(min(1.0, looks**2 / 2 * two_sided(float(max(scores.max(), 0.0)), draws - 1) / 2))


def holm(p_values: np.ndarray) -> np.ndarray:
    """p-values that hold for all looks at once (Holm 1979); NaN stays."""
    adjusted = np.full(len(p_values), np.nan)
    known = np.flatnonzero(np.isfinite(p_values))
    order = known[np.argsort(p_values[known])]
    running = 0.0
    for rank, k in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * float(p_values[k])))
        adjusted[k] = running
    return adjusted


def trend_verdict(slope: float, p_value: float, level: float) -> str:
    """rises, falls, no clear trend, or not tested."""
    if not np.isfinite(p_value):
        return UNTESTED
    if not p_value <= 1 - level:
        return UNCLEAR
    return RISES if slope > 0 else FALLS
