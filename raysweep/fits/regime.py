"""The regime of the optimal rate: how it changes with the pretraining length, and how a metric at this rate changes.

Paper O §3.4.2 and Fig. 7 distinguish three cases by their consequences:

- a constant optimal rate: both losses get worse for large lengths;
- a slowly decreasing optimal rate: the in-domain loss may improve, the pretraining loss degrades;
- a quickly decreasing optimal rate: both losses improve.

The paper gives no numbers for slow and quick. So a fit gives two answers: `verdict` uses bounds on the slope, which are
this project's own; `case_of` is the paper's case, decided by the losses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.at_best_lr import AtBestLr, RateRows, best_rates, metric_at_rates
from raysweep.fits.between_points import lowest_places
from raysweep.fits.extremum import Extremum
from raysweep.fits.optimum import fit_optimum, without_cliffs
from raysweep.fits.result import Fit, Status
from raysweep.fits.statistics import LEVEL, normal_quantile, t_quantile, two_way_anova

if TYPE_CHECKING:
    import pandas as pd


class Verdict(StrEnum):
    """How the optimal rate changes with the length. NO_CASE is a result of `case_of` only."""

    CONSTANT = "constant"
    SLOWLY = "slowly decreasing"
    QUICKLY = "quickly decreasing"
    INCREASING = "increasing"
    UNDETERMINED = "undetermined"
    NO_CASE = "none of the three"


# |d log rate / d log length|: a factor of 1.26 per decade of length, less than one step (1.32) between O's 27 rates
FLAT = 0.1
QUICK = -0.5  # see `verdict`
FEWEST_LENGTHS = 3  # two lengths always lie on a line


@dataclass(frozen=True, eq=False)
class Regime:
    """The regime of one setting: the line of log optimal rate over log length, by least squares with equal weights.

    verdict: the regime that the interval of the slope proves.
    slope: d log rate / d log length; NaN unless the optimum is located at every length that is used.
    low, high: the interval of the slope at `level`. A side is infinite if a censored optimum leaves it open.
    intercept: log rate at log length 0, for drawing the line.
    located: at how many lengths the optimum is located.
    bounded: at how many lengths only a bound of the optimum is known.
    left_out: how many lengths are not used, because neither is known.
    draws: how many were used.
    optimum: the fit of the optimum at each length.
    at_best_lr: the metric at the best rate of each length.
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
    """The regime that an interval (low, high) of the slope d log rate / d log length proves.

    constant: the interval lies within ±0.1, a change too small for O's grid of rates over a decade of length.
    increasing: it lies above 0.
    quickly decreasing: it lies at or below -1/2.
    slowly decreasing: it lies below 0 and above -1/2.
    undetermined: none of these.

    Why -1/2: at a given rate the weights move by a distance that is proportional to the rate and nearly independent of
    the length (O App. C.1, Fig. 8). This costs curvature times distance squared. If the curvature is proportional to
    the length, the cost at the tuned rate grows with the length unless the rate falls at least as fast as
    length^(-1/2). The bound is a convention of this project. O distinguishes slow from quick by how the losses at the
    tuned rate change, see `case_of`.
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
    """The case of O §3.4.2, decided by how the two losses at the best rate change with the length.

    quickly decreasing: both losses improve.
    slowly decreasing: the in-domain loss improves and the pretraining loss degrades in the end.
    constant: both losses degrade in the end.
    none of the three: the in-domain loss degrades in the end and the pretraining loss improves.
    undetermined: a loss shows neither.

    A loss degrades in the end if it clearly rises after its lowest point. It improves if no such rise was shown and it
    clearly falls, also from the middle length to the longest. The slope of the rate is not used.
    """
    cases = {
        ("improves", "improves"): Verdict.QUICKLY,
        ("improves", "degrades"): Verdict.SLOWLY,
        ("degrades", "degrades"): Verdict.CONSTANT,
        ("degrades", "improves"): Verdict.NO_CASE,
    }
    return cases.get((in_the_end(in_domain), in_the_end(pretraining)), Verdict.UNDETERMINED)


def in_the_end(change: Extremum) -> str:
    """Whether a metric "improves" or "degrades" up to the longest length; empty if neither was shown."""
    if change.climbs:
        return "degrades"
    return "improves" if change.falls and change.late_gain else ""


def fit_regime(
    frame: pd.DataFrame,
    lr: str,
    length: str,
    y: str,
    seed: str,
    level: float = LEVEL,
    *,
    turn: str = "min",
    exact: bool = False,
    beside: Mapping[str, str] | None = None,
) -> Regime:
    """Estimate the slope of log optimal rate over log length, with an interval, and decide the regime from it.

    frame: rows as for `fit_optimum`, with a column for the length.
    lr, length, y, seed: the columns of the rate, the length, the metric and the draw.
    level: the confidence level of the intervals.
    turn: min or max, the best value of the metric.
    exact: the values have no noise, so one draw is enough.
    beside: other metrics to evaluate at the best rate, each with its better direction (min or max).

    The interval of the slope has the draw as the unit (jackknife over draws, Student's t), because the same draw is
    used at all rates and lengths. It covers all interpolations. If the optimum at a length is censored, its bound is
    used, and the interval covers every value that the bound allows. Lengths with an undetermined optimum, 0 and inf are
    left out and counted. COVERAGE.md says how often the verdict is right (measured).

    Raises ValueError as `fit_optimum` does.
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
    """(slope, intercept, low, high) of the least-squares line of log optimal rate over log length.

    Slope and intercept are NaN unless the optimum is located at every length.

    table: the rows of the fit of the optimum for the lengths that are used.
    rows, y, turn, level, exact: as in `fit_regime`.

    The interval (low, high) combines three parts: Student's t with the draw as the unit (jackknife) for the located
    lengths; the most extreme values that the bounds of the censored lengths allow; and the uncertainty between the
    grid points of the rate.
    """
    x = np.log(table[rows.length].to_numpy(float))
    weights = (x - x.mean()) / max(float(((x - x.mean()) ** 2).sum()), 1e-300)
    is_located = (table["status"] == Status.LOCATED).to_numpy()
    names = np.sort(rows.frame[rows.seed].unique())
    # places: log rate [interpolation, draw left out (last: no draw left out), located length]
    # slack: the uncertainty between grid points at each located length
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
    # The error between grid points is uniform over its range (variance slack**2 / 12) and independent between lengths.
    half = float(np.hypot(half, normal_quantile(level) * np.sqrt(((weights[is_located] * slack) ** 2).sum() / 12)))

    bounded, rest = table[~is_located], weights[~is_located]
    low, high = bounded["low"].to_numpy(float), bounded["high"].to_numpy(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_low = np.where(low > 0, np.log(low), -np.inf)
        log_high = np.log(np.minimum(high, bounded["diverged_from"].to_numpy(float)))
        ends = np.stack([rest * log_low, rest * log_high])
    ends = np.where(rest == 0, 0.0, ends)  # a length at the mean has no effect on the slope
    return (
        slope,
        intercept,
        float(whole.min() - half + ends.min(axis=0).sum()),
        float(whole.max() + half + ends.max(axis=0).sum()),
    )
