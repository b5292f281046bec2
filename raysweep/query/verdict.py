"""What a space with a precision reached, in words: in how many slices, which is the worst, why, and what to do."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from raysweep.errors import as_typed
from raysweep.phrases import counted
from raysweep.query.state import State
from raysweep.search import endings
from raysweep.search.curves import REACHED
from raysweep.search.slices import Slice
from raysweep.space.precision import POINTWISE
from raysweep.space.schema import Space
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from raysweep.search.verdicts import Verdict

NAMED = 4  # how many slices with the same reason are named
NOT_ENDED = "not ended"
NOT_ENOUGH = "not with the rows that are there"


def asked_for(space: Space) -> str:
    parts = [f"{kind} {space.precision[kind]:g}" for kind in space.precision if kind != POINTWISE]
    every = "for each slice by itself" if space.precision[POINTWISE] else "for all slices at once"
    units = {unit: unit.replace("_", " ").removesuffix("s") for unit in space.budget}
    budget = ", ".join(f"{most:,g} {units[unit]}{'' if most == 1 else 's'}" for unit, most in space.budget.items())
    return f"precision {', '.join(parts)}, {every}" + (f"; at most {budget}" if budget else "")


def lines(state: State, is_part: bool = False) -> Iterator[str]:
    """What each analysis reached with the rows that are there: its widest slice, and why the others did not. is_part:
    whether the space is only a part of the sweep, or asks for less than it."""
    every = "in each slice by itself" if state.space.precision[POINTWISE] else "in all slices at once"
    kind = operator.attrgetter("slice.kind", "slice.fit", "slice.metric", "slice.axis")
    for _, group in itertools.groupby(state.verdicts, key=kind):
        members = list(group)
        longest = max((one.slice for one in members), key=lambda part: len(part.x))
        half = size(longest, longest.wanted, state.workload)
        reached = [one for one in members if one.state == REACHED]
        yield f"{longest.fit} of {longest.metric} in {longest.axis}: {half} {every} at {100 * longest.level:g} % " + (
            f"reached in {len(reached):,} of {counted(len(members), 'slice')}{_worst(reached, state, 'widest')}"
        )
        reasons: dict[str, list[Verdict]] = {}
        for one in members:
            if one.state != REACHED:
                reasons.setdefault(one.state or (NOT_ENOUGH if is_part else NOT_ENDED), []).append(one)
        for reason, others in reasons.items():
            yield f"  {reason}: {_names(others)}{_worst(others, state, 'worst')}{_advice(reason, others)}"


def size(chosen: Slice, half: float, workload: Workload) -> str:
    """A half-width of a slice in words: ± 1 degrees, or a factor 1.2 either way."""
    if chosen.logarithmic:
        return f"a factor {math.exp(min(half, 700)):.4g} either way"
    unit = workload.by_name[chosen.axis].unit
    return f"± {half:.3g}{f' {unit}' if unit else ''}"


def named(chosen: Slice, before: str = "") -> str:
    """The values of a slice, in words, after this text; "" for the only slice."""
    values = (
        (key, f"{value:.6g}" if isinstance(value, float) else as_typed(value)) for key, value in chosen.at.items()
    )
    text = ", ".join(f"{key} = {value}" for key, value in values)
    return before + text if text else ""


def _names(verdicts: Sequence[Verdict]) -> str:
    names = "; ".join(filter(None, (named(each.slice) for each in verdicts[:NAMED])))
    more = f" and {len(verdicts) - NAMED:,} more" if len(verdicts) > NAMED else ""
    return counted(len(verdicts), "slice") + (f" ({names}{more})" if names else "")


def _worst(verdicts: Sequence[Verdict], state: State, word: str) -> str:
    """The slice with the widest interval. One of which no interval is known is worse than any."""
    asked = [each for each in verdicts if each.state not in endings.NOTHING_THERE]
    nowhere = [each for each in asked if not math.isfinite(each.half)]
    if nowhere:
        return ", not located" if len(nowhere) == len(verdicts) else f", {len(nowhere):,} of them not located"
    noisy = [each for each in asked if each.half > 0]
    if not noisy:
        return ""
    worst = max(noisy, key=lambda each: each.half / each.slice.wanted)
    which = f"the {word}{named(worst.slice, ' ')} with " if len(verdicts) > 1 else ""
    return f", {which}{size(worst.slice, worst.half, state.workload)}"


def _advice(reason: str, verdicts: Sequence[Verdict]) -> str:
    text = endings.advice(reason, verdicts[0].slice.axis)
    needed = max(endings.draws_to_reach(each.draws, each.half, each.slice.wanted) for each in verdicts)
    if reason in (endings.ALL_DRAWS, endings.SPENT) and math.isfinite(needed):
        worst = " at the worst" if len(verdicts) > 1 else ""
        text += f", to about {math.ceil(needed):,} draws of a cell{worst}"
    return f"; {text}" if text else ""
