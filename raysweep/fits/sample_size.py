"""What would make the interval of a turning point half as wide: more draws, or more points around it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from raysweep.fits.statistics import t_quantile

TIMES = (1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
HALF, MANY = 0.5, 1e4
NEARLY = 1.1  # this close to half, more points alone are said to do
ROUNDING = 1 + 1e-9  # what only the grid leaves open is halved exactly, up to rounding


@dataclass(frozen=True)
class More:
    """draws: how many draws in all (today's number where more do not help); points: how many more values of x, between
    `low` and `high` in the units of x, with the spacing there halved (0 where they are not needed). enough: whether
    both together are expected to halve the interval."""

    draws: int
    points: int
    low: float
    high: float
    enough: bool


def more_for_half(
    u: np.ndarray,
    index: int,
    draws: int,
    width: float,
    open_ends: tuple[float, float],
    ends: Callable[[float], tuple[float, float]],
    noise_ends: Callable[[float], tuple[float, float]],
    least: float,
) -> More:
    """What halves the `width` of an interval that holds both what the grid leaves open (`open_ends`, in proportion to
    the spacing around the lowest point `index`) and what noise makes of it: ends(k) is all of the interval with k times
    the draws, noise_ends(k) the part of noise.

    More draws where they are enough by themselves, else two points that halve the spacing beside the lowest one, and
    as many draws as that then takes. least: fewer than so many times the draws are never said to be enough (noise that
    happens to deepen the minimum makes the interval, and what is expected of more draws, too narrow).
    """
    wanted = HALF * width

    def fewest(low_high: Callable[[float], tuple[float, float]], slack: float) -> float:
        def done(times: float, allowed: float = ROUNDING) -> bool:
            low, high = low_high(times)
            return high - low <= wanted * allowed

        if done(1.0, slack):
            return 1.0
        every = [times for times in TIMES if times >= least]
        first = bisect_left(every, True, key=done)  # widths fall with the draws
        return every[first] if first < len(every) else np.inf

    times = fewest(ends, 1.0)
    if np.isfinite(times):
        return More(int(np.ceil(times * draws)), 0, np.nan, np.nan, True)
    first, last = max(index - 1, 0), min(index + 1, len(u) - 1)
    middle, certain = float(u[index]), noise_ends(MANY)  # what is left of `noise_ends` is the interpolations' spread

    def finer(end: float) -> float:
        return middle + HALF * (end - middle)

    def with_points(times: float) -> tuple[float, float]:
        low, high = noise_ends(times)
        below, above = max(certain[0] - low, 0.0), max(high - certain[1], 0.0)  # what is noise
        return (
            min(finer(open_ends[0]), finer(certain[0]) - below),
            max(finer(open_ends[1]), finer(certain[1]) + above),
        )

    times = fewest(with_points, NEARLY)
    enough = bool(np.isfinite(times))
    return More(int(np.ceil(times * draws)) if enough else draws, last - first, float(u[first]), float(u[last]), enough)


def more_columns(more: More | None) -> dict[str, float]:
    """What would halve the interval, as columns of a table; NaN where nothing is said."""
    return {
        "draws_to_halve": more.draws if more else np.nan,
        "points_to_halve": more.points if more else np.nan,
        "points_from": more.low if more else np.nan,
        "points_to": more.high if more else np.nan,
        "halved": more.enough if more else False,
    }


def halving_words(draws: int, more: More, x: str, show: Callable[[float], str]) -> str:
    """The advice in words: "4 times the draws (36 more) would halve it". show: writes a value of x."""
    seeds = f"{more.draws / draws:.2g} times the draws ({more.draws - draws} more)"
    if not more.points:
        return f"{seeds} would halve it"
    where = f"{more.points} more values of {x} between {show(more.low)} and {show(more.high)}"
    if not more.enough:
        return f"more draws alone would not halve it, nor would {where}: it takes both, many of each"
    if more.draws == draws:
        return f"more draws would not halve it, {where} would"
    return f"{where} and {seeds} would halve it"


def draws_to_halve(draws: int, level: float) -> int:
    """How many draws would make an interval by Student's t half as wide, the scatter between draws being what it is."""
    if draws < 2:
        return draws
    wanted = t_quantile(level, draws - 1) / np.sqrt(draws) / 2
    more = draws
    while t_quantile(level, more - 1) / np.sqrt(more) > wanted:
        more += 1
    return more
