"""The optimal rate: where a metric is best over the learning rate, or another axis, slice by slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.draws import Axis, DrawCurves, check_options, decades, draw_curves, even_in_log, repeated, usable
from raysweep.fits.extremum import Extremum, edge_slopes, extremum_along, in_units_of_x
from raysweep.fits.result import Fit, Status, overall
from raysweep.fits.statistics import two_way_anova

if TYPE_CHECKING:
    import pandas as pd

NEAR = 2  # grid points on either side of the lowest whose height is taken as it is
FLATTENED = 0.9  # an edge slope below this share of the slope elsewhere heads for an optimum beyond
ABOVE_NOISE = 10.0  # heights below this many noise standard deviations are taken as they are too


COLUMNS = (
    *("estimate", "low", "high", "status", "low_simultaneous", "high_simultaneous", "method_spread", "diverged_from"),
    *("points", "draws", "turn", "method", "note"),
    *("draws_to_halve", "points_to_halve", "points_from", "points_to", "halved"),
)


def fit_optimum(
    frame: pd.DataFrame,
    lr: str,
    y: str,
    by: str | Sequence[str] | None,
    seed: str,
    level: float = 0.95,
    *,
    turn: str = "min",
    exact: bool = False,
    logarithmic: bool | None = None,
) -> Fit:
    """The rate at which the mean over draws of a metric is lowest (or highest), one per slice.

    frame: one row per (slice, lr, draw), other columns are ignored. Only rows that are ok (if there is a `status`
        column) with a finite value enter. A rate at which most draws diverged (status diverged, or no finite value)
        bounds the grid: no row at or above it enters, and `.table.diverged_from` says where that is (inf if nowhere).
    lr, y, seed: the columns of the rate, the metric and the draw.
    by: the column of the slices, several, or None for one slice.
    level: of each slice's interval; the table also has low_simultaneous and high_simultaneous for all slices at once
        (Bonferroni).
    turn: min or max.
    exact: the values carry no noise, one draw is enough.
    logarithmic: whether the rate is read in log; if None, as `in_log` guesses.

    located: the curve clearly falls before and rises after. censored_low / censored_high: the optimum lies at or
    beyond that edge of the grid, or cannot be told from it; `low` or `high` is what is known. monotone: the same
    bounds, but the curve does not flatten towards the edge at all. undetermined: fewer than 5 rates, fewer than 2
    draws, or neither a clear fall nor a clear rise.

    The interval is made as `fit_inflection` makes it. A cliff towards divergence is flattened by a monotone map, which
    moves no minimum (THEORY §7: no parabola through an asymmetric U); the interval then holds with and without the map.
    How often it holds the truth is measured in COVERAGE.md.

    Raises ValueError for an unknown column, level or turn, for a rate that is not finite, and for one that has no
    logarithm if `logarithmic`.
    """
    import pandas as pd

    check_options(level, turn)
    keys = [] if by is None else [by] if isinstance(by, str) else list(by)
    frame = frame.reset_index(drop=True)
    rows, dropped = usable(frame, y, [lr, seed, *keys])
    rates = frame[lr].to_numpy(dtype=np.float64)
    logarithmic = in_log(rates) if logarithmic is None else logarithmic
    usable_rates = np.isfinite(rates) & ((rates > 0) | (not logarithmic))
    if not usable_rates.all():
        wanted = "rates above 0" if logarithmic else "finite values"
        raise ValueError(f"{lr}: expected {wanted}, got {rates[~usable_rates][0]:g}")
    notes = repeated(rows, [lr, seed, *keys])
    bad = diverged(frame, y)
    slices = list(frame.groupby(keys, sort=True, dropna=False)) if keys else [((), frame)]
    strict = 1 - (1 - level) / max(len(slices), 1)
    lines, used = [], 0
    for values, part in slices:
        limit = divergence(part[lr].to_numpy(float), bad[part.index])
        inside = rows.loc[part.index.intersection(rows.index)]
        inside = inside[inside[lr] < limit]
        used += len(inside)
        curves = draw_curves(inside, lr, y, seed, turn)
        found = wide = find_optimum(curves, lr, level, exact, limit, logarithmic, advise=True)
        if len(slices) > 1 and found.status == Status.LOCATED:
            wide = find_optimum(curves, lr, strict, exact, limit, logarithmic)
        partly = part.loc[bad[part.index] & (part[lr] < limit), lr]
        if len(partly) and found.status == Status.LOCATED and found.high >= partly.min():
            note = "some draws diverged within the interval and are missing there"
            found = replace(found, note="; ".join([*([found.note] if found.note else []), note]))
        about = {
            "low_simultaneous": wide.low,
            "high_simultaneous": wide.high,
            "diverged_from": limit,
            "points": len(curves.x),
            "draws": len(curves.values),
            "turn": turn,
        }
        lines.append({**dict(zip(keys, values, strict=True)), **vars(found), **vars(found.advice), **about})
    table = pd.DataFrame(lines, columns=[*keys, *COLUMNS])
    if len(rows) > used:
        dropped["at or above a rate at which most draws diverged"] = len(rows) - used
    notes += [note for note in table["note"].unique() if note]
    methods = [method for method in table["method"].unique() if method != "none"]
    return Fit(
        kind="optimum",
        level=level,
        points=int(rows[lr].nunique()),
        draws=int(rows[seed].nunique()),
        rows=used,
        dropped=dropped,
        scale="linear",
        method="; ".join(methods) or "none",
        table=table,
        crossings=pd.DataFrame(),
        notes=tuple(notes),
        **overall(table),
    )


def in_log(rates: np.ndarray) -> bool:
    """Whether rates of which nobody said the scale are read in log: they are above 0, and span more than a decade or
    are spread more evenly there."""
    every = np.unique(rates)
    return decades(every) or even_in_log(every)


def diverged(frame: pd.DataFrame, y: str) -> np.ndarray:
    """Which rows diverged, boolean array: by their status, or because an ok row has no finite value."""
    lost = ~np.isfinite(frame[y].to_numpy(dtype=np.float64))
    if "status" not in frame.columns:
        return lost
    status = frame["status"].to_numpy()
    return np.asarray((status == "diverged") | ((status == "ok") & lost), dtype=bool)


def divergence(rates: np.ndarray, bad: np.ndarray) -> float:
    """The lowest rate, above one that most draws survived, at which most draws diverged; inf if there is none."""
    survived = False
    for rate in np.unique(rates):
        share = float(bad[rates == rate].mean())
        if share > 0.5 and survived:
            return float(rate)
        survived |= share <= 0.5
    return float("inf")


def find_optimum(
    curves: DrawCurves, lr: str, level: float, exact: bool, limit: float, logarithmic: bool, advise: bool = False
) -> Extremum:
    """The optimum of one slice, in the units of the rate.

    curves: to be minimized, over rates below `limit`, the lowest at which most draws diverged (inf if there is none).
    The rest as in `fit_optimum`, and whether to advise on the sample size.
    """
    values = curves.values
    if not len(curves.x):
        return Extremum(note="no usable rows")
    axis = Axis(logarithmic, float(curves.x[0]))
    u, flattened = axis.coordinate(curves.x), without_cliffs(values)
    found = extremum_along(u, flattened, level, exact, advise)
    if flattened is not values and found.status == Status.LOCATED:
        # flattening one side hides how uneven the two are, from which the interval learns what the grid leaves open
        steep = extremum_along(u, values, level, exact)
        if steep.status == Status.LOCATED:
            spread = max(found.method_spread, steep.method_spread, abs(found.estimate - steep.estimate))
            found = replace(
                found, low=min(found.low, steep.low), high=max(found.high, steep.high), method_spread=spread
            )
    found = in_units_of_x(found, axis, lr)
    beyond = Status.CENSORED_HIGH if found.high == np.inf else Status.CENSORED_LOW
    if found.status == Status.MONOTONE and (flattens(u, values, found.high == np.inf) or np.isfinite(limit)):
        # it heads for an optimum beyond the edge; and a fall that ends in divergence does turn
        found = replace(found, status=beyond)
    if np.isfinite(limit) and found.status == Status.CENSORED_HIGH:
        found = replace(found, note="best towards the rate at which most draws diverge")
    return found


def flattens(u: np.ndarray, values: np.ndarray, upwards: bool) -> bool:
    """Whether the mean curve is less steep in the third of the rates nearest its better edge than in the rest."""
    near, rest, _ = edge_slopes(u, two_way_anova(values).curve, upwards)
    return abs(near) < FLATTENED * abs(rest)


def without_cliffs(values: np.ndarray) -> np.ndarray:
    """values[draw, point] with heights far above the lowest point taken to their logarithm, minimum in place.

    A height h of the mean curve above its lowest point becomes s(1 + log h/s) beyond s, the height that the curve
    reaches within two grid points of the lowest (or ten standard deviations of the noise there, if that is more). What
    a draw differs from the mean is scaled alike, but never below the noise around the lowest point, so that pooling
    it cannot make the answer look surer.
    """
    if not values.size or not np.isfinite(values).any(axis=1).all():
        return values
    fit = two_way_anova(values)
    height = fit.curve - fit.curve.min()
    lowest = int(np.argmin(height))
    near = slice(max(lowest - NEAR, 0), lowest + NEAR + 1)
    noise = np.sqrt(np.nanmean(fit.residual**2, axis=0))
    draws, points = values.shape
    noise *= np.sqrt(draws * points / max(fit.degrees, 1))  # what the fit has taken from the residuals
    bottom = float(np.sqrt(np.mean(noise[near] ** 2)))
    size = max(float(height[near].max()), ABOVE_NOISE * bottom)
    far = height > size
    if not size > 0 or not far.any():
        return values
    flattened, slope = np.where(far, size * (1 + np.log(np.where(far, height, size) / size)), height), np.ones(points)
    keep = np.divide(bottom, noise, out=np.ones(points), where=noise > bottom)
    slope[far] = np.maximum(size / height[far], keep[far])
    level = np.nanmean(values - fit.curve - fit.residual, axis=1, keepdims=True)  # each draw's own, which is kept
    return np.asarray(fit.curve.min() + flattened + level + slope * fit.residual)
