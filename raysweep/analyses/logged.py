"""What a stage logged, and the rows it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raysweep.analyses.question import Question
from raysweep.errors import InputError, unknown
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.space.checks import Check, Context

IDENTITY = ["sweep", "cell", "seed"]
"""The columns that tell rows apart."""

OPTIONS: dict[str, Check] = {
    "stage": allowed.stage,
    "metric": allowed.logged,
    "metrics": allowed.logged,
    "by": allowed.axes,
}
"""The options of analyses of what a stage logged."""


def check_logged(given: Mapping[str, Any], path: str, context: Context) -> None:
    """Raise InputError for options that do not fit a stage that logs."""
    workload = context.workload
    if workload.compute:
        axes = ", ".join(context.axes) or "none"
        raise InputError(f"{path}.x", f"{workload.name} logs no learning curves; expected one of its axes: {axes}")
    names = workload.chain.names
    if len(names) > 1 and "stage" not in given:
        raise InputError(f"{path}.stage", f"missing; expected one of {', '.join(names)}")
    stage = given.get("stage", names[0])
    for name in given.get("by", []):
        if name not in workload.chain.dependencies[names.index(stage)]:
            raise InputError(f"{path}.by", f"the stage {stage} does not depend on {name}")


def stage_of(question: Question) -> str:
    """The stage of the entry; the first one if it names none."""
    return str(question.options.get("stage", question.workload.chain.names[0]))


def points_of(question: Question) -> pd.DataFrame:
    """What the stage logged: one line per point."""
    every = question.curves() if question.curves else question.rows.iloc[:0].assign(stage="")
    return every[every["stage"] == stage_of(question)]


def check_metric(name: str, path: str, question: Question, logged: list[str]) -> None:
    """Raise InputError for a metric that the stage did not log. path: the option that names it."""
    if name not in logged:
        raise unknown(path, f"metric that {stage_of(question)} logged", name, logged)


def keys_of(question: Question, x: str) -> tuple[list[str], list[str]]:
    """(the axes on which the stage depends, the axes on which it does not), besides x."""
    chain, keys = question.workload.chain, question.keys(x)
    needed = chain.dependencies[chain.names.index(stage_of(question))]
    return [name for name in keys if name in needed], [name for name in keys if name not in needed]
