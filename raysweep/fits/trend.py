"""Does a metric rise or fall along an axis? A test, not an impression: progressive sensitivity (O §3.3, Thm 4.6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import draw_curves, log_axis, usable
from raysweep.fits.result import EXACT
from raysweep.fits.statistics import (
    ROUNDING,
    Anova,
    complete_draws,
    independent_points,
    noiseless,
    rises_by_chance,
    rising_chances,
    smooth_within_draws,
    t_quantile,
    two_sided,
    two_way_anova,
)

if TYPE_CHECKING:
    import pandas as pd

RISES, FALLS, UNCLEAR, UNTESTED, SAME = "rises", "falls", "no clear trend", "not tested", "does not change"
PER_DRAW, POOLED = "per draw: Student's t on each draw's slope", "additive: pooled variance, draw effect removed"
FEWEST_POINTS = 3  # two always lie on a line
MAY_DIFFER = 0.25  # draws' slopes are taken to differ from this p-value down: late, since few draws show little


@dataclass(frozen=True, kw_only=True)
class Trend:
    """How the mean over draws runs over an axis. NaN where there is nothing to say.

    slope, low, high: by least squares, per unit of x or (logarithmic) per factor of ten, with its interval.
    p_value, p_against, p_along, p_throughout: each is how probable what was seen, or more, is at most if something else
        were true; a small one speaks for what follows. p_value (two-sided, if there is no slope): there is a trend.
        p_against (if the curve never goes against the slope between two points): it does, somewhere. p_along: likewise
        with the slope. p_throughout (if some step between neighbouring points does not go the slope's way): all do.
    logarithmic: whether x is read in log.
    points, draws: how many entered.
    method, note: how the slope's error was made; why nothing is said.
    move, back: the largest change of the mean curve with the slope and against it (0 or more), from one x to another.
    """

    slope: float = np.nan
    low: float = np.nan
    high: float = np.nan
    p_value: float = np.nan
    p_against: float = np.nan
    p_along: float = np.nan
    p_throughout: float = np.nan
    logarithmic: bool
    points: int
    draws: int
    method: str = "none"
    note: str = ""
    move: float = np.nan
    move_from: float = np.nan
    move_to: float = np.nan
    back: float = np.nan
    back_from: float = np.nan
    back_to: float = np.nan


def fit_trend(
    frame: pd.DataFrame, x: str, y: str, seed: str, level: float = 0.95, *, logarithmic: bool | None = None
) -> Trend:
    """The trend of `y` over `x`: rows as for `fit_inflection`; x = 0 (on a logarithmic axis) and inf stay outside;
    logarithmic: whether it is one, None to guess.

    Where draws differ by smooth curves the draw is the unit (Student's t on each draw's own slope), else the noise is
    pooled over all points, the draw effect removed. That every step goes one way is an intersection-union test with
    the draw as the unit, whatever the noise: no step's test borrows the noise of another. Raises ValueError for an
    unknown column.
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
        return replace(nothing, note=f"{points} points and {draws} draws: too few")
    fit = two_way_anova(values)
    if fit.degrees < 1:
        return replace(nothing, note="no two draws share two values of x: nothing tells noise from curve")
    u = np.log10(at) if logarithmic else at
    if noiseless(values, fit):
        return exact_trend(nothing, at, u, fit.curve)
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
        p_throughout=every_step(values, sign),
        method=PER_DRAW if smooth else POOLED,
        **moves(at, fit.curve, sign),
    )


def exact_trend(nothing: Trend, at: np.ndarray, u: np.ndarray, curve: np.ndarray) -> Trend:
    """The trend of a curve that is known: every answer is yes or no."""
    size = float(np.ptp(curve))
    if size <= ROUNDING * max(float(np.abs(curve).max()), 1e-300):
        return replace(nothing, slope=0.0, low=0.0, high=0.0, p_value=1.0, method=EXACT, note="constant")
    slope = float(slope_weights(u) @ curve)
    if abs(slope) * np.ptp(u) <= ROUNDING**0.75 * size:
        slope = 0.0
    sign = -1.0 if slope < 0 else 1.0
    steps = sign * np.diff(curve)
    return replace(
        nothing,
        slope=slope,
        low=slope,
        high=slope,
        p_value=float(slope == 0),
        p_against=float(not (steps < -ROUNDING * size).any()),
        p_along=float(not (steps > ROUNDING * size).any()),
        p_throughout=float(not (steps > ROUNDING * size).all()),
        method=EXACT,
        **moves(at, curve, sign),
    )


