"""The zero line of a noisy surface value(x, y): the x at which it changes sign, for each slice of y.

`find_zero` finds the sign changes of a slice. `zero_posterior` computes the root of each sign change and its interval;
`crossing` does so for exact values and for draws without a variance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from raysweep.fits.crossing import Crossing, interpolated_crossing, joined
from raysweep.fits.draws import Axis, DrawCurves, check_options, draw_curves, log_axis, repeated, usable
from raysweep.fits.reasons import Reason, because, message
from raysweep.fits.result import Fit, Status, fitted
from raysweep.fits.signs import clear_signs, clearness, posterior_signs, without_crossing
from raysweep.fits.simultaneous import simultaneous_level
from raysweep.fits.statistics import LEVEL, ROUNDING, standard_error
from raysweep.fits.zero_posterior.mixture import mixture
from raysweep.fits.zero_posterior.root import Root, in_posterior
from raysweep.lazy import pd

SCALES = ("linear", "asinh", "sign")
# In robust standard deviations. The farthest of 8 normal draws exceeds it in 0.5 % of cells; of 20 draws, in none.
OUTLYING = 10.0
SIGN_DRAWS = 6  # with fewer draws a two-sided sign test can never reject at 95 %
PAIR = 2  # draws: too few to see how they move together
METHOD = (
    "posterior of the mean curve, a mixture of Gaussian processes with and without a kink or a jump near the zero, and "
    "of the covariance of the noise between draws; of two draws Student's t interval"
)
COLUMNS = (
    *("estimate", "low", "high", "status", "low_simultaneous", "high_simultaneous", "method_spread", "crossings"),
    *("points", "draws", "scale", "sign", "clear_points", "zero_end", "reason", "note"),
)
COLUMNS_OF_CROSSINGS = ("estimate", "low", "high", "method_spread", "rising")


def fit_boundary(
    frame: pd.DataFrame,
    x: str,
    y: str | None,
    value: str,
    seed: str,
    level: float = LEVEL,
    *,
    scale: str | Mapping[Any, str] | None = None,
    exact: bool = False,
    logarithmic: bool | None = None,
    error: str | None = None,
) -> Fit:
    """Estimate where the mean over draws of `value` crosses zero in `x`, one root per value of `y`, with an interval.

    The interval is where a posterior of the mean curve does not decide its sign (see `zero_posterior`). For exact
    values, two draws and the sign scale this posterior has no noise: there the interval also covers that of a test of
    the interpolated curve (see `crossing`). Where a curve may jump within a cell, the interval covers the cell.

    frame: one row per (x, y, draw). Other columns are ignored. With a `status` column only rows that are ok are used.
    x, value: the columns of x and of the values.
    y: the column of the slices; None for one slice.
    seed: the column of the draw. Draws may share their random numbers over x and y or not. A draw may be missing at
        some points.
    level: the confidence level of each slice's interval (pointwise). The table also has intervals for all slices at
        once: at the level that `simultaneous_level` finds from what draws have in common, Bonferroni's at most.
    scale: how values are interpolated. linear. asinh: for a surface that diverges; its zero stays the same. sign: for
        draws without a variance; estimates the zero of the median with a sign test, from 6 draws on. None chooses per
        slice from the data; a mapping gives the scale for each y.
    exact: the values have no noise. One draw is then enough, and the interval is what the points leave open.
    logarithmic: whether x is interpolated in log x; None guesses from its values.
    error: the column of the standard error of each run. It takes the place of the noise that draws show, and one run is
        then enough. Errors of different runs are independent.

    Status of a slice:
    located: the sign is clear on both sides of the root: the chance of the other sign is at most (1 - level) / n, n the
        number of independent points but at least 2. (Exact values, two draws and the sign scale: by a test at that
        level.)
    censored_low, censored_high: the slice has one sign and clearly comes nearer to zero at the lower (upper) edge of x.
    undetermined: otherwise; the column `reason` of the table says why.

    The interval is valid for curves that are smooth on the scale of the grid spacing, and for curves with a kink or a
    step near the zero, however sharp (measured in COVERAGE.md). It is not valid for curves that bend several times
    between two grid points.

    Raises ValueError for an unknown column, scale or level.
    """
    check_options(level)
    for word in [scale] if isinstance(scale, str) else (scale or {}).values():
        if word not in SCALES:
            raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {word!r}")
    keys = [y] if y else []
    rows, dropped = usable(frame if error is None else frame[frame[error] > 0], value, [x, seed, *keys])
    at_infinity = np.isinf(rows[x].to_numpy(dtype=np.float64))
    if at_infinity.any():
        dropped["infinite x"] = int(at_infinity.sum())
        rows = rows[~at_infinity]
    notes = repeated(rows, [x, seed, *keys])
    size = float(rows[value].abs().max()) if len(rows) else 0.0
    rows = rows.assign(**{value: rows[value].where(rows[value].abs() > ROUNDING * size, 0.0).astype(np.float64)})

    every = frame[y].drop_duplicates().sort_values().tolist() if y else [None]
    strict = 1 - (1 - level) / max(len(every), 1)
    lines, crossings, curves, zeros = [], [], [], []
    for label in every:
        part = rows[rows[y] == label] if y else rows
        curves.append(draw_curves(part, x, value, seed))
        asked = scale if isinstance(scale, str) else (scale or {}).get(label)
        errors = None
        if error is not None:  # of the mean over the runs at each x
            squares = (part[error].astype(float) ** 2).groupby(part[x])
            errors = np.asarray(np.sqrt(squares.sum()) / squares.size())
        zeros.append(find_zero(curves[-1].x, curves[-1].values, level, strict, asked, exact, logarithmic, errors))
    at_once = level_at_once(level, curves, zeros)
    for label, zero in zip(every, zeros, strict=True):
        key = {y: label} if y else {}
        unknown = Crossing(np.nan, zero.low, zero.high, zero.low, zero.high, np.nan, False)
        best = zero.crossings[0] if zero.crossings else unknown
        if zero.located:
            low, high = zero.located.interval(at_once)
            best = replace(best, low_simultaneous=min(low, best.low), high_simultaneous=max(high, best.high))
        lines.append({**key, **vars(best), **vars(zero), "crossings": len(zero.crossings)})
        crossings += [{**key, **vars(crossing)} for crossing in zero.crossings]
    table = pd.DataFrame(lines, columns=[*keys, *COLUMNS])
    several = int((table["crossings"] > 1).sum())
    if several:
        notes.append(message(Reason.SEVERAL_ZEROS, slices=several))
    scales = table["scale"].unique()
    return fitted(
        "boundary",
        table,
        level=level,
        points=int(rows[x].nunique()),
        draws=int(rows[seed].nunique()),
        rows=len(rows),
        dropped=dropped,
        scale=str(scales[0]) if len(scales) == 1 else "mixed",
        method=METHOD,
        crossings=pd.DataFrame(crossings, columns=[*keys, *COLUMNS_OF_CROSSINGS]),
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class Zero:
    """The sign changes of one curve.

    crossings: all sign changes, the clearest first.
    low, high: the interval of the clearest sign change. If the zero is censored, one end is the known bound and the
        other is infinite.
    scale: linear, asinh or sign.
    points, draws: how many were used.
    located: the root of the clearest sign change in the posterior, with its interval at any level; None if not located,
        for exact values and on the sign scale.
    sign: 1 or -1 if every clear sign is this one; otherwise 0.
    clear_points: at how many points the sign is clear.
    zero_end: the last (first) x at which all values are exactly 0, where the curve meets zero without crossing; NaN
        otherwise.
    reason, note: why there is no zero, or what a reader must know of it, and its text (see `Reason`).
    """

    status: Status
    crossings: tuple[Crossing, ...]
    low: float
    high: float
    scale: str
    points: int
    draws: int
    sign: int = 0
    clear_points: int = 0
    zero_end: float = np.nan
    reason: Reason = Reason.NONE
    note: str = ""
    located: Root | None = None


def find_zero(
    x: np.ndarray,
    values: np.ndarray,
    level: float,
    strict_level: float | None = None,
    scale: str | None = None,
    exact: bool = False,
    logarithmic: bool | None = None,
    errors: np.ndarray | None = None,
) -> Zero:
    """Estimate where the mean over draws of one curve crosses zero (the median on the sign scale), with intervals.

    x: (points,), sorted.
    values: (draws, points), NaN where a draw has no value.
    strict_level: the level of the simultaneous interval; None for the same level.
    errors: (points,), the standard errors of the means, if they are known otherwise than from the draws.
    level, scale, exact, logarithmic: as in `fit_boundary`.
    """
    points = np.isfinite(values).any(axis=0)
    x, values, errors = x[points], values[:, points], None if errors is None else errors[points]
    if len(x) > 2 and x[0] == 0 and log_axis(x[1:], logarithmic) and np.prod(np.nanmean(values[:, :2], axis=0)) > 0:
        rest = None if errors is None else errors[1:]
        above = find_zero(x[1:], values[:, 1:], level, strict_level, scale, exact, logarithmic, rest)
        if above.status == Status.LOCATED:  # the 0 has no place in log, and the sign of the values above it
            return replace(above, points=len(x))
    draws = int(np.isfinite(values).any(axis=1).sum())
    scale = "linear" if errors is not None else scale or choose_scale(values)
    answer = Zero(Status.UNDETERMINED, (), np.nan, np.nan, scale, len(x), draws)
    needed = 1 if exact or errors is not None else SIGN_DRAWS if scale == "sign" else 2
    if len(x) < 2 or draws < needed:
        if not draws:
            return replace(answer, **because(Reason.NO_ROWS))
        few, least = (Reason.TOO_FEW_POINTS, 2) if len(x) < 2 else (Reason.TOO_FEW_DRAWS, needed)
        return replace(answer, **because(few, points=len(x), draws=draws, least=least))
    if exact and scale == "sign":
        scale = "linear"
    axis, levels = Axis(log_axis(x, logarithmic)), (level, strict_level or level)
    u, transformed = axis.coordinate(x), rescaled(values, scale)
    # Student's t interval, which does not ask how draws move together, is right and wide
    pairs = int(np.isfinite(values).sum(axis=0).max()) <= PAIR
    mean, error, count = standard_error(values)
    scatters = (error * np.sqrt(count) > ROUNDING * np.nanmax(np.abs(mean))).any()
    noisy = errors is not None or bool(not exact and scale != "sign" and not pairs and scatters)
    t = (u - u[0]) / (u[-1] - u[0])
    curve = mixture(t, transformed, errors=errors) if noisy else None
    labels = posterior_signs(curve, values, level) if curve else clear_signs(values, level, scale, exact)
    clear = np.flatnonzero(labels)
    answer = replace(answer, clear_points=len(clear))
    brackets = [(int(j), int(k)) for j, k in pairwise(clear) if labels[j] * labels[k] < 0]
    if not brackets:
        return replace(answer, **without_crossing(x, values, labels, level, exact, errors))
    if curve is None:
        middle = np.nanmedian(transformed, axis=0) if scale == "sign" else standard_error(transformed)[0]
        curve = mixture(t, middle[None], exact=True)
    crossings = []
    for j, k in brackets:
        rising = bool(labels[k] > 0)
        crossing, located = in_posterior(curve, u, axis, j, k, rising, levels) or (None, None)
        if not noisy:
            drawn = interpolated_crossing(u, transformed, j, k, rising, levels, scale, exact)
            if drawn is not None and np.isfinite(drawn.estimate):
                converted = axis.in_units_of_x(drawn, "low", "high", "low_simultaneous", "high_simultaneous")
                drawn = replace(drawn, **converted)
                drawn = joined(drawn, crossing) if crossing else drawn
            crossing, located = drawn, None
        if crossing is None or not np.isfinite(crossing.estimate):
            continue
        crossings.append((min(clearness(mean, labels, j), clearness(mean, labels, k)), crossing, located))
    if not crossings:
        # The mean at a point is over all draws there, an interpolation over those at both ends: it may not change sign.
        return replace(answer, **because(Reason.DIFFERENT_DRAWS))
    crossings.sort(key=lambda each: -each[0])
    best = crossings[0][1]
    return replace(
        answer,
        status=Status.LOCATED,
        crossings=tuple(crossing for _, crossing, _ in crossings),
        low=best.low,
        high=best.high,
        reason=best.reason,
        note=best.note,
        located=crossings[0][2],
    )


def level_at_once(level: float, curves: list[DrawCurves], zeros: list[Zero]) -> float:
    """The level of each slice's interval at which all of them hold at once; see `simultaneous_level`."""
    if not any(zero.located for zero in zeros):
        return level
    seeds = np.unique(np.concatenate([each.seeds for each in curves]))
    columns, shares = [], []
    for curve, zero in zip(curves, zeros, strict=True):
        if not zero.located:
            continue
        place = zero.crossings[0].estimate
        right = int(np.clip(np.searchsorted(curve.x, place), 1, len(curve.x) - 1))
        fraction = (place - curve.x[right - 1]) / (curve.x[right] - curve.x[right - 1])
        at = (1 - fraction) * curve.values[:, right - 1] + fraction * curve.values[:, right]
        column = np.full(len(seeds), np.nan)
        column[np.searchsorted(seeds, curve.seeds)] = at
        columns.append(column)
        shares.append(zero.located.noise_share())
    return simultaneous_level(level, np.stack(columns, axis=1), np.array(shares), len(zeros))


