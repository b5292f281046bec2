"""The sections of a report: each analysis of its rows, made by the function that knows how."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.design import Design
from raysweep.analyses.question import Question
from raysweep.analyses.rows import all_keys, groups
from raysweep.fits.lost_draws import LARGEST, can_be_fitted
from raysweep.phrases import counted
from raysweep.report.names import labelled, plain, setting
from raysweep.reporting.analyses.comparison import comparison_section
from raysweep.reporting.analyses.explored import every_curve
from raysweep.reporting.analyses.section import Section
from raysweep.reporting.analyses.user_function import user_function_section
from raysweep.reporting.idle import counted_once, with_note
from raysweep.reporting.lost_cells import for_analyses, survivors
from raysweep.reporting.taken_names import given_way
from raysweep.space.analyses import (
    ANALYSES,
    LANDSCAPE,
    along_training,
    check_analysis,
    metrics_of,
    no_best_place,
    opened,
)
from raysweep.space.checks import Context
from raysweep.space.schema import declared
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


def usual_analyses(workload: Workload) -> tuple[dict[str, Any], ...]:
    """What is asked of a sweep if its space asks for no analysis: the best cell of the first metric that has a
    direction; of a function, the best cell of each metric that it names, or else of the first one."""
    if function := workload.function:
        metrics = list(function.metrics) or list(function.returned or ())[:1]
    else:
        metrics = [metric.name for metric in workload.metrics if metric.direction != "none"][:1]
    return tuple({"best": {"metric": metric}} for metric in metrics)


def one_section(frame: pd.DataFrame, space: Mapping[str, Any], entry: Mapping[str, Any], sweep: str) -> Section:
    """The section that the report of one sweep has for an entry of its `analysis`, without writing anything.

    frame, space, sweep: as in `write_report`.
    entry: as in YAML, for example {"best": {"metric": "loss"}}. It need not stand in the space.

    Raises InputError for an entry that cannot be made.
    """
    from raysweep.report.figures.style import styled

    design, workload = designed(({**space, "analysis": [entry]},), (sweep,))
    with styled():
        (section,) = all_sections(frame, design, workload, None, lambda done: None, {})
    return section


def section_of_comparison(frame: pd.DataFrame, spaces: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Section:
    """The section in which a report of several sweeps compares them, without writing anything.

    frame: the rows of all sweeps, told apart by the column `sweep`. spaces, names: of the sweeps, in the same order.
    """
    from raysweep.report.figures.style import styled

    with styled():
        return compared(frame, *designed(spaces, names))


def designed(spaces: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[Design, Workload]:
    """The design of sweeps of one workload, and this workload with the scales that their spaces declare."""
    design = Design(tuple(spaces), tuple(names))
    workload = design.scaled(declared(spaces[0]))
    return replace(design, usual=usual_analyses(workload)), workload


def compared(frame: pd.DataFrame, design: Design, workload: Workload) -> Section:
    """The comparison of each sweep with the first one. frame: every row of every sweep, also rows that they share."""
    asked = given_way("comparison", Question(frame, {}, workload, "comparison", design))
    return in_words(comparison_section(asked.rows, asked.design, asked.workload), asked.workload)


def all_sections(
    frame: pd.DataFrame,
    design: Design,
    workload: Workload,
    curves: Callable[[], pd.DataFrame] | None,
    on_step: Callable[[int], None],
    files: Mapping[str, Path],
) -> list[Section]:
    """Make one section per analysis.

    on_step: called with the number of finished sections. files: as `analysis_files` of `write_report`.
    """
    sections: list[Section] = []
    used: Counter[str] = Counter()
    curves = functools.cache(curves) if curves else None
    context = Context(workload, {name: [] for name in frame.columns if name in workload.by_name})
    for entry in design.analyses():
        kind, options = opened(entry)
        if kind in ANALYSES:
            check_analysis(entry, "analysis", context)
        used[kind] += 1
        name = kind if used[kind] == 1 else f"{kind}_{used[kind]}"
        rows, only = chosen(frame, options, workload)
        asked = Question(rows, options, workload, name, design, curves)
        section = section_of(kind, asked) if kind in ANALYSES else user_function_section(kind, asked, files)
        question = str(options.get("question") or "")
        if only:
            headline = section.headline if question else f"{section.headline} ({only})"  # the question may say it
            section = replace(section, title=f"{section.title} ({only})", headline=headline)
            section = replace(section, undecided=only_with(section.undecided, only))
        sections.append(in_words(replace(section, question=question), workload))
        on_step(len(sections))
    return sections


def only_with(undecided: str, only: str) -> str:
    """What is open among some rows, before what deciding it would take. only: which rows these are, in words."""
    what, takes, rest = undecided.partition(" (deciding it takes")
    return f"{what} with {only.removeprefix('only ')}{takes}{rest}" if undecided else ""


def in_words(section: Section, workload: Workload) -> Section:
    """The section with labels instead of the names of metrics and parameters in its title, question and answer."""
    names = ("question", "title", "headline", "detail", "sure", "undecided")
    said: dict[str, Any] = {name: labelled(getattr(section, name), workload) for name in names}
    return replace(section, **said)


def chosen(frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload) -> tuple[pd.DataFrame, str]:
    """The rows with the values that the option `where` names, and these values in words; all rows without it."""
    said = []
    for name, given in (options.get("where") or {}).items():
        values = given if isinstance(given, list) else [given]
        frame = frame[frame[name].isin([workload.by_name[name].coerce(value) for value in values])]
        said.append(" or ".join(setting(name, value, workload) for value in values))
    return frame, f"only {', '.join(said)}" if said else ""


def section_of(kind: str, asked: Question) -> Section:
    """Make the section of one question with the function KIND_section of the module analyses.KIND.

    If there is nothing to analyse, the section only says why.
    """
    if along_training(kind, asked.options, asked.workload):
        from raysweep.reporting.analyses.learning_curves import learning_curves_section

        return learning_curves_section(given_way("learning_curves", asked))
    if kind == LANDSCAPE:
        from raysweep.reporting.analyses.landscape import landscape_section

        return landscape_section(given_way(kind, asked))
    asked, idle = counted_once(kind, given_way(kind, asked))
    metrics = metrics_of(asked.options)
    unknown = {metric: np.nan for metric in metrics if metric not in asked.rows}  # a function whose every call failed
    asked = replace(asked, rows=asked.rows.assign(**unknown))
    fitted = replace(asked, rows=for_analyses(asked.rows, metrics))
    good = asked.rows[asked.rows["status"] == "ok"]
    empty = [metric for metric in metrics if not can_be_fitted(good[metric]).any()]
    left_out = survivors(asked.rows, metrics, asked.design, asked.workload)
    if good.empty:
        why = f"{kind}: no row is ok ({states(asked.rows)}), so there is nothing to analyse"
    elif empty:
        finite_somewhere = np.isfinite(good[empty[0]].astype(float)).any()
        beyond = f"beyond {LARGEST:g} (too large to be squared) or not finite in every row"
        said = beyond if finite_somewhere else "finite in no row"
        why = f"{kind}: {empty[0]} is {said}, so there is nothing to analyse"
    elif fitted.rows.loc[good.index, metrics].isna().all().any():
        why = f"{kind}: nothing to analyse; {left_out}"
    elif axis := too_large(asked):
        why = f"{kind}: an axis is analysed up to {LARGEST:g}, and {plain(axis)} has values beyond"
    else:
        why = nothing_to_fit(kind, asked)
    if why:
        return Section(kind.capitalize(), why, undecided=f"{kind} (nothing could be analysed)")
    module = import_module(f"raysweep.reporting.analyses.{kind}")
    section: Section = getattr(module, f"{kind}_section")(fitted)
    detail = "; ".join(filter(None, (section.detail, not_fitted(good, metrics), left_out)))
    return with_note(replace(section, explored=section.explored or every_curve(fitted), detail=detail), idle)


def not_fitted(good: pd.DataFrame, metrics: Sequence[str]) -> str:
    """How many ok rows an analysis leaves out, in words; empty if none.

    The reader must know this, because a mean over the remaining rows may be biased.
    """
    counts = {metric: int((~can_be_fitted(good[metric])).sum()) for metric in metrics}
    parts = [
        f"{counted(count, 'ok row')} of {len(good):,} left out, where {metric} has no finite value up to {LARGEST:g}"
        for metric, count in counts.items()
        if count
    ]
    return "; ".join(parts)


def too_large(asked: Question) -> str:
    """The axis of the analysis that has finite values which are too large for figures and fits; empty if none has."""
    for key in ("x", "y", "lr", "length"):
        known = asked.workload.by_name.get(asked.options.get(key, ""))
        if known and not known.categorical:
            values = np.abs(asked.rows[known.name].to_numpy(float))
            if (np.isfinite(values) & (values > LARGEST)).any():
                return known.name
    return ""


def nothing_to_fit(kind: str, asked: Question) -> str:
    """Why there is nothing to fit; empty if there is something.

    There are two reasons: the axis has values (from another sweep) among which no best place can be found; or x varies,
    but no two cells differ in x alone.
    """
    x = asked.options.get(ANALYSES[kind].along)
    if x is None:
        return ""
    if why := no_best_place(kind, asked.options, asked.rows[x].unique().tolist()):
        return f"{kind}: nothing to fit, because {why}"
    good = asked.rows[asked.rows["status"] == "ok"]
    if good[x].nunique() < 2:
        return ""
    given = [*asked.by, *(asked.options[key] for key in ("y", "length") if asked.options.get(key))]
    keys = all_keys(good, asked.workload, x, given, asked.design)
    if not keys or any(rows[x].nunique() > 1 for _, rows in groups(good, keys)):
        return ""
    cells = good.groupby([x, *keys], dropna=False).ngroups
    return (
        f"nothing to fit for {kind} over {plain(x)}, because no two of {counted(cells, 'cell')} differ in {plain(x)} "
        f"alone; rows differ in {', '.join(map(plain, keys))} too, and are not put into one curve (fix these, or "
        f"ask for a grid over {plain(x)})"
    )


def states(frame: pd.DataFrame) -> str:
    """How many rows have each status, in words."""
    counts = frame["status"].value_counts()
    return ", ".join(f"{count:,} {plain(str(word))}" for word, count in counts.items()) or "there is none"
