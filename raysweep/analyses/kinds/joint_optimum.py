"""The values of two axes at which a metric is best together, such as the best rate and batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Outcome, Plot
from raysweep.analyses.nothing import Nothing, nothing
from raysweep.analyses.outcomes import needed, outcome
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import Where, edges_of, is_logarithmic, spread, with_choice, zero_may_be_best
from raysweep.analyses.series import PANELS
from raysweep.fits.reasons import Reason
from raysweep.fits.result import Status
from raysweep.fits.surface.best import Pair
from raysweep.fits.surface.slice_places import SlicePlaces, slice_places
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
    metric, workload, rows = question.metric, question.workload, question.rows
    keys = [key for key in question.keys(first, second) if key != second]
    frame = with_choice(rows, first, keys)
    logarithmic = [is_logarithmic(frame, axis, workload) for axis in axes]
    for axis, other, log in zip(axes, axes[::-1], logarithmic, strict=True):
        if log and zero_may_be_best(frame, axis, metric, [*keys, other], question.turn):
            return nothing(question, "joint_optimum", Nothing.AXIS_NOT_POSITIVE, axis)
    surface = slice_places(
        frame,
        axes,
        metric,
        keys,
        turn=question.turn,
        error=question.error_in(frame),
        level=question.level,
        logarithmic=logarithmic,
    )
    slices, seeds = surface.slices, int(rows["seed"].nunique()) if "seed" in rows else 0
    settings = [dict(zip(keys, setting, strict=True)) for setting in slices.settings]
    edges = [edges_of(frame, axis) for axis in axes]
    lines = [
        {**where, "axis": axes[k], **axis_row(pair, k, slices, edges[k], seeds)}
        for where, pair in zip(settings, surface.pairs, strict=True)
        for k in (0, 1)
    ]
    finding = question.finding(
        "joint_optimum",
        lines,
        [*keys, "axis"],
        x=first,
        facts={"axes": axes},
        plots=lambda: plots_of(question, surface, settings),
    )
    name, alike = question.name, alike_rows(surface, axes, settings)
    return replace(finding, tables={f"{name}_optima": finding.table, f"{name}_alike": alike})


def axis_row(pair: Pair | None, k: int, slices: Slices, edges: tuple[float, float], seeds: int) -> dict[str, Any]:
    """One axis of one setting as a row of the finding. choice, regret: of the pair of least expected regret."""
    if pair is None:
        return {"reason": Reason.FLAT, "outcome": Outcome.NO_EFFECT}
    one = pair.axes[k]
    place = {
        name: slices.back(k, at) if np.isfinite(at := getattr(one, name)) else at
        for name in ("estimate", "low", "high")
    }
    if slices.logarithmic[k] and place["low"] == -np.inf:
        place["low"] = 0.0
    result = outcome(one.status, one.reason)
    row = {"outcome": result, "reason": one.reason, **place, **needed(result, one.reason, *edges, seeds)}
    if one.status != Status.UNDETERMINED:
        row |= {"choice": slices.back(k, pair.choice[k]), "regret": float(pair.regret.min())}
    return row


def alike_rows(surface: SlicePlaces, axes: Sequence[str], settings: Sequence[Where]) -> pd.DataFrame:
    out = []
    for where, pair in zip(settings, surface.pairs, strict=True):
        if pair is None:
            continue
        x, y = ([surface.slices.back(k, point) for point in pair.points[k]] for k in (0, 1))
        for i, j in np.argwhere(pair.alike):
            out.append({**where, axes[0]: x[i], axes[1]: y[j], "regret": float(pair.regret[i, j])})
    return pd.DataFrame(out)


def plots_of(question: Question, surface: SlicePlaces, settings: Sequence[Where]) -> list[Plot]:
    cells, slices = surface.slices.cells, surface.slices
    there = [(s, pair) for s, pair in enumerate(surface.pairs) if pair is not None]
    panels = []
    for s, pair in spread(there, PANELS):
        inside = cells.slices == s
        at = np.column_stack([[slices.back(k, one) for one in cells.x[inside, k]] for k in (0, 1)])
        x, y = (np.array([slices.back(k, point) for point in pair.points[k]]) for k in (0, 1))
        choice = (slices.back(0, pair.choice[0]), slices.back(1, pair.choice[1]))
        bad = cells.diverged[inside]
        panels.append(PairMap(settings[s], x, y, pair.regret, pair.alike, at[~bad], at[bad], choice))
    first, second = question.options["axes"]
    plot = PairPlot(question.name, panels, first, second, question.metric, slices.logarithmic, len(there))
    return [plot] if panels else []


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
    columns=("axis", "choice", "regret", "outcome", "reason", "estimate", "low", "high"),
)