def choose_scale(values: np.ndarray) -> str:
    """Choose the scale of values[draw, point].

    sign if draws have outliers as if they had no variance; asinh if the mean spans decades; otherwise linear.
    """
    draws = np.isfinite(values).sum(axis=0)
    full = draws >= 8  # with fewer draws, one outlier proves nothing
    if full.any():
        columns = values[:, full]
        deviation = np.abs(columns - np.nanmedian(columns, axis=0))
        typical = 1.4826 * np.nanmedian(deviation, axis=0)
        farthest = np.nanmax(deviation, axis=0)
        varying = typical > 0
        if varying.any() and np.median(farthest[varying] / typical[varying]) > OUTLYING:
            return "sign"
    mean = np.abs(standard_error(values)[0])
    mean = mean[np.isfinite(mean) & (mean > 0)]
    return "asinh" if len(mean) > 2 and mean.max() > 30 * np.median(mean) else "linear"


def rescaled(values: np.ndarray, scale: str) -> np.ndarray:
    """Transform values[draw, point] to the scale on which they are interpolated.

    On the asinh scale the mean is transformed exactly and the deviation of each draw to first order. So the transformed
    mean is zero where the mean is zero. (The mean of asinh(value) is zero elsewhere.)
    """
    if scale == "linear":
        return values
    size = np.nanmedian(np.abs(values)) or np.nanmax(np.abs(values)) or 1.0
    if scale == "sign":
        return np.arcsinh(values / size)
    mean = standard_error(values)[0]
    return np.arcsinh(mean / size) + (values - mean) / (size * np.sqrt(1 + (mean / size) ** 2))
