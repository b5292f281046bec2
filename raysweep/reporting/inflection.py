"""Where a noisy curve turns: the inflection point, at which more of x stops helping."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.reporting.draws import draw_curves, log_axis, repeated, usable
from raysweep.reporting.result import CENSORED_HIGH, CENSORED_LOW, LOCATED, MONOTONE, UNDETERMINED, Fit
from raysweep.reporting.signs import independent_points, t_quantile
from raysweep.reporting.turning import (
    Additive,
    additive_fit,
    all_places,
    convex_range,
    resampled_places,
    rise,
    rise_quantile,
    slope_interval,
    smooth_within_draws,
    unresolved,
)

if TYPE_CHECKING:
    import pandas as pd

FEWEST_POINTS = 5
FLATTENED = 0.5  # an edge slope below this share of the slope elsewhere heads for a turn


@dataclass(frozen=True)
class Turn:
    """The answer for one curve, in the units of x."""

    status: str
    estimate: float
    low: float
    high: float
    method_spread: float
    method: str
    note: str = ""


def fit_inflection(
    frame: pd.DataFrame, x: str, y: str, seed: str, level: float = 0.95, *, turn: str = "min", exact: bool = False
) -> Fit:
    """Where the mean over draws of `y` over `x` turns: its minimum, or with turn="max" its maximum.

    frame: one row per (x, draw), other columns are ignored; with a `status` column only rows that are ok enter. `x`
    may hold .inf (converged): such rows stay outside the fit, but if they are clearly better than every finite x the
    answer is censored_high. Interpolation is by Akima and by cubic spline, in log x when x is positive and spans more
    than a decade; the interval holds for both. exact: the values carry no noise (closed forms), one draw is enough.

    located: the curve clearly falls before and rises after the place. censored_low / censored_high: the turn lies at
    or beyond that edge, or cannot be told from it (low or high then says what is known). monotone: it falls or rises
    throughout without flattening. undetermined: fewer than 5 points, fewer than 2 draws, or flat within the noise.
    Raises ValueError for an unknown column, level or turn.
    """
    import pandas as pd

    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
    if turn not in ("min", "max"):
        raise ValueError(f"turn: expected min or max, got {turn!r}")
    rows, dropped = usable(frame, y, [x, seed])
    notes = []
    twice = repeated(rows, [x, seed])
    if twice:
        notes.append(f"{twice} rows repeat a draw at the same x; each such draw enters with its mean")
    curves = draw_curves(rows, x, y, seed)
    values = curves.values if turn == "min" else -curves.values
    finite = np.isfinite(curves.x)
    inside = values[:, finite]
    found = find_turn(curves.x[finite], inside, level, exact)
    outside = curves.x == np.inf
    if outside.any():
        notes.append("x = inf (converged) is compared with the finite points, but lies outside the fit")
        if better_at_infinity(inside, values[:, outside][:, 0], level, exact):
            last = float(curves.x[finite].max()) if finite.any() else -np.inf
            found = replace(
                found,
                status=CENSORED_HIGH,
                estimate=np.nan,
                low=last,
                high=np.inf,
                note="best at x = inf, clearly better than at any finite x",
            )
    if found.note:
        notes.append(found.note)
    table = pd.DataFrame(
        [
            {
                "estimate": found.estimate,
                "low": found.low,
                "high": found.high,
                "status": found.status,
                "method_spread": found.method_spread,
                "points": int(finite.sum()),
                "draws": len(curves.values),
                "turn": turn,
                "method": found.method,
                "note": found.note,
            }
        ]
    )
    return Fit(
        kind="inflection",
        level=level,
        rows=len(rows),
        dropped=dropped,
        scale="linear",
        method=found.method,
        table=table,
        crossings=pd.DataFrame(),
        notes=tuple(notes),
        status=found.status,
        estimate=found.estimate,
        low=found.low,
        high=found.high,
        method_spread=found.method_spread,
        points=int(finite.sum()),
        draws=len(curves.values),
    )


def find_turn(x: np.ndarray, values: np.ndarray, level: float, exact: bool = False) -> Turn:
    """The minimum of the mean of values[draw, point] over x."""
    answer = Turn(UNDETERMINED, np.nan, np.nan, np.nan, np.nan, "none")
    draws = len(values)
    if len(x) < FEWEST_POINTS:
        return replace(answer, note=f"too few points: {len(x)}, at least {FEWEST_POINTS} are needed")
    if draws < 2 and not exact:
        return replace(answer, note=f"too few draws: {draws}")
    logarithmic = log_axis(x)
    u = np.log(x) if logarithmic else x
    fit = additive_fit(values)
    quiet = exact or not fit.variance > 1e-24 * float(np.nanmax(np.abs(values))) ** 2
    found = without_noise(u, fit) if quiet else with_noise(u, values, fit, level)
    found = replace(found, method=found.method + (", in log x" if logarithmic else ""))
    spread = found.method_spread
    if logarithmic and np.isfinite(found.estimate):
        spread = float(np.exp(found.estimate) * np.expm1(spread))

    def back(place: float) -> float:
        return float(np.exp(place)) if logarithmic and np.isfinite(place) else float(place)

    return replace(
        found, method_spread=spread, estimate=back(found.estimate), low=back(found.low), high=back(found.high)
    )


def places(u: np.ndarray, curve: np.ndarray) -> list[float]:
    """Where the curve is lowest, by each interpolation."""
    return [float(place[0]) for place in all_places(u, curve[None])]


def without_noise(u: np.ndarray, fit: Additive) -> Turn:
    """Curves that carry no noise: only the interpolation is uncertain."""
    curve = fit.curve
    answer = Turn(UNDETERMINED, np.nan, np.nan, np.nan, np.nan, "exact values; Akima and cubic interpolation")
    if np.ptp(curve) <= 1e-12 * max(float(np.abs(curve).max()), 1e-300):
        return replace(answer, note="flat")
    index = int(np.argmin(curve))
    if index in (0, len(u) - 1):
        return at_edge(answer, u, curve, index, u[index])
    where = places(u, curve)
    low, high = min(where), max(where)
    if unresolved(u, curve[None], fit, index, False):
        first, last = convex_range(u, curve, index)
        low, high = min(low, first), max(high, last)
        answer = replace(
            answer, note="the grid is coarse for this curve: the interval allows for any shape between the points"
        )
    return replace(
        answer, status=LOCATED, estimate=float(np.mean(where[:2])), low=low, high=high, method_spread=high - low
    )


def with_noise(u: np.ndarray, values: np.ndarray, fit: Additive, level: float) -> Turn:
    """The general case: is there a fall and then a rise, and where between them is the turn?"""
    smooth = smooth_within_draws(fit) and np.isfinite(values).all(axis=1).sum() >= 2
    method = (
        "per draw: Student's t on the slope" if smooth else "additive: pooled-variance resampling, draw effect removed"
    ) + "; Akima and cubic interpolation"
    answer = Turn(UNDETERMINED, np.nan, np.nan, np.nan, np.nan, method)
    index = int(np.argmin(fit.curve))
    fall, climb = clear_changes(values, fit, index, level, smooth)
    if not fall and not climb:
        return replace(answer, note="flat within the noise")
    where = places(u, fit.curve)
    estimate, spread = float(np.mean(where[:2])), max(where) - min(where)
    if smooth:
        low, high, _ = slope_interval(u, values, estimate, level)
        low, high = low - (estimate - min(where)), high + (max(where) - estimate)
    else:
        resampled = resampled_places(u, fit, np.random.default_rng(20240229))
        tail = (1 - level) / 2
        low = min(float(np.quantile(each, tail)) for each in resampled)
        high = max(float(np.quantile(each, 1 - tail)) for each in resampled)
    if unresolved(u, values, fit, index, smooth):
        first, last = convex_range(u, fit.curve, index)
        low, high, spread = min(low, first), max(high, last), max(spread, last - first)
        answer = replace(
            answer, note="the grid is coarse for this curve: the interval allows for any shape between the points"
        )
    low, high = max(low, u[0]), min(high, u[-1])
    inner = u[0] < low and high < u[-1]
    if fall and climb and inner:
        return replace(answer, status=LOCATED, estimate=estimate, low=low, high=high, method_spread=spread)
    if fall and climb:  # it turns, but the interval reaches an edge
        if low <= u[0] and high >= u[-1]:
            return replace(answer, low=-np.inf, high=np.inf, note="the interval covers the whole grid")
        if low <= u[0]:
            return replace(
                answer, status=CENSORED_LOW, low=-np.inf, high=high, note="the interval reaches the lower edge"
            )
        return replace(answer, status=CENSORED_HIGH, low=low, high=np.inf, note="the interval reaches the upper edge")
    # A one-sided answer claims no more than the grid shows: the bound is the grid point outside the interval's end.
    if fall:
        return at_edge(answer, u, fit.curve, len(u) - 1, u[u <= low].max())
    return at_edge(answer, u, fit.curve, 0, u[u >= high].min())


def clear_changes(values: np.ndarray, fit: Additive, index: int, level: float, smooth: bool) -> tuple[bool, bool]:
    """(whether the curve clearly falls up to its lowest point, whether it clearly rises from there on)."""
    if smooth:  # the draw is the unit: differences to the lowest point, for all points looked at
        complete = values[np.isfinite(values).all(axis=1)]
        difference = complete - complete[:, index][:, None]
        error = difference.std(axis=0, ddof=1) / np.sqrt(len(complete))
        looks = max(4.0, 2 * independent_points(np.delete(difference, index, axis=1)))
        quantile = t_quantile(1 - 2 * (1 - level) / looks, len(complete) - 1)
        clear = difference.mean(axis=0) > quantile * error
        return bool(clear[:index].any()), bool(clear[index + 1 :].any())
    quantile = rise_quantile(values.shape[1], fit.degrees, level)
    clear = []
    for part in (np.arange(index, -1, -1), np.arange(index, values.shape[1])):
        count = np.isfinite(values[:, part]).sum(axis=0)
        share = fit.degrees * count.sum() / np.isfinite(values).sum()
        variance = max(fit.variance, float(np.nansum(fit.residual[:, part] ** 2) / share))  # noise may grow along x
        clear.append(bool(rise(fit.curve[part] * np.sqrt(count / variance)) > quantile))
    return clear[0], clear[1]


def at_edge(answer: Turn, u: np.ndarray, curve: np.ndarray, edge: int, bound: float) -> Turn:
    """The curve is best towards one edge: monotone if it is not flattening there, else censored."""
    third = max(2, len(u) // 3)
    slope = np.diff(curve) / np.diff(u)
    near = slope[-third:] if edge else slope[:third]
    rest = slope[:-third] if edge else slope[third:]
    words = ("falls", "upper") if edge else ("rises", "lower")
    low, high = (float(bound), np.inf) if edge else (-np.inf, float(bound))
    at_rim = int(np.argmin(curve)) == edge
    if at_rim and abs(float(np.mean(near))) > FLATTENED * abs(float(np.mean(rest))):
        return replace(answer, status=MONOTONE, note=f"{words[0]} throughout", low=low, high=high)
    status = CENSORED_HIGH if edge else CENSORED_LOW
    return replace(
        answer, status=status, note=f"best towards the {words[1]} edge, no clear turn inside", low=low, high=high
    )


def better_at_infinity(inside: np.ndarray, at_infinity: np.ndarray, level: float, exact: bool) -> bool:
    """Whether the value at x = inf is clearly below that at every finite x, draw against draw."""
    if not inside.size:
        return False
    for point in range(inside.shape[1]):
        difference: Any = inside[:, point] - at_infinity
        difference = difference[np.isfinite(difference)]
        if len(difference) < (1 if exact else 2):
            return False
        error = 0.0 if exact else difference.std(ddof=1) / np.sqrt(len(difference))
        quantile = 0.0 if exact else t_quantile(2 * level - 1, len(difference) - 1)
        if not difference.mean() > quantile * error:
            return False
    return True
