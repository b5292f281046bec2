"""Tests of whether a metric rises or falls along an axis, for progressive sensitivity (O §3.3, Thm 4.6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from raysweep.fits.draws import draw_curves, log_axis, usable
from raysweep.fits.reasons import Reason, because
from raysweep.fits.result import EXACT
from raysweep.fits.statistics import (
    LEVEL,
    ROUNDING,
    Anova,
    complete_draws,
    independent_points,
    noiseless,
    rising_chances,
    t_quantile,
    two_sided,
    two_way_anova,
)
from raysweep.lazy import pd

RISES, FALLS, UNCLEAR, UNTESTED, SAME = "rises", "falls", "no clear trend", "not tested", "does not change"
PER_DRAW, POOLED = "per draw: Student's t on each draw's slope", "additive: pooled variance, draw effect removed"
FEWEST_POINTS = 3  # two points always lie on a line
# Below this p-value the slopes of the draws count as different. It is large because few draws show a difference poorly.
MAY_DIFFER = 0.25
SIMULATED = 4000  # simulated curves; enough to know a 95 % quantile to about 1 %
WINDOWS = (1, 2, 3)  # points over which a change is averaged


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
    method: str = "none"  # how the error of the slope was computed
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
    frame: pd.DataFrame, x: str, y: str, seed: str, level: float = LEVEL, *, logarithmic: bool | None = None
) -> Trend:
    """Estimate the least-squares slope of `y` over `x`, with its interval, and test whether the trend holds throughout.

    frame, x, y, seed: as for `fit_inflection`. Rows with x = inf are not used, nor x <= 0 on a logarithmic axis.
    logarithmic: whether the slope is over log10 x; None guesses from the values of x.

    If draws differ by smooth curves, the draw is the unit: Student's t on the slope of each draw. Otherwise the noise
    is pooled over all points after removing the draw effects. The test that every step goes one way is an
    intersection-union test. It always has the draw as the unit, so each step is tested with its own noise only.

    Raises ValueError for an unknown column.
    """
    rows, _ = usable(frame, y, [x, seed])
    curves = draw_curves(rows, x, y, seed)
    finite = np.isfinite(curves.x)
    logarithmic = log_axis(curves.x[finite & (curves.x > 0)]) if logarithmic is None else logarithmic
    use = finite & (curves.x > 0) if logarithmic else finite
    at, values = curves.x[use], curves.values[:, use]
    values = values[np.isfinite(values).any(axis=1)]
    draws, points = values.shape
    nothing = Trend(logarithmic=logarithmic, points=points, draws=draws)
    if points < FEWEST_POINTS or draws < 2:
        few, least = (Reason.TOO_FEW_POINTS, FEWEST_POINTS) if points < FEWEST_POINTS else (Reason.TOO_FEW_DRAWS, 2)
        return replace(nothing, **because(few, points=points, draws=draws, least=least))
    fit = two_way_anova(values)
    if fit.degrees < 1:
        return replace(nothing, **because(Reason.NOISE_UNKNOWN))
    u = np.log10(at) if logarithmic else at
    every = curves.values[:, finite & (curves.x >= 0)] if logarithmic else values  # also the step from a 0
    if noiseless(values, fit):
        exact = exact_trend(nothing, at, u, fit.curve)
        if every.shape[1] == points or exact.reason:
            return exact
        return replace(exact, p_throughout=every_step(every, -1.0 if exact.slope < 0 else 1.0))
    slope, error, degrees, smooth = slope_of_mean(u, values, fit)
    sign = -1.0 if slope < 0 else 1.0
    half = t_quantile(level, degrees) * error
    change = partial(per_draw_change, complete_draws(values)) if smooth else partial(pooled_change, values, fit)
    return replace(
        nothing,
        slope=slope,
        low=slope - half,
        high=slope + half,
        p_value=two_sided(slope, error, degrees),
        p_against=change(-sign),
        p_along=change(sign),
        p_throughout=every_step(every, sign),
        method=PER_DRAW if smooth else POOLED,
        **moves(at, fit.curve, sign),
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


def slope_of_mean(u: np.ndarray, values: np.ndarray, fit: Anova) -> tuple[float, float, int, bool]:
    """(slope of the mean over draws, its standard error, its degrees of freedom, whether the draw was the unit)."""
    from scipy.special import fdtrc

    weights = slope_weights(u)
    slopes = complete_draws(values) @ weights
    pooled = float(np.sqrt(np.sum((weights @ fit.factor) ** 2)))
    if len(slopes) >= 2:
        error, degrees = float(slopes.std(ddof=1) / np.sqrt(len(slopes))), len(slopes) - 1
        # whether the slopes of the draws may differ by more than the noise within draws explains (F test)
        if smooth_within_draws(fit) or fdtrc(degrees, fit.degrees, (error / pooled) ** 2) < MAY_DIFFER:
            return float(slopes.mean()), error, degrees, True
    return float(weights @ fit.curve), pooled, fit.degrees, False


def smooth_within_draws(fit: Anova) -> bool:
    """Whether residuals at neighbouring points of one draw are correlated far more than independent noise would be.

    If so, draws differ by smooth curves, and the draw must be the unit of every test.
    """
    residual = fit.residual
    if fit.degrees < 4 or not fit.variance > 0:
        return False
    pairs = residual[:, :-1] * residual[:, 1:]
    present = np.isfinite(pairs)
    draws, points = residual.shape
    both = np.sqrt(np.nanmean(residual[:, :-1] ** 2) * np.nanmean(residual[:, 1:] ** 2))
    correlation = float(np.nansum(pairs) / present.sum() / both) if both > 0 else 0.0
    chance = -1 / points
    return correlation > chance + 2.5 / np.sqrt(max((draws - 1) * (points - 1), 1))


def pooled_change(values: np.ndarray, fit: Anova, sign: float) -> float:
    """The p-value for a change in the direction of `sign` between some two points, with pooled noise: against simulated
    curves with equal means, which of all curves without such a change show the largest by chance."""
    present = np.isfinite(values)
    count = present.sum(axis=0)
    at_point = np.nansum(fit.residual**2, axis=0) / (fit.degrees * count / count.sum())
    seen = clearest_change(sign * fit.curve, at_point / count, fit.variance / count)
    chance = rises_by_chance(len(count), fit.degrees)
    return float((1 + (chance >= seen).sum()) / (1 + len(chance)))


@lru_cache(maxsize=256)
def rises_by_chance(points: int, degrees: int) -> np.ndarray:
    """The clearest change of SIMULATED curves without any rise, (SIMULATED,), whose variance is estimated with so many
    degrees of freedom; from 200 on it counts as known. Of all curves that never rise, a constant one shows the largest
    rise by chance."""
    rng = np.random.default_rng([points, min(degrees, 200)])
    z = rng.standard_normal((SIMULATED, points))
    scale = np.sqrt(rng.chisquare(degrees, SIMULATED) / degrees) if degrees < 200 else np.ones(SIMULATED)
    best, total = np.zeros(SIMULATED), np.concatenate([np.zeros((SIMULATED, 1)), np.cumsum(z, axis=1)], axis=1)
    for window in WINDOWS[: points // 2]:
        mean = (total[:, window:] - total[:, :-window]) / window
        climb = (mean[:, window:] - np.minimum.accumulate(mean, axis=1)[:, :-window]).max(axis=1)
        best = np.maximum(best, climb * np.sqrt(window / 2))
    return np.asarray(best / scale)


def clearest_change(curve: np.ndarray, at_point: np.ndarray, pooled: np.ndarray) -> float:
    """The largest rise of a curve (points,) between averages over WINDOWS, in standard errors of each difference, from
    the larger of two variances of its means, (points,) each: estimated at the point alone, and pooled over all."""
    best = 0.0
    for window in WINDOWS[: len(curve) // 2]:
        mean, *variances = (np.convolve(each, np.ones(window) / window, "valid") for each in (curve, at_point, pooled))
        first, second = np.triu_indices(len(mean), window)
        square = np.maximum(*((each[first] + each[second]) / window for each in variances))
        best = max(best, float(np.max((mean[second] - mean[first]) / np.sqrt(square))))
    return best


def per_draw_change(complete: np.ndarray, sign: float) -> float:
    """The p-value for a change in the direction of `sign` between some two points, with the draw as the unit: Student's
    t test of the clearest change, corrected (Bonferroni) for the number of pairs of independent points."""
    first, second = np.triu_indices(complete.shape[1], 1)
    chance = rising_chances(sign * (complete[:, second] - complete[:, first]), float(np.abs(complete).max()))
    looks = max(1.0, independent_points(np.diff(complete, axis=1)))
    return float(min(1.0, looks**2 / 2 * float(chance.min())))


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
