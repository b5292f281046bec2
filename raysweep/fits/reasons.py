"""Why a fit has no place, or what a reader must know of its interval: the reasons, and the message of each."""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """Why a fit says what it says. MESSAGES has the text of each, with the numbers that belong to it."""

    NONE = ""
    """Nothing is to be said: falsy, and empty in tables."""
    NO_ROWS = "no_rows"
    TOO_FEW_POINTS = "too_few_points"
    TOO_FEW_DRAWS = "too_few_draws"
    TOO_FEW_LENGTHS = "too_few_lengths"
    TOO_FEW_UNITS = "too_few_units"
    TOO_FEW_CELLS = "too_few_cells"
    TOO_FEW_SLICES = "too_few_slices"
    AXES_TOGETHER = "axes_together"
    SINGLE_DRAW = "single_draw"
    NOISE_UNKNOWN = "noise_unknown"
    DIFFERENT_DRAWS = "different_draws"

    # an extremum
    FLAT = "flat"
    COARSE = "coarse"
    NO_CLEAR_CHANGE = "no_clear_change"
    NO_TURN = "no_turn"
    EACH_DRAW_IMPROVES = "each_draw_improves"
    EACH_DRAW_DEGRADES = "each_draw_degrades"
    WHOLE_GRID = "whole_grid"
    REACHES_LOW = "reaches_low"
    REACHES_HIGH = "reaches_high"
    IMPROVES = "improves"
    IMPROVES_THROUGHOUT = "improves_throughout"
    DEGRADES = "degrades"
    DEGRADES_THROUGHOUT = "degrades_throughout"
    TOWARDS_LOW = "towards_low"
    TOWARDS_HIGH = "towards_high"
    INSIDE_UNCLEAR = "inside_unclear"
    LOW_EDGE_ALIKE = "low_edge_alike"
    HIGH_EDGE_ALIKE = "high_edge_alike"
    BEST_AT_ZERO = "best_at_zero"
    ZERO_ALIKE = "zero_alike"
    BEST_AT_INFINITY = "best_at_infinity"
    EITHER_SCALE = "either_scale"
    SCALE_DECIDES = "scale_decides"
    DIVERGED_WITHIN = "diverged_within"

    # a zero
    ZERO_EVERYWHERE = "zero_everywhere"
    NO_CLEAR_SIGN = "no_clear_sign"
    PARTLY_CLEAR = "partly_clear"
    POSITIVE_EVERYWHERE = "positive_everywhere"
    NEGATIVE_EVERYWHERE = "negative_everywhere"
    ZERO_UP_TO = "zero_up_to"
    ZERO_FROM = "zero_from"
    BEYOND_LOW = "beyond_low"
    BEYOND_HIGH = "beyond_high"
    LOW_SIGN_UNCLEAR = "low_sign_unclear"
    HIGH_SIGN_UNCLEAR = "high_sign_unclear"
    LOW_NOT_OK = "low_not_ok"
    HIGH_NOT_OK = "high_not_ok"
    STEP = "step"

    # a line
    CONSTANT = "constant"
    NOT_POSITIVE = "not_positive"
    LEFT_OUT = "left_out"
    NO_VALUES = "no_values"
    LEVEL_NOT_POSITIVE = "level_not_positive"
    SLOPE_UNCLEAR = "slope_unclear"
    SPEED_UNDECIDED = "speed_undecided"
    CENSORED_LENGTHS = "censored_lengths"
    SEVERAL_REGIMES = "several_regimes"
    NO_VARIATION = "no_variation"

    # a whole fit
    REPEATED_ROWS = "repeated_rows"
    SEVERAL_ZEROS = "several_zeros"
    ZERO_APART = "zero_apart"
    INFINITY_APART = "infinity_apart"


