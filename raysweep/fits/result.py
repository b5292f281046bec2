"""What a fit answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


class Status(StrEnum):
    """What a fit can say of a place: see `Fit.status`."""

    LOCATED = "located"
    CENSORED_LOW = "censored_low"
    CENSORED_HIGH = "censored_high"
    MONOTONE = "monotone"
    UNDETERMINED = "undetermined"


EXACT = "exact values"
"""How the method of a fit begins whose draws are all the same."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The place of a zero line or of a turning point, with its interval, in the units of x.

    status: located; censored_low / censored_high (at or beyond that edge of the grid: the known bound is finite, the
        other infinite); monotone (no turn on the grid, and no sign of one); undetermined (the data do not say).
    estimate, low, high: NaN where there is nothing to say. With several slices `status` is located if any slice is,
        estimate is the median over the located slices, and low..high spans their intervals: the table has the answer.
    method_spread: difference between the interpolations; the interval is already widened by it. With several slices the
        largest.
    level: of the interval in one slice (pointwise); `.table` also carries low_simultaneous and high_simultaneous, which
        hold for all slices at once, where there are slices.
    points, draws, rows: different x values, different draws and rows that entered; dropped: why and how many rows did
    not enter.
        A row with a status other than ok, or with no number, never enters.
    scale: the scale of the values (linear, asinh, sign; "mixed" where slices differ).
    table: one row per slice. crossings: one row per sign change (boundary fits; empty otherwise).
    notes: whatever a reader must know about how the numbers came about.
    """

    kind: str
    status: str
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
    """Status, estimate and interval of a whole table: of its one slice, or spanning the located ones."""
    found = table[table["status"] == Status.LOCATED]
    if len(table) == 1 or not len(found):
        statuses = [
            word
            for word in (Status.CENSORED_LOW, Status.CENSORED_HIGH)
            if len(table) and (table["status"] == word).all()
        ]
        first = table.iloc[0] if len(table) == 1 else None
        return {
            "status": str(first["status"]) if first is not None else (statuses or [Status.UNDETERMINED])[0],
            "estimate": float(first["estimate"]) if first is not None else np.nan,
            "low": float(first["low"]) if first is not None else np.nan,
            "high": float(first["high"]) if first is not None else np.nan,
            "method_spread": float(first["method_spread"]) if first is not None else np.nan,
        }
    return {
        "status": Status.LOCATED,
        "estimate": float(found["estimate"].median()),
        "low": float(found["low"].min()),
        "high": float(found["high"].max()),
        "method_spread": float(found["method_spread"].max()),
    }
