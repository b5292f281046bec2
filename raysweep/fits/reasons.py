"""Why a fit has no place, or what a reader must know of its interval: the reasons, and the message of each."""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """Why a fit says what it says: a word, and its text, a format of the numbers that belong to it. NONE is falsy."""

    text: str

    def __new__(cls, word: str, text: str = "") -> Reason:
        reason = str.__new__(cls, word)
        reason._value_, reason.text = word, text
        return reason

    NONE = "", ""
    NO_ROWS = "no_rows", "no usable rows"
    TOO_FEW_POINTS = "too_few_points", "too few points: {points}, at least {least} are needed"
    TOO_FEW_DRAWS = "too_few_draws", "too few draws: {draws}, at least {least} are needed"
    TOO_FEW_LENGTHS = "too_few_lengths", "{points} lengths with an optimum or a bound, at least {least} are needed"
    TOO_FEW_UNITS = "too_few_units", "fewer than {least} units have both in every draw"
    TOO_FEW_CELLS = "too_few_cells", "fewer than {least} cells"
    TOO_FEW_SLICES = "too_few_slices", "{points} settings with a best value or a bound, at least {least} are needed"
    AXES_TOGETHER = "axes_together", "the axes vary together, so nothing tells their powers apart"
    SINGLE_DRAW = "single_draw", "a single draw has no interval"
    NOISE_UNKNOWN = "noise_unknown", "no two draws share two values of x: nothing tells noise from curve"
    DIFFERENT_DRAWS = "different_draws", "the sign changes only between points with different draws"

    # an extremum
    FLAT = "flat", "flat"
    COARSE = "coarse", "the grid is coarse for this curve: the interval allows for many shapes between the points"
    NO_CLEAR_CHANGE = "no_clear_change", "no clear fall or rise"
    NO_TURN = "no_turn", "no turn is shown"
    EACH_DRAW_IMPROVES = (
        "each_draw_improves",
        "not clear: it improves in each of {draws} draws, but by amounts too different to be sure of the mean",
    )
    EACH_DRAW_DEGRADES = (
        "each_draw_degrades",
        "not clear: it degrades in each of {draws} draws, but by amounts too different to be sure of the mean",
    )
    WHOLE_GRID = "whole_grid", "the interval covers the whole grid"
    REACHES_LOW = "reaches_low", "the interval reaches the lower edge"
    REACHES_HIGH = "reaches_high", "the interval reaches the upper edge"
    IMPROVES = "improves", "improves"
    IMPROVES_THROUGHOUT = "improves_throughout", "improves throughout"
    DEGRADES = "degrades", "degrades"
    DEGRADES_THROUGHOUT = "degrades_throughout", "degrades throughout"
    TOWARDS_LOW = "towards_low", "best towards the lower edge, no clear turn inside"
    TOWARDS_HIGH = "towards_high", "best towards the upper edge, no clear turn inside"
    INSIDE_UNCLEAR = "inside_unclear", "the mean is best inside the grid, but it is not clear where"
    LOW_EDGE_ALIKE = "low_edge_alike", "the mean is best inside the grid, but not clearly better than at the lower edge"
    HIGH_EDGE_ALIKE = (
        "high_edge_alike",
        "the mean is best inside the grid, but not clearly better than at the upper edge",
    )
    OTHER_OPEN = "other_open", "moves with the other axis, whose best value may lie beyond its edge"
    BEST_AT_ZERO = "best_at_zero", "degrades from x = 0, which is clearly better than any x above it"
    ZERO_ALIKE = "zero_alike", "x = 0 is not clearly worse than the best x above it"
    BEST_AT_INFINITY = "best_at_infinity", "best at x = inf, clearly better than at any finite x"
    EITHER_SCALE = (
        "either_scale",
        "the values of x span decades: the interval holds on a linear and on a logarithmic scale",
    )
    SCALE_DECIDES = (
        "scale_decides",
        "the values of x span decades: a linear and a logarithmic scale say different things",
    )
    DIVERGED_WITHIN = "diverged_within", "some draws diverged within the interval and are missing there"

    # a zero
    ZERO_EVERYWHERE = "zero_everywhere", "zero everywhere"
    NO_CLEAR_SIGN = "no_clear_sign", "no point has a clear sign"
    PARTLY_CLEAR = "partly_clear", "{sign} at {clear_points} of {points} points, no clear sign at the others"
    POSITIVE_EVERYWHERE = "positive_everywhere", "positive everywhere, towards neither edge"
    NEGATIVE_EVERYWHERE = "negative_everywhere", "negative everywhere, towards neither edge"
    ZERO_UP_TO = "zero_up_to", "exactly zero up to {zero_end:.6g}: meets zero without crossing"
    ZERO_FROM = "zero_from", "exactly zero from {zero_end:.6g}: meets zero without crossing"
    BEYOND_LOW = "beyond_low", "{sign} above"
    BEYOND_HIGH = "beyond_high", "{sign} below"
    LOW_SIGN_UNCLEAR = "low_sign_unclear", "{sign} above, no clear sign at the lower edge"
    HIGH_SIGN_UNCLEAR = "high_sign_unclear", "{sign} below, no clear sign at the upper edge"
    LOW_NOT_OK = "low_not_ok", "{sign} above, no row is ok below"
    HIGH_NOT_OK = "high_not_ok", "{sign} below, no row is ok above"
    STEP = "step", "the grid does not resolve the step: it lies somewhere in one cell"

    # a line
    CONSTANT = "constant", "constant"
    NOT_POSITIVE = "not_positive", "{low} of {rows} values of {y} are not above 0"
    LEFT_OUT = "left_out", "left out, because not every draw has a value there: {x} = {places}"
    NO_VALUES = "no_values", "no value of {y}"
    LEVEL_NOT_POSITIVE = "level_not_positive", "{y} is not above 0 everywhere"
    SLOPE_UNCLEAR = "slope_unclear", "the slope is not clear enough to say where they meet"
    SPEED_UNDECIDED = "speed_undecided", "decreasing; whether slowly or quickly is not decided"
    CENSORED_LENGTHS = "censored_lengths", "lengths with a censored optimum leave it open"
    SEVERAL_REGIMES = "several_regimes", "the interval of the slope holds more than one regime"
    NO_VARIATION = "no_variation", "one of the two does not vary over units"

    # a whole fit
    REPEATED_ROWS = (
        "repeated_rows",
        "{rows} rows repeat a draw at the same {place}; each such draw enters with its mean",
    )
    SEVERAL_ZEROS = (
        "several_zeros",
        "{slices} slices change sign more than once: the table has the clearest, .crossings all",
    )
    ZERO_APART = "zero_apart", "x = 0 has no logarithm: it is compared with the best of the others"
    INFINITY_APART = (
        "infinity_apart",
        "x = inf (converged) is compared with the finite points, but lies outside the fit",
    )


def message(reason: Reason, **numbers: Any) -> str:
    """The text of a reason.

    numbers: those of its message, by name. sign: 1 or -1, of the values. clear_points: at how many points it is clear.
        zero_end: the last (first) x at which all values are exactly 0. least: how many are needed.
    """
    if "sign" in numbers:
        numbers["sign"] = "positive" if numbers["sign"] > 0 else "negative"
    return reason.text.format(**numbers)


def because(reason: Reason, **numbers: Any) -> dict[str, Any]:
    """The fields `reason` and `note` of a result."""
    return {"reason": reason, "note": message(reason, **numbers)}


def and_because(result: Any, reason: Reason, **numbers: Any) -> dict[str, Any]:
    """The fields `reason` and `note` of a result with one more reason: the first stays, and the note has both."""
    also = message(reason, **numbers)
    return {"reason": result.reason or reason, "note": f"{result.note}; {also}" if result.note else also}
