"""What all rows that are there tell of the slices of a precision, whichever plan asked for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from raysweep.search import bracketing, endings, racing
from raysweep.search.curves import NOWHERE, REACHED, doubt
from raysweep.search.slice_rows import SliceRows, Value
from raysweep.search.slices import Ask, Slice, asked
from raysweep.search.step_cache import StepCache, digest

if TYPE_CHECKING:
    from raysweep.space.schema import Space


@dataclass(frozen=True, eq=False)
class Verdict:
    """What is known of a slice with all of its rows that are there.

    state: REACHED, or why not; "" if only the rows say that it is not.
    half: the half-width of the interval at the level that applies, in the unit of `Slice.wanted`; infinite if the place
        is not located.
    place: the estimate, in units of x; NaN if it is not located.
    draws: those of the cell that has the most.
    """

    slice: Slice
    state: str
    half: float
    place: float
    draws: int


def verdicts(
    space: Space, members: Sequence[tuple[Slice, str]], value: Value, draws: int, cache: StepCache
) -> list[Verdict]:
    """What the rows that are there tell of each slice: the interval that the report will have, not an expected one.

    members: the slices, each with REACHED or why nothing more was spent on it ("" if that is not known).
    draws: how many of the seeds have any row.
    """
    slices = [slice_ for slice_, _ in members]
    rows = SliceRows(space.seeds, slices, value)
    out = []
    for (slice_, state), curve, exact in zip(members, *rows.curves(slices, rows.read_all(draws)), strict=True):
        fitted, most = NOWHERE, int(curve.counts.max(initial=0))
        if state not in endings.NOTHING_THERE and np.isfinite(curve.values).any():
            key = digest(("interval", *asked(slice_), exact), curve, slice_.heavy)
            fit = racing.fitted if slice_.kind == "optimum" else bracketing.fitted
            fitted = cache.fitted(key, partial(fit, curve, Ask(slice_, max(most, 1), exact)))
        half = fitted.half(slice_.logarithmic)
        doubted = 1.0 if exact or state == REACHED else doubt(most)
        reason = REACHED if half * doubted <= slice_.wanted else state if state != REACHED else ""
        out.append(Verdict(slice_, reason, half, fitted.place, most))
    return out
