"""Where two curves cross: the difference of a metric between two values of an axis, draw by draw, as a metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.question import Question
from raysweep.analyses.rows import parameters_of
from raysweep.report.names import called, setting, without_common_beginning
from raysweep.workloads.declaration import Columns, Metric, Workload, column

if TYPE_CHECKING:
    import pandas as pd


def of_difference(asked: Question) -> Question:
    """The question about the difference of its metric between the two values of its option `between`; without this
    option, the question itself.

    Draws of one seed share their data, so they are paired. A draw that has only one of the two rows is left out.
    """
    if "between" not in asked.options:
        return asked
    ((axis, (first, second)),) = asked.options["between"].items()
    one, other = (setting(axis, value, asked.workload) for value in (first, second))
    metric = f"{asked.metric} of {one} minus {without_common_beginning(one, other)}"
    rows = _paired(asked, axis, (first, second), metric)
    workload = _with_difference(asked.workload, asked.metric, axis, (first, second), metric)
    options = {key: value for key, value in asked.options.items() if key != "between"} | {"metric": metric}
    return replace(asked, rows=rows, workload=workload, options=options)


def _paired(asked: Question, axis: str, pair: tuple[Any, Any], metric: str) -> pd.DataFrame:
    shared = [name for name in parameters_of(asked.rows, asked.workload) if name != axis]
    keys = [name for name in ("sweep", *shared, "seed") if name in asked.rows.columns]
    measured = [name for name in (asked.metric, f"{asked.metric}_theory") if name in asked.rows.columns]
    sides = [asked.rows[(asked.rows[axis] == value) & (asked.rows["status"] == "ok")] for value in pair]
    both = sides[0][[*keys, "cell", "status", *measured]].merge(
        sides[1][[*keys, *measured]], on=keys, suffixes=("", "_of_second")
    )
    names = dict(zip(measured, (metric, f"{metric}_theory"), strict=False))
    for name, new in names.items():
        both[new] = both[name] - both[f"{name}_of_second"]
    return both.drop(columns=[each for name in measured for each in (name, f"{name}_of_second")])


def _with_difference(workload: Workload, metric: str, axis: str, pair: tuple[Any, Any], name: str) -> Workload:
    """The workload with the difference as a further metric, which has a closed form if the metric has one."""

    def sides(columns: Columns) -> list[dict[str, np.ndarray]]:
        count = len(next(iter(columns.values())))
        return [{**columns, axis: column(workload.by_name[axis], [value] * count)} for value in pair]

    def closed_form(columns: Columns) -> dict[str, np.ndarray]:
        assert workload.closed_form is not None
        found = [workload.closed_form(side) for side in sides(columns)]
        with np.errstate(invalid="ignore"):
            difference: Mapping[str, np.ndarray] = (
                {name: found[0][metric] - found[1][metric]} if metric in found[0] else {}
            )
        return {**found[0], **difference}

    def heavy_tailed(asked: str, columns: Columns) -> np.ndarray:
        assert workload.heavy_tailed is not None
        if asked != name:
            return workload.heavy_tailed(asked, columns)
        return np.logical_or(*(workload.heavy_tailed(metric, side) for side in sides(columns)))

    ends = {True: setting(axis, pair[0], workload), False: setting(axis, pair[1], workload)}
    direction = next((known.direction for known in workload.metrics if known.name == metric), "none")
    if direction in ("maximize", "minimize"):
        above, below = (f"{ends[(direction == 'maximize') == first]} is better" for first in (True, False))
    else:
        above, below = (f"more at {ends[first]}" for first in (True, False))
    label = name.replace(metric, called(metric, workload), 1)
    difference = Metric(name, f"difference of {metric}", positive=above, negative=below, label=label)
    return replace(
        workload,
        metrics=(*workload.metrics, difference),
        closed_form=closed_form if workload.closed_form else None,
        heavy_tailed=heavy_tailed if workload.heavy_tailed else None,
    )
