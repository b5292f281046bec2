"""How sure fitted places are, and what is undecided about them, in words."""

from __future__ import annotations

import numpy as np

from raysweep.analyses.rows import finite_values
from raysweep.fits.draws import log_axis, not_zero
from raysweep.fits.result import Status, without_chance
from raysweep.numbers import interval, number
from raysweep.phrases import counted
from raysweep.report.names import amount, plain, unit_of
from raysweep.report.statuses import BEYOND, status_word, undecided
from raysweep.reporting.analyses.fitted_places import Places

WITHIN = 1.001  # an interval is as narrow as asked for up to the rounding of its ends


def sure(places: Places) -> str:
    """How wide the intervals typically are (median of the located settings), and which is the widest, in words.

    Empty without any. The widest is said with both of its ends: it may reach much further to one side.
    """
    low, high = ends(places)
    chance = ~without_chance(places.found)  # else the interval is the spread of the interpolations
    exact = int((~chance).sum())
    low, high, estimates = low[chance], high[chance], places.found["estimate"].to_numpy(float)[chance]
    if len(places.table) < 2 or not len(low) or not (high > low).any():
        return f"{places.what} without chance, its intervals are those of the interpolation" if exact else ""
    unit = places.unit
    if by_factors(places):
        widths = np.maximum(high / estimates, estimates / low)  # an interval may reach further to one side
        width = f"within a factor {number(float(np.median(widths)), 3)}"
    else:
        widths = (high - low) / 2
        width = f"± {number(float(np.median(widths)), 2)}{unit}"
    if len(low) > 1:
        widest = int(widths.argmax())
        estimate = estimates[widest]
        known = interval(estimate, low[widest], high[widest])
        if by_factors(places):  # as many digits at the lower end as at the upper one
            known = f"{number(estimate, 3)} [{number(low[widest], 3)}, {number(high[widest], 3)}]"
        width = f"typically {width}, the widest {known}{unit}"
    alone = "is exact, as nothing in it is random" if exact == 1 else "are exact, as nothing in them is random"
    also = f"; {exact} more {alone}" if exact else ""
    return f"{places.what} {width} ({places.asked.percent}{', all at once' if at_once(places) else ''}{also})"


def still_open(places: Places, one_of_two: bool = False) -> str:
    """What is open and what deciding it would take, in words; empty if nothing is.

    Nothing is open beyond the largest or the smallest value that the axis may have. An interval wider than a precision
    asks for is.

    one_of_two: whether it is asked which of two curves is better. Then nothing is open beyond the grid: one is better
    at every value of it.
    """
    asked = places.asked
    x, declared = asked.x, asked.workload.by_name.get(asked.x)
    limits = (declared.minimum, declared.maximum) if declared else (None, None)
    edges = (asked.rows[x].min(), asked.rows[x].max())
    closed = {
        status
        for status, limit, edge in zip((Status.CENSORED_LOW, Status.CENSORED_HIGH), limits, edges, strict=True)
        if limit is not None and edge == limit
    }
    if one_of_two:
        closed = {Status.CENSORED_LOW, Status.CENSORED_HIGH}
    settled = [
        row["status"] in closed and status_word(row["status"], row["note"]) == BEYOND
        for row in places.table.to_dict("records")
    ]
    seeds = int(asked.rows["seed"].nunique()) if "seed" in asked.rows.columns else 0
    grid = (amount(edges[0], unit_of(asked.x, asked.workload)), amount(edges[1], unit_of(asked.x, asked.workload)))
    table, every = places.table[~np.array(settled)], len(places.table)
    known = undecided(table, places.what, places.noun, plain(x), every, grid, seeds)
    return "; ".join(text for text in (known, missed(places)) if text)


def missed(places: Places) -> str:
    """In how many located settings the interval is wider than a precision asks for, in words; empty if in none."""
    asked = places.asked.precision(places.kind)
    if not asked:
        return ""
    low, high = ends(places)
    factors = by_factors(places) and places.kind == "optimum"
    count = int(((np.sqrt(high / low) if factors else (high - low) / 2) > asked[0] * WITHIN).sum())
    if not count:
        return ""
    size = f"a factor {number(asked[0], 4)}" if factors else f"± {number(asked[0], 4)}{places.unit}"
    return f"{places.what} to within {size}, as asked for, in {count} of {counted(len(places.table), places.noun)}"


def at_once(places: Places) -> bool:
    """Whether a precision asks for intervals that hold in all settings at once, and the fit has them."""
    asked = places.asked.precision(places.kind)
    return asked is not None and not asked[1] and "low_simultaneous" in places.table.columns


def ends(places: Places) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of the intervals of the located settings, (located,) each; those of `at_once` if they are asked for."""
    after = "_simultaneous" if at_once(places) else ""
    return places.found[f"low{after}"].to_numpy(float), places.found[f"high{after}"].to_numpy(float)


def by_factors(places: Places) -> bool:
    """Whether widths are said as factors: on a logarithmic axis."""
    values = finite_values(places.asked.rows, places.asked.x)
    return bool((ends(places)[0] > 0).all()) and log_axis(not_zero(values), places.logarithmic)
