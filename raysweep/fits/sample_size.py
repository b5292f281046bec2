"""Advice on the sample size: how many more draws or points would make an interval half as wide."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.statistics import t_quantile

if TYPE_CHECKING:
    from raysweep.fits.extremum_interval import ExtremumInterval

TIMES = (1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)  # tried multiples of the draws
HALF, MANY = 0.5, 1e4  # the wanted share of the width; a multiple of the draws that makes the noise negligible
NEARLY = 1.1  # if more points alone make the interval narrower than this times half its width, they are enough
ROUNDING = 1 + 1e-9  # tolerance for rounding: an interval from the grid alone is halved exactly
# With pooled noise, a minimum that is too deep by chance makes the interval and its prediction too narrow. So smaller
# multiples of the draws are never advised.
FEWEST_TIMES = 4.0


@dataclass(frozen=True)
class Advice:
    """What would halve an interval. A field is NaN if there is no advice.

    draws_to_halve: how many draws in total; the present number if more draws do not help.
    points_to_halve: how many more values of x, which halve the spacing of the grid there; 0 if not needed.
    points_from, points_to: the values of x between which these points lie; NaN if not needed.
    halved: whether both together are expected to halve the interval.
    """

    draws_to_halve: float = np.nan
    points_to_halve: float = np.nan
    points_from: float = np.nan
    points_to: float = np.nan
    halved: bool = False


NO_ADVICE = Advice()


def sample_size_advice(interval: ExtremumInterval, width: float) -> Advice:
    """Compute how many draws and points would halve the interval of an extremum.

    interval: the present interval.
    width: its width, in the units of its coordinate.

    If more draws alone are enough, only draws are advised. Otherwise the advice is two more points, which halve the
    spacing beside the lowest point, and the number of draws that is then enough. This assumes that the uncertainty
    between grid points is proportional to the spacing.
    """
    u, index, draws = interval.u, interval.lowest, len(interval.values)
    least = 1.0 if interval.smooth else FEWEST_TIMES
    times = fewest_times(interval.ends, HALF * width, least)
    if np.isfinite(times):
        return Advice(int(np.ceil(times * draws)), 0, np.nan, np.nan, True)
    grid_low, grid_high, _ = interval.grid()
    spread_low, spread_high = interval.noise(MANY)  # the spread of the interpolations, which more draws do not reduce
    middle = float(u[index])

    def finer(end: float) -> float:
        return middle + HALF * (end - middle)

    def with_points(times: float) -> tuple[float, float]:
        low, high = interval.noise(times)
        below, above = max(spread_low - low, 0.0), max(high - spread_high, 0.0)  # the part that is noise
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
    """The smallest multiple of the present draws for which an interval is as narrow as `wanted`; inf if none is.

    ends: gives (low, high) for a multiple of the draws.
    wanted: the wanted width.
    least: smaller multiples are not tried, except for 1 (the present draws).
    slack: with the present draws the width may be larger than wanted by this factor.
    """

    def narrow(times: float, allowed: float = ROUNDING) -> bool:
        low, high = ends(times)
        return high - low <= wanted * allowed

    if narrow(1.0, slack):
        return 1.0
    every = [times for times in TIMES if times >= least]
    first = bisect_left(every, True, key=narrow)  # more draws give narrower intervals
    return every[first] if first < len(every) else np.inf


def advice_words(draws: int, advice: Advice, x: str, show: Callable[[float], str]) -> str:
    """The advice in words, for example "4 times the draws (36 more) would halve it".

    draws: the present number of draws.
    x: the name of x.
    show: formats a value of x.
    """
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
    """How many draws in total would halve a Student's t interval if the scatter between draws stays the same."""
    if draws < 2:
        return draws
    wanted = t_quantile(level, draws - 1) / np.sqrt(draws) / 2
    more = draws
    while t_quantile(level, more - 1) / np.sqrt(more) > wanted:
        more += 1
    return more
