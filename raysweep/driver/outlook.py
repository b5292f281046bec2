"""What a space with a precision is likely to take, before and while it is computed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from raysweep.driver.progress import duration
from raysweep.phrases import counted
from raysweep.plan.cost import estimate
from raysweep.query import verdict
from raysweep.query.state import PendingRows, State
from raysweep.search.curves import OPEN, REACHED, Step
from raysweep.search.slices import Slice

USUAL = 1000  # more draws than this are allowed to a cell by those who do not want to say how many


class Amount(NamedTuple):
    """A number of rows, and their declared seconds on one core or GPU."""

    rows: int
    seconds: float


@dataclass(frozen=True)
class Outlook:
    """What a sweep may still take: the missing rows of this round, what the rows so far tell, and all draws of all
    cells that may get any. Before the first round only both ends are known: `likely` is their geometric mean, for which
    a cell has at most USUAL draws."""

    least: Amount
    likely: Amount
    most: Amount


def outlook(state: State, pending: PendingRows) -> Outlook:
    plan = state.likely_plan
    counts = plan.counts.copy()
    counts[list(plan.open_cells)] = len(state.space.seeds)
    least, most = Amount(pending.rows, pending.seconds), _missing(state, counts)
    if (left := state.space.budget.get("rows", math.inf) - plan.spent["rows"] + least.rows) < most.rows:
        most = Amount(int(left), most.seconds * left / most.rows)
    if len(plan.rounds) > 1:
        rows, seconds = map(min, _missing(state, plan.expected), most)
    else:
        usual = _missing(state, np.minimum(counts, USUAL)) if counts.max(initial=0) > USUAL else most
        rows, seconds = map(min, np.sqrt(np.multiply(least, usual)).tolist(), most)
    return Outlook(least, Amount(round(rows), seconds), most)


def _missing(state: State, counts: np.ndarray) -> Amount:
    done = state.done()
    begun = {seed for _, seed in done}
    times: Counter[bytes] = Counter()  # most draws lack the same cells, whose cost is asked for once
    for draw, seed in enumerate(state.space.seeds[: int(counts.max(initial=0))]):
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


def before_line(state: State, pending: PendingRows) -> str:
    """A line about what is likely to be computed, for a dry run and the beginning of a run."""
    ahead, costs = outlook(state, pending), state.workload.has_costs
    least, likely, most = (_in_words(amount, costs) for amount in (ahead.least, ahead.likely, ahead.most))
    unit = f" of one {'GPU' if any(needs.gpus for needs in state.cells.needs) else 'core'}" if costs else ""
    why = "as the rows so far tell" if len(state.likely_plan.rounds) > 1 else "a guess between both: no row tells yet"
    asked = verdict.asked_for(state.space)
    return f"{asked}: at least {least} in this round, at most {most}{unit}; about {likely} ({why})"


def line(state: State, pending: PendingRows) -> str:
    """A line about what the rows so far tell; before there are any, `before_line`."""
    if len(state.likely_plan.rounds) == 1:
        return before_line(state, pending)
    steps = state.likely_plan.slices
    still = [pair for pair in steps if pair[1].state == OPEN]
    ended = Counter(step.state for _, step in steps if step.state not in (OPEN, REACHED))
    reached = len(steps) - len(still) - ended.total()
    parts = [f"{reached:,} of {counted(len(steps), 'slice')} reached it"]
    if ended:
        reasons = "; ".join(f"{reason}: {count:,}" for reason, count in ended.items())
        parts.append(f"{ended.total():,} ended without ({reasons})")
    if still:
        parts.append(f"{len(still):,} {'goes' if len(still) == 1 else 'go'} on")
    text = f"precision: {', '.join(parts)}"
    if worst := _worst(still, state):
        text += f", {worst}"
    unknown = sum(1 for _, step in still if step.needed is None)
    without = f" (without {counted(unknown, 'slice')} of which nothing can be told yet)" if unknown else ""
    likely = _in_words(outlook(state, pending).likely, state.workload.has_costs)
    return f"{text}; about {likely} to come{without}"


def _worst(pairs: Sequence[tuple[Slice, Step]], state: State) -> str:
    """The slice that is farthest from what is asked for, as far as an interval or its noise is known."""
    measured = [pair for pair in pairs if 0 < pair[1].half < math.inf]
    if not measured:
        return ""
    slice_of, step = max(measured, key=lambda pair: pair[1].half / pair[0].wanted)
    noise = verdict.size(slice_of, step.half, state.workload)
    return f"the widest{verdict.named(slice_of, ' ')} with {noise} from noise alone"


def _in_words(amount: Amount, with_time: bool = True) -> str:
    return counted(amount.rows, "row") + (f", {duration(amount.seconds)}" if with_time else "")
