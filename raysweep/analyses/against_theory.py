"""Whether the places and values of a finding agree with theory, and by how much they differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raysweep.analyses.finding import Finding
from raysweep.fits.statistics import t_quantile
from raysweep.lazy import pd
from raysweep.numbers import NOTHING

EQUAL = 1e-6
"""Theory agrees with an exact value up to this share of it."""
SMALL = 0.02
"""Theory's values of which one is smaller than this share of the largest are near 0, and differ by any share."""


@dataclass(frozen=True)
class Verdict:
    """What theory says of the estimates that have an interval.

    agrees: whether no interval misses theory's value by more than chance among so many (Bonferroni, since settings may
    share draws; Student's t where these are few), or every exact value is theory's.
    every, outside: how many intervals there are, and how many miss it; 0 if all values are exact. value: that of theory
    beside the first of them.
    apart, share: the largest distance to theory, in units of the estimates and as a share of theory, 0 where that is
    near 0. near_zero: whether some of its values are. side: 1 or -1 if all estimates lie above or below it, else 0.
    """

    agrees: bool
    every: int
    outside: int
    value: float
    apart: float
    share: float
    near_zero: bool
    side: int


def verdict(finding: Finding) -> Verdict | None:
    """The verdict of a finding; None without an estimate beside theory. That of a choice is not compared."""
    table = finding.table
    compared = table[table[["theory", "estimate", "low", "high"]].notna().all(axis=1)]  # what is located
    if finding.kind == "best" or not len(compared):
        return None
    apart, theory = compared["estimate"] - compared["theory"], compared["theory"]
    exact = compared["high"] - compared["low"] <= NOTHING * compared["estimate"].abs()
    largest, share = apart.abs().max(), shares(compared).fillna(0).max()
    near_zero = bool(theory.abs().min() <= SMALL * theory.abs().max())
    if exact.all():
        return Verdict(bool(largest <= EQUAL * theory.abs().max()), 0, 0, np.nan, largest, share, near_zero, 0)
    compared, apart = compared[~exact], apart[~exact]
    low, high = (compared[end] - compared["estimate"] for end in ("low", "high"))
    off = apart.abs() / (-low).where(apart > 0, high)
    draws = float(compared["draws"].min()) if "draws" in compared else np.nan
    degrees = draws - 1 if draws > 1 else np.inf  # errors of single runs are those of all
    chance = [t_quantile(1 - (1 - finding.level) / count, degrees) for count in (1, len(off))]
    side = int((apart > 0).all()) - int((apart < 0).all())
    agrees = bool(off.max() <= chance[1] / chance[0])
    return Verdict(agrees, len(off), int((off > 1).sum()), compared["theory"].iloc[0], largest, share, near_zero, side)


def shares(table: pd.DataFrame) -> pd.Series:
    """How far estimates are from theory, as a share of it; NaN where that is near 0."""
    size = table["theory"].abs()
    return (table["estimate"] - table["theory"]).abs() / size.where(size > SMALL * size.max())
