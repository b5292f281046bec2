"""In how many cells a metric is higher or lower than another one, than a constant, or than 0, tested draw by draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raysweep.analyses.sides import tested
from raysweep.fits.comparison import HIGHER, LOWER
from raysweep.numbers import number
from raysweep.phrases import counted, some_of
from raysweep.report.names import settings, without_common_beginning
from raysweep.reporting.analyses.where import in_brackets
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

LONG = 80  # the most letters of a setting that is named
TINY = 1e-3  # a difference that is so much smaller than the largest one is not said
NEAR = 0.1  # ratios that are nearer to 1 than this have one more digit


@dataclass(frozen=True)
class Held:
    """What the cells of a sweep say of a metric beside another one, beside a constant, or beside 0.

    words: in how many cells it is higher, and in how many lower.
    detail: by how much, and how it was tested.
    undecided: what is open and what deciding it would take; empty if nothing is.
    """

    words: str
    detail: str
    undecided: str


def held_against(
    rows: pd.DataFrame,
    keys: list[str],
    metric: str,
    other: str,
    workload: Workload,
    level: float,
    words: Mapping[str, str] | None = None,
    constant: float | None = None,
) -> Held | None:
    """Whether the mean of the metric is higher or lower than that of the other metric in each cell.

    The difference is tested draw by draw. None if no cell has two draws of both, or if no draw has a variance.

    rows: the rows of all cells. keys: the columns that distinguish the cells. level: 1 minus the probability of any
    wrong claim. words: what a positive and a negative difference mean, if the space says it.
    constant: the value of what is no metric; `other` is then its name.
    """
    cells = tested(rows, keys, metric, other if constant is None else constant, workload, level)
    if cells is None:
        return None
    count, unclear = counted(len(cells), "cell"), int(cells["open"].sum())
    rest = []
    if same := int(cells["same"].sum()):
        rest.append(f"equal in {same}{in_brackets(cells, cells['same'], keys, workload)}")
    if unclear:
        rest.append(f"no clear difference in {unclear}{of_open(cells, keys, workload, other)}")
    if words:
        ways, either = meanings(words["positive"], words["negative"])
    else:
        ways = (f"is higher than {other}", "higher"), (f"is lower than {other}", "lower")
        either = f"{metric} is higher or lower than {other}"
    named = (f"{metric} is ", f" times {other}") if words else ("", " times as large")
    said, sizes = by_side(cells, ways, count, keys, workload, named)
    if words and unclear and not said:
        text = f"in none of {count} is it shown that {either}: the difference is {known_to(cells, other)}"
    elif said:
        text = f"{'' if words else f'{metric} '}{', '.join([*said, *rest])}"
    elif len(rest) == 1:
        every = some_of(len(cells), len(cells), "cell")
        text = (
            f"{metric} is equal to {other} in {every}"
            if cells["same"].any()
            else f"{metric} is not shown to differ from {other} in any of {count}"
        )
    else:
        text = f"{metric} is neither higher nor lower than {other} in any of {count}: {', '.join(rest)}"
    named_there = any(named[1] in size for size in sizes)  # a factor names the other metric
    by = [f"measured by {metric} beside {other}"] if words and not named_there else []
    tests = "no draw differs" if cells["same"].all() else how(level)
    detail = "; ".join([*sizes, ", ".join([*by, tests])])
    open_one = f"whether {either}{f' ({metric})' if words else ''}"
    return Held(text, detail, still_open(open_one, unclear, len(cells), rows))


def held_against_zero(
    rows: pd.DataFrame, keys: list[str], metric: str, signs: tuple[str, str], workload: Workload, level: float
) -> Held | None:
    """Whether the mean of the metric is above or below 0 in each cell, said as what its signs mean.

    signs: what positive and negative values mean. The rest as in `held_against`.
    """
    cells = tested(rows, keys, metric, 0.0, workload, level)
    if cells is None:
        return None
    same, unclear = int(cells["same"].sum()), int(cells["open"].sum())
    count = counted(len(cells) - same, "cell")  # one that is 0 in every draw is so by design
    ways, either = meanings(*signs)
    said, sizes = by_side(cells, ways, count, keys, workload)
    if said:
        open_ones = f"no clear effect in {unclear}{of_open(cells, keys, workload)}"
        words = ", ".join([*said, *([open_ones] if unclear else [])])
    elif unclear:
        words = f"in none of {count} is it shown that {either}: the effect is {known_to(cells)}"
    else:
        words = f"{metric} is 0 in every draw"
    sizes += [f"exactly 0 in {counted(same, 'more cell')}"] if same and len(cells) > same else []
    detail = "; ".join([*sizes, f"measured by {metric}, {how(level)}"])
    return Held(words, detail, still_open(f"whether {either}", unclear, len(cells) - same, rows))


def meanings(above: str, below: str) -> tuple[tuple[tuple[str, str], tuple[str, str]], str]:
    """(what both signs mean, each in full and in short for after the other one; both with "or" between them)."""
    up, down = without_common_beginning(below, above), without_common_beginning(above, below)
    return ((above, up), (below, down)), f"{above} or {down}"


def of_open(cells: pd.DataFrame, keys: list[str], workload: Workload, other: str = "") -> str:
    """Which cells are open and how well the difference is known there, in brackets. other: as for `known_to`."""
    which = in_brackets(cells, cells["open"], keys, workload)
    known = known_to(cells, other)
    return f"{which.removesuffix(')')}; {known})" if which else f" ({known})"


def known_to(cells: pd.DataFrame, other: str = "") -> str:
    """How well the difference is known in the open cells, in words: the half width of its interval in the middle one,
    as a share of the size of what the metric stands beside, if this is 0 in none of them.

    other: the name of what it stands beside; empty for 0."""
    some = cells[cells["open"]]
    size = some["beside"].abs()
    share = bool((size > 0).all())
    half = float((some["half_width"] / size if share else some["half_width"]).median())
    typically = "typically known" if len(some) > 1 else "known"
    return f"{typically} to ± {f'{number(100 * half, 2)} % of {other}' if share else number(half, 2)}"


def by_side(
    cells: pd.DataFrame,
    ways: Sequence[tuple[str, str]],
    count: str,
    keys: list[str],
    workload: Workload,
    named: tuple[str, str] = ("", " times as large"),
) -> tuple[list[str], list[str]]:
    """(in how many cells the metric is higher and lower, by how much), the larger number first; empty if in none.

    ways: for higher and for lower, how it is said first, and how in short after the other. count: all cells, in
    words. named: what stands before and after a factor; of the second side only "times".
    """
    sides = [(way, cells[cells["status"] == status]) for way, status in zip(ways, (HIGHER, LOWER), strict=True)]
    there = sorted((side for side in sides if len(side[1])), key=lambda side: -len(side[1]))
    named_each = (named, ("", " times" if named[0] else named[1]))
    amounts = [larger_by(own, keys, workload, each) for (_, own), each in zip(there, named_each, strict=False)]
    if len(there) == 1:
        (way, _), own = there[0]
        among = f"{len(own)} of {count}" if len(own) < len(cells) else some_of(len(own), len(cells), "cell")
        return [f"{way} in {among}{in_brackets(cells, cells.index.isin(own.index), keys, workload)}"], amounts
    said = [
        f"{way[place]} in {len(own)}{'' if place else f' of {count}'}"
        + in_brackets(cells, cells.index.isin(own.index), keys, workload)
        for place, (way, own) in enumerate(there)
    ]
    return said, [f"{way[1]}: {amount}" for (way, _), amount in zip(there, amounts, strict=True)]


def larger_by(cells: pd.DataFrame, keys: list[str], workload: Workload, named: tuple[str, str]) -> str:
    """How much larger or smaller the metric is than what stands beside it, in the cells of one side: as a factor if all
    means are positive, else the difference without its sign; and in which cell most, unless it takes long to say.

    named: what stands before and after a factor."""
    mean, beside = cells["mean"].to_numpy(float), cells["beside"].to_numpy(float)
    by_factor = bool(((mean > 0) & (beside > 0)).all())
    sizes = mean / beside if by_factor else np.abs(mean - beside)
    ends = [number(size, 4 if by_factor and abs(size - 1) < NEAR else 3) for size in (sizes.min(), sizes.max())]
    span = " to ".join(dict.fromkeys(ends))
    text = f"{named[0]}{span}{named[1]}" if by_factor else f"by {span}"
    if not by_factor and sizes.min() < TINY * sizes.max():
        text = f"by up to {ends[1]}"
    least = by_factor and sizes.max() < 1
    farthest = cells[keys].iloc[int(sizes.argmin() if least else sizes.argmax())]
    where = settings(keys, farthest, workload)
    if len(where) > LONG:
        return text
    word = "" if len(cells) == 1 else "least " if least else "most "
    return f"{text}, {word}at {where}"


def how(level: float) -> str:
    """How the cells were tested, in short."""
    return f"tested with p < {1 - level:.2g} (Holm)"


def still_open(what: str, unclear: int, cells: int, rows: pd.DataFrame) -> str:
    """What is open and what deciding it would take, in words; empty if nothing is."""
    if not unclear:
        return ""
    among = f" in {unclear} of {counted(cells, 'cell')}" if cells > 1 else ""
    return f"{what}{among} (deciding it takes more than {counted(int(rows['seed'].nunique()), 'seed')})"
