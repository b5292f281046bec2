"""The spectrum of a covariance: how it is written as text, and its eigenspaces."""

import functools
import math

import numpy as np

FORM = "eigenvalues with their counts, the last filling up, as in 1.5:50,0.3"
SHIFTS = ("top", "bottom", "all")
SMALLEST, LARGEST = 1e-12, 1e12  # so far apart end points still agree with rational arithmetic to nine digits


@functools.lru_cache(maxsize=4096)
def read(text: str, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The eigenvalues that `text` names and how many each has, shapes (groups,), in its order, read-only.

    VALUE:COUNT, or VALUE for a single one; the last without a count is as many as are left.
    ValueError says what was expected.
    """
    values: list[float] = []
    counts: list[int] = []
    parts = str(text).split(",")
    for part in parts:
        number, colon, count = part.partition(":")
        value = _number(number, text)
        if not value > 0:
            raise ValueError(f"expected eigenvalues above 0, got {number.strip()} in {text!r}")
        if not SMALLEST <= value <= LARGEST:
            raise ValueError(f"expected eigenvalues from {SMALLEST:g} to {LARGEST:g}, got {number.strip()} in {text!r}")
        values.append(value)
        counts.append(_count(count, text) if colon else 1)
    if ":" not in parts[-1]:
        counts[-1] = max(dim - sum(counts[:-1]), 1)
    if sum(counts) != dim:
        raise ValueError(f"expected eigenvalues for dim = {dim:,} directions, got {sum(counts):,} in {text!r}")
    groups = np.array(values), np.array(counts, float)
    for each in groups:
        each.setflags(write=False)
    return groups


def in_words(text: str) -> str:
    """A spectrum for a reader: "50 directions of variance 1.5, the others of 0.3"."""
    parts = [part.strip().partition(":") for part in text.split(",")]
    one = [f"{count} direction{'' if count == '1' else 's'} of variance {value}" for value, _, count in parts if count]
    rest = [value for value, _, count in parts if not count]
    if not one or rest != [parts[-1][0]]:
        return f"spectrum {text}"
    return ", ".join([*one, f"the others of {rest[0]}"])


def shifted(shift: str, counts: np.ndarray) -> np.ndarray:
    """Which groups the difference between target and source lies in, boolean (groups,): the first, the others, all."""
    first = np.arange(len(counts)) == 0
    return first if shift == "top" else ~first if shift == "bottom" else np.ones(len(counts), bool)


def _number(part: str, text: str) -> float:
    try:
        value = float(part)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"expected {FORM}; got {part.strip()!r} in {text!r}")
    return value


def _count(part: str, text: str) -> int:
    value = _number(part, text)
    if value != int(value) or value < 1:
        raise ValueError(f"expected a whole count of at least 1, got {part.strip()} in {text!r}")
    return int(value)
