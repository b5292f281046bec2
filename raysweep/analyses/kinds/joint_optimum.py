"""The values of two axes at which a metric is best together, such as the best rate and batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Nothing, Outcome, Plot, as_table
from raysweep.analyses.outcomes import needed, outcome
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import Where, edges_of, is_logarithmic, spread, with_choice, zero_may_be_best
from raysweep.analyses.series import PANELS
from raysweep.fits.reasons import Reason
from raysweep.fits.result import Status
from raysweep.fits.surface.best import Pair
from raysweep.fits.surface.slice_places import slice_places
from raysweep.fits.surface.slices import Slices
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.space import checks
from raysweep.space.checks import Context, expect


@dataclass(frozen=True, eq=False)
class PairMap:
    """One setting.

    x, y: values of both axes. regret: how much worse than the best the metric is expected to be there, (x, y).
    alike: where it cannot be told from the best, (x, y). runs, diverged: the cells, (cells, 2). choice: the point of
    least expected regret.
    """

    where: Where
    x: np.ndarray
    y: np.ndarray
    regret: np.ndarray
    alike: np.ndarray
    runs: np.ndarray
    diverged: np.ndarray
    choice: tuple[float, float]


@dataclass(frozen=True, eq=False)
class PairPlot(Plot):
    """Maps of some settings. logarithmic: per axis. every: how many settings there are."""

    panels: Sequence[PairMap]
    x: str
    y: str
    metric: str
    logarithmic: Sequence[bool]
    every: int


def run(question: Question) -> Finding:
    """The best value of each axis with the other one at its best: two rows per setting."""
    first, second = axes = list(question.options["axes"])
    name, metric, workload, rows = question.name, question.metric, question.workload, question.rows
    keys = question.keys_besides(first, second)
    frame = with_choice(rows, first, keys)
    log, turn, error = [is_logarithmic(frame, axis, workload) for axis in axes], question.turn, question.error_in(frame)
    for axis, other, in_log in zip(axes, axes[::-1], log, strict=True):
        if in_log and zero_may_be_best(frame, axis, metric, [*keys, other], turn):
            return question.nothing("joint_optimum", Nothing.AXIS_NOT_POSITIVE, axis)
    surface = slice_places(frame, axes, metric, keys, turn=turn, error=error, level=question.level, logarithmic=log)
    slices, seeds = surface.slices, int(rows["seed"].nunique())
    settings = [dict(zip(keys, setting, strict=True)) for setting in slices.settings]
    pairs = enumerate(zip(settings, surface.pairs, strict=True))
    maps = [map_of(where, place, pair, slices) for place, (where, pair) in pairs if pair]
    edges = [edges_of(frame, axis) for axis in axes]
    lines = [
        {**where, "axis": axes[k], **axis_row(pair, k, slices, edges[k], seeds)}
        for where, pair in zip(settings, surface.pairs, strict=True)
        for k in (0, 1)
    ]
    plot = PairPlot(name, spread(maps, PANELS), first, second, metric, log, len(maps))
    alike = [
        {**one.where, first: one.x[i], second: one.y[j], "regret": float(one.regret[i, j])}
        for one in maps
        for i, j in np.argwhere(one.alike)
    ]
    return question.finding(
        "joint_optimum",
        lines,
        [*keys, "axis"],
        x=first,
        facts={"axes": axes},
        tables={f"{name}_optima": as_table(lines, [*keys, "axis"]), f"{name}_alike": pd.DataFrame(alike)},
        plots=lambda: [plot] if maps else [],
    )


def axis_row(pair: Pair | None, k: int, slices: Slices, edges: tuple[float, float], seeds: int) -> dict[str, Any]:
    """One axis of one setting as a row of the finding. choice, regret: of the pair of least expected regret."""
    if pair is None:
        return {"reason": Reason.FLAT, "outcome": Outcome.NO_EFFECT}
    one = pair.axes[k]
    place = {name: slices.back(k, getattr(one, name)) for name in ("estimate", "low", "high")}
    result = outcome(one.status, one.reason)
    row = {"outcome": result, "reason": one.reason, **place, **needed(result, one.reason, *edges, seeds)}
    if one.status != Status.UNDETERMINED:
        row |= {"choice": slices.back(k, pair.choice[k]), "regret": float(pair.regret.min())}
    return row


def map_of(where: Where, place: int, pair: Pair, slices: Slices) -> PairMap:
    """The map of one setting. place: among the slices."""
    inside = slices.cells.slices == place
    at = np.column_stack([[slices.back(k, one) for one in slices.cells.x[inside, k]] for k in (0, 1)])
    x, y = (np.array([slices.back(k, point) for point in pair.points[k]]) for k in (0, 1))
    choice, bad = (slices.back(0, pair.choice[0]), slices.back(1, pair.choice[1])), slices.cells.diverged[inside]
    return PairMap(where, x, y, pair.regret, pair.alike, at[~bad], at[bad], choice)


def two_axes(value: Any, path: str, context: Context) -> Any:
    expect(isinstance(value, list) and len(value) == 2, path, "two axes, like [lr, batch]", value)
    for name in value:
        allowed.number_axis(name, path, context)
    return value


ANALYSIS = Analysis(
    kind="joint_optimum",
    question="Which values of two axes are best together for {metric}?",
    run=run,
    required={"metric": checks.metric, "axes": two_axes},
    optional=allowed.BY_LEVEL,
    columns=("choice", "regret"),
)
