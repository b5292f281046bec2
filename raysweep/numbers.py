"""Format numbers, errors and intervals, with as many digits as their error leaves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from raysweep.errors import printable

NOTHING = 1e-12
"""An error or a half width that is smaller than this share of its value is rounding, and the value exact."""
EXACT = 12
"""Significant digits of a large exact value."""
COARSE, APART = 3.0, 100.0
"""Of an error from 0.35 to 1 one digit is shown, of one from 0.1 on two. Columns whose errors are further apart than
the second factor share no decimals."""


def number(value: Any, digits: int = 4) -> str:
    """A value as text: a number with at most `digits` significant digits, ∞ for infinity, – for NaN. A whole number of
    up to seven digits is written in full, for example 524,288, and so is a longer integer that needs more digits; other
    numbers up to there without a power of ten.

    Words are unchanged, except for control characters; booleans are written true and false, as in a space.
    """
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, (int, np.integer)) and float(f"{value:.{digits}g}") != value and abs(int(value)) >= 1e7:
        return f"{value:,}"
    value = float(value)
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if min(1e4, 10**digits) <= abs(value) < 1e7:  # 185,000 rather than 1.85e+05, and 1140 rather than 1.14e+03
        whole = math.isclose(value, round(value), rel_tol=1e-9)  # a bound comes from the logarithm of an axis
        rounded = value if whole else float(f"{value:.{digits}g}")
        return f"{rounded:{',' if abs(rounded) >= 1e4 else ''}.0f}"
    mantissa, exponent, power = f"{value + 0.0:.{digits}g}".partition("e")  # + 0.0 makes -0.0 and 0.0 one
    return f"{mantissa}e{int(power)}" if exponent else mantissa


def at_most(value: float) -> str:
    """A positive value in whole numbers, or in one significant digit below 1, rounded up, so that rounded numbers are
    no farther apart."""
    size = 10.0 ** min(math.floor(math.log10(value)), 0) if value > 0 else 1.0
    return number(math.ceil(value / size - NOTHING) * size)


def signed(score: float) -> str:
    """A distance in standard errors with its sign; – if it is not finite."""
    return f"{score:+.2f}" if np.isfinite(score) else "–"


def places_for(error: float) -> int:
    """How many decimals show two significant digits of an error."""
    if not np.isfinite(error) or error <= 0:
        return 6
    return max(0, min(12, 1 - math.floor(math.log10(error))))


def digits_for(value: float, error: float) -> int:
    """How many significant digits of a value show two of its error; at least 3, at most 15."""
    size = math.floor(math.log10(abs(value))) if value else -400
    return max(3, min(15, size - math.floor(math.log10(error)) + 2))


def alike(*values: float, error: float = math.nan, padded: bool = False) -> list[str]:
    """Values of one range: with equal decimals, three significant digits of the largest and at least two of the
    smallest, but no more than an error leaves; with three digits each if they are more than a factor 100 apart (padded:
    with zeros up to there, as in a table), and whole numbers as they are."""
    sizes = [math.floor(math.log10(abs(value))) for value in values if value and np.isfinite(value)]
    whole = all(not np.isfinite(value) or float(value).is_integer() for value in values)
    if whole or not sizes or max(sizes) - min(sizes) > 1 or max(sizes) > 2 or min(sizes) < -4:
        zeros = [f"{value:#.3g}" if padded and value and not whole else "" for value in values]
        return [
            text if "." in text.strip(".") and "e" not in text else number(value, 3)
            for text, value in zip(zeros, values, strict=True)
        ]
    decimals = min(max(0, 2 - max(sizes), 1 - min(sizes)), places_for(COARSE * error) if error > 0 else EXACT)
    return [fixed(value, decimals) if np.isfinite(value) else number(value) for value in values]


def fixed(value: float, decimals: int) -> str:
    """A number with so many decimals, without the sign of a zero."""
    rounded = round(value, decimals) + 0.0
    return f"{rounded:{',' if abs(value) >= 1e4 else ''}.{decimals}f}"


def shared_decimals(values: np.ndarray, errors: np.ndarray) -> int | None:
    """The decimals of a column of values with errors, as most of these leave; None if one number does not fit all."""
    errors = np.sort(errors[np.isfinite(errors) & (errors > 0)])
    largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    if not len(errors) or largest >= 1e4 or errors[-1] > APART * errors[0]:
        return None
    most, middle = (places_for(COARSE * error) for error in (errors[0], errors[len(errors) // 2]))
    return max(middle, most - 1, math.ceil(-math.log10(errors[0])))


def interval(estimate: float, low: float, high: float, decimals: int | None = None) -> str:
    """The text "estimate [low, high]" of the numbers of `interval_numbers`."""
    shown, *ends = interval_numbers(estimate, low, high, decimals)
    return f"{shown} [{', '.join(ends)}]" if ends else shown


def interval_numbers(estimate: float, low: float, high: float, decimals: int | None = None) -> list[str]:
    """The texts of an estimate and the ends of its interval, by default with the decimals that show two significant
    digits of the half width.

    One text without an estimate: "above low", "below high" or "between low and high"; and with an interval of width 0:
    the estimate, as exact as the decimals, and "(exact)".
    """
    if not np.isfinite(estimate):
        if np.isfinite(low) and np.isfinite(high):
            return [f"between {number(low, 3)} and {number(high, 3)}"]
        if np.isfinite(low):
            return [f"above {number(low, 3)}"]
        return [f"below {number(high, 3)}" if np.isfinite(high) else "–"]
    width = (high - low) / 2
    largest = max(abs(low), abs(high))
    if width <= NOTHING * largest:
        whole = decimals is None or float(estimate).is_integer()
        shown = number(estimate, 6 if largest < 1e5 else EXACT) if whole else fixed(estimate, decimals or 0)
        return [f"{shown} (exact)"]
    if not np.isfinite(width):
        return [number(estimate), number(low), number(high)]
    decimals = places_for(width) if decimals is None else decimals
    if largest >= 1e5 or not 1e-5 <= width < 100:
        digits = digits_for(largest, width)
        return [number(value, digits) for value in (estimate, low, high)]
    return [fixed(value, decimals) for value in (estimate, low, high)]
