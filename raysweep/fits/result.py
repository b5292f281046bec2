"""The result of a fit: its status, the estimate and the interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from raysweep.lazy import pd


class Status(StrEnum):
    """What a fit can say about a place (a zero or an extremum)."""

    LOCATED = "located"
    """The place lies in the interval."""
    CENSORED_LOW = "censored_low"
    """The place lies at or below the lower edge of the grid, or too near to tell. `high` is known; `low` is that edge
    where the values clearly rise to it, otherwise infinite."""
    CENSORED_HIGH = "censored_high"
    """The same at the upper edge of the grid: `low` is known, and `high` where the values clearly rise to the edge."""
    MONOTONE = "monotone"
    """The curve does not turn on the grid and shows no sign that it will. The bounds mean the same as for a censored
    place."""
    UNDETERMINED = "undetermined"
    """The data do not decide between the other statuses."""


# The method of a fit of draws that are all equal, for readers; the column `exact` of its table says it to code.
EXACT = "exact values"


def without_chance(table: pd.DataFrame) -> np.ndarray:
    """Whether all draws of the curve are equal, for each row of a table of fits: its interval is then the spread of the
    interpolations, and no error."""
    return table["exact"].to_numpy(bool) if "exact" in table.columns else np.zeros(len(table), dtype=bool)


@dataclass(frozen=True, eq=False)
class Fit:
    """The estimated place of a zero line or of an extremum, with its interval.

    kind: boundary, inflection or optimum.
    status: see `Status`. With several slices: located if any slice is located.
    estimate: in the units of x; NaN unless located. With several slices: the median over the located slices.
    low, high: the interval, in the units of x. An open side is infinite; NaN if nothing is known. With several slices:
        the range that covers the intervals of all located slices; see `table` for each slice.
    method_spread: of a zero: the difference between the interpolations of the mean curve, in the units of x. Of an
        extremum: what the points leave open, which is the width that the interval would keep with very many draws (of
        exact values: its width). With several slices: the largest.
    level: the confidence level of the interval in one slice (pointwise). With several slices, `table` also has
        low_simultaneous and high_simultaneous, which hold for all slices at once.
    points, draws, rows: how many different x values, different draws and rows were used.
    dropped: how many rows were not used, by reason. Rows with a status other than ok and rows without a finite value
        are never used.
    scale: the scale of the values: linear, asinh or sign; mixed if slices differ.
    method: how the interval was computed.
    table: one row per slice.
    crossings: one row per sign change in a boundary fit; empty in other fits.
    notes: what a reader must know about how the numbers were computed.
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
    """The status, estimate, interval and method spread of a table of slices; `Fit` says how they are combined."""
    names = ("estimate", "low", "high", "method_spread")
    if len(table) == 1:
        return {"status": Status(table["status"].iloc[0])} | {name: float(table[name].iloc[0]) for name in names}
    located = table[table["status"] == Status.LOCATED]
    if len(located):
        combined = located.agg({"estimate": "median", "low": "min", "high": "max", "method_spread": "max"})
        return {"status": Status.LOCATED} | dict(zip(names, map(float, combined), strict=True))
    every = set(table["status"])
    censored = every in ({Status.CENSORED_LOW}, {Status.CENSORED_HIGH})
    return {"status": Status(every.pop()) if censored else Status.UNDETERMINED} | dict.fromkeys(names, np.nan)


def fitted(kind: str, table: pd.DataFrame, **fields: Any) -> Fit:
    """The fit with this table, over all its slices as `overall` says. fields: the further ones of `Fit`; points and
    draws are those of the slice with the most if they are not given."""
    usual: dict[str, Any] = {"dropped": {}, "scale": "linear", "crossings": pd.DataFrame()}
    usual |= {name: int(table[name].max()) for name in ("points", "draws") if name not in fields}
    return Fit(kind=kind, table=table, **{**usual, **overall(table), **fields})


def merged(fits: Sequence[Fit], table: pd.DataFrame) -> Fit:
    """Several fits of one question, one for each of its settings, as one.

    fits: at least one, all of the same kind. table: one row per slice of all settings.

    points and draws are those of the setting with the most; rows and dropped rows are added up.
    """
    dropped: Counter[str] = Counter()
    for fit in fits:
        dropped.update(fit.dropped)
    scales = dict.fromkeys(fit.scale for fit in fits)
    crossings = [fit.crossings for fit in fits if len(fit.crossings)]
    return replace(
        fits[0],
        points=max(fit.points for fit in fits),
        draws=max(fit.draws for fit in fits),
        rows=sum(fit.rows for fit in fits),
        dropped=dict(dropped),
        scale=next(iter(scales)) if len(scales) == 1 else "mixed",
        method="; ".join(dict.fromkeys(fit.method for fit in fits)),
        table=table,
        crossings=pd.concat(crossings, ignore_index=True) if crossings else fits[0].crossings,
        notes=tuple(dict.fromkeys(note for fit in fits for note in fit.notes)),
        **overall(table),
    )
