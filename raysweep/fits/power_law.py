"""The exponent of a power law y = prefactor · x^exponent, whether it changes, and where it reaches a level (F §4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from raysweep.fits.draws import DrawCurves, check_options, draw_curves, means_with_errors, usable
from raysweep.fits.reasons import Reason, and_because, because
from raysweep.fits.statistics import LEVEL, ROUNDING, holm, t_quantile, two_sided
from raysweep.fits.trend import slope_weights
from raysweep.lazy import pd

FEWEST_POINTS = 3  # two points always lie on a line


@dataclass(frozen=True, kw_only=True)
class PowerLaw:
    """The least-squares line of log y over log x. A field is NaN if it could not be computed."""

    exponent: float = np.nan  # its slope, the mean over draws; the points have equal weights
    # low, high: the interval of the exponent; NaN with one draw (unless exact), of no width if draws do not differ in
    # it.
    low: float = np.nan
    high: float = np.nan
    prefactor: float = np.nan  # the y of the line at x = 1
    # how much the exponent grows from the first x to the last, by a parabola through log y over log x.
    bend: float = np.nan
    bend_low: float = np.nan  # bend_low, bend_high: its interval
    bend_high: float = np.nan
    bend_p: float = np.nan  # the two-sided p-value of a bend of 0
    first: float = np.nan  # first, last: the range of the x that are used
    last: float = np.nan
    points: int = 0  # points, draws: how many were used
    draws: int = 0
    # reason, note: why there is no result, or what was left out, and its text (see `Reason`).
    reason: Reason = Reason.NONE
    note: str = ""


def fit_power_law(
    frame: pd.DataFrame,
    x: str,
    y: str,
    seed: str,
    level: float = LEVEL,
    *,
    exact: bool = False,
    error: str | None = None,
) -> PowerLaw:
    """Estimate the exponent with which `y` grows with `x` (negative if y falls), with its interval.

    frame, x, y, seed, level: as for `fit_inflection`. exact: the values have no noise, so one draw is enough.
    error: the column of the standard error of each run, small beside y. It takes the place of the noise that draws
        show, so one run at each x is enough. Errors of different runs are independent.

    The draw is the unit: each draw has a line of its own, and the interval is Student's t over their slopes. So noise
    that is shared by the points of one draw, or grows along x, is in the interval. What is estimated is the slope of
    the mean of log y (of the geometric mean), which has no bias from the logarithm. If y is not a power law, it is the
    mean slope over the points, and the bend says so. See `log_curves` for which rows are used.

    Raises ValueError for an unknown column or level.
    """
    check_options(level)
    if error:
        rows, left_out = log_rows(frame, x, y, seed)
        relative = rows[error] / np.exp(rows[y])  # the error of log y
        means = means_with_errors(rows.assign(**{error: relative}), [x], y, error)
        at, values, of_points = (means[name].to_numpy() for name in (x, y, error))
        curves, degrees = DrawCurves(at, values[None], np.zeros(1)), np.inf
    else:
        curves, left_out = log_curves(frame, x, y, seed)
        of_points, degrees = np.empty(0), len(curves.values) - 1
    points, draws = curves.values.shape[1], len(curves.values)
    law = PowerLaw(points=points, draws=draws, **left_out)
    if points < FEWEST_POINTS or not draws:
        return replace(law, **(left_out or because(Reason.TOO_FEW_POINTS, points=points, least=FEWEST_POINTS)))
    u = np.log(curves.x)
    slopes, bends = curves.values @ slope_weights(u), curves.values @ bend_weights(u)
    size = max(float(np.abs(curves.values).max()), 1.0)  # rounding of y is absolute in log y
    # a slope that changes y by no more than rounding is none
    exponent, bend = (
        mean if abs(mean) * np.ptp(u) > ROUNDING * size else 0.0
        for mean in (float(each.mean()) for each in (slopes, bends))
    )
    with np.errstate(over="ignore"):  # x = 1 may be far away
        prefactor = float(np.exp(curves.values.mean() - exponent * u.mean()))
    first, last = float(curves.x[0]), float(curves.x[-1])
    law = replace(law, exponent=exponent, prefactor=prefactor, bend=bend, first=first, last=last)
    if draws < 2 and not exact and not error:
        return replace(law, **{**and_because(law, Reason.SINGLE_DRAW), "reason": Reason.SINGLE_DRAW})
    if error:
        errors = [float(np.sqrt(weights(u) ** 2 @ of_points**2)) for weights in (slope_weights, bend_weights)]
    else:
        errors = [float(each.std(ddof=1)) / np.sqrt(draws) if draws > 1 else 0.0 for each in (slopes, bends)]
        errors = [0.0 if each <= ROUNDING * size else each for each in errors]
    half, bend_half = (t_quantile(level, degrees) * each if each else 0.0 for each in errors)
    law = replace(law, low=exponent - half, high=exponent + half, bend_low=bend - bend_half, bend_high=bend + bend_half)
    return replace(law, bend_p=two_sided(bend, errors[1], degrees))


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """The x where the least-squares line of log y over log x meets the logarithm of a level, and its interval; NaN if
    there is none."""

    place: float = np.nan
    low: float = np.nan
    high: float = np.nan
    beyond: bool = False  # whether it lies outside of the values of x
    draws: int = 0
    reason: Reason = Reason.NONE  # why there is none, or what was left out
    note: str = ""


def fit_meeting(frame: pd.DataFrame, x: str, y: str, meets: str, seed: str, level: float = LEVEL) -> Meeting:
    """Estimate the x at which the power law of `y` over `x` is equal to `meets`, with its interval.

    frame, x, y, seed: as for `fit_power_law`, which decides which rows are used.
    meets: the column of the level. It should not depend on x; of each draw the geometric mean is used.

    The draw is the unit: at each x Student's t test says whether the line is on average above the level, the
    difference being taken draw by draw, because both come from one draw. The interval holds the x at which neither side
    is shown (Fieller), so it is exact for normal differences, and not symmetric about the place.

    Raises ValueError for an unknown column or level.
    """
    check_options(level)
    curves, left_out = log_curves(frame, x, y, seed)
    levels, _ = usable(frame, meets, [x, seed])
    answer = Meeting(**left_out)
    if len(curves.x) < FEWEST_POINTS:
        few = because(Reason.TOO_FEW_POINTS, points=len(curves.x), least=FEWEST_POINTS)
        return replace(answer, **(left_out or few))
    if not len(levels) or (levels[meets] <= 0).any():
        reason = Reason.LEVEL_NOT_POSITIVE if len(levels) else Reason.NO_VALUES
        return replace(answer, **because(reason, y=meets))
    level_of = np.log(levels[meets]).groupby(levels[seed]).mean().reindex(curves.seeds).to_numpy()
    positive = np.isfinite(level_of)
    values, draws = curves.values[positive], int(positive.sum())
    u = np.log(curves.x)
    slopes, heights = values @ slope_weights(u), values.mean(axis=1) - level_of[positive]
    answer = replace(answer, draws=draws)
    if draws < 2:
        return replace(answer, **because(Reason.SINGLE_DRAW))
    (rise, covariance), (_, spread) = np.cov(slopes, heights) * t_quantile(level, draws - 1) ** 2 / draws
    slope, height = float(slopes.mean()), float(heights.mean())
    a, b, c = slope**2 - rise, slope * height - covariance, height**2 - spread
    if a <= (ROUNDING * np.abs(values).max()) ** 2:
        return replace(answer, **because(Reason.SLOPE_UNCLEAR))
    middle, half = -b / a, np.sqrt(max(b**2 - a * c, 0.0)) / a
    with np.errstate(over="ignore"):  # a flat line meets its level far away
        place, low, high = (float(np.exp(u.mean() + at)) for at in (-height / slope, middle - half, middle + half))
    return replace(answer, place=place, low=low, high=high, beyond=not curves.x[0] <= place <= curves.x[-1])


def log_curves(frame: pd.DataFrame, x: str, y: str, seed: str) -> tuple[DrawCurves, dict[str, Any]]:
    """(log y of each draw over x, what was left out as `because`, empty if nothing was) for a power law.

    An x at which a draw has no usable value is left out in all draws, so that all slopes are over the same range. See
    `log_rows` for which rows are used.
    """
    rows, nothing = log_rows(frame, x, y, seed)
    if nothing:
        return DrawCurves(np.empty(0), np.empty((0, 0)), np.empty(0)), nothing
    curves = draw_curves(rows, x, y, seed)
    complete = np.isfinite(curves.values).all(axis=0)
    missing = ", ".join(f"{at:g}" for at in curves.x[~complete])
    left_out = because(Reason.LEFT_OUT, x=x, places=missing) if missing else {}
    return DrawCurves(curves.x[complete], curves.values[:, complete], curves.seeds), left_out


def log_rows(frame: pd.DataFrame, x: str, y: str, seed: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """(the rows of a power law with log y for y, why there are none as `because`, else empty).

    Rows with x = inf or x <= 0 are not used. If a y is not above 0, no row is: without these values the others would be
    biased.
    """
    rows, _ = usable(frame, y, [x, seed])
    rows = rows[np.isfinite(rows[x]) & (rows[x] > 0)]
    low = int((rows[y] <= 0).sum())
    if low or not len(rows):
        reason = Reason.NOT_POSITIVE if low else Reason.NO_VALUES
        return rows[:0], because(reason, low=low, rows=len(rows), y=y)
    return rows.assign(**{y: np.log(rows[y])}), {}


def bend_weights(u: np.ndarray) -> np.ndarray:
    """The weights w for which w @ values is the growth of the slope, from the first u to the last, of the least-squares
    parabola."""
    centred = u - u.mean()
    parabola = np.linalg.pinv(np.stack([np.ones_like(u), centred, centred**2], axis=1))[2]
    return np.asarray(2 * np.ptp(u) * parabola)


def clear_signs(
    exponent: np.ndarray, low: np.ndarray, high: np.ndarray, degrees: np.ndarray, level: float
) -> np.ndarray:
    """The sign of each exponent, 0 where it is not clear: Student's t, after Holm's correction for all of them, shape
    (settings,). It is not clear without an interval (one draw).

    low, high: the ends of the intervals at `level`. degrees: of freedom, infinite where errors are known.
    """
    chances = [
        two_sided(one, (above - below) / 2 / t_quantile(level, free), free) if np.isfinite(below) else np.nan
        for one, below, above, free in zip(exponent, low, high, degrees, strict=True)
    ]
    p_values = holm(np.array(chances))
    return np.where(p_values <= 1 - level, np.sign(exponent), 0)
