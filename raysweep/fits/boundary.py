"""Where a noisy surface changes sign: the zero line of value(x, y), one root in x per slice of y."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.crossing import METHODS, PROLONGED, Crossing, Part, Sampled, between, exponentiated, joined, sample
from raysweep.fits.draws import draw_curves, log_axis, repeated, usable
from raysweep.fits.result import Fit, Status, overall
from raysweep.fits.statistics import ROUNDING, independent_points, sign_test_limit, standard_error, t_quantile

if TYPE_CHECKING:
    import pandas as pd


SCALES = ("linear", "asinh", "sign")
OUTLYING = 10.0  # robust deviations; the farthest of 8 normal draws lies beyond in 0.5 % of cells, of 20 in none
KINKED = 2.0  # a curve that bends this many times more within a cell than beside it may have a kink there
SIGN_DRAWS = 6  # fewer draws can never reject at 95 % in a two-sided sign test


def fit_boundary(
    frame: pd.DataFrame,
    x: str,
    y: str | None,
    value: str,
    seed: str,
    level: float = 0.95,
    *,
    scale: str | Mapping[Any, str] | None = None,
    exact: bool = False,
    logarithmic: bool | None = None,
) -> Fit:
    """The zero line of `value` over `x`, one root per value of `y` (y None: one slice).

    frame: one row per (x, y, draw), other columns are ignored; with a `status` column only rows that are ok enter.
    seed: the column that names the draw. Draws may share their randomness over x and y, or not; a draw may be missing
    at some points. level: of each slice's interval (pointwise; the table also has Bonferroni bands for all slices).
    scale: linear; asinh (interpolates a surface that diverges on a bent axis, same zero); sign (zero line of the
    median by a sign test, for draws without a variance, from 6 draws on); None chooses per slice from the data; a
    mapping chooses per y. exact: the values carry no noise; one draw is then enough and the interval is the spread of
    the interpolations. logarithmic: whether x is read in log; None guesses from its values.

    A slice is located if the sign is beyond doubt on both sides (points weighed by how far they are independent);
    censored_low / censored_high if the whole slice has one sign and comes clearly nearer to zero at that edge of x;
    otherwise undetermined, and `.table.note` says why. Raises ValueError for an unknown column, scale or level.

    What the interval covers (measured in COVERAGE.md): lines that are smooth at the distance of the grid points, and
    lines with one kink near the zero, as long as the kink is larger than the noise. What it does not: a line that does
    more between two points than bend once.
    """
    import pandas as pd

    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
    for word in [scale] if isinstance(scale, str) else (scale or {}).values():
        if word not in SCALES:
            raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {word!r}")
    rows, dropped = usable(frame, value, [x, seed] + ([y] if y else []))
    at_infinity = np.isinf(rows[x].to_numpy(dtype=np.float64))
    if at_infinity.any():
        dropped["infinite x"] = int(at_infinity.sum())
        rows = rows[~at_infinity]
    notes = []
    twice = repeated(rows, [x, seed] + ([y] if y else []))
    if twice:
        notes.append(f"{twice} rows repeat a draw at the same point; each such draw enters with its mean")
    size = float(rows[value].abs().max()) if len(rows) else 0.0
    rows = rows.assign(**{value: rows[value].where(rows[value].abs() > ROUNDING * size, 0.0).astype(np.float64)})

    every = frame[y].drop_duplicates().sort_values().tolist() if y else [None]
    strict = 1 - (1 - level) / max(len(every), 1)
    lines, crossings = [], []
    for label in every:
        part = rows[rows[y] == label] if y else rows
        curves = draw_curves(part, x, value, seed)
        wanted = scale if isinstance(scale, str) else (scale or {}).get(label)
        zero = find_zero(curves.x, curves.values, level, strict, wanted, exact, logarithmic)
        key = {y: label} if y else {}
        lines.append({**key, **line(zero)})
        for crossing in zero.crossings:
            crossings.append(
                {
                    **key,
                    "estimate": crossing.estimate,
                    "low": crossing.low,
                    "high": crossing.high,
                    "method_spread": crossing.method_spread,
                    "rising": crossing.rising,
                }
            )
    nothing = find_zero(np.empty(0), np.empty((0, 0)), level)
    table = pd.DataFrame(lines, columns=[*([y] if y else []), *line(nothing)])  # also where there is no slice
    names = ([y] if y else []) + ["estimate", "low", "high", "method_spread", "rising"]
    several = int((table["crossings"] > 1).sum())
    if several:
        notes.append(f"{several} slices change sign more than once: the table has the clearest, .crossings all")
    return Fit(
        kind="boundary",
        level=level,
        points=int(rows[x].nunique()),
        draws=int(rows[seed].nunique()),
        rows=len(rows),
        dropped=dropped,
        scale=one_word(table["scale"]),
        method="t-test inverted on the mean curve, the draw as unit; cubic interpolation, widened to hold for "
        "linear and one-sided parabolic interpolation too, and for a kink where the curve shows one",
        table=table,
        crossings=pd.DataFrame(crossings, columns=names),
        notes=tuple(notes),
        **overall(table),
    )


def line(zero: Zero) -> dict[str, Any]:
    """One slice as a row of the table."""
    best = zero.crossings[0] if zero.crossings else None
    return {
        "estimate": best.estimate if best else np.nan,
        "low": zero.low,
        "high": zero.high,
        "status": zero.status,
        "low_simultaneous": best.low_simultaneous if best else zero.low,
        "high_simultaneous": best.high_simultaneous if best else zero.high,
        "method_spread": best.method_spread if best else np.nan,
        "crossings": len(zero.crossings),
        "points": zero.points,
        "draws": zero.draws,
        "scale": zero.scale,
        "note": zero.note,
    }


def one_word(words: pd.Series) -> str:
    """The word all slices share, or mixed."""
    kinds = words.unique()
    return str(kinds[0]) if len(kinds) == 1 else "mixed"


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
    answer = Zero(Status.UNDETERMINED, (), np.nan, np.nan, scale, len(x), draws)
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
        answer, status=Status.LOCATED, crossings=ordered, low=ordered[0].low, high=ordered[0].high, note=ordered[0].note
    )


def choose_scale(values: np.ndarray) -> str:
    """sign where draws scatter as if they had no variance; asinh where the mean runs over decades; else linear."""
    draws = np.isfinite(values).sum(axis=0)
    full = draws >= 8  # with fewer, one far draw proves nothing
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
    """The values to interpolate. On the asinh scale the mean is bent, and each draw follows it to first order: the zero
    stays that of the mean, which the mean of asinh(value) would move."""
    if scale == "linear":
        return values
    size = np.nanmedian(np.abs(values)) or np.nanmax(np.abs(values)) or 1.0
    if scale == "sign":
        return np.arcsinh(values / size)
    mean = standard_error(values)[0]
    return np.arcsinh(mean / size) + (values - mean) / (size * np.sqrt(1 + (mean / size) ** 2))


def clear_signs(values: np.ndarray, level: float, scale: str, exact: bool) -> np.ndarray:
    """+1 or -1 where the sign of the curve at a grid point is beyond doubt, 0 elsewhere.

    Beyond doubt allows for the number of points looked at, but only as far as they are independent: points of one draw
    that move together are one look.
    """
    mean, error, count = standard_error(values)
    if exact:
        return np.sign(np.nan_to_num(mean)).astype(int)
    point_level = max(level, 1 - 2 * (1 - level) / independent_points(values))
    if scale == "sign":
        positive, negative = (values > 0).sum(axis=0), (values < 0).sum(axis=0)
        limits = np.array([sign_test_limit(point_level, int(n)) for n in positive + negative])
        return np.where(np.minimum(positive, negative) <= limits, np.sign(positive - negative), 0).astype(int)
    quantile = np.array([t_quantile(point_level, int(n) - 1) for n in count])
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(mean) > quantile * error, np.sign(mean), 0).astype(int)


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
        return replace(answer, status=Status.CENSORED_LOW, low=-np.inf, high=float(x[clear[0]]), note=f"{word} above")
    return replace(answer, status=Status.CENSORED_HIGH, low=float(x[clear[-1]]), high=np.inf, note=f"{word} below")


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
