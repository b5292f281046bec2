"""What a fit answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


class Status(StrEnum):
    """What a fit can say of a place."""

    LOCATED = "located"
    """It lies in the interval."""
    CENSORED_LOW = "censored_low"
    """It lies at or below the lower edge of the grid, or cannot be told from it: `high` is what is known."""
    CENSORED_HIGH = "censored_high"
    """The same at the upper edge: `low` is what is known."""
    MONOTONE = "monotone"
    """The curve does not turn on the grid and shows no sign of it; the bounds are those of a censored place."""
    UNDETERMINED = "undetermined"
    """The data do not say."""


EXACT = "exact values"
"""How the method of a fit begins whose draws are all the same."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The place of a zero line or of an extremum, with its interval.

    kind: boundary, inflection or optimum.
    status: see `Status`. With several slices located if any slice is.
    estimate: in the units of x; NaN unless located. With several slices the median over the located ones.
    low, high: the interval, in the units of x; infinite on a side that is open, NaN where there is nothing to say. With
        several slices they span the intervals of the located ones: the table has the answer.
    method_spread: difference between the interpolations, in the units of x; the interval is already widened by it. With
        several slices the largest.
    level: of the interval in one slice (pointwise). Where there are slices, `table` also has low_simultaneous and
        high_simultaneous, which hold for all slices at once (Bonferroni).
    points, draws, rows: different x values, different draws and rows that entered.
    dropped: how many rows did not enter, by reason. A row with a status other than ok, or with no number, never does.
    scale: the scale of the values (linear, asinh or sign; mixed where slices differ).
    method: how the interval was made.
    table: one row per slice.
    crossings: one row per sign change (boundary fits; empty otherwise).
    notes: whatever a reader must know about how the numbers came about.
    """

    kind: str
    status: Status
    estimate: float
    low: float
    high: float
    method_spread: float
    level: float
    points: int
    draws: int
    rows: int
    dropped: dict[str, int]
    scale: str
    method: str
    table: pd.DataFrame
    crossings: pd.DataFrame
    notes: tuple[str, ...] = ()


def overall(table: pd.DataFrame) -> dict[str, Any]:
    """Status, estimate, interval and method spread of a whole table: of its one slice, or spanning the located ones."""
    names = ("estimate", "low", "high", "method_spread")
    if len(table) == 1:
        return {"status": Status(table["status"].iloc[0])} | {name: float(table[name].iloc[0]) for name in names}
    found = table[table["status"] == Status.LOCATED]
    if len(found):
        ends = (found["estimate"].median(), found["low"].min(), found["high"].max(), found["method_spread"].max())
        return {"status": Status.LOCATED} | dict(zip(names, map(float, ends), strict=True))
    every = set(table["status"])
    censored = every in ({Status.CENSORED_LOW}, {Status.CENSORED_HIGH})
    return {"status": Status(every.pop()) if censored else Status.UNDETERMINED} | dict.fromkeys(names, np.nan)
