"""The values of a metric at the best learning rate of each length, and how they change with the length."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from raysweep.fits.draws import DrawCurves, draw_curves, usable
from raysweep.fits.extremum import FEWEST_POINTS, Extremum, find_extremum, gains_late, one_way
from raysweep.fits.optimum import without_cliffs
from raysweep.fits.reasons import Reason, because
from raysweep.fits.result import Fit, Status
from raysweep.fits.statistics import half_width, standard_error, t_quantile, two_way_anova
from raysweep.fits.trend import every_step
from raysweep.lazy import pd


@dataclass(frozen=True, eq=False)
class RateRows:
    """Rows over learning rate and length, with the names of the columns for the rate, the length and the draw."""

    frame: pd.DataFrame
    lr: str
    length: str
    seed: str

    def curves(self, length: float, limit: float, y: str, turn: str) -> DrawCurves:
        """The curves of a metric at one length over the rates above 0 and below `limit`, one per draw.

        With the turn max the values change sign, so that the best rate is always a minimum.
        """
        rates = self.frame[self.lr]
        frame = self.frame[(self.frame[self.length] == length) & (rates > 0) & (rates < limit)]
        rows, _ = usable(frame, y, [self.lr, self.seed])
        return draw_curves(rows, self.lr, y, self.seed, turn)


@dataclass(frozen=True, eq=False)
class AtBestLr:
    """One metric at the best rate of each length."""

    # one row per length: the length, `rate`, `censored`, the mean over draws, its interval (low, high) and draws.
    table: pd.DataFrame
    over_length: Extremum  # at which length the metric is best, and whether it improves or degrades with the length


def best_rates(fit: Fit, rows: RateRows, y: str, turn: str) -> pd.DataFrame:
    """The best rate of each length that has usable rows, from the fit of the optimum of `y` by length.

    The columns are the length; `rate`, the fitted optimum or, if it was not located, the best rate of the grid;
    `censored`, whether the fit knows only a bound of the optimum; and `limit`, the `diverged_from` of the fit.
    """
    lines = []
    for row in fit.table.to_dict("records"):
        length, limit, rate, censored = row[rows.length], row["diverged_from"], row["estimate"], False
        if row["status"] != Status.LOCATED:
            curves = rows.curves(length, limit, y, turn)
            if not len(curves.x):
                continue
            rate = float(curves.x[np.argmin(two_way_anova(without_cliffs(curves.values)).curve)])
            censored = row["status"] != Status.UNDETERMINED
        lines.append((float(length), rate, censored, limit))
    return pd.DataFrame(lines, columns=[rows.length, "rate", "censored", "limit"])


def metric_at_rates(rows: RateRows, rates: pd.DataFrame, y: str, turn: str, level: float, exact: bool) -> AtBestLr:
    """Estimate a metric `y` at the `best_rates` of each length, with a Student's t interval between draws, of no width
    for exact values. Each draw is interpolated over log rate (Akima)."""
    from scipy.interpolate import Akima1DInterpolator

    seeds = np.sort(rows.frame[rows.seed].unique())
    values = np.full((len(seeds), len(rates)), np.nan)
    for column, (length, rate, _, limit) in enumerate(rates.itertuples(index=False, name=None)):
        curves, at = rows.curves(length, limit, y, turn), np.log(rate)
        for draw, seed in zip(without_cliffs(curves.values), curves.seeds, strict=True):
            finite = np.isfinite(draw)
            u = np.log(curves.x[finite])
            if len(u) > 2 and u[0] - 1e-9 <= at <= u[-1] + 1e-9:
                curve = Akima1DInterpolator(u, draw[finite], method="makima")
                values[np.searchsorted(seeds, seed), column] = float(curve(np.clip(at, u[0], u[-1])))
    mean, error, count = standard_error(values if turn == "min" else -values)
    half = 0 * error if exact else half_width(level, error, count)
    table = rates.drop(columns="limit").assign(mean=mean, low=mean - half, high=mean + half, draws=count)
    lengths = table[rows.length].to_numpy(float)
    use = np.isfinite(lengths) & (lengths > 0) & (count > 0)
    return AtBestLr(table, change_over_length(lengths[use], values[:, use], level, exact))


def change_over_length(at: np.ndarray, values: np.ndarray, level: float, exact: bool) -> Extremum:
    """The minimum of values[draw, length] over the lengths `at`. Fewer than FEWEST_POINTS: the first against the last
    length (Student's t)."""
    if len(at) >= FEWEST_POINTS or len(at) < 2:
        return find_extremum(at, values, level, exact)
    nothing = Extremum(method="first against last length, Student's t")
    ((mean,), (error,), (count,)) = standard_error((values[:, -1] - values[:, 0])[:, None])
    if not count > (0 if exact else 1) or abs(mean) <= (0.0 if exact else t_quantile(level, int(count) - 1) * error):
        return nothing
    falls = bool(mean < 0)
    low, high = (float(at[-1]), np.inf) if falls else (-np.inf, float(at[0]))
    curve = two_way_anova(values).curve
    steps = -np.diff(curve) if falls else np.diff(curve)
    throughout = (steps > 0).all() if exact else every_step(values, -1.0 if falls else 1.0) <= 1 - level
    answer = replace(nothing, status=Status.MONOTONE, low=low, high=high, falls=falls, climbs=not falls)
    late_gain, why = gains_late(values, level, exact), because(one_way(falls, bool(throughout)))
    return replace(answer, throughout=bool(throughout), late_gain=late_gain, **why)


def change_word(change: Extremum) -> str:
    """How a metric changes as the length grows, in a few words."""
    if change.falls and change.climbs:
        return "improves, then degrades"
    if not change.falls and not change.climbs:
        return "not tested" if change.reason == Reason.TOO_FEW_DRAWS else "no clear change"
    word = "improves" if change.falls else "degrades"
    if change.status == Status.MONOTONE:
        return word + (" throughout" if change.throughout else "")
    return f"{word} and levels off" if change.falls else f"{word} in the end"
