"""The outcome of a setting from the status and the reason of its fit, and what would decide an open one."""

from __future__ import annotations

from typing import Any

import numpy as np

from raysweep.analyses.finding import Needed, Outcome
from raysweep.fits.reasons import Reason
from raysweep.fits.result import Status
from raysweep.lazy import pd

BY_REASON = {
    Reason.IMPROVES: Outcome.IMPROVES,
    Reason.IMPROVES_THROUGHOUT: Outcome.IMPROVES,
    Reason.DEGRADES: Outcome.DEGRADES,
    Reason.DEGRADES_THROUGHOUT: Outcome.DEGRADES,
    Reason.BEST_AT_ZERO: Outcome.DEGRADES,
    Reason.FLAT: Outcome.NO_EFFECT,
    Reason.ZERO_EVERYWHERE: Outcome.NO_EFFECT,
    Reason.CONSTANT: Outcome.NO_EFFECT,
    Reason.POSITIVE_EVERYWHERE: Outcome.POSITIVE,
    Reason.NEGATIVE_EVERYWHERE: Outcome.NEGATIVE,
    Reason.ZERO_UP_TO: Outcome.TOUCHES,
    Reason.ZERO_FROM: Outcome.TOUCHES,
    Reason.NO_TURN: Outcome.UNCLEAR,
}
"""Of curves that have no place; others are undecided."""
CENSORED = {
    Status.CENSORED_LOW: (Outcome.BEYOND_LOW, Outcome.EDGE_LOW, Outcome.BOUND_LOW, Outcome.OK_LOW),
    Status.CENSORED_HIGH: (Outcome.BEYOND_HIGH, Outcome.EDGE_HIGH, Outcome.BOUND_HIGH, Outcome.OK_HIGH),
}
AT = {
    Outcome.LOCATED: "estimate",
    **dict.fromkeys(CENSORED[Status.CENSORED_LOW], "high"),
    **dict.fromkeys(CENSORED[Status.CENSORED_HIGH], "low"),
}
"""Of outcomes with a place or a bound, the column that has it."""
AT_EDGE = (Reason.TOWARDS_LOW, Reason.TOWARDS_HIGH)
BOUND_ONLY = (
    *(Reason.REACHES_LOW, Reason.REACHES_HIGH, Reason.ZERO_ALIKE, Reason.OTHER_OPEN),
    *(Reason.LOW_EDGE_ALIKE, Reason.HIGH_EDGE_ALIKE),
    *(Reason.LOW_SIGN_UNCLEAR, Reason.HIGH_SIGN_UNCLEAR),
)
NOT_OK = (Reason.LOW_NOT_OK, Reason.HIGH_NOT_OK)

MORE_X = (Reason.TOO_FEW_POINTS, Reason.TOO_FEW_LENGTHS)
OK_ROWS = (Reason.NO_ROWS, Reason.NO_VALUES)
NO_HELP = (
    *(Reason.TOO_FEW_UNITS, Reason.TOO_FEW_CELLS, Reason.NO_VARIATION),
    *(Reason.NOT_POSITIVE, Reason.LEVEL_NOT_POSITIVE, Reason.NO_TURN, Reason.OTHER_OPEN),
)
"""Neither draws nor values of x decide these."""


def outcome(status: str, reason: str) -> Outcome:
    """What the rows say of one setting, from the `Status` and the `Reason` of its fit."""
    if status == Status.LOCATED:
        return Outcome.LOCATED
    if status in CENSORED and reason != Reason.INSIDE_UNCLEAR:  # that has a bound on either side
        beyond, edge, bound, ok = CENSORED[Status(status)]
        return edge if reason in AT_EDGE else bound if reason in BOUND_ONLY else ok if reason in NOT_OK else beyond
    return BY_REASON.get(Reason(reason), Outcome.UNDECIDED)


def with_outcomes(table: pd.DataFrame, edges: tuple[float, float]) -> pd.DataFrame:
    """A table of places with the outcome of each row, which tables and figures share. A bound alone that lies at the
    edges, the smallest and the largest x, says nothing."""

    def one(row: dict[str, Any]) -> Outcome:
        result = outcome(row["status"], row["reason"])
        at_low, at_high = row["low"] <= edges[0], row["high"] >= edges[1]
        nothing = at_high if result == Outcome.BOUND_LOW else at_low and result == Outcome.BOUND_HIGH
        return Outcome.UNDECIDED if nothing else result

    return table.assign(outcome=[one(row) for row in table.to_dict("records")])


def side(
    low: float, high: float, above: Outcome = Outcome.RISES, below: Outcome = Outcome.FALLS, at: float = 0.0
) -> Outcome:
    """On which side of a value an interval lies: UNCLEAR if it holds the value, UNDECIDED if it is not finite."""
    if not (np.isfinite(low) and np.isfinite(high)):
        return Outcome.UNDECIDED
    return above if low > at else below if high < at else Outcome.UNCLEAR


def takes(what: Needed, number: float = np.nan) -> dict[str, Any]:
    """The fields `needed` and `needed_number` of a row."""
    return {"needed": what, "needed_number": number}


def needed(outcome: Outcome, reason: str, low_edge: float, high_edge: float, seeds: int = 0) -> dict[str, Any]:
    """What would decide a setting, as `takes`; empty if nothing would. low_edge, high_edge: of the values of x that
    were tried; of OK_LOW and OK_HIGH, with rows that are ok. seeds: of each cell, if known."""
    if outcome in (Outcome.BEYOND_LOW, Outcome.EDGE_LOW):
        return takes(Needed.SMALLER_X, low_edge)
    if outcome in (Outcome.BEYOND_HIGH, Outcome.EDGE_HIGH):
        return takes(Needed.LARGER_X, high_edge)
    if outcome == Outcome.OK_LOW:
        return takes(Needed.OK_BELOW, low_edge)
    if outcome == Outcome.OK_HIGH:
        return takes(Needed.OK_ABOVE, high_edge)
    if outcome not in (Outcome.BOUND_LOW, Outcome.BOUND_HIGH, Outcome.UNCLEAR, Outcome.UNDECIDED) or reason in NO_HELP:
        return {}
    if reason in (*MORE_X, *OK_ROWS):
        return takes(Needed.MORE_X if reason in MORE_X else Needed.OK_ROWS)
    return takes(Needed.MORE_DRAWS, float(seeds) if seeds else np.nan)