MESSAGES = {
    Reason.NONE: "",
    Reason.NO_ROWS: "no usable rows",
    Reason.TOO_FEW_POINTS: "too few points: {points}, at least {least} are needed",
    Reason.TOO_FEW_DRAWS: "too few draws: {draws}, at least {least} are needed",
    Reason.TOO_FEW_LENGTHS: "{points} lengths with an optimum or a bound, at least {least} are needed",
    Reason.TOO_FEW_UNITS: "fewer than {least} units have both in every draw",
    Reason.TOO_FEW_CELLS: "fewer than {least} cells",
    Reason.TOO_FEW_SLICES: "{points} settings with a best value or a bound, at least {least} are needed",
    Reason.AXES_TOGETHER: "the axes vary together, so nothing tells their powers apart",
    Reason.SINGLE_DRAW: "a single draw has no interval",
    Reason.NOISE_UNKNOWN: "no two draws share two values of x: nothing tells noise from curve",
    Reason.DIFFERENT_DRAWS: "the sign changes only between points with different draws",
    Reason.FLAT: "flat",
    Reason.COARSE: "the grid is coarse for this curve: the interval allows for many shapes between the points",
    Reason.NO_CLEAR_CHANGE: "no clear fall or rise",
    Reason.NO_TURN: "no turn is shown",
    Reason.EACH_DRAW_IMPROVES: (
        "not clear: it improves in each of {draws} draws, but by amounts too different to be sure of the mean"
    ),
    Reason.EACH_DRAW_DEGRADES: (
        "not clear: it degrades in each of {draws} draws, but by amounts too different to be sure of the mean"
    ),
    Reason.WHOLE_GRID: "the interval covers the whole grid",
    Reason.REACHES_LOW: "the interval reaches the lower edge",
    Reason.REACHES_HIGH: "the interval reaches the upper edge",
    Reason.IMPROVES: "improves",
    Reason.IMPROVES_THROUGHOUT: "improves throughout",
    Reason.DEGRADES: "degrades",
    Reason.DEGRADES_THROUGHOUT: "degrades throughout",
    Reason.TOWARDS_LOW: "best towards the lower edge, no clear turn inside",
    Reason.TOWARDS_HIGH: "best towards the upper edge, no clear turn inside",
    Reason.INSIDE_UNCLEAR: "the mean is best inside the grid, but it is not clear where",
    Reason.LOW_EDGE_ALIKE: "the mean is best inside the grid, but not clearly better than at the lower edge",
    Reason.HIGH_EDGE_ALIKE: "the mean is best inside the grid, but not clearly better than at the upper edge",
    Reason.BEST_AT_ZERO: "degrades from x = 0, which is clearly better than any x above it",
    Reason.ZERO_ALIKE: "x = 0 is not clearly worse than the best x above it",
    Reason.BEST_AT_INFINITY: "best at x = inf, clearly better than at any finite x",
    Reason.EITHER_SCALE: "the values of x span decades: the interval holds on a linear and on a logarithmic scale",
    Reason.SCALE_DECIDES: "the values of x span decades: a linear and a logarithmic scale say different things",
    Reason.DIVERGED_WITHIN: "some draws diverged within the interval and are missing there",
    Reason.ZERO_EVERYWHERE: "zero everywhere",
    Reason.NO_CLEAR_SIGN: "no point has a clear sign",
    Reason.PARTLY_CLEAR: "{sign} at {clear_points} of {points} points, no clear sign at the others",
    Reason.POSITIVE_EVERYWHERE: "positive everywhere, towards neither edge",
    Reason.NEGATIVE_EVERYWHERE: "negative everywhere, towards neither edge",
    Reason.ZERO_UP_TO: "exactly zero up to {zero_end:.6g}: meets zero without crossing",
    Reason.ZERO_FROM: "exactly zero from {zero_end:.6g}: meets zero without crossing",
    Reason.BEYOND_LOW: "{sign} above",
    Reason.BEYOND_HIGH: "{sign} below",
    Reason.LOW_SIGN_UNCLEAR: "{sign} above, no clear sign at the lower edge",
    Reason.HIGH_SIGN_UNCLEAR: "{sign} below, no clear sign at the upper edge",
    Reason.LOW_NOT_OK: "{sign} above, no row is ok below",
    Reason.HIGH_NOT_OK: "{sign} below, no row is ok above",
    Reason.STEP: "the grid does not resolve the step: it lies somewhere in one cell",
    Reason.CONSTANT: "constant",
    Reason.NOT_POSITIVE: "{low} of {rows} values of {y} are not above 0",
    Reason.LEFT_OUT: "left out, because not every draw has a value there: {x} = {places}",
    Reason.NO_VALUES: "no value of {y}",
    Reason.LEVEL_NOT_POSITIVE: "{y} is not above 0 everywhere",
    Reason.SLOPE_UNCLEAR: "the slope is not clear enough to say where they meet",
    Reason.SPEED_UNDECIDED: "decreasing; whether slowly or quickly is not decided",
    Reason.CENSORED_LENGTHS: "lengths with a censored optimum leave it open",
    Reason.SEVERAL_REGIMES: "the interval of the slope holds more than one regime",
    Reason.NO_VARIATION: "one of the two does not vary over units",
    Reason.REPEATED_ROWS: "{rows} rows repeat a draw at the same {place}; each such draw enters with its mean",
    Reason.SEVERAL_ZEROS: "{slices} slices change sign more than once: the table has the clearest, .crossings all",
    Reason.ZERO_APART: "x = 0 has no logarithm: it is compared with the best of the others",
    Reason.INFINITY_APART: "x = inf (converged) is compared with the finite points, but lies outside the fit",
}
"""The text of each reason, a format of its numbers."""


def message(reason: Reason, **numbers: Any) -> str:
    """The text of a reason.

    numbers: those of its message, by name. sign: 1 or -1, of the values. clear_points: at how many points it is clear.
        zero_end: the last (first) x at which all values are exactly 0. least: how many are needed.
    """
    if "sign" in numbers:
        numbers["sign"] = "positive" if numbers["sign"] > 0 else "negative"
    return MESSAGES[reason].format(**numbers)


def because(reason: Reason, **numbers: Any) -> dict[str, Any]:
    """The fields `reason` and `note` of a result."""
    return {"reason": reason, "note": message(reason, **numbers)}


def and_because(result: Any, reason: Reason, **numbers: Any) -> dict[str, Any]:
    """The fields `reason` and `note` of a result with one more reason: the first stays, and the note has both."""
    also = message(reason, **numbers)
    return {"reason": result.reason or reason, "note": f"{result.note}; {also}" if result.note else also}
