"""Where two curves cross: what a difference between two values of an axis is called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from raysweep.analyses.between import paired, with_difference
from raysweep.analyses.question import Question
from raysweep.report.names import called, setting, without_common_beginning
from raysweep.workloads.declaration import Metric, Workload


def of_difference(asked: Question) -> Question:
    """The question about the difference of its metric between the two values of its option `between`; without this
    option, the question itself."""
    if "between" not in asked.options:
        return asked
    ((axis, (first, second)),) = asked.options["between"].items()
    one, other = (setting(axis, value, asked.workload) for value in (first, second))
    metric = f"{asked.metric} of {one} minus {without_common_beginning(one, other)}"
    difference = _named(asked.workload, asked.metric, axis, (first, second), metric)
    options = {key: value for key, value in asked.options.items() if key != "between"} | {"metric": metric}
    return replace(
        asked,
        rows=paired(asked, axis, (first, second), metric),
        workload=with_difference(asked.workload, asked.metric, axis, (first, second), difference),
        options=options,
    )


def _named(workload: Workload, metric: str, axis: str, pair: tuple[Any, Any], name: str) -> Metric:
    ends = {True: setting(axis, pair[0], workload), False: setting(axis, pair[1], workload)}
    direction = next((known.direction for known in workload.metrics if known.name == metric), "none")
    if direction in ("maximize", "minimize"):
        above, below = (f"{ends[(direction == 'maximize') == first]} is better" for first in (True, False))
    else:
        above, below = (f"more at {ends[first]}" for first in (True, False))
    label = name.replace(metric, called(metric, workload), 1)
    return Metric(name, f"difference of {metric}", positive=above, negative=below, label=label)
