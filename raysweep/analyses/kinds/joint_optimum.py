"""The values of two axes at which a metric is best together, such as the best rate and batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.analysis import Analysis
from raysweep.analyses.finding import Finding, Outcome, Plot, as_table
from raysweep.analyses.outcomes import needed, outcome
from raysweep.analyses.question import Question
from raysweep.analyses.rows import all_keys, better_extremum, finite_values, known_error, spread, with_choice
from raysweep.fits.optimum import in_log
from raysweep.fits.reasons import Reason
from raysweep.fits.result import Status
from raysweep.fits.surface.best import Pair
from raysweep.fits.surface.slice_places import SlicePlaces, slice_places
from raysweep.fits.surface.slices import Slices
from raysweep.space import analysis_options as allowed
from raysweep.space import checks
from raysweep.space.checks import Context, expect
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

PANELS = 6


@dataclass(frozen=True, eq=False)
class PairMap:
    """One setting.

    x, y: values of both axes. regret: how much worse than the best the metric is expected to be there, (x, y).
    alike: where it cannot be told from the best, (x, y). runs, diverged: the cells, (cells, 2). choice: the point of
    least expected regret.
    """

    where: Mapping[str, Any]
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
    import pandas as pd

    first, second = axes = list(question.options["axes"])
    metric, workload, rows = question.metric, question.workload, question.rows
    keys = [key for key in all_keys(rows, workload, first, [second, *question.by], question.design) if key != second]
    frame = with_choice(rows, first, keys)
    found = slice_places(
        frame,
        axes,
        metric,
        keys,
        turn=better_extremum(metric, workload),
        error=known_error(frame, metric, workload),
        level=question.level,
        logarithmic=[_logarithmic(frame, axis, workload) for axis in axes],
    )
    seeds = int(rows["seed"].nunique()) if "seed" in rows else 0
    lines = []
    for setting, pair in zip(found.slices.settings, found.pairs, strict=True):
        where = dict(zip(keys, setting, strict=True))
        lines += [axis_row(where, axes, k, pair, found.slices, finite_values(frame, axes[k]), seeds) for k in (0, 1)]
    table = as_table(lines, [*keys, "axis"])
    return Finding(
        "joint_optimum",
        question.name,
        table,
        metric,
        first,
        [*keys, "axis"],
        level=question.level,
        facts={"axes": axes},
        tables={
            f"{question.name}_optima": table,
            f"{question.name}_alike": pd.DataFrame(alike_rows(found, axes, keys)),
        },
        plots=cache(lambda: plots_of(question, found, keys)),
    )


def _logarithmic(frame: pd.DataFrame, axis: str, workload: Workload) -> bool:
    declared = workload.logarithmic(axis)
    return in_log(frame[axis].to_numpy(float)) if declared is None else declared


def axis_row(
    where: Mapping[str, Any],
    axes: Sequence[str],
    k: int,
    pair: Pair | None,
    slices: Slices,
    values: np.ndarray,
    seeds: int,
) -> dict[str, Any]:
    """One axis of one setting as a row of the finding. choice, regret: of the pair of least expected regret."""
    row: dict[str, Any] = {**where, "axis": axes[k], "reason": Reason.FLAT, "outcome": Outcome.NO_EFFECT}
    if pair is None:
        return row
    one = pair.axes[k]
    ends = {
        end: slices.back(k, place) if np.isfinite(place := getattr(one, end)) else place
        for end in ("estimate", "low", "high")
    }
    if slices.logarithmic[k] and ends["low"] == -np.inf:
        ends["low"] = 0.0
    result = outcome(one.status, one.reason)
    takes, number = needed(result, one.reason, float(values[0]), float(values[-1]), seeds)
    row |= {"outcome": result, "reason": one.reason, "needed": takes, "needed_number": number, **ends}
    if one.status != Status.UNDETERMINED:
        row |= {"choice": slices.back(k, pair.choice[k]), "regret": float(pair.regret.min())}
    return row


def alike_rows(found: SlicePlaces, axes: Sequence[str], keys: Sequence[str]) -> list[dict[str, Any]]:
    """The points of each setting that cannot be told from the best, with their expected regret."""
    out = []
    for setting, pair in zip(found.slices.settings, found.pairs, strict=True):
        if pair is None:
            continue
        where = dict(zip(keys, setting, strict=True))
        x, y = ([found.slices.back(k, point) for point in pair.points[k]] for k in (0, 1))
        for i, j in np.argwhere(pair.alike):
            out.append({**where, axes[0]: x[i], axes[1]: y[j], "regret": float(pair.regret[i, j])})
    return out


def plots_of(question: Question, found: SlicePlaces, keys: Sequence[str]) -> list[Plot]:
    """One map per setting, of some of them."""
    first, second = question.options["axes"]
    cells, slices = found.slices.cells, found.slices
    there = [s for s, pair in enumerate(found.pairs) if pair is not None]
    panels = []
    for s in spread(there, PANELS):
        pair = found.pairs[s]
        assert pair is not None
        own = cells.slices == s
        at = np.column_stack([[slices.back(k, one) for one in cells.x[own, k]] for k in (0, 1)])
        x, y = (np.array([slices.back(k, point) for point in pair.points[k]]) for k in (0, 1))
        where = dict(zip(keys, slices.settings[s], strict=True))
        choice = (slices.back(0, pair.choice[0]), slices.back(1, pair.choice[1]))
        bad = cells.diverged[own]
        panels.append(PairMap(where, x, y, pair.regret, pair.alike, at[~bad], at[bad], choice))
    every = len(there)
    return (
        [PairPlot(question.name, panels, first, second, question.metric, slices.logarithmic, every)] if panels else []
    )


def two_axes(value: Any, path: str, context: Context) -> Any:
    """Two axes of numbers."""
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
