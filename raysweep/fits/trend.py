"""Tests of whether a metric rises or falls along an axis, for progressive sensitivity (O §3.3, Thm 4.6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from raysweep.fits.draws import DrawCurves, draw_curves, log_axis, means_with_errors, usable
from raysweep.fits.reasons import Reason, because
from raysweep.fits.result import EXACT
from raysweep.fits.statistics import (
    LEVEL,
    ROUNDING,
    Anova,
    noiseless,
    normal_quantile,
    rising_chances,
    scale_of,
    standard_error,
    t_quantile,
    two_sided,
    two_way_anova,
)
from raysweep.lazy import pd

RISES, FALLS, UNCLEAR, UNTESTED, SAME = "rises", "falls", "no clear trend", "not tested", "does not change"
PER_DRAW = "per draw: Student's t on each draw's slope"
PER_RUN = "the standard error of each run"
FEWEST_POINTS = 2


@dataclass(frozen=True, kw_only=True)
class Trend:
    """The trend of the mean over draws along an axis. A field is NaN if it could not be computed."""

    slope: float = np.nan  # the least-squares slope, per unit of x, or per factor of ten if `logarithmic`
    low: float = np.nan  # low, high: the confidence interval of the slope
    high: float = np.nan
    p_value: float = np.nan  # two-sided; small if the slope is not 0
    p_against: float = np.nan  # small if the curve goes against the direction of the slope between some two points
    p_along: float = np.nan  # small if the curve goes in the direction of the slope between some two points
    p_throughout: float = np.nan  # small if every step between neighbouring points goes in the direction of the slope
    logarithmic: bool  # whether the slope is over log10 x
    points: int  # points, draws: how many were used
    draws: int
    method: str = "none"  # what the error of the slope comes from
    exact: bool = False  # whether the curve has no noise
    reason: Reason = Reason.NONE  # reason, note: why there is no result, and its text (see `Reason`)
    note: str = ""
    # move, move_from, move_to: the largest change of the mean curve in the direction of the slope, and between which x.
    move: float = np.nan
    move_from: float = np.nan
    move_to: float = np.nan
    # back, back_from, back_to: the largest change against the direction of the slope (0 if there is none), likewise.
    back: float = np.nan
    back_from: float = np.nan
    back_to: float = np.nan


def fit_trend(
    frame: pd.DataFrame,
    x: str,
    y: str,
    seed: str,
    level: float = LEVEL,
    *,
    logarithmic: bool | None = None,
    error: str | None = None,
    degrees: float = np.inf,
) -> Trend:
    """Estimate the least-squares slope of `y` over `x`, with its interval, and test whether the trend holds throughout.

    frame, x, y, seed: as for `fit_inflection`. Rows with x = inf are not used, nor x <= 0 on a logarithmic axis.
    logarithmic: whether the slope is over log10 x; None guesses from the values of x.
    error: the column of the standard error of each run. It takes the place of the noise that draws show, so one run at
        each x is enough. Errors of different runs are independent.
    degrees: of Student's t, which errors follow whose tails are heavy: 95 % of them lie within 1.96 standard errors.

    The draw is the unit: Student's t on the slope of each draw. Points of a single draw are left out. The test that
    every step goes one way is an intersection-union test, in which each step is tested with its own noise only.

    Raises ValueError for an unknown column.
    """
    rows, _ = usable(frame, y, [x, seed])
    if error:
        points = means_with_errors(rows, [x], y, error)
        at, means, errors = (points[name].to_numpy() for name in (x, y, error))
        curves = DrawCurves(at, means[None], np.zeros(1))
    else:
        curves, errors = draw_curves(rows, x, y, seed), np.empty(0)
    finite = np.isfinite(curves.x)
    logarithmic = log_axis(curves.x[finite & (curves.x > 0)]) if logarithmic is None else logarithmic
    use = finite & (curves.x > 0) if logarithmic else finite
    if len(curves.values) > 1:
        use = use & (np.isfinite(curves.values).sum(axis=0) > 1)
    at, values = curves.x[use], curves.values[:, use]
    values = values[np.isfinite(values).any(axis=1)]
    draws, count = values.shape
    nothing = Trend(logarithmic=logarithmic, points=count, draws=draws)
    if count < FEWEST_POINTS or (draws < 2 and not error):
        few, least = (Reason.TOO_FEW_POINTS, FEWEST_POINTS) if count < FEWEST_POINTS else (Reason.TOO_FEW_DRAWS, 2)
        return replace(nothing, **because(few, points=count, draws=draws, least=least))
    u = np.log10(at) if logarithmic else at
    every = use | (finite & (curves.x == 0)) if logarithmic else use  # also the step from a 0
    if error:
        return trend_with_errors(nothing, curves.x[every], means[every], errors[every], degrees, level)
    fit = two_way_anova(values)
    if fit.degrees < 1:
        return replace(nothing, **because(Reason.NOISE_UNKNOWN))
    steps = curves.values[:, every]
    if noiseless(values, fit):
        exact = exact_trend(nothing, at, u, fit.curve)
        if steps.shape[1] == count or exact.reason:
            return exact
        return replace(exact, p_throughout=every_step(steps, -1.0 if exact.slope < 0 else 1.0))
    (slope,), (scatter,), (slopes,) = standard_error(draw_slopes(u, values, fit)[:, None])
    slope, scatter, degrees = float(slope), float(scatter), int(slopes) - 1
    sign = -1.0 if slope < 0 else 1.0
    half = t_quantile(level, degrees) * scatter
    return replace(
        nothing,
        slope=slope,
        low=slope - half,
        high=slope + half,
        p_value=two_sided(slope, scatter, degrees),
        p_against=clearest_change(values, -sign),
        p_along=clearest_change(values, sign),
        p_throughout=every_step(steps, sign),
        method=PER_DRAW,
        **moves(at, fit.curve, sign),
    )


def trend_with_errors(
    nothing: Trend, x: np.ndarray, curve: np.ndarray, errors: np.ndarray, degrees: float, level: float
) -> Trend:
    """The trend of a curve over x, on a logarithmic axis apart from a 0, whose values err independently.

    nothing: a Trend with the fields that do not depend on the curve. degrees: see `fit_trend`. A slope averages over
    many runs, so its error is taken as normal; that of a change between two values is not.
    """
    from scipy.special import stdtr

    use = x > 0 if nothing.logarithmic else np.isfinite(x)
    at, scales = x[use], scale_of(errors, degrees)
    weights = slope_weights(np.log10(at) if nothing.logarithmic else at)
    slope, error = float(weights @ curve[use]), float(np.sqrt(weights**2 @ errors[use] ** 2))
    sign, half = -1.0 if slope < 0 else 1.0, normal_quantile(level) * error
    first, second = np.triu_indices(len(at), 1)
    change, apart = curve[use][second] - curve[use][first], np.hypot(scales[use][first], scales[use][second])
    steps = sign * np.diff(curve) / np.hypot(scales[1:], scales[:-1])
    back, along = (min(1.0, len(change) * float(stdtr(degrees, (way * change / apart).min()))) for way in (sign, -sign))
    return replace(
        nothing,
        slope=slope,
        low=slope - half,
        high=slope + half,
        p_value=two_sided(slope, error, np.inf),
        p_against=back,
        p_along=along,
        p_throughout=float(stdtr(degrees, -steps.min())),
        method=PER_RUN,
        **moves(at, curve[use], sign),
    )


def exact_trend(nothing: Trend, at: np.ndarray, u: np.ndarray, curve: np.ndarray) -> Trend:
    """The trend of a curve without noise over x `at`, its slope over u: no width, and every p-value is 0 or 1.

    nothing: a Trend with the fields that do not depend on the curve.
    """
    nothing, size = replace(nothing, method=EXACT, exact=True), float(np.ptp(curve))
    if size <= ROUNDING * max(float(np.abs(curve).max()), 1e-300):
        return replace(nothing, slope=0.0, low=0.0, high=0.0, p_value=1.0, **because(Reason.CONSTANT))
    slope = float(slope_weights(u) @ curve)
    if abs(slope) * np.ptp(u) <= ROUNDING**0.75 * size:
        slope = 0.0
    sign = -1.0 if slope < 0 else 1.0
    steps = sign * np.diff(curve)
    p_values: dict[str, Any] = {
        "p_value": float(slope == 0),
        "p_against": float(not (steps < -ROUNDING * size).any()),
        "p_along": float(not (steps > ROUNDING * size).any()),
        "p_throughout": float(not (steps > ROUNDING * size).all()),
    }
    return replace(nothing, slope=slope, low=slope, high=slope, **p_values, **moves(at, curve, sign))


def slope_weights(u: np.ndarray) -> np.ndarray:
    """The weights w for which w @ values is the least-squares slope of the values over u."""
    centred = u - u.mean()
    return np.asarray(centred / (centred**2).sum())


def draw_slopes(u: np.ndarray, values: np.ndarray, fit: Anova) -> np.ndarray:
    """The slope of each draw over u. Where cells are missing, how much each draw adds to that of the mean curve (the
    pseudo-values of a jackknife, of the draws with two points or more)."""
    weights, draws = slope_weights(u), np.flatnonzero(np.isfinite(values).sum(axis=1) > 1)
    if np.isfinite(values).all():
        return np.asarray(values @ weights)
    without = np.array([weights @ two_way_anova(np.delete(values, one, axis=0)).curve for one in draws])
    return len(draws) * float(weights @ fit.curve) - (len(draws) - 1) * without


def clearest_change(values: np.ndarray, sign: float) -> float:
    """The p-value for a change in the direction of `sign` between some two points: Student's t test over draws of the
    clearest change, corrected for the number of pairs (Bonferroni)."""
    first, second = np.triu_indices(values.shape[1], 1)
    chance = rising_chances(sign * (values[:, second] - values[:, first]), float(np.nanmax(np.abs(values))))
    return float(min(1.0, len(first) * chance.min()))


def every_step(values: np.ndarray, sign: float) -> float:
    """The p-value for every step between neighbouring points of the mean going in the direction of `sign`, against at
    least one that does not: the largest of all steps (intersection-union test), the draw as the unit."""
    chance = rising_chances(sign * np.diff(values, axis=1), float(np.nanmax(np.abs(values))))
    return float(chance.max())


def moves(at: np.ndarray, curve: np.ndarray, sign: float) -> dict[str, Any]:
    """The largest change of a curve in the direction of `sign` (move) and against it (back): size, from which x, to
    which x."""
    first, second = np.triu_indices(len(at), 1)
    change = sign * (curve[second] - curve[first])
    out: dict[str, Any] = {}
    for name, each in (("move", change), ("back", -change)):
        k = int(np.argmax(each))
        out |= {name: max(float(each[k]), 0.0), f"{name}_from": float(at[first[k]]), f"{name}_to": float(at[second[k]])}
    return out


def trend_verdict(slope: float, p_value: float, level: float, reason: str = Reason.NONE) -> str:
    """The trend in words: rises, falls, no clear trend, does not change, or not tested."""
    if not np.isfinite(p_value):
        return UNTESTED
    if not p_value <= 1 - level:
        return SAME if reason == Reason.CONSTANT else UNCLEAR
    return RISES if slope > 0 else FALLS
