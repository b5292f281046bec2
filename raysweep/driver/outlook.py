"""What a space with a precision is likely to take, before and while it is computed, and what it reached."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from raysweep.driver.progress import duration
from raysweep.driver.state import PendingRows, State
from raysweep.errors import as_typed
from raysweep.phrases import counted
from raysweep.plan.cost import estimate
from raysweep.search.curves import OPEN, REACHED, Step
from raysweep.search.slices import Slice
from raysweep.space.precision import POINTWISE
from raysweep.space.schema import Space

NAMED = 4  # how many slices with the same reason are named


@dataclass(frozen=True)
class Amount:
    """A number of rows, and their declared seconds on one core or GPU."""

    rows: int
    seconds: float


@dataclass(frozen=True)
class Outlook:
    """What a sweep may still take.

    least, most: the missing rows of this round, and all draws of all cells that may get any.
    likely: what the rows so far tell; before the first round the geometric mean of both, since only they are known.
    """

    least: Amount
    likely: Amount
    most: Amount


def outlook(state: State, pending: PendingRows) -> Outlook:
    """What may still be computed. pending: the rows of this round that are missing."""
    plan = state.plan
    begun = len(plan.rounds) > 1
    counts = plan.counts.copy()
    counts[list(plan.open_cells)] = len(state.space.seeds)
    least, most = Amount(pending.rows, pending.seconds), _missing(state, counts)
    if (left := state.space.budget.get("rows", math.inf) - plan.spent["rows"] + least.rows) < most.rows:
        most = Amount(int(left), most.seconds * left / most.rows)
    if begun:
        likely = _missing(state, plan.expected)
        return Outlook(least, Amount(min(likely.rows, most.rows), min(likely.seconds, most.seconds)), most)
    likely = Amount(round(math.sqrt(least.rows * most.rows)), math.sqrt(least.seconds * most.seconds))
    return Outlook(least, likely, most)


def _missing(state: State, counts: np.ndarray) -> Amount:
    """The rows that are missing if cells are to have so many draws, (cells,)."""
    done = state.done()
    begun = {seed for _, seed in done}
    times: Counter[bytes] = Counter()  # most draws lack the same cells, whose cost is asked for once
    for draw, seed in enumerate(state.space.seeds):
        members = np.flatnonzero(counts > draw)
        if seed in begun:
            ids = state.cells.ids
            members = np.asarray([cell for cell in members.tolist() if (ids[cell], seed) not in done], dtype=np.int64)
        times[members.tobytes()] += 1
    rows, seconds = 0, 0.0
    for key, count in times.items():
        members = np.frombuffer(key, dtype=np.int64)
        if len(members):
            one, _ = estimate(state.workload, state.cells, {state.space.seeds[0]: members}, state.space.keep)
            rows, seconds = rows + count * len(members), seconds + count * one
    return Amount(rows, seconds)


def asked_for(space: Space) -> str:
    """The precision of a space, and its budget, in words."""
    parts = [f"{kind} {space.precision[kind]:g}" for kind in space.precision if kind != POINTWISE]
    every = "for each slice by itself" if space.precision[POINTWISE] else "for all slices at once"
    budget = ", ".join(f"{most:g} {unit.replace('_', ' ')}" for unit, most in space.budget.items())
    return f"precision {', '.join(parts)}, {every}" + (f"; at most {budget}" if budget else "")


def before_line(state: State, pending: PendingRows) -> str:
    """A line about what is likely to be computed, for a dry run and the beginning of a run."""
    ahead, known = outlook(state, pending), state.workload.costs_are_known
    unit = f" of one {'GPU' if any(needs.gpus for needs in state.cells.needs) else 'core'}" if known else ""
    why = "as the rows so far tell" if len(state.plan.rounds) > 1 else "a guess between both: no row tells yet"
    return (
        f"{asked_for(state.space)}: at least {_in_words(ahead.least, known)} in this round, at most "
        f"{_in_words(ahead.most, known)}{unit}; about {_in_words(ahead.likely, known)} ({why})"
    )


def after_line(state: State, pending: PendingRows) -> str:
    """A line about what is reached, and what is likely still to be computed."""
    ahead = outlook(state, pending)
    steps = state.plan.slices
    reached, still = _count(steps, REACHED), _count(steps, OPEN)
    unknown = sum(1 for _, step in steps if step.state == OPEN and step.needed is None)
    line = f"precision: {reached:,} of {counted(len(steps), 'slice')} reached it, {still:,} go on"
    if widest := _widest([pair for pair in steps if pair[1].state == OPEN]):
        line += f", the widest {widest}"
    about = f"; about {_in_words(ahead.likely)} to come"
    return (
        line + about + (f" (without {counted(unknown, 'slice')} of which nothing can be told yet)" if unknown else "")
    )


def reached_lines(state: State) -> list[str]:
    """What each analysis reached: its widest slice, and why the others did not."""
    return list(_reached(state))


def _reached(state: State) -> Iterator[str]:
    precision = state.space.precision
    every = "in each slice by itself" if precision[POINTWISE] else "in all slices at once"
    for (_, fit, metric, axis), group in itertools.groupby(
        state.plan.slices, key=lambda pair: (pair[0].kind, pair[0].fit, pair[0].metric, pair[0].axis)
    ):
        members = list(group)
        own = members[0][0]
        wanted = size(own, own.wanted, state)
        text = f"{fit} of {metric} in {axis}: {wanted} {every} at {100 * own.level:g} % "
        reached = [pair for pair in members if pair[1].state == REACHED]
        text += f"reached in {len(reached):,} of {counted(len(members), 'slice')}"
        if widest := _widest(reached, state):
            text += f", the widest {widest}"
        yield text
        reasons: dict[str, list[tuple[Slice, Step]]] = {}
        for pair in members:
            if pair[1].state != REACHED:
                reasons.setdefault("not ended" if pair[1].state == OPEN else pair[1].state, []).append(pair)
        for reason, others in reasons.items():
            widest = _widest(others, state)
            yield f"  {reason}: {_names(others)}" + (f", the widest {widest}" if widest else "")


def size(own: Slice, half: float, state: State | None = None) -> str:
    """A half-width of a slice in words: ± 1 degrees, or a factor 1.2 either way."""
    if own.logarithmic:
        return f"a factor {math.exp(min(half, 700)):.4g} either way"
    unit = state.workload.by_name[own.axis].unit if state else ""
    return f"± {half:.3g}{f' {unit}' if unit else ''}"


def name(own: Slice) -> str:
    """The values of a slice, in words."""
    return ", ".join(f"{key} = {_short(value)}" for key, value in own.at.items()) or "the only one"


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else as_typed(value)


def _names(pairs: Sequence[tuple[Slice, Step]]) -> str:
    named = "; ".join(name(own) for own, _ in pairs[:NAMED])
    more = f" and {len(pairs) - NAMED:,} more" if len(pairs) > NAMED else ""
    return f"{counted(len(pairs), 'slice')} ({named}{more})"


def _count(pairs: Sequence[tuple[Slice, Step]], word: str) -> int:
    return sum(1 for _, step in pairs if step.state == word)


def _widest(pairs: Sequence[tuple[Slice, Step]], state: State | None = None) -> str:
    known = [pair for pair in pairs if math.isfinite(pair[1].half)]
    if not known:
        return ""
    own, step = max(known, key=lambda pair: pair[1].half / pair[0].wanted)
    return f"{name(own)} with {size(own, step.half, state)}"


def _in_words(amount: Amount, known: bool = True) -> str:
    return counted(amount.rows, "row") + (f", {duration(amount.seconds)}" if known else "")
