"""The zero line of a noisy surface value(x, y): the x at which it changes sign, for each slice of y.

`zero` finds the zero of each slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import ndtr

from raysweep.fits.crossing import Crossing
from raysweep.fits.draws import DrawCurves, check_options, draw_curves, means_with_errors, repeated, usable
from raysweep.fits.reasons import Reason, message
from raysweep.fits.result import Fit, fitted
from raysweep.fits.statistics import LEVEL, ROUNDING
from raysweep.fits.zero import Zero, find_zero
from raysweep.lazy import pd

SCALES = ("linear", "asinh", "sign")
SIMULATED = 40_000  # the quantile of the largest of several normal numbers is known to 0.01
FEWEST = 5  # fewer common draws say nothing of a correlation
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

    frame: one row per (x, y, draw). With a `status` column only rows that are ok are used.
    y: the column of the slices; None for one slice.
    seed: the column of the draw. Draws may share random numbers over x and y or not, and may be missing at some points.
    level: of each slice's interval (pointwise). The table also has intervals for all slices at once: at the level that
        `simultaneous_level` finds from what draws have in common, Bonferroni's at most.
    scale: how values are interpolated. linear. asinh: for a surface that diverges; its zero stays the same. sign: for
        draws without a variance; estimates the zero of the median with a sign test, from 6 draws on. None chooses per
        slice from the data; a mapping gives the scale for each y.
    exact: the values have no noise. One draw is then enough, and the interval is what the points leave open.
    logarithmic: whether x is interpolated in log x; None guesses from its values.
    error: the column of the standard error of each run. It takes the place of the noise that draws show, and one run is
        then enough. Errors of different runs are independent.

    Status of a slice:
    located: the sign is clear on both sides of the root: the chance of the other sign is at most (1 - level) / n, n the
        number of independent points but at least 2. (Exact values, two draws and the sign scale: by such a test.)
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
            errors = means_with_errors(part, [x], value, error)[error].to_numpy()
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
    about: dict[str, Any] = {"points": int(rows[x].nunique()), "draws": int(rows[seed].nunique()), "rows": len(rows)}
    about |= {"dropped": dropped, "scale": str(scales[0]) if len(scales) == 1 else "mixed", "notes": tuple(notes)}
    every_crossing = pd.DataFrame(crossings, columns=[*keys, *COLUMNS_OF_CROSSINGS])
    return fitted("boundary", table, level=level, method=METHOD, crossings=every_crossing, **about)


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


def simultaneous_level(level: float, deviations: np.ndarray, shares: np.ndarray, slices: int) -> float:
    """The level of each slice's interval such that all hold at once with `level`.

    deviations: (draws, located slices), how far each draw is from the mean at the slice's place; NaN where missing.
    shares: (located slices,), which share of the variance of the place is noise between draws; the rest, what is not
        known between the points of the grid, is independent between slices.
    slices: how many slices there are; those that are not located count as independent.

    The errors of the places are taken as normal numbers with the correlation that the draws show, less what independent
    draws show by chance. Places that move together need hardly more than one place; independent ones need Šidák's
    level, 1 - (1 - level) / slices in good approximation.
    """
    correlation = np.eye(slices)
    for a, b in combinations(range(len(shares)), 2):
        shrunk = _correlation(deviations[:, a], deviations[:, b]) * np.sqrt(shares[a] * shares[b])
        correlation[a, b] = correlation[b, a] = shrunk
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.clip(values, 1e-9, None))
    root /= np.sqrt((root**2).sum(axis=1, keepdims=True))
    normal = np.random.default_rng(slices).standard_normal((SIMULATED, slices))
    largest = np.abs(normal @ root.T).max(axis=1)
    joint = float(2 * ndtr(np.quantile(largest, level)) - 1)
    return min(max(joint, level), 1 - (1 - level) / slices)


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    """The correlation between draws, shrunk by what independent ones show by chance."""
    both = np.isfinite(first) & np.isfinite(second)
    count = int(both.sum())
    if count < FEWEST:
        return 0.0
    a, b = first[both] - first[both].mean(), second[both] - second[both].mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    if not size > 0:
        return 0.0
    estimate = float(a @ b) / size
    square = max((estimate**2 * (count - 1) - 1) / (count - 2), 0.0)
    return float(np.sign(estimate)) * float(np.sqrt(square))
