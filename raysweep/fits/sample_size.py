"""Advice on the sample size: what would make an interval half as wide, more draws or more points around the place."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.statistics import t_quantile

if TYPE_CHECKING:
    from raysweep.fits.extremum_interval import ExtremumInterval

TIMES = (1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)  # as many draws, that are tried
HALF, MANY = 0.5, 1e4
NEARLY = 1.1  # this close to half, more points alone are said to do
ROUNDING = 1 + 1e-9  # what only the grid leaves open is halved exactly, up to rounding
FEWEST_TIMES = 4.0  # for pooled noise: a deeper minimum by chance makes the interval, and what is expected, too narrow


@dataclass(frozen=True)
class Advice:
    """What would halve an interval; NaN where nothing is said.

    draws_to_halve: how many draws in all; as many as there are where more do not help.
    points_to_halve: how many more values of x, with the spacing there halved; 0 where they are not needed.
    points_from, points_to: between which values of x; NaN where none are needed.
    halved: whether both together are expected to halve the interval.
    """

    draws_to_halve: float = np.nan
    points_to_halve: float = np.nan
    points_from: float = np.nan
    points_to: float = np.nan
    halved: bool = False


NO_ADVICE = Advice()


def sample_size_advice(interval: ExtremumInterval, width: float) -> Advice:
    """What halves the `width` of the interval of an extremum, along its coordinate.

    More draws where they are enough by themselves, else two points that halve the spacing beside the lowest one, and
    as many draws as that then takes. What the grid leaves open is in proportion to that spacing.
    """
    u, index, draws = interval.u, interval.lowest, len(interval.values)
    least = 1.0 if interval.smooth else FEWEST_TIMES
    times = fewest_times(interval.ends, HALF * width, least)
    if np.isfinite(times):
        return Advice(int(np.ceil(times * draws)), 0, np.nan, np.nan, True)
    grid_low, grid_high, _ = interval.grid()
    spread_low, spread_high = interval.noise(MANY)  # of the interpolations, which no draws make smaller
    middle = float(u[index])

    def finer(end: float) -> float:
        return middle + HALF * (end - middle)

    def with_points(times: float) -> tuple[float, float]:
        low, high = interval.noise(times)
        below, above = max(spread_low - low, 0.0), max(high - spread_high, 0.0)  # what is noise
        return min(finer(grid_low), finer(spread_low) - below), max(finer(grid_high), finer(spread_high) + above)

    times = fewest_times(with_points, HALF * width, least, NEARLY)
    enough = bool(np.isfinite(times))
    first, last = max(index - 1, 0), min(index + 1, len(u) - 1)
    return Advice(
        int(np.ceil(times * draws)) if enough else draws, last - first, float(u[first]), float(u[last]), enough
    )


def fewest_times(
    ends: Callable[[float], tuple[float, float]], wanted: float, least: float, slack: float = 1.0
) -> float:
    """The fewest times the draws with which an interval is as narrow as wanted.

    ends: (low, high) with so many times the draws.
    least: fewer times are never enough, except for the draws there are, which may be wider by the factor `slack`.
    """

    def narrow(times: float, allowed: float = ROUNDING) -> bool:
        low, high = ends(times)
        return high - low <= wanted * allowed

    if narrow(1.0, slack):
        return 1.0
    every = [times for times in TIMES if times >= least]
    first = bisect_left(every, True, key=narrow)  # widths fall with the draws
    return every[first] if first < len(every) else np.inf


def advice_words(draws: int, advice: Advice, x: str, show: Callable[[float], str]) -> str:
    """The advice in words: "4 times the draws (36 more) would halve it". show: writes a value of x."""
    wanted, points = advice.draws_to_halve, advice.points_to_halve
    seeds = f"{wanted / draws:.2g} times the draws ({wanted - draws} more)"
    if not points:
        return f"{seeds} would halve it"
    where = f"{points} more values of {x} between {show(advice.points_from)} and {show(advice.points_to)}"
    if not advice.halved:
        return f"more draws alone would not halve it, nor would {where}: it takes both, many of each"
    if wanted == draws:
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
