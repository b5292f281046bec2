"""The findings of a report: each analysis of its rows, made by the kind that the registry has."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from raysweep.analyses import registry
from raysweep.analyses.design import Design
from raysweep.analyses.explored import explored_of
from raysweep.analyses.finding import Finding
from raysweep.analyses.prepared import counted_once, for_analyses, lost_cells, reason, restricted
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import without_zero_errors
from raysweep.analyses.user_function import user_function_finding
from raysweep.fits.lost_draws import can_be_fitted
from raysweep.lazy import pd
from raysweep.space.analyses import check_analysis, metrics_of, opened
from raysweep.space.checks import Context
from raysweep.space.schema import declared
from raysweep.workloads.declaration import OK, Parameter, Workload


def usual_analyses(design: Design, workload: Workload) -> tuple[dict[str, Any], ...]:
    """What is asked of a sweep if its space asks for no analysis.

    The metric is the one that the search optimizes, else the first that has a direction; of a function the first that
    it names. Of a search and of a function, if several axes vary: `search`; else the best cell, of a function by each
    metric that it names.
    """
    searches = [dict(space.get("search") or {}) for space in design.spaces]
    if function := workload.function:
        metrics = list(function.metrics) or list(function.returned or ())[:1]
    else:
        metrics = [metric.name for metric in workload.metrics if metric.direction != "none"][:1]
    metrics = [*(one["optuna"]["metric"] for one in searches if "optuna" in one), *metrics]
    varied = [name for name in design.varied() if len(design.values(name)) > 1]
    searched = function is not None or any(SEARCHES & one.keys() for one in searches)
    if metrics and searched and len(varied) > 1 and not set(varied) & set(registry.get("search").columns):
        return ({"search": {"metric": metrics[0]}},)
    return tuple({"best": {"metric": metric}} for metric in dict.fromkeys(metrics))


SEARCHES = {"random", "optuna", "imported"}
"""The searches that look for the best configuration anywhere, not along one axis."""


def designed(spaces: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[Design, Workload]:
    """The design of sweeps of one workload, and this workload with the scales that their spaces declare. Of several
    functions, such as two tables that were imported, the sweep is a parameter: their rows are draws of other cells."""
    workload = declared(spaces[0])
    if len({(space["workload"], (space.get("function") or {}).get("version")) for space in spaces}) > 1:
        sweep = Parameter("sweep", str, "", "which sweep")
        workload = replace(workload, parameters=(*workload.parameters, sweep))
        fixed = [{**(space.get("fixed") or {}), "sweep": name} for space, name in zip(spaces, names, strict=True)]
        spaces = [{**space, "fixed": one} for space, one in zip(spaces, fixed, strict=True)]
    design = Design(tuple(spaces), tuple(names))
    workload = design.scaled(workload)
    return replace(design, usual=usual_analyses(design, workload)), workload


def findings_of(
    frame: pd.DataFrame,
    design: Design,
    workload: Workload,
    curves: Callable[[], pd.DataFrame] | None = None,
    files: Mapping[str, Path] | None = None,
    on_step: Callable[[int], None] = lambda done: None,
) -> list[Finding]:
    """One finding per analysis entry. Raises InputError for an entry that cannot be made.

    frame: the rows of all sweeps, each measurement once. curves: as in `Question`.
    files: of functions that entries name, by what the space calls them; a file that is not here is not executed.
    on_step: called with the number of finished ones.
    """
    findings: list[Finding] = []
    used: Counter[str] = Counter()
    curves = functools.cache(curves) if curves else None
    context = Context(workload, {name: [] for name in frame.columns if name in workload.by_name})
    for entry in design.analyses():
        kind, options = opened(entry)
        used[kind] += 1
        name = kind if used[kind] == 1 else f"{kind}_{used[kind]}"
        rows, where = restricted(frame, options, workload)
        rows = without_zero_errors(rows, str(options.get("metric", "")), workload)
        asked = Question(rows, options, workload, name, design, curves)
        if kind in registry.names():
            check_analysis(entry, "analysis", context)
            finding = finding_of(registry.chosen(kind, options, workload), asked)
        else:
            finding = user_function_finding(kind, asked, files or {})
        findings.append(replace(finding, question=str(options.get("question") or ""), where=where))
        on_step(len(findings))
    return findings


def one_finding(frame: pd.DataFrame, space: Mapping[str, Any], entry: Mapping[str, Any], sweep: str) -> Finding:
    """The finding that the report of one sweep has for an entry of its `analysis`; it need not stand in the space.
    Raises InputError for an entry that cannot be made."""
    (finding,) = findings_of(frame, *designed(({**space, "analysis": [entry]},), (sweep,)))
    return finding


def finding_of(analysis: Analysis, asked: Question) -> Finding:
    """The finding of one question; one without settings if there is nothing to analyse."""
    if analysis.logged:
        return analysis.run(asked)
    asked, idle = counted_once(analysis, asked)
    metrics = metrics_of(asked.options)
    unknown = {metric: np.nan for metric in metrics if metric not in asked.rows}  # a function whose every call failed
    asked = replace(asked, rows=asked.rows.assign(**unknown))
    fitted = replace(asked, rows=for_analyses(asked.rows, metrics))
    lost = lost_cells(asked.rows, metrics, asked.design, asked.workload)
    if why := reason(analysis, asked, fitted):
        finding = asked.nothing(analysis.kind, *why, metric=str(asked.options.get("metric", "")))
    else:
        finding = analysis.run(fitted)
    good = asked.rows[asked.rows["status"] == OK]  # of which a mean over those with a usable value may be biased
    bad = {metric: count for metric in metrics if (count := int((~can_be_fitted(good[metric])).sum()))}
    facts = {**finding.facts, **({"lost": lost} if lost else {}), **({"left_out": bad} if bad else {})}
    return replace(finding, facts=facts, idle=idle, explored=finding.explored or explored_of(finding, fitted))
