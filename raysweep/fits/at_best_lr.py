"""What tuning the rate makes of a metric: its values at each length's best rate, and how they run over the length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.draws import standard_error
from raysweep.fits.extremum import FEWEST_POINTS, Extremum, find_extremum, gains_late
from raysweep.fits.optimum import without_cliffs
from raysweep.fits.result import CENSORED_HIGH, CENSORED_LOW, LOCATED, MONOTONE, Fit
from raysweep.fits.signs import t_quantile
from raysweep.fits.slope import slice_values
from raysweep.fits.trend import every_step
from raysweep.fits.two_way_anova import two_way_anova

if TYPE_CHECKING:
    import pandas as pd


def tuned_rates(
    fit: Fit, frame: pd.DataFrame, lr: str, length: str, y: str, seed: str, turn: str
) -> list[tuple[float, float, bool, float]]:
    """(length, best rate, whether the optimum is censored, lowest diverging rate) of each length: the fitted optimum,
    or where there is none the best rate of the grid."""
    out = []
    for row in fit.table.to_dict("records"):
        rate, censored = float(row["estimate"]), False
        if row["status"] != LOCATED:
            u, values, _ = slice_values(frame, row, lr, length, y, seed, turn)
            if not len(u):
                continue
            rate = float(np.exp(u[np.argmin(two_way_anova(values).curve)]))
            censored = row["status"] in (CENSORED_LOW, CENSORED_HIGH, MONOTONE)
        out.append((float(row[length]), rate, censored, float(row["diverged_from"])))
    return out


def at_rates(
    frame: pd.DataFrame,
    rates: Sequence[tuple[float, float, bool, float]],
    lr: str,
    length: str,
    y: str,
    seed: str,
    level: float,
    turn: str,
    exact: bool,
) -> tuple[pd.DataFrame, Extremum]:
    """The metric at each length's tuned rate, every draw interpolated in log rate, and how it runs over the length."""
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
        bent = without_cliffs(own)
        for draw, name in zip(bent, seeds, strict=True):
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
    return table, trend_of(at[use], values[:, use], level, exact)


def trend_of(at: np.ndarray, values: np.ndarray, level: float, exact: bool) -> Extremum:
    """The turn of values[draw, length] to be minimized; with few lengths only the first against the last."""
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
        status=MONOTONE,
        low=low,
        high=high,
        falls=falls,
        climbs=not falls,
        throughout=bool(throughout),
        late_gain=gains_late(values, level, exact),
    )


def trend_word(trend: Extremum) -> str:
    """What happens to a metric as the length grows, in a word or two."""
    if trend.falls and trend.climbs:
        return "improves, then degrades"
    if not trend.falls and not trend.climbs:
        return "no clear change"
    word = "improves" if trend.falls else "degrades"
    if trend.status == MONOTONE:
        return word + (" throughout" if trend.throughout else "")
    return f"{word}, levelling off" if trend.falls else f"{word} from the shortest lengths on"
