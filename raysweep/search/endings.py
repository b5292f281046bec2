"""Why nothing more is spent on a slice that is not located as well as asked for, and what its user can do."""

from __future__ import annotations

import math

SPENT = "the budget is spent"
ALL_DRAWS = "all draws that are allowed"
NO_TURN = "no turn is clear with all draws that are allowed"
NO_CHANGE = "no change of sign"
NO_CLEAR_CHANGE = "no change of sign is clear with all draws that are allowed"
NO_CHANGE_INSIDE = "no change of sign, unless nearer to an edge or to a touching point than asked for"
TOUCHES = "zero in places, without a change of sign"
NOT_ZERO = "not told from zero, and not with all draws that are allowed"
NOT_FLAT = "not told from flat, and not with all draws that are allowed"
COARSE = "the axis is too coarse"
EDGE = "best at the edge"
ZERO = "zero everywhere"
SAME = "the same value everywhere"
NO_ROW = "no row is ok"
ONE_DRAW = "one draw has no interval"
FEW_VALUES = "too few values"

NOTHING_THERE = frozenset((ZERO, SAME, NO_ROW, ONE_DRAW, FEW_VALUES))
"""The endings of slices of which no place can be told."""


def advice(reason: str, axis: str) -> str:
    """What a user can do about slices that ended for this reason; "" if there is nothing to do."""
    seeds = "more seeds go on"
    beyond = f"a place beyond the values of {axis} needs further values there"
    return {
        SPENT: "a larger budget goes on",
        ALL_DRAWS: seeds,
        NO_TURN: seeds,
        NO_CLEAR_CHANGE: seeds,
        NOT_ZERO: f"{seeds}, where the effect is not too small to matter",
        NOT_FLAT: f"{seeds}, where the effect is not too small to matter",
        COARSE: f"values of {axis} between those beside the place would narrow it, draws would not",
        EDGE: beyond,
        NO_CHANGE: beyond,
        NO_CHANGE_INSIDE: beyond,
        NO_ROW: "`raysweep debug` shows why a row failed",
        ONE_DRAW: "seeds of 2 and more have one",
        FEW_VALUES: f"more values of {axis} where the other axes have these values",
    }.get(reason, "")


def draws_to_reach(draws: int, half: float, wanted: float) -> float:
    """About how many draws a cell needs in the end if it has so many and its interval has this half-width."""
    return draws * (half / wanted) ** 2 if math.isfinite(half) and wanted > 0 else math.inf
