"""The zero of one noisy curve in x, from a few draws of it: which sign changes there are, and what is known without."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from raysweep.fits.crossing import Crossing, Part, between, exponentiated, joined
from raysweep.fits.draws import ROUNDING, log_axis, standard_error
from raysweep.fits.interpolation import METHODS, PROLONGED, Sampled, sample
from raysweep.fits.result import CENSORED_HIGH, CENSORED_LOW, LOCATED, UNDETERMINED
from raysweep.fits.signs import choose_scale, clear_signs, rescaled, t_quantile

KINKED = 2.0  # a curve that bends this many times more within a cell than beside it may have a kink there
SIGN_DRAWS = 6  # fewer draws can never reject at 95 % in a two-sided sign test


@dataclass(frozen=True)
class Zero:
    """The answer for one curve; every crossing of it, the clearest first."""

    status: str
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
    """The zero of the mean of values[draw, point] over x (of the median on the sign scale).

    strict_level: level of the simultaneous interval (that of the slice if None). scale: linear, asinh or sign; chosen
    from the data if None. exact: the values carry no noise, so that one draw is enough. logarithmic: whether to read x
    in log; guessed if None.
    """
    draws = int(np.isfinite(values).any(axis=1).sum())
    scale = scale or choose_scale(values)
    answer = Zero(UNDETERMINED, (), np.nan, np.nan, scale, len(x), draws)
    needed = 1 if exact else SIGN_DRAWS if scale == "sign" else 2
    if len(x) < 2 or draws < needed:
        few = "points" if len(x) < 2 else "draws"
        return replace(answer, note=f"too few {few}: {len(x)} points, {draws} draws" if draws else "no usable rows")
    if exact:
        scale = answer.scale if answer.scale != "sign" else "linear"
    in_log = log_axis(x, logarithmic)
    u = np.log(x) if in_log else x
    labels = clear_signs(values, level, scale, exact)
    transformed = rescaled(values, scale)
    clear = np.flatnonzero(labels)
    brackets = [(int(j), int(k)) for j, k in pairwise(clear) if labels[j] * labels[k] < 0]
    if not brackets:
        return no_crossing(answer, x, values, labels, level, exact)
    sampled = {method: sample(u, transformed, method) for method in METHODS}
    crossings = []
    for j, k in brackets:

        def parts_of(curves: Iterable[Sampled], j: int = j, k: int = k) -> list[Part]:
            each = (between(curve, j, k, level, strict_level or level, scale, exact) for curve in curves)
            return [part for part in each if part]

        parts = parts_of(sampled.values())
        if kinked(u, transformed, int(np.clip(np.searchsorted(u, parts[0].estimate) - 1, j, k - 1))):
            parts += parts_of(sample(u, transformed, method) for method in PROLONGED)
        crossing = joined(parts, u, values, j, k, bool(labels[k] > 0))
        if in_log:
            crossing = exponentiated(crossing)
        strength = min(strengths(values, labels, j), strengths(values, labels, k))
        crossings.append((strength, crossing))
    ordered = tuple(crossing for _, crossing in sorted(crossings, key=lambda pair: -pair[0]))
    return replace(
        answer, status=LOCATED, crossings=ordered, low=ordered[0].low, high=ordered[0].high, note=ordered[0].note
    )


def kinked(u: np.ndarray, values: np.ndarray, cell: int) -> bool:
    """Whether the mean curve bends far more within a cell than around it."""
    bends = np.abs(np.diff(np.diff(standard_error(values)[0]) / np.diff(u)))  # at the inner points, the first at u[1]
    at = np.arange(1, len(u) - 1)
    own, around = np.isin(at, (cell, cell + 1)), np.isin(at, (cell - 1, cell + 2))
    return bool(own.any() and around.any() and np.nanmax(bends[own]) > KINKED * np.nanmax(bends[around]))


def strengths(values: np.ndarray, labels: np.ndarray, node: int) -> float:
    """How clear the sign is on one side of a crossing: the largest |mean| among the points next to the node, itself
    included, whose sign is not clearly the other."""
    size = np.abs(standard_error(values)[0])
    run = [node]
    for step in (-1, 1):
        at = node + step
        while 0 <= at < len(labels) and labels[at] in (0, labels[node]):
            run.append(at)
            at += step
    return float(np.nanmax(size[run]))


def no_crossing(answer: Zero, x: np.ndarray, values: np.ndarray, labels: np.ndarray, level: float, exact: bool) -> Zero:
    """Censored where the curve has one clear sign and comes down towards zero at one edge; else undetermined."""
    mean, _, _ = standard_error(values)
    if not np.nanmax(np.abs(values)) > 0:
        return replace(answer, note="zero everywhere")
    if not labels.any():
        return replace(answer, note="no point has a clear sign")
    clear = np.flatnonzero(labels)
    sign = int(labels[clear[0]])
    for edge in (0, len(x) - 1):
        inner = clear[0] if edge == 0 else clear[-1]
        outside = np.arange(0, inner) if edge == 0 else np.arange(inner + 1, len(x))
        if len(outside) and not np.nan_to_num(values[:, outside]).any():
            return replace(
                answer,
                note=f"exactly zero {'up to' if edge == 0 else 'from'} "
                f"{x[outside[-1] if edge == 0 else outside[0]]:.6g}: meets zero without crossing",
            )
    ends_clear = labels[0] != 0, labels[-1] != 0
    edge = 0 if sign * mean[0] < sign * mean[-1] else len(x) - 1
    if not any(ends_clear) or ends_clear == ((False, True) if edge else (True, False)):
        return replace(answer, note="sign not clear at the edges")
    gaps = np.diff(clear)
    if (gaps > 1).any() and not ends_clear[0 if edge == 0 else 1]:
        return replace(answer, note="sign not clear in several places")
    if not falls_towards(edge, x, sign * values, level, exact):
        return replace(answer, note=f"{'positive' if sign > 0 else 'negative'} everywhere, towards neither edge")
    word = "positive" if sign > 0 else "negative"
    if edge == 0:
        return replace(answer, status=CENSORED_LOW, low=-np.inf, high=float(x[clear[0]]), note=f"{word} above")
    return replace(answer, status=CENSORED_HIGH, low=float(x[clear[-1]]), high=np.inf, note=f"{word} below")


def falls_towards(edge: int, x: np.ndarray, values: np.ndarray, level: float, exact: bool) -> bool:
    """Whether values are clearly lower in the third of the points nearest that edge than in the rest."""
    third = max(1, len(x) // 3)
    near = np.arange(third) if edge == 0 else np.arange(len(x) - third, len(x))
    rest = np.setdiff1d(np.arange(len(x)), near)
    complete = np.isfinite(values).all(axis=1)
    rows = values[complete] if complete.sum() >= 2 or exact else values
    difference = np.nanmean(rows[:, rest], axis=1) - np.nanmean(rows[:, near], axis=1)
    mean, error, count = standard_error(difference[:, None])
    doubt = 0.0 if exact else t_quantile(2 * level - 1, int(count[0]) - 1) * error[0]
    return bool(mean[0] > doubt + ROUNDING * np.nanmax(np.abs(values)))
