"""The optimal-rate regime: how the optimal rate moves with pretraining length, and what tuning it makes of a metric.

Paper O §3.4.2 and Fig. 7 tell three cases apart by what follows from them: a constant optimal rate (both losses end up
worse for large lengths), a slowly decreasing one (the in-domain loss may improve, the pretraining loss degrades) and
a quickly decreasing one (both improve). The paper puts no number on slow and quick. Two answers stand side by side:
`verdict` has bounds on the slope, which are this project's own; `case_of` is the paper's case, by the losses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.at_best_lr import AtBestLr, RateRows, best_rates, metric_at_rates
from raysweep.fits.extremum import Extremum
from raysweep.fits.extremum_interval import lowest_places
from raysweep.fits.optimum import fit_optimum, without_cliffs
from raysweep.fits.result import Fit, Status
from raysweep.fits.statistics import normal_quantile, t_quantile, two_way_anova

if TYPE_CHECKING:
    import pandas as pd


class Verdict(StrEnum):
    """How the optimal rate moves with the length; the last is a case of the losses only."""

    CONSTANT = "constant"
    SLOWLY = "slowly decreasing"
    QUICKLY = "quickly decreasing"
    INCREASING = "increasing"
    UNDETERMINED = "undetermined"
    NO_CASE = "none of the three"


FLAT = 0.1  # |d log rate / d log length|: a factor 1.26 per decade of length, less than one step (1.32) of O's 27 rates
QUICK = -0.5  # see `verdict`
FEWEST_LENGTHS = 3  # two always lie on a line


@dataclass(frozen=True, eq=False)
class Regime:
    """How log optimal rate runs against log length, by least squares with equal weights.

    verdict: what the interval of the slope proves.
    slope: d log rate / d log length; NaN unless every length that counts is located.
    low, high: its interval at `level`, infinite where lengths with a censored optimum leave that side open.
    intercept: of log rate at log length 0, for drawing.
    located, bounded, left_out: how many lengths have an optimum, a bound only, and neither (they do not count).
    draws: how many entered.
    optimum: the fit per length.
    at_best_lr: the metric at those rates.
    beside: other metrics at the same rates.
    note: why the verdict is undetermined.
    """

    verdict: Verdict
    slope: float
    low: float
    high: float
    intercept: float
    level: float
    located: int
    bounded: int
    left_out: int
    draws: int
    optimum: Fit
    at_best_lr: AtBestLr
    beside: dict[str, AtBestLr]
    note: str = ""


def verdict(low: float, high: float) -> Verdict:
    """The regime that an interval of the slope d log rate / d log length proves; undetermined if it proves none.

    constant: within ±0.1, too little for O's grid of rates to show over a decade of length. increasing: above 0.
    quickly decreasing: at or below -1/2; slowly decreasing: below 0 and above -1/2. Why -1/2: at a given rate the
    weights move about the same distance whatever the length, in proportion to the rate (O App. C.1, Fig. 8), and
    moving by a distance costs curvature times its square; if the curvature grows in proportion to the length, the
    cost at the tuned rate grows unless the rate falls at least as length^(-1/2). It is a convention of this project:
    O tells slow from quick by what tuning does to the losses, see `case_of`.
    """
    if low > -FLAT and high < FLAT:
        return Verdict.CONSTANT
    if low > 0:
        return Verdict.INCREASING
    if high <= QUICK:
        return Verdict.QUICKLY
    if high < 0 and low > QUICK:
        return Verdict.SLOWLY
    return Verdict.UNDETERMINED


def case_of(in_domain: Extremum, pretraining: Extremum) -> Verdict:
    """The case of O §3.4.2 that the losses at the best rate show, however the rate moves: quickly decreasing if both
    improve with length, slowly decreasing if the in-domain loss improves and the pretraining loss degrades in the end,
    constant if both degrade in the end.

    A loss degrades in the end if it clearly rises after its lowest point. It improves if no such rise was shown, and
    it clearly falls, from the middle length to the longest, too. Undetermined where a loss shows neither.
    """
    cases = {
        ("improves", "improves"): Verdict.QUICKLY,
        ("improves", "degrades"): Verdict.SLOWLY,
        ("degrades", "degrades"): Verdict.CONSTANT,
        ("degrades", "improves"): Verdict.NO_CASE,
    }
    return cases.get((in_the_end(in_domain), in_the_end(pretraining)), Verdict.UNDETERMINED)


def in_the_end(change: Extremum) -> str:
    """Whether a metric improves or degrades up to the longest length; empty where neither was shown."""
    if change.climbs:
        return "degrades"
    return "improves" if change.falls and change.late_gain else ""


def fit_regime(
    frame: pd.DataFrame,
    lr: str,
    length: str,
    y: str,
    seed: str,
    level: float = 0.95,
    *,
    turn: str = "min",
    exact: bool = False,
    beside: Mapping[str, str] | None = None,
) -> Regime:
    """The regime of one setting: rows as for `fit_optimum`, with a column `length`.

    beside: other metrics to follow at the best rate, each with its better direction (min or max).

    The slope's interval has the draw as the unit (jackknife over draws, Student's t), because draws share their data
    over rates and lengths; it holds for every interpolation used. A length whose optimum is censored enters with its
    bound, and makes the interval as wide as the bound leaves it; one whose optimum is undetermined is left out and
    counted, as are lengths 0 and inf, which have no logarithm. How often the verdict is right is measured in
    COVERAGE.md. Raises ValueError as `fit_optimum` does.
    """
    frame = frame.reset_index(drop=True)
    rows = RateRows(frame, lr, length, seed)
    fit = fit_optimum(frame, lr, y, length, seed, level, turn=turn, exact=exact, logarithmic=True)
    at = fit.table[length].to_numpy(float)
    table = fit.table[np.isfinite(at) & (at > 0) & (fit.table["status"] != Status.UNDETERMINED).to_numpy()]
    located = int((table["status"] == Status.LOCATED).sum())
    slope = intercept = low = high = np.nan
    word = Verdict.UNDETERMINED
    if len(table) >= FEWEST_LENGTHS:
        slope, intercept, low, high = fit_slope(table, rows, y, turn, level, exact)
        word = verdict(low, high)
    if word != Verdict.UNDETERMINED:
        note = ""
    elif len(table) < FEWEST_LENGTHS:
        note = f"{len(table)} lengths with an optimum or a bound, at least {FEWEST_LENGTHS} are needed"
    elif high < 0:
        note = "decreasing; whether slowly or quickly is not decided"
    elif located < len(table) and not (np.isfinite(low) and np.isfinite(high)):
        note = "lengths with a censored optimum leave it open"
    else:
        note = "the interval of the slope holds more than one regime"
    rates = best_rates(fit, rows, y, turn)
    return Regime(
        verdict=word,
        slope=slope,
        low=low,
        high=high,
        intercept=intercept,
        level=level,
        located=located,
        bounded=len(table) - located,
        left_out=len(fit.table) - len(table),
        draws=fit.draws,
        optimum=fit,
        at_best_lr=metric_at_rates(rows, rates, y, turn, level, exact),
        beside={
            name: metric_at_rates(rows, rates, name, better, level, exact) for name, better in (beside or {}).items()
        },
        note=note,
    )


def fit_slope(
    table: pd.DataFrame, rows: RateRows, y: str, turn: str, level: float, exact: bool
) -> tuple[float, float, float, float]:
    """(slope, intercept, low, high) of the least-squares line of log optimal rate over log length; slope and intercept
    are NaN unless every length is located.

    table: of the optimum fit, the lengths that count.

    The interval: Student's t with the draw as the unit (jackknife) on the located lengths, the farthest that the bounds
    of the others allow, and what the grid leaves open.
    """
    x = np.log(table[rows.length].to_numpy(float))
    weights = (x - x.mean()) / max(float(((x - x.mean()) ** 2).sum()), 1e-300)
    is_located = (table["status"] == Status.LOCATED).to_numpy()
    names = np.sort(rows.frame[rows.seed].unique())
    # log rate [interpolation, draw left out (the last: none), located length], and what the grid leaves open
    places, slack = np.empty((3, len(names) + 1, int(is_located.sum()))), np.empty(int(is_located.sum()))
    for k, row in enumerate(table[is_located].to_dict("records")):
        curves = rows.curves(row[rows.length], row["diverged_from"], y, turn)
        values, seeds = without_cliffs(curves.values), curves.seeds
        whole = two_way_anova(values).curve
        each = [
            two_way_anova(values[seeds != name]).curve if name in seeds and len(seeds) > 1 else whole for name in names
        ]
        places[..., k] = np.stack(lowest_places(curves.x, np.stack([*each, whole])))
        spread = float(np.log1p(row["method_spread"] / row["estimate"]))
        slack[k] = max(spread - float(np.ptp(places[:, -1, k])), 0.0)
    slope = intercept = np.nan
    if is_located.all():
        rates = places[:2, -1].mean(axis=0)
        slope = float(rates @ weights)
        intercept = float(rates.mean() - slope * x.mean())

    slopes = places @ weights[is_located]
    left_out, whole = slopes[:2, :-1], slopes[:, -1]
    half, n = 0.0, len(names)
    if not exact:
        scatter = ((left_out - left_out.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        half = t_quantile(level, n - 1) * float(np.sqrt((n - 1) / n * scatter).max())
    # what the grid leaves open at a length lies anywhere in that range, at each length for itself
    half = float(np.hypot(half, normal_quantile(level) * np.sqrt(((weights[is_located] * slack) ** 2).sum() / 12)))

    bounded, rest = table[~is_located], weights[~is_located]
    low, high = bounded["low"].to_numpy(float), bounded["high"].to_numpy(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_low = np.where(low > 0, np.log(low), -np.inf)
        log_high = np.log(np.minimum(high, bounded["diverged_from"].to_numpy(float)))
        ends = np.stack([rest * log_low, rest * log_high])
    ends = np.where(rest == 0, 0.0, ends)  # a length in the middle does not tilt the line
    return (
        slope,
        intercept,
        float(whole.min() - half + ends.min(axis=0).sum()),
        float(whole.max() + half + ends.max(axis=0).sum()),
    )