def slope_weights(u: np.ndarray) -> np.ndarray:
    """What each point adds to the least-squares slope."""
    centred = u - u.mean()
    return np.asarray(centred / (centred**2).sum())


def slope_of_mean(u: np.ndarray, values: np.ndarray, fit: Anova) -> tuple[float, float, int, bool]:
    """(slope of the mean over draws, its standard error, degrees of freedom, whether the draw was the unit)."""
    weights = slope_weights(u)
    own = complete_draws(values) @ weights
    pooled = float(np.sqrt(np.sum((weights @ fit.factor) ** 2)))
    if len(own) >= 2:
        error = float(own.std(ddof=1) / np.sqrt(len(own)))
        if smooth_within_draws(fit) or more_than_noise(error, len(own) - 1, pooled, fit.degrees):
            return float(own.mean()), error, len(own) - 1, True
    return float(weights @ fit.curve), pooled, fit.degrees, False


def more_than_noise(own: float, own_degrees: int, pooled: float, degrees: int) -> bool:
    """Whether the draws' own slopes may differ by more than the noise of their rows (an F test that errs on the side of
    the draws: with few of them, what they do not share is hard to see)."""
    from scipy.special import fdtrc

    return bool(fdtrc(own_degrees, degrees, (own / pooled) ** 2) < MAY_DIFFER)


def pooled_change(values: np.ndarray, fit: Anova, sign: float) -> float:
    """How probable it is that a curve that never changes in the direction of `sign` between two points seems to do so
    at least as clearly: with one variance for all points (simulated for equal means, the hardest such curve); where the
    points of a change scatter more than all points do, with theirs."""
    known = np.isfinite(values)
    count = known.sum(axis=0)
    own = np.nansum(fit.residual**2, axis=0) / (fit.degrees * count / count.sum())
    seen = clearest_change(sign * fit.curve, own / count, fit.variance / count)
    chance = rises_by_chance(len(count), fit.degrees)
    return float((1 + (chance >= seen).sum()) / (1 + len(chance)))


def clearest_change(curve: np.ndarray, own: np.ndarray, pooled: np.ndarray) -> float:
    """As `rise`: over windows of 1, 2 and 3 points, the largest (later mean - earlier mean), in units of its standard
    error, that of the pooled variance of the means or of their own, whichever is larger."""
    best = 0.0
    for window in (1, 2, 3):
        if len(curve) < 2 * window:
            break
        mean, *variances = (np.convolve(each, np.ones(window) / window, "valid") for each in (curve, own, pooled))
        first, second = np.triu_indices(len(mean), window)
        square = np.maximum(*((each[first] + each[second]) / window for each in variances))
        best = max(best, float(np.max((mean[second] - mean[first]) / np.sqrt(square))))
    return best


def per_draw_change(complete: np.ndarray, sign: float) -> float:
    """The same with the draw as the unit: Student's t on the clearest step between any two points, for as many looks as
    there are points that move on their own (Bonferroni)."""
    first, second = np.triu_indices(complete.shape[1], 1)
    chance = rising_chances(sign * (complete[:, second] - complete[:, first]), float(np.abs(complete).max()))
    looks = max(1.0, independent_points(np.diff(complete, axis=1)))
    return float(min(1.0, looks**2 / 2 * float(chance.min())))


def every_step(values: np.ndarray, sign: float) -> float:
    """How probable it is that all steps between neighbouring points of the mean seem to go the way of `sign` as clearly
    as here, if one of them does not (an intersection-union test: the largest p-value, and no correction for their
    number). The draw is the unit: a draw counts for a step where it has both ends."""
    chance = rising_chances(sign * np.diff(values, axis=1), float(np.nanmax(np.abs(values))))
    return float(chance.max())


def moves(at: np.ndarray, curve: np.ndarray, sign: float) -> dict[str, Any]:
    """The largest change of a curve in the direction of `sign` and in the other: size, where from, where to."""
    first, second = np.triu_indices(len(at), 1)
    change = sign * (curve[second] - curve[first])
    out: dict[str, Any] = {}
    for name, each in (("move", change), ("back", -change)):
        k = int(np.argmax(each))
        out |= {name: max(float(each[k]), 0.0), f"{name}_from": float(at[first[k]]), f"{name}_to": float(at[second[k]])}
    return out


def trend_verdict(slope: float, p_value: float, level: float, note: str = "") -> str:
    """rises, falls, no clear trend, does not change, or not tested."""
    if not np.isfinite(p_value):
        return UNTESTED
    if not p_value <= 1 - level:
        return SAME if note == "constant" else UNCLEAR
    return RISES if slope > 0 else FALLS
