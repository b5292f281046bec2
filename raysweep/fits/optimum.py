"""Where along an axis a metric is best: the inflection point of one curve, and the optimal rate of each slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from raysweep.fits.draws import Axis, DrawCurves, check_options, draw_curves, even_in_log, in_log, repeated, usable
from raysweep.fits.extremum import Extremum, edge_slopes, extremum_along, find_extremum, in_units_of_x, on_scale
from raysweep.fits.lost_draws import losses_of, most
from raysweep.fits.processes import mapped
from raysweep.fits.reasons import Reason, and_because, because, message
from raysweep.fits.result import Fit, Status, fitted
from raysweep.fits.sample_size import NO_ADVICE
from raysweep.fits.statistics import LEVEL, ROUNDING, clearly_positive, two_way_anova
from raysweep.lazy import pd
from raysweep.workloads.declaration import DIVERGED

NEAR = 2  # heights within this many grid points of the lowest point are not compressed
FLATTENED = 0.9  # if the slope at an edge is below this share of the slope elsewhere, an optimum may lie beyond it
ABOVE_NOISE = 10.0  # heights below this many standard deviations of the noise are not compressed
EXPLODED = 1e3  # times that height: values further up say no more than these
HIDDEN = 5.0  # times: a cliff that makes values scatter so much more than without it is compressed before the fit

PLACE = ("estimate", "low", "high", "status")
ABOUT = (
    *("points", "draws", "turn", "method", "exact", "reason", "note"),
    *("draws_to_halve", "points_to_halve", "points_from", "points_to", "halved"),
)
COLUMNS = (*PLACE, "low_simultaneous", "high_simultaneous", "method_spread", "diverged_from", *ABOUT)


def fit_inflection(
    frame: pd.DataFrame,
    x: str,
    y: str,
    seed: str,
    level: float = LEVEL,
    *,
    turn: str = "min",
    exact: bool = False,
    logarithmic: bool | None = None,
    advise: bool = True,
) -> Fit:
    """Estimate the x at which the mean over draws of `y` has its minimum (or maximum), with a confidence interval.

    The papers call this place the inflection point. The interval covers the noise between draws and the uncertainty
    between grid points: it is that of the lowest place under a posterior of the mean curve (see `fits/posterior`).
    Values without noise are interpolated by Akima and cubic splines. COVERAGE.md says how often the interval contains
    the true place (measured).

    frame: one row per (x, draw). With a `status` column only rows with status ok are used. Rows with x = inf
        (converged) are not fitted. If they are clearly better than every finite x, the status is censored_high.
    y, seed, level, turn, exact, advise: as in `fit_optimum`.
    logarithmic: whether x is interpolated in log x; None chooses log x if x is positive, apart from a 0, and more
        evenly spread in log. x = 0 is then compared with the best of the others (see `beside_zero`).

    The status is as of a slice of `fit_optimum`. The reason of a monotone curve says (`IMPROVES_THROUGHOUT`) whether
    every step was shown to go the same way.

    Raises ValueError for an unknown column, level or turn.
    """
    check_options(level, turn)
    rows, dropped = usable(frame, y, [x, seed])
    notes = repeated(rows, [x, seed], "x")
    curves = draw_curves(rows, x, y, seed, turn)
    finite, converged = np.isfinite(curves.x), curves.x == np.inf
    inside = DrawCurves(curves.x[finite], curves.values[:, finite], curves.seeds)
    log = even_in_log(inside.x, logarithmic)

    def find(part: DrawCurves, log: bool) -> Extremum:
        return find_extremum(part.x, part.values, level, exact, advise, axis=Axis(log))

    best = on_scale(find, inside, level, exact, log)
    if log and (inside.x == 0).any():
        notes.append(message(Reason.ZERO_APART))
    if converged.any():
        notes.append(message(Reason.INFINITY_APART))
        gains = inside.values - curves.values[:, converged]
        if gains.size and clearly_positive(gains, level, exact).all():
            beyond = because(Reason.BEST_AT_INFINITY) | {"status": Status.CENSORED_HIGH, "advice": NO_ADVICE}
            best = replace(best, estimate=np.nan, low=float(inside.x.max()), high=np.inf, **beyond)
    notes += [best.note] if best.note else []
    line = {**_row(best), "points": len(inside.x), "draws": len(curves.values), "turn": turn}
    table = pd.DataFrame([line], columns=(*PLACE, "method_spread", *ABOUT))
    about = {"rows": len(rows), "dropped": dropped, "method": best.method, "notes": tuple(notes)}
    return fitted("inflection", table, level=level, **about)


def fit_optimum(
    frame: pd.DataFrame,
    x: str,
    y: str,
    by: str | Sequence[str] | None,
    seed: str,
    level: float = LEVEL,
    *,
    turn: str = "min",
    exact: bool = False,
    logarithmic: bool | None = None,
    advise: bool = True,
) -> Fit:
    """Estimate the rate at which the mean over draws of a metric is lowest (or highest), per slice, with an interval.

    The interval is computed as in `fit_inflection`. If a cliff towards divergence would hide everything else, it is
    compressed before the fit by a monotone map, which does not move the minimum (THEORY §7: no parabola through an
    asymmetric U). COVERAGE.md says how often the interval contains the true optimum (measured).

    frame: one row per (slice, x, draw). Only rows with a finite value and, if there is a `status` column, status ok are
        used, and none at a rate at which most draws diverged or failed. If most diverged (status diverged, or too large
        a value; without a `status` column also NaN), no rows above this rate are used either, and the optimum lies
        below it. The column `diverged_from` of the table has this rate (inf if none).
    x, y, seed: the columns of the rate, the metric and the draw. by: the column or columns of the slices.
    level: of each slice's interval. The table also has intervals for all slices at once (Bonferroni).
    turn: min or max, the extremum that is sought.
    exact: the values have no noise, so one draw is enough.
    logarithmic: whether the rate is interpolated in log; None chooses as `in_log` does. A rate of 0 ("none") has no
        logarithm: it is compared with the best of the others (see `beside_zero`).
    advise: also compute what would halve each interval, which takes about as long again.

    Status of a slice:
    located: the curve clearly falls before the optimum, and clearly rises after it or diverges.
    censored_low, censored_high: the optimum lies at or beyond the lower (upper) edge of the grid, or too near to tell.
        `high` (`low`) is the known bound. The edge is the other one where the curve clearly rises to it.
    monotone: the same bounds, but the curve does not flatten towards the edge.
    undetermined: fewer than 5 rates, fewer than 2 draws, or neither a clear fall nor a clear rise.

    Raises ValueError for an unknown column, level or turn, a rate that is not finite or, if `logarithmic`, below 0.
    """
    check_options(level, turn)
    keys = [] if by is None else [by] if isinstance(by, str) else list(by)
    frame = frame.reset_index(drop=True)
    rows, dropped = usable(frame, y, [x, seed, *keys])
    rates = frame[x].to_numpy(dtype=np.float64)
    logarithmic = in_log(rates) if logarithmic is None else logarithmic
    usable_rates = np.isfinite(rates) & ((rates >= 0) | (not logarithmic))
    if not usable_rates.all():
        expected = "no rate below 0" if logarithmic else "finite values"
        raise ValueError(f"{x}: expected {expected}, got {rates[~usable_rates][0]:g}")
    notes = repeated(rows, [x, seed, *keys])
    bad = losses_of(frame, y, (DIVERGED,))
    slices = list(frame.groupby(keys, sort=True, dropna=False)) if keys else [((), frame)]
    strict = 1 - (1 - level) / max(len(slices), 1)
    lines, used, every = [], 0, []
    for _, part in slices:
        limit = divergence(part[x].to_numpy(float), bad[part.index])
        inside = rows.loc[part.index.intersection(rows.index)]
        inside = inside[inside[x] < limit]
        used += len(inside)
        every.append((draw_curves(inside, x, y, seed, turn), limit))
    levels = (level, strict) if len(slices) > 1 else (level,)
    fit = partial(_at_levels, lr=x, levels=levels, exact=exact, logarithmic=logarithmic, advise=advise)
    for (values, part), (curves, limit), (best, wide) in zip(slices, every, mapped(fit, every), strict=True):
        partly = part.loc[(bad[part.index] > 0) & (part[x] < limit), x]
        if len(partly) and best.status == Status.LOCATED and best.high >= partly.min():
            best = replace(best, **and_because(best, Reason.DIVERGED_WITHIN))
        wider = {"low_simultaneous": wide.low, "high_simultaneous": wide.high, "diverged_from": limit}
        used_here = {"points": len(curves.x), "draws": len(curves.values), "turn": turn}
        lines.append({**dict(zip(keys, values, strict=True)), **_row(best), **wider, **used_here})
    table = pd.DataFrame(lines, columns=[*keys, *COLUMNS])
    if len(rows) > used:
        dropped["at or above a rate at which most draws diverged"] = len(rows) - used
    notes += [note for note in table["note"].unique() if note]
    methods = [method for method in table["method"].unique() if method != "none"]
    about = {"points": int(rows[x].nunique()), "draws": int(rows[seed].nunique()), "rows": used, "dropped": dropped}
    method = "; ".join(methods) or "none"
    return fitted("optimum", table, level=level, method=method, notes=tuple(notes), **about)


def _row(best: Extremum) -> dict[str, Any]:
    return {**vars(best), **vars(best.advice)}


def _at_levels(
    curve: tuple[DrawCurves, float], *, lr: str, levels: tuple[float, ...], exact: bool, logarithmic: bool, advise: bool
) -> tuple[Extremum, Extremum]:
    """The optimum of (curves, limit) at the first and at the last of the levels."""
    best = find_optimum(curve[0], lr, levels[0], exact, curve[1], logarithmic, advise)
    if len(levels) > 1 and best.status == Status.LOCATED:
        return best, find_optimum(curve[0], lr, levels[1], exact, curve[1], logarithmic)
    return best, best


def divergence(rates: np.ndarray, bad: np.ndarray) -> float:
    """The lowest rate at which most draws diverged, above some rate at which most did not; inf if there is none.

    rates: (rows,). bad: (rows,), 1 for each row that diverged, 0 for others, NaN for those that are missing.
    """
    survived = False
    for rate in np.unique(rates[~np.isnan(bad)]):
        many = most(bad[rates == rate])
        if many and survived:
            return float(rate)
        survived |= not many
    return float("inf")


def find_optimum(
    curves: DrawCurves, lr: str, level: float, exact: bool, limit: float, logarithmic: bool, advise: bool = False
) -> Extremum:
    """Estimate the optimum of one slice, in the units of the rate.

    curves: to be minimized, at rates below `limit`, the lowest one at which most draws diverged (inf if none).
    lr: the name of the rate. level, exact, logarithmic, advise: as in `fit_optimum`.
    """
    if not (curves.x != 0).any():
        return Extremum(**because(Reason.NO_ROWS))

    def find(part: DrawCurves, log: bool) -> Extremum:
        axis, u, values = along_rates(part, log)
        best = extremum_along(u, values, level, exact, advise, float(axis.coordinate(np.array(limit))))
        best = in_units_of_x(best, axis, lr)
        best = replace(best, high=min(best.high, limit))  # the last digit
        if best.status == Status.MONOTONE:
            upwards = best.high == np.inf
            near, rest, _ = edge_slopes(u, two_way_anova(values).curve, upwards)
            if abs(near) < FLATTENED * abs(rest):  # the optimum may lie beyond the edge
                best = replace(best, status=Status.CENSORED_HIGH if upwards else Status.CENSORED_LOW)
        return best

    return on_scale(find, curves, level, exact, logarithmic)


def along_rates(curves: DrawCurves, logarithmic: bool) -> tuple[Axis, np.ndarray, np.ndarray]:
    """(axis, coordinates of the rates along it, values) from which the optimum of a slice is estimated.

    A cliff is compressed if differences near the optimum would be lost beside it. (Within draws: what a draw adds to
    all rates decides nothing.)
    """
    axis = Axis(logarithmic, float(curves.x[0]))
    flattened = without_cliffs(curves.values)
    with_cliffs, without = (
        float(np.nanstd(values - np.nanmean(values, axis=1, keepdims=True))) for values in (curves.values, flattened)
    )
    hidden = with_cliffs > HIDDEN * without
    return axis, axis.coordinate(curves.x), flattened if hidden else curves.values


def without_cliffs(values: np.ndarray) -> np.ndarray:
    """Compress heights of values[draw, point] far above the lowest point to their logarithm; the minimum stays.

    Let h be the height of the mean curve above its lowest point. Let s be the largest height within two grid points of
    the lowest point, or ten standard deviations of the noise there if that is larger. A height h > s becomes
    s (1 + log(h/s)), and one above 1000 s as much as one of 1000 s: what exploded without ceasing to be finite says no
    more than that. The residuals of the draws are scaled by the same slope, but never to less than the noise around
    the lowest point: otherwise the pooled noise would be too small and the interval too narrow.
    """
    if not values.size or not np.isfinite(values).any(axis=1).all():
        return values
    # medians, because in least squares the noise at rates that nearly diverge would drown that at all others
    level = np.nanmedian(values - np.nanmedian(values, axis=0), axis=1, keepdims=True)
    curve = np.nanmean(values - level, axis=0)
    residual, height, lowest = values - level - curve, curve - curve.min(), int(np.argmin(curve))
    near = np.arange(max(lowest - NEAR, 0), min(lowest + NEAR + 1, len(curve)))
    # Points as low as the lowest, up to rounding, do not tell how high its surroundings are.
    equal = ROUNDING * float(np.nanmax(np.abs([values[:, lowest], level[:, 0]])))
    typical = np.median(height[near])
    if typical <= equal and (height[near] > equal).any():
        typical = np.median(height[near][height[near] > equal])
    near = near[height[near] <= EXPLODED * typical]  # an explosion beside the lowest point is a cliff
    draws, points = values.shape
    degrees = np.isfinite(values).sum() - draws - points + 1
    noise = np.sqrt(np.nanmean(residual**2, axis=0))
    noise *= np.sqrt(draws * points / max(degrees, 1))  # corrects for the parameters that the fit has estimated
    bottom = float(np.sqrt(np.mean(noise[near] ** 2)))
    size = max(float(height[near].max()), ABOVE_NOISE * bottom)
    far = height > size
    if not size > equal or not far.any():
        return values
    compressed = size * (1 + np.log(np.clip(height / size, 1, EXPLODED)))
    flattened, slope = np.where(far, compressed, height), np.ones(points)
    keep = np.divide(bottom, noise, out=np.ones(points), where=noise > bottom)
    slope[far] = np.maximum(size / height[far], keep[far])
    return np.asarray(curve.min() + flattened + level + slope * residual)
