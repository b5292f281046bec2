"""The optimal-rate regime: how the optimal rate moves with pretraining length, and what tuning it makes of a metric.

Paper O §3.4.2 and Fig. 7 tell three cases apart by what follows from them: a constant optimal rate (both losses end up
worse for large lengths), a slowly decreasing one (the in-domain loss may improve, the pretraining loss degrades) and
a quickly decreasing one (both improve). The paper puts no number on slow and quick. Two answers stand side by side:
`verdict` has bounds on the slope, which are this project's own; `case_of` is the paper's case, by the losses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.at_best_lr import AtBestLr, best_rates, metric_at_rates, slice_values
from raysweep.fits.extremum import Extremum
from raysweep.fits.extremum_interval import all_places
from raysweep.fits.optimum import fit_optimum, without_cliffs
from raysweep.fits.result import Fit, Status
from raysweep.fits.statistics import normal_quantile, t_quantile, two_way_anova

if TYPE_CHECKING:
    import pandas as pd

CONSTANT, INCREASING = "constant", "increasing"
SLOWLY, QUICKLY = "slowly decreasing", "quickly decreasing"
VERDICTS = (CONSTANT, SLOWLY, QUICKLY, INCREASING, Status.UNDETERMINED)

NO_CASE = "none of the three"

FLAT = 0.1  # |d log rate / d log length|: a factor 1.26 per decade of length, less than one step (1.32) of O's 27 rates
QUICK = -0.5
FEWEST_LENGTHS = 3


@dataclass(frozen=True, eq=False)
class Regime:
    """How log optimal rate runs against log length, by least squares with equal weights.

    slope: NaN unless every length that counts is located; low, high: its interval at `level`, infinite where lengths
    with a censored optimum leave that side open. located, bounded, left_out: lengths with an optimum, with a bound
    only, and with neither (they do not count). intercept: of log rate at log length 0, for drawing.
    optimum: the fit per length. at_best_lr: the metric at those rates. beside: other metrics at the same rates.
    """

    verdict: str
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


def verdict(low: float, high: float) -> str:
    """The regime that an interval of the slope d log rate / d log length proves; undetermined if it proves none.

    constant: within ±0.1, too little for O's grid of rates to show over a decade of length. increasing: above 0.
    quickly decreasing: at or below -1/2; slowly decreasing: below 0 and above -1/2. Why -1/2: at a given rate the
    weights move about the same distance whatever the length, in proportion to the rate (O App. C.1, Fig. 8), and
    moving by a distance costs curvature times its square; if the curvature grows in proportion to the length, the
    cost at the tuned rate grows unless the rate falls at least as length^(-1/2). It is a convention of this project:
    O tells slow from quick by what tuning does to the losses, see `case_of`.
    """
    if low > -FLAT and high < FLAT:
        return CONSTANT
    if low > 0:
        return INCREASING
    if high <= QUICK:
        return QUICKLY
    if high < 0 and low > QUICK:
        return SLOWLY
    return Status.UNDETERMINED


def case_of(in_domain: Extremum, pretraining: Extremum) -> str:
    """The case of O §3.4.2 that the losses at the best rate show, however the rate moves: quickly decreasing if both
    improve with length, slowly decreasing if the in-domain loss improves and the pretraining loss degrades in the end,
    constant if both degrade in the end.

    A loss degrades in the end if it clearly rises after its lowest point. It improves if no such rise was shown, and
    it clearly falls, from the middle length to the longest, too. Undetermined where a loss shows neither.
    """
    cases = {
        ("improves", "improves"): QUICKLY,
        ("improves", "degrades"): SLOWLY,
        ("degrades", "degrades"): CONSTANT,
        ("degrades", "improves"): NO_CASE,
    }
    return cases.get((in_the_end(in_domain), in_the_end(pretraining)), Status.UNDETERMINED)


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
    counted, as are lengths 0 and inf, which have no logarithm. Raises ValueError as `fit_optimum` does.
    """
    frame = frame.reset_index(drop=True)
    fit = fit_optimum(frame, lr, y, length, seed, level, turn=turn, exact=exact, logarithmic=True)
    at = fit.table[length].to_numpy(float)
    counts = np.isfinite(at) & (at > 0) & (fit.table["status"] != Status.UNDETERMINED).to_numpy()
    table = fit.table[counts]
    found = table[table["status"] == Status.LOCATED]
    slopes = Slopes(table, frame, fit, lr, length, y, seed, turn)
    low = high = slope = intercept = np.nan
    note = ""
    if len(table) < FEWEST_LENGTHS:
        note = f"{len(table)} lengths with an optimum or a bound, at least {FEWEST_LENGTHS} are needed"
    else:
        low, high = slopes.interval(level, exact)
        if len(found) == len(table):
            slope, intercept = slopes.line()
    word = verdict(low, high) if np.isfinite(low) or np.isfinite(high) else Status.UNDETERMINED
    if word == Status.UNDETERMINED and not note:
        if high < 0:
            note = "decreasing; whether slowly or quickly is not decided"
        elif len(found) < len(table) and not (np.isfinite(low) and np.isfinite(high)):
            note = "lengths with a censored optimum leave it open"
        else:
            note = "the interval of the slope holds more than one regime"
    rates = best_rates(fit, frame, lr, length, y, seed, turn)
    return Regime(
        verdict=word,
        slope=slope,
        low=low,
        high=high,
        intercept=intercept,
        level=level,
        located=len(found),
        bounded=len(table) - len(found),
        left_out=len(fit.table) - len(table),
        draws=fit.draws,
        optimum=fit,
        at_best_lr=metric_at_rates(frame, rates, lr, length, y, seed, level, turn, exact),
        beside={
            name: metric_at_rates(frame, rates, lr, length, name, seed, level, better, exact)
            for name, better in (beside or {}).items()
        },
        note=note,
    )


