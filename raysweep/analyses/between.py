"""Where two curves cross: the difference of a metric between two values of an axis, draw by draw, as a metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from raysweep.analyses.question import Question
from raysweep.analyses.rows import parameters_of
from raysweep.lazy import pd
from raysweep.workloads.declaration import Columns, Metric, Workload, column


def of_difference(question: Question) -> Question:
    """The question about the difference of its metric between the two values of its option `between`; without this
    option, the question itself. The metric is then called METRIC_difference."""
    if "between" not in question.options:
        return question
    ((axis, (first, second)),) = question.options["between"].items()
    name = f"{question.metric}_difference"
    return replace(
        question,
        rows=paired(question, axis, (first, second), name),
        workload=with_difference(question.workload, question.metric, axis, (first, second), Metric(name, "")),
        options={key: value for key, value in question.options.items() if key != "between"} | {"metric": name},
    )


def paired(question: Question, axis: str, pair: tuple[Any, Any], name: str) -> pd.DataFrame:
    """The rows of the difference. Draws of one seed share their data, so they are paired. A draw that has only one of
    the two rows is left out."""
    shared = [name for name in parameters_of(question.rows, question.workload) if name != axis]
    keys = [name for name in ("sweep", *shared, "seed") if name in question.rows.columns]
    measured = [name for name in (question.metric, f"{question.metric}_theory") if name in question.rows.columns]
    sides = [question.rows[(question.rows[axis] == value) & (question.rows["status"] == "ok")] for value in pair]
    both = sides[0][[*keys, "cell", "status", *measured]].merge(
        sides[1][[*keys, *measured]], on=keys, suffixes=("", "_of_second")
    )
    for old, new in zip(measured, (name, f"{name}_theory"), strict=False):
        both[new] = both[old] - both[f"{old}_of_second"]
    return both.drop(columns=[each for old in measured for each in (old, f"{old}_of_second")])


def with_difference(workload: Workload, metric: str, axis: str, pair: tuple[Any, Any], difference: Metric) -> Workload:
    """The workload with the difference as a further metric, which has a closed form if the metric has one."""

    def sides(columns: Columns) -> list[dict[str, np.ndarray]]:
        count = len(next(iter(columns.values())))
        return [{**columns, axis: column(workload.by_name[axis], [value] * count)} for value in pair]

    def closed_form(columns: Columns) -> dict[str, np.ndarray]:
        assert workload.closed_form is not None
        values = [workload.closed_form(side) for side in sides(columns)]
        with np.errstate(invalid="ignore"):
            theory: Mapping[str, np.ndarray] = (
                {difference.name: values[0][metric] - values[1][metric]} if metric in values[0] else {}
            )
        return {**values[0], **theory}

    def heavy_tailed(asked: str, columns: Columns) -> np.ndarray:
        assert workload.heavy_tailed is not None
        if asked != difference.name:
            return workload.heavy_tailed(asked, columns)
        return np.logical_or(*(workload.heavy_tailed(metric, side) for side in sides(columns)))

    return replace(
        workload,
        metrics=(*workload.metrics, difference),
        closed_form=closed_form if workload.closed_form else None,
        heavy_tailed=heavy_tailed if workload.heavy_tailed else None,
    )
