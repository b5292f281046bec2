"""The zero line of a noisy surface value(x, y): the x at which it changes sign, for each slice of y.

`find_zero` finds the sign changes of a slice; `crossing` computes the root of each sign change and its interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.crossing import METHODS, PROLONGED, Crossing, between, interpolated, joined, middle_and_margins
from raysweep.fits.draws import Axis, check_options, draw_curves, log_axis, repeated, usable
from raysweep.fits.result import Fit, Status, overall
from raysweep.fits.statistics import LEVEL, ROUNDING, clearly_positive, independent_points, standard_error
from raysweep.phrases import counted

if TYPE_CHECKING:
    import pandas as pd


SCALES = ("linear", "asinh", "sign")
# In robust standard deviations. The farthest of 8 normal draws exceeds it in 0.5 % of cells; of 20 draws, in none.
OUTLYING = 10.0
KINKED = 2.0  # a curve may have a kink in a cell if it bends this many times more there than in the cells beside it
SIGN_DRAWS = 6  # with fewer draws a two-sided sign test can never reject at 95 %
# The mean at a point is over all draws there, an interpolation over the draws at both ends: these may not change sign.
DIFFERENT_DRAWS = "the sign changes only between points with different draws"
COLUMNS = (
    *("estimate", "low", "high", "status", "low_simultaneous", "high_simultaneous", "method_spread", "crossings"),
    *("points", "draws", "scale", "note"),
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
) -> Fit:
    """Estimate where the mean over draws of `value` crosses zero in `x`, one root per value of `y`, with an interval.

    The interval inverts Student's t test of the interpolated mean curve, with the draw as the unit (see `crossing`).

    frame: one row per (x, y, draw). Other columns are ignored. With a `status` column only rows that are ok are used.
    x, value: the columns of x and of the values.
    y: the column of the slices; None for one slice.
    seed: the column of the draw. Draws may share their random numbers over x and y or not. A draw may be missing at
        some points.
    level: the confidence level of each slice's interval (pointwise). The table also has intervals for all slices at
        once (Bonferroni).
    scale: how values are interpolated. linear. asinh: for a surface that diverges; its zero stays the same. sign: for
        draws without a variance; estimates the zero of the median with a sign test, from 6 draws on. None chooses per
        slice from the data; a mapping gives the scale for each y.
    exact: the values have no noise. One draw is then enough, and the interval is the spread of the interpolations.
    logarithmic: whether x is interpolated in log x; None guesses from its values.

    Status of a slice:
    located: the sign is significant on both sides of the root. The test allows for the number of independent points.
    censored_low, censored_high: the slice has one sign and clearly comes nearer to zero at the lower (upper) edge of x.
    undetermined: otherwise; the column `note` of the table says why.

    The interval is valid for curves that are smooth on the scale of the grid spacing, and for curves with one kink near
    the zero if the kink is larger than the noise (measured in COVERAGE.md). It is not valid for curves that bend more
    than once between two grid points.

    Raises ValueError for an unknown column, scale or level.
    """
    import pandas as pd

    check_options(level)
    for word in [scale] if isinstance(scale, str) else (scale or {}).values():
        if word not in SCALES:
            raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {word!r}")
    keys = [y] if y else []
    rows, dropped = usable(frame, value, [x, seed, *keys])
    at_infinity = np.isinf(rows[x].to_numpy(dtype=np.float64))
    if at_infinity.any():
        dropped["infinite x"] = int(at_infinity.sum())
        rows = rows[~at_infinity]
    notes = repeated(rows, [x, seed, *keys])
    size = float(rows[value].abs().max()) if len(rows) else 0.0
    rows = rows.assign(**{value: rows[value].where(rows[value].abs() > ROUNDING * size, 0.0).astype(np.float64)})

    every = frame[y].drop_duplicates().sort_values().tolist() if y else [None]
    strict = 1 - (1 - level) / max(len(every), 1)
    lines, crossings = [], []
    for label in every:
        curves = draw_curves(rows[rows[y] == label] if y else rows, x, value, seed)
        wanted = scale if isinstance(scale, str) else (scale or {}).get(label)
        zero = find_zero(curves.x, curves.values, level, strict, wanted, exact, logarithmic)
        key = {y: label} if y else {}
        unknown = Crossing(np.nan, zero.low, zero.high, zero.low, zero.high, np.nan, False)
        best = zero.crossings[0] if zero.crossings else unknown
        lines.append({**key, **vars(best), **vars(zero), "crossings": len(zero.crossings)})
        crossings += [{**key, **vars(crossing)} for crossing in zero.crossings]
    table = pd.DataFrame(lines, columns=[*keys, *COLUMNS])
    several = int((table["crossings"] > 1).sum())
    if several:
        notes.append(f"{several} slices change sign more than once: the table has the clearest, .crossings all")
    scales = table["scale"].unique()
    return Fit(
        kind="boundary",
        level=level,
        points=int(rows[x].nunique()),
        draws=int(rows[seed].nunique()),
        rows=len(rows),
        dropped=dropped,
        scale=str(scales[0]) if len(scales) == 1 else "mixed",
        method="t-test inverted on the mean curve, the draw as unit; cubic interpolation, widened to hold for "
        "linear and one-sided parabolic interpolation too, and for a kink where the curve shows one",
        table=table,
        crossings=pd.DataFrame(crossings, columns=[*keys, *COLUMNS_OF_CROSSINGS]),
        notes=tuple(notes),
        **overall(table),
    )


@dataclass(frozen=True)
class Zero:
    """The sign changes of one curve.

    crossings: all sign changes, the clearest first.
    low, high: the interval of the clearest sign change. If the zero is censored, one end is the known bound and the
        other is infinite.
    scale: linear, asinh or sign.
    points, draws: how many were used.
    """

    status: Status
    crossings: tuple[Crossing, ...]
    low: float
    high: float
    scale: str
    points: int
    draws: int
    note: str = ""


def find_zero(
    x: np.ndarray,
    values: np.ndarray,
    level: float,
    strict_level: float | None = None,
    scale: str | None = None,
    exact: bool = False,
    logarithmic: bool | None = None,
) -> Zero:
    """Estimate where the mean over draws of one curve crosses zero (the median on the sign scale), with intervals.

    x: (points,), sorted.
    values: (draws, points), NaN where a draw has no value.
    level: the confidence level of the interval.
    strict_level: the level of the simultaneous interval; None for the same level.
    scale: linear, asinh or sign; None chooses from the data.
    exact: the values have no noise, so one draw is enough.
    logarithmic: whether x is interpolated in log x; None guesses.
    """
    draws = int(np.isfinite(values).any(axis=1).sum())
    scale = scale or choose_scale(values)
    answer = Zero(Status.UNDETERMINED, (), np.nan, np.nan, scale, len(x), draws)
    needed = 1 if exact else SIGN_DRAWS if scale == "sign" else 2
    if len(x) < 2 or draws < needed:
        few, there = "points" if len(x) < 2 else "draws", f"{counted(len(x), 'point')}, {counted(draws, 'draw')}"
        return replace(answer, note=f"too few {few}: {there}" if draws else "no usable rows")
    if exact and scale == "sign":
        scale = "linear"
    axis = Axis(log_axis(x, logarithmic))
    u = axis.coordinate(x)
    labels = clear_signs(values, level, scale, exact)
    clear = np.flatnonzero(labels)
    brackets = [(int(j), int(k)) for j, k in pairwise(clear) if labels[j] * labels[k] < 0]
    if not brackets:
        return no_crossing(answer, x, values, labels, level, exact)
    transformed = rescaled(values, scale)
    mean, levels = standard_error(values)[0], (level, strict_level or level)
    curves = [interpolated(u, transformed, method, levels, scale, exact) for method in METHODS]
    crossings = []
    for j, k in brackets:
        rising = bool(labels[k] > 0)
        found = [part for curve in curves if (part := between(curve, j, k, rising))]
        if not found:
            continue
        if kinked(u, transformed, int(np.clip(np.searchsorted(u, found[0].estimate) - 1, j, k - 1))):
            prolonged = (interpolated(u, transformed, method, levels, scale, exact) for method in PROLONGED)
            found += [part for curve in prolonged if (part := between(curve, j, k, rising))]
        strength = min(clearness(mean, labels, j), clearness(mean, labels, k))
        crossing = joined(found, u, mean, j, k)
        if not np.isfinite(crossing.estimate):
            continue
        places = axis.in_units_of_x(crossing, "low", "high", "low_simultaneous", "high_simultaneous")
        crossings.append((strength, replace(crossing, **places)))
    if not crossings:
        return replace(answer, note=DIFFERENT_DRAWS)
    ordered = tuple(crossing for _, crossing in sorted(crossings, key=lambda pair: -pair[0]))
    best = ordered[0]
    return replace(answer, status=Status.LOCATED, crossings=ordered, low=best.low, high=best.high, note=best.note)


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


def clear_signs(values: np.ndarray, level: float, scale: str, exact: bool) -> np.ndarray:
    """The sign of the curve at each grid point: +1 or -1 if it is significant, otherwise 0.

    The test is corrected for the number of independent points (`independent_points`). Points that move together between
    draws count as one.
    """
    point_level = max(level, 1 - 2 * (1 - level) / independent_points(values))
    middle, (margin,) = middle_and_margins(values, (point_level,), scale, exact)
    direction = np.nansum(np.sign(values), axis=0) if scale == "sign" else np.nan_to_num(middle)
    return np.where(margin < 0, np.sign(direction), 0).astype(int)


def kinked(u: np.ndarray, values: np.ndarray, cell: int) -> bool:
    """Whether the mean curve bends far more inside a cell than in the cells beside it (see KINKED)."""
    bends = np.abs(np.diff(np.diff(standard_error(values)[0]) / np.diff(u)))  # at the inner points, the first at u[1]
    at = np.arange(1, len(u) - 1)
    own, around = np.isin(at, (cell, cell + 1)), np.isin(at, (cell - 1, cell + 2))
    return bool(own.any() and around.any() and np.nanmax(bends[own]) > KINKED * np.nanmax(bends[around]))


def clearness(mean: np.ndarray, labels: np.ndarray, node: int) -> float:
    """How clear the sign is on one side of a crossing.

    It is the largest |mean| at the grid point `node` and the points around it, up to the next point on each side whose
    sign is clearly the opposite.
    """
    other = np.flatnonzero(labels == -labels[node])
    first = other[other < node].max(initial=-1) + 1
    last = other[other > node].min(initial=len(labels))
    return float(np.nanmax(np.abs(mean[first:last])))


def no_crossing(answer: Zero, x: np.ndarray, values: np.ndarray, labels: np.ndarray, level: float, exact: bool) -> Zero:
    """The answer for a curve without a sign change.

    It is censored if the curve has one clear sign and comes nearer to zero towards one edge; otherwise undetermined.
    """
    if not np.nanmax(np.abs(values)) > 0:
        return replace(answer, note="zero everywhere")
    clear = np.flatnonzero(labels)
    if not len(clear):
        return replace(answer, note="no point has a clear sign")
    first, last, sign = clear[0], clear[-1], int(labels[clear[0]])
    present = np.nan_to_num(values).any(axis=0)
    if first > 0 and not present[:first].any():
        return replace(answer, note=f"exactly zero up to {x[first - 1]:.6g}: meets zero without crossing")
    if last < len(x) - 1 and not present[last + 1 :].any():
        return replace(answer, note=f"exactly zero from {x[last + 1]:.6g}: meets zero without crossing")
    mean = standard_error(values)[0]
    lower = bool(sign * mean[0] < sign * mean[-1])  # the edge that is nearer to zero
    nearer, farther = (labels[0], labels[-1]) if lower else (labels[-1], labels[0])
    if farther == 0:
        return replace(answer, note="sign not clear at the edges")
    if nearer == 0 and (np.diff(clear) > 1).any():
        return replace(answer, note="sign not clear in several places")
    word = "positive" if sign > 0 else "negative"
    if not falls_towards(lower, sign * values, level, exact):
        return replace(answer, note=f"{word} everywhere, towards neither edge")
    if lower:
        return replace(answer, status=Status.CENSORED_LOW, low=-np.inf, high=float(x[first]), note=f"{word} above")
    return replace(answer, status=Status.CENSORED_HIGH, low=float(x[last]), high=np.inf, note=f"{word} below")


def falls_towards(lower: bool, values: np.ndarray, level: float, exact: bool) -> bool:
    """Whether values[draw, point] are clearly lower near one edge than elsewhere, by Student's t test.

    It compares the third of the points nearest the lower edge (upper edge if `lower` is False) with all other points.
    """
    third = max(1, values.shape[1] // 3)
    near = np.arange(values.shape[1]) < third
    near = near if lower else near[::-1]
    complete = np.isfinite(values).all(axis=1)
    rows = values[complete] if complete.sum() >= 2 or exact else values
    difference = np.nanmean(rows[:, ~near], axis=1) - np.nanmean(rows[:, near], axis=1)
    return bool(clearly_positive(difference[:, None] - ROUNDING * np.nanmax(np.abs(values)), level, exact)[0])
