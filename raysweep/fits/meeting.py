"""Where a fitted power law reaches a level: the boundary that is predicted by equating the two (F §4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from raysweep.fits.draws import check_options, usable
from raysweep.fits.power_law import FEWEST_POINTS, log_curves
from raysweep.fits.reasons import Reason, because
from raysweep.fits.statistics import LEVEL, ROUNDING, t_quantile
from raysweep.fits.trend import slope_weights
from raysweep.lazy import pd


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """The x where the least-squares line of log y over log x meets the logarithm of a level, and its interval; NaN if
    there is none. beyond: whether it lies outside of the values of x. reason: why there is none, or what was left out.
    """

    place: float = np.nan
    low: float = np.nan
    high: float = np.nan
    beyond: bool = False
    draws: int = 0
    reason: Reason = Reason.NONE
    note: str = ""


def fit_meeting(frame: pd.DataFrame, x: str, y: str, meets: str, seed: str, level: float = LEVEL) -> Meeting:
    """Estimate the x at which the power law of `y` over `x` is equal to `meets`, with its interval.

    frame, x, y, seed: as for `fit_power_law`, which decides which rows are used.
    meets: the column of the level. It should not depend on x; of each draw the geometric mean is used.
    level: the confidence level of the interval.

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
