"""What is known of one slice, and what is wanted next: the arrays with which both kinds of precision work."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from raysweep.fits.statistics import t_quantile

START = 5
"""How many evenly spaced cells a slice starts with."""
FEWEST = 2
"""How many draws each of them gets where a zero is sought: enough for those that are exactly zero everywhere."""
FIRST = 4
"""How many draws each of them gets where a best value is sought, and the fewest on which anything else is decided."""
LEAST = 12
"""With fewer draws than this, a narrow interval may be narrow by chance, most of all where draws are skewed (see
`benchmarks.stopping`). It ends a search only if it is narrow enough for the largest likely deviation too (`doubt`)."""
SOME = 8
"""The fewest draws that end a search at all."""
LIKELY = 0.1  # the chance that the deviation is larger than that
MOST_TIMES = 4
"""One round multiplies the draws of a cell by this at most: one outlier among few draws asks for far too many."""
EVEN = 0.25
"""Deviations of draws times this show what many more draws would give."""
MOSTLY = 0.5
"""If the square of what draws do not narrow is more than this share of the square of what is asked for, cells are."""
MANY = 1_000_000
"""More draws than any sweep has."""

REACHED, OPEN = "reached", "open"
"""The states of a slice besides the reasons why nothing more is spent on it."""


@dataclass(frozen=True, eq=False)
class Curve:
    """The rows of one slice.

    x: (points,), sorted.
    counts: (points,), how many draws were asked for of each point; always the first ones.
    values: (draws, points); NaN where a draw was not asked for, is not ok, or belongs to a point most of whose draws
        diverged or failed.
    """

    x: np.ndarray
    counts: np.ndarray
    values: np.ndarray

    @property
    def there(self) -> np.ndarray:
        """The points that have draws, in order."""
        return np.flatnonzero(self.counts)


@dataclass(frozen=True, eq=False)
class Choice:
    """One of several ways to go on with a slice.

    counts: (points,), how many draws each point is to have.
    gain: what is expected of it, in a unit that the ways share.
    """

    counts: np.ndarray
    gain: float


@dataclass(frozen=True, eq=False)
class Step:
    """What a slice wants next.

    counts: (points,), how many draws each point is to have; those that it has if it wants none.
    state: REACHED, OPEN, or why nothing more is spent.
    half: the half-width of the interval now, in the unit of `Slice.wanted`; infinite if it is not known.
    then: the half-width that is expected with these counts.
    needed: (points,), how many draws each point is expected to have in the end.
    place: the estimate, in units of x; NaN if it is not known.
    choices: groups of ways to go on; one of each group is taken, by its gain per declared cost. `counts` is then with
        the ways that gain most.
    """

    counts: np.ndarray
    state: str
    half: float = math.inf
    then: float = math.inf
    needed: np.ndarray | None = None
    place: float = math.nan
    choices: tuple[tuple[Choice, ...], ...] = ()


@dataclass(frozen=True)
class Fitted:
    """A place and its interval, in units of x. NaN is a place that is not located, with the bounds that are known."""

    place: float
    low: float
    high: float

    def half(self, logarithmic: bool = False) -> float:
        """Half the width, in log x if `logarithmic`; infinite if the place is not located."""
        if not math.isfinite(self.place):
            return math.inf
        return math.log(self.high / self.low) / 2 if logarithmic else (self.high - self.low) / 2


NOWHERE = Fitted(math.nan, math.nan, math.nan)


def beginning(points: int, draws: int) -> np.ndarray:
    """So many draws at START evenly spaced points, both ends among them, and none at the others: (points,)."""
    evenly = np.unique(np.linspace(0, points - 1, min(START, points)).round().astype(int))
    return raised(np.zeros(points, dtype=np.int64), evenly, draws)


def draws_needed(deviation: float, level: float, wanted: float) -> int:
    """How many draws make Student's t interval of a mean as narrow as `wanted`, half the width; at most MANY.

    deviation: the standard deviation of one draw.
    """

    def enough(draws: int) -> bool:
        return t_quantile(level, draws - 1) * deviation <= wanted * math.sqrt(draws)

    return 2 + bisect_left(range(2, MANY), True, key=enough)


def doubt(draws: int) -> float:
    """How many times larger the deviation of one draw may be than so many draws tell, at most; 1 from LEAST on."""
    from scipy.special import chdtri

    if draws >= LEAST or draws < 2:
        return 1.0
    return math.sqrt((draws - 1) / float(chdtri(draws - 1, 1 - LIKELY)))


def jump(draws: int, needed: int, most: int) -> int:
    """How many draws to go to, if so many are there and so many are expected to be needed.

    The deviation between few draws is itself uncertain. So the jump goes to what is needed if the deviation is smaller
    than it seems, by its own error, and then on to the end: draws that are computed cannot be given back.
    """
    if needed <= draws:
        return min(most, draws + max(1, draws // 20))
    if needed <= 1.2 * draws:
        return min(most, needed)
    careful = min(needed * (1 - min(0.7, math.sqrt(2 / max(draws - 1, 1)))), MOST_TIMES * draws)
    return min(most, max(math.ceil(careful), min(needed, math.ceil(1.2 * draws))))


def shape_and_draws(half: float, even: float, wanted: float) -> tuple[bool, float]:
    """(whether the shape of the curve is a large part of an interval, how many times the draws would make it narrow).

    half: the half-width now. even: with the deviations of draws times EVEN. wanted: what is asked for.

    Noise and shape are taken to add in squares. The second number is 0 if no draws would be enough.
    """
    if not math.isfinite(even):
        return True, 0.0
    if not math.isfinite(half):
        return even > wanted, 2.0
    noise = max(half**2 - even**2, 0.0) / (1 - EVEN**2)
    shape = max(half**2 - noise, 0.0)
    times = noise / (wanted**2 - shape) if shape < wanted**2 else 0.0
    return shape > MOSTLY * wanted**2, min(times, 4.0)


def raised(counts: np.ndarray, points: np.ndarray, draws: int | np.ndarray) -> np.ndarray:
    """The counts with at least so many draws at these points."""
    more = counts.copy()
    more[points] = np.maximum(more[points], draws)
    return more
