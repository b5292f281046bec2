"""By what factor the best value of an axis differs between two settings, all else equal: paired draw by draw."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from raysweep.fits.at_best_lr import RateRows
from raysweep.fits.between_points import lowest_places
from raysweep.fits.optimum import fit_optimum, without_cliffs
from raysweep.fits.result import Status
from raysweep.fits.statistics import LEVEL, normal_quantile, t_quantile, two_way_anova
from raysweep.fits.surface.best import COUNT
from raysweep.fits.surface.slice_places import SlicePlaces
from raysweep.lazy import pd


@dataclass(frozen=True, kw_only=True)
class Shift:
    """The best value of one setting, divided by that of another. A field is NaN if it could not be computed."""

    factor: float = np.nan  # the geometric mean over the slices in which both are located
    low: float = np.nan  # low, high: its interval; NaN with fewer than two draws
    high: float = np.nan
    slices: int = 0  # slices, left_out: in how many slices both are located, and in how many not
    left_out: int = 0
    draws: int = 0  # how many were used


def shift_of(one: SlicePlaces, other: SlicePlaces, level: float = LEVEL) -> Shift:
    """As `fit_shift`, off one surface along log x: from joint draws of the best values of slices that have one in both
    settings. Slices of one setting err alike, as far as their curves have one form (`Best.shared`). RUN_ERRORS.md says
    how often the interval holds the factor.
    """
    pair = [dict(zip((key for (key,) in each.slices.settings), each.bests, strict=True)) for each in (one, other)]
    located = [{key: best for key, best in each.items() if best and best.status == Status.LOCATED} for each in pair]
    both, every = located[0].keys() & located[1].keys(), pair[0].keys() | pair[1].keys()
    draws = int(max(each.slices.cells.draws.max(initial=0) for each in (one, other)))
    shift = Shift(slices=len(both), left_out=len(every) - len(both), draws=draws)
    if not both:
        return shift
    rng, first, second = np.random.default_rng(0), *([each[key] for key in sorted(both)] for each in located)
    apart = np.mean([best.draws for best in second], axis=0) - np.mean([best.draws for best in first], axis=0)
    for bests in (first, second):
        apart += np.median([best.shared for best in bests]) * rng.standard_normal(COUNT)
    low, factor, high = np.exp(np.quantile(apart, [(1 - level) / 2, 0.5, (1 + level) / 2])).tolist()
    return replace(shift, factor=factor, low=low, high=high)


def fit_shift(
    one: pd.DataFrame,
    other: pd.DataFrame,
    x: str,
    y: str,
    by: str,
    seed: str,
    level: float = LEVEL,
    *,
    turn: str = "min",
) -> Shift:
    """Estimate the factor from the best x of `one` to the best x of `other`, with its interval.

    one, other: rows as for `fit_optimum`, of two settings that were measured with the same draws.
    x: the column of the axis (above 0). y, by, seed, turn: as for `fit_optimum`.

    The draw is the unit: every draw is left out in turn, of both settings and all slices at once (jackknife, Student's
    t). So what a draw does to both settings cancels. The interval allows for how far the interpolations between grid
    points disagree about the factor. Where a best value is censored or undetermined, the slice is left out of both.

    Raises ValueError as `fit_optimum` does.
    """
    frames = [frame.reset_index(drop=True) for frame in (one, other)]
    rows = [RateRows(frame, x, by, seed) for frame in frames]
    fits = [fit_optimum(frame, x, y, by, seed, level, turn=turn, logarithmic=True, advise=False) for frame in frames]
    located = [fit.table[fit.table["status"] == Status.LOCATED] for fit in fits]
    limits = [dict(zip(table[by], table["diverged_from"], strict=True)) for table in located]  # of the located slices
    every = {place for fit in fits for place in fit.table[by]}
    both = sorted(limits[0].keys() & limits[1].keys())
    names = np.sort(np.unique(np.concatenate([frame[seed].unique() for frame in frames])))
    count = len(names)
    shift = Shift(slices=len(both), left_out=len(every) - len(both), draws=count)
    if not both:
        return shift
    # log places [interpolation, draw left out (last: no draw left out)], second setting minus first, mean over slices
    first, second = (
        np.array([_places(part, place, limit[place], names, y, turn) for place in both])
        for part, limit in zip(rows, limits, strict=True)
    )
    apart = np.mean(second - first, axis=0)
    means, half = apart[:2].mean(axis=0), np.nan
    if count > 1:
        scatter = float(((means[:-1] - means[:-1].mean()) ** 2).sum())
        half = t_quantile(level, count - 1) * float(np.sqrt((count - 1) / count * scatter))
        # the error between grid points is taken as uniform over the range of the interpolations
        half = float(np.hypot(half, normal_quantile(level) * np.ptp(apart[:, -1]) / np.sqrt(12)))
    factor, low, high = np.exp([means[-1], means[-1] - half, means[-1] + half]).tolist()
    return replace(shift, factor=factor, low=low, high=high)


def _places(rows: RateRows, place: float, limit: float, names: np.ndarray, y: str, turn: str) -> np.ndarray:
    """The log of the best x of one slice, [interpolation, draw left out (last: no draw left out)]."""
    curves = rows.curves(place, limit, y, turn)
    values = without_cliffs(curves.values)
    whole = two_way_anova(values).curve
    each = [
        two_way_anova(values[curves.seeds != name]).curve if name in curves.seeds and len(values) > 1 else whole
        for name in names
    ]
    return np.stack(lowest_places(np.log(curves.x), np.stack([*each, whole])))
