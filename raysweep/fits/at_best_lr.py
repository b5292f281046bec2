"""A metric at each length's best learning rate, and how it runs over the length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import draw_curves, usable
from raysweep.fits.extremum import FEWEST_POINTS, Extremum, find_extremum, gains_late
from raysweep.fits.optimum import without_cliffs
from raysweep.fits.result import Fit, Status
from raysweep.fits.statistics import standard_error, t_quantile, two_way_anova
from raysweep.fits.trend import every_step

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class AtBestLr:
    """One metric at each length's best rate.

    table: one row per length with the length, `rate`, mean, low, high (its interval between draws), draws, and
        `censored`: whether the optimum is censored, so that the rate is the best of the grid.
    over_length: how the metric runs over the length: where it is best, whether it improves and degrades.
    """

    table: pd.DataFrame
    over_length: Extremum


def best_rates(
    fit: Fit, frame: pd.DataFrame, lr: str, length: str, y: str, seed: str, turn: str
) -> list[tuple[float, float, bool, float]]:
    """(length, best rate, whether the optimum is censored, lowest diverging rate) of each length: the fitted optimum,
    or where there is none the best rate of the grid."""
    out = []
    for row in fit.table.to_dict("records"):
        rate, censored = float(row["estimate"]), False
        if row["status"] != Status.LOCATED:
            u, values, _ = slice_values(frame, row, lr, length, y, seed, turn)
            if not len(u):
                continue
            rate = float(np.exp(u[np.argmin(two_way_anova(values).curve)]))
            censored = row["status"] in (Status.CENSORED_LOW, Status.CENSORED_HIGH, Status.MONOTONE)
        out.append((float(row[length]), rate, censored, float(row["diverged_from"])))
    return out


def metric_at_rates(
    frame: pd.DataFrame,
    rates: Sequence[tuple[float, float, bool, float]],
    lr: str,
    length: str,
    y: str,
    seed: str,
    level: float,
    turn: str,
    exact: bool,
) -> AtBestLr:
    """The metric at each length's best rate, every draw interpolated in log rate, and how it runs over the length."""
    import pandas as pd
    from scipy.interpolate import Akima1DInterpolator

    sign = 1.0 if turn == "min" else -1.0
    names = np.sort(frame[seed].unique())
    values = np.full((len(names), len(rates)), np.nan)
    for column, (place, rate, _, limit) in enumerate(rates):
        row = {length: place, "diverged_from": limit}
        u, own, seeds = slice_values(frame, row, lr, length, y, seed, turn)
        if not len(u):
            continue
        flattened = without_cliffs(own)
        for draw, name in zip(flattened, seeds, strict=True):
            known = np.isfinite(draw)
            at = np.searchsorted(names, name)
            if known.sum() > 2 and u[known][0] - 1e-9 <= np.log(rate) <= u[known][-1] + 1e-9:
                curve = Akima1DInterpolator(u[known], draw[known], method="makima")
                values[at, column] = float(curve(np.clip(np.log(rate), u[known][0], u[known][-1])))
    mean, error, count = standard_error(sign * values)
    half = np.array([0.0 if exact else t_quantile(level, int(n) - 1) for n in count]) * error
    table = pd.DataFrame(
        {
            length: [each[0] for each in rates],
            "rate": [each[1] for each in rates],
            "censored": [each[2] for each in rates],
            "mean": mean,
            "low": mean - half,
            "high": mean + half,
            "draws": count,
        }
    )
    at = table[length].to_numpy(float)
    use = np.isfinite(at) & (at > 0) & (count > 0)
    return AtBestLr(table, change_over_length(at[use], values[:, use], level, exact))


def change_over_length(at: np.ndarray, values: np.ndarray, level: float, exact: bool) -> Extremum:
    """The extremum of values[draw, length] to be minimized; with few lengths only the first against the last."""
    if len(at) >= FEWEST_POINTS or len(at) < 2:
        return find_extremum(at, values, level, exact)
    nothing = Extremum(method="first against last length, Student's t")
    mean, error, count = standard_error((values[:, -1] - values[:, 0])[:, None])
    if not count[0] > (0 if exact else 1):
        return nothing
    half = 0.0 if exact else t_quantile(level, int(count[0]) - 1) * float(error[0])
    if abs(float(mean[0])) <= half:
        return nothing
    falls = bool(mean[0] < 0)
    low, high = (float(at[-1]), np.inf) if falls else (-np.inf, float(at[0]))
    curve = two_way_anova(values).curve
    one_way = -np.diff(curve) if falls else np.diff(curve)
    throughout = (one_way > 0).all() if exact else every_step(values, -1.0 if falls else 1.0) <= 1 - level
    return replace(
        nothing,
        status=Status.MONOTONE,
        low=low,
        high=high,
        falls=falls,
        climbs=not falls,
        throughout=bool(throughout),
        late_gain=gains_late(values, level, exact),
    )


def change_word(change: Extremum) -> str:
    """What happens to a metric as the length grows, in a word or two."""
    if change.falls and change.climbs:
        return "improves, then degrades"
    if not change.falls and not change.climbs:
        return "no clear change"
    word = "improves" if change.falls else "degrades"
    if change.status == Status.MONOTONE:
        return word + (" throughout" if change.throughout else "")
    return f"{word}, levelling off" if change.falls else f"{word} from the shortest lengths on"


def slice_values(
    frame: pd.DataFrame, row: Any, lr: str, length: str, y: str, seed: str, turn: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(log rates, values[draw, rate] to be minimized, draws' names) of one length, as the optimum fit sees them."""
    rows, _ = usable(frame[(frame[length] == row[length]) & (frame[lr] < row["diverged_from"])], y, [lr, seed])
    curves = draw_curves(rows, lr, y, seed)
    return np.log(curves.x), curves.values if turn == "min" else -curves.values, np.sort(rows[seed].unique())
