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
from typing import Any

import numpy as np

from raysweep.fits.at_best_lr import AtBestLr, RateRows, best_rates, metric_at_rates
from raysweep.fits.extremum import Extremum
from raysweep.fits.optimum import fit_optimum
from raysweep.fits.reasons import Reason, because
from raysweep.fits.result import Fit, Status
from raysweep.fits.slope import fit_slope
from raysweep.fits.statistics import LEVEL
from raysweep.fits.surface.law import SPARE, fit_law
from raysweep.fits.surface.slice_places import SlicePlaces, fit_of, has_few_draws, slice_places
from raysweep.lazy import pd


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
FEWEST_OF_LAW = 2 + SPARE


@dataclass(frozen=True, eq=False)
class Regime:
    """The regime of one setting: the line of log optimal rate over log length, by least squares with equal weights."""

    verdict: Verdict  # the regime that the interval of the slope proves
    slope: float  # d log rate / d log length; NaN unless the optimum is located at every length that is used
    # low, high: the interval of the slope at `level`. A side is infinite if an optimum with one bound leaves it open.
    low: float
    high: float
    intercept: float  # log rate at log length 0, for drawing the line
    level: float
    located: int  # at how many lengths the optimum is located
    bounded: int  # at how many lengths the optimum is not located, but bounded
    left_out: int  # how many lengths are not used, because neither is known
    draws: int  # how many were used
    optimum: Fit  # the fit of the optimum at each length
    at_best_lr: AtBestLr  # the metric at the best rate of each length
    beside: dict[str, AtBestLr]  # other metrics at the same rates
    reason: Reason = Reason.NONE  # reason, note: why the verdict is undetermined, and its text (see `Reason`)
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
    changes = in_domain, pretraining
    if not all(change.climbs or (change.falls and change.late_gain) for change in changes):
        return Verdict.UNDETERMINED
    cases = {
        (False, False): Verdict.QUICKLY,
        (False, True): Verdict.SLOWLY,
        (True, True): Verdict.CONSTANT,
        (True, False): Verdict.NO_CASE,
    }
    return cases[in_domain.climbs, pretraining.climbs]


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
    places: SlicePlaces | None = None,
) -> Regime:
    """Estimate the slope of log optimal rate over log length, with an interval, and decide the regime from it.

    frame, y, seed, level, turn, exact: as for `fit_optimum`. lr, length: the columns of the rate and the length.
    beside: other metrics to evaluate at the best rate, each with its better direction (min or max).
    places: of all lengths, if a surface has them; None fits one where cells have few draws (`has_few_draws`). The slope
        is then the exponent of the law of the best rate over the length (`surface/law.py`).

    Otherwise the interval of the slope is that of the posterior of the curve at each length, and knows that a draw may
    move the optima of all lengths together (`slope.py`). If only one bound of an optimum is known, the interval covers
    every value that it allows. Lengths with an undetermined optimum, 0 and inf are left out and counted. COVERAGE.md
    says how often the verdict is right (measured), with few draws that of `surface`.

    Raises ValueError as `fit_optimum` does.
    """
    frame = frame.reset_index(drop=True)
    rows = RateRows(frame, lr, length, seed)
    if places is None and not exact and has_few_draws(frame, lr, y, [length]):
        places = slice_places(frame, [lr], y, [length], turn=turn, level=level)
    if places:
        fit = fit_of(places, [length], turn, level)
    else:
        fit = fit_optimum(frame, lr, y, length, seed, level, turn=turn, exact=exact, logarithmic=True, advise=False)
    at = fit.table[length].to_numpy(float)
    usable = np.isfinite(at) & (at > 0) & (fit.table["status"] != Status.UNDETERMINED).to_numpy()
    table, least = fit.table[usable], FEWEST_OF_LAW if places else FEWEST_LENGTHS
    located = int((table["status"] == Status.LOCATED).sum())
    slope = intercept = low = high = np.nan
    if len(table) >= least and places:
        used = [one for one, use in zip(places.places, usable, strict=True) if one and use]
        law = fit_law(used, at[usable, None])  # over the length alone
        low, slope, high, _ = law.exponents(level)[:, 0].tolist()
        intercept = float(np.median(law.coefficients[:, 0])) - slope * float(law.logs.mean())
    elif len(table) >= least:
        slope, intercept, low, high = fit_slope(table, rows, y, turn, level, exact)
    word = verdict(low, high)
    if word != Verdict.UNDETERMINED:
        why = because(Reason.NONE)
    elif len(table) < least:
        why = because(Reason.TOO_FEW_LENGTHS, points=len(table), least=least)
    elif high < 0:
        why = because(Reason.SPEED_UNDECIDED)
    elif located < len(table) and not (np.isfinite(low) and np.isfinite(high)):
        why = because(Reason.CENSORED_LENGTHS)
    else:
        why = because(Reason.SEVERAL_REGIMES)
    rates = best_rates(fit, rows, y, turn)
    others = {name: metric_at_rates(rows, rates, name, best, level, exact) for name, best in (beside or {}).items()}
    at_best = metric_at_rates(rows, rates, y, turn, level, exact)
    about: dict[str, Any] = {"slope": slope, "low": low, "high": high, "intercept": intercept, "level": level}
    about |= {"located": located, "bounded": len(table) - located, "left_out": len(fit.table) - len(table)}
    return Regime(verdict=word, **about, draws=fit.draws, optimum=fit, at_best_lr=at_best, beside=others, **why)