class Slopes:
    """Least-squares slopes of log rate over log length, of all draws and with each draw left out."""

    def __init__(
        self, table: pd.DataFrame, frame: pd.DataFrame, fit: Fit, lr: str, length: str, y: str, seed: str, turn: str
    ) -> None:
        self.x = np.log(table[length].to_numpy(float))
        centred = self.x - self.x.mean() if len(self.x) else self.x
        self.weights = centred / max(float((centred**2).sum()), 1e-300)
        self.located = (table["status"] == Status.LOCATED).to_numpy()
        names = np.sort(frame[seed].unique())
        self.draws = fit.draws
        # log rate [interpolation, draw left out (the last: none), located length], and what the grid leaves open
        places, slack = [], []
        for row in table[self.located].to_dict("records"):
            u, values, seeds = slice_values(frame, row, lr, length, y, seed, turn)
            flattened = without_cliffs(values)
            whole = two_way_anova(flattened).curve
            curves = [
                two_way_anova(flattened[seeds != name]).curve if name in seeds and len(seeds) > 1 else whole
                for name in names
            ]
            where = np.stack(all_places(u, np.stack([*curves, whole])))
            places.append(where)
            spread = float(np.log1p(row["method_spread"] / row["estimate"]))
            slack.append(max(spread - float(np.ptp(where[:, -1])), 0.0))
        self.places = np.stack(places, axis=-1) if places else np.empty((3, len(names) + 1, 0))
        self.slack = np.array(slack)
        bounded = table[~self.located]
        low, high = bounded["low"].to_numpy(float), bounded["high"].to_numpy(float)
        ceiling = bounded["diverged_from"].to_numpy(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.low = np.where(low > 0, np.log(low), -np.inf)
            self.high = np.log(np.minimum(high, ceiling))

    def line(self) -> tuple[float, float]:
        """(slope, intercept) of all draws, when every length is located."""
        rates = self.places[:2, -1].mean(axis=0)
        slope = float(rates @ self.weights)
        return slope, float(rates.mean() - slope * self.x.mean())

    def interval(self, level: float, exact: bool) -> tuple[float, float]:
        """(low, high) of the slope: Student's t on the located lengths, the farthest that the bounds of the others
        allow, and what the grid leaves open."""
        weights = self.weights[self.located]
        slopes = self.places @ weights
        left_out, whole = slopes[:2, :-1], slopes[:, -1]
        n = left_out.shape[1]
        half = 0.0
        if not exact:
            scatter = ((left_out - left_out.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
            half = t_quantile(level, n - 1) * float(np.sqrt((n - 1) / n * scatter).max())
        # what the grid leaves open at a length lies anywhere in that range, at each length for itself
        half = float(np.hypot(half, normal_quantile(level) * np.sqrt(((weights * self.slack) ** 2).sum() / 12)))
        rest = self.weights[~self.located]
        with np.errstate(invalid="ignore"):
            ends = np.stack([rest * self.low, rest * self.high]) if len(rest) else np.zeros((2, 0))
        ends = np.where(rest == 0, 0.0, ends)  # a length in the middle does not tilt the line
        return (float(whole.min() - half + ends.min(axis=0).sum()), float(whole.max() + half + ends.max(axis=0).sum()))
