"""The report of a sweep: the question, the answer, its uncertainty, figures, tables and provenance."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import LARGEST, can_be_fitted
from raysweep.phrases import counted, place
from raysweep.reporting.analyses.comparison import comparison_section
from raysweep.reporting.analyses.explored import every_curve
from raysweep.reporting.analyses.section import Question, Section
from raysweep.reporting.analyses.user_function import user_function_section
from raysweep.reporting.design import Design
from raysweep.reporting.document import manifest
from raysweep.reporting.document.answer import answer
from raysweep.reporting.document.file_names import with_file_names
from raysweep.reporting.document.html import to_html
from raysweep.reporting.document.markdown import to_markdown
from raysweep.reporting.document.page import next_sweep
from raysweep.reporting.document.parts import all_parts
from raysweep.reporting.idle import counted_once, with_note
from raysweep.reporting.selection import all_keys, groups
from raysweep.reporting.taken_names import given_way
from raysweep.reporting.words import plain, setting
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
from raysweep.storage.paths import AnyPath
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Report:
    """A report that was written. It shows itself as the sentences of its answer, and where it is.

    directory: where it is.
    headline: one line per analysis: the result and its uncertainty.
    answer: the sentences with which the report begins: what was found, how sure it is, and what is undecided.
    files: all files that were written.
    """

    directory: AnyPath
    headline: list[str]
    answer: list[str]
    files: Sequence[AnyPath]

    def __repr__(self) -> str:
        return "\n".join([*self.answer, f"report: {place(self.directory / 'report.html')}"])


def write_report(
    frame: pd.DataFrame,
    space: Mapping[str, Any],
    directory: str | Path,
    *,
    sweep: str,
    notes: Sequence[str] = (),
    facts: Sequence[str] = (),
    further: Sequence[Mapping[str, Any]] = (),
    curves: Callable[[], pd.DataFrame] | None = None,
    analysis_files: Mapping[str, Path] | None = None,
    on_step: Callable[[int, int], None] = lambda done, of: None,
) -> Report:
    """Write report.md, report.html (self-contained), figures/ and tables/ of one or several sweeps of one workload.

    Figures and tables of an earlier report in `directory` are removed if this report does not have them. A file that no
    report wrote is never changed.

    frame: one row per (cell, seed) with status, parameters, metrics and closed forms (`_theory`).
    space: the resolved space. Its `analysis` lists the analyses.
    directory: where to write.
    sweep: the title of the report.
    notes: other facts that the reader must know.
    facts: further lines on where the numbers come from.
    further: the spaces of the other sweeps, in the order of the column `sweep`. Their analyses are made too.
    curves: gives the learning curves (the table of `Sweep.curves`, with the same sweeps as `frame`). It is called only
        if an analysis needs them.
    analysis_files: the files of functions that analyses name, by what the space calls them. A file is executed only if
        it stands here: that the space names it is not enough, because a space may come from somebody else.
    on_step: called with (steps done, steps in total), first with 0 done. Each analysis is one step and its figures are
        another one; the comparison of several sweeps counts like an analysis.

    Raises InputError for an analysis that cannot be made, and for a scale that does not fit the values of a sweep.
    """
    from raysweep.reporting.figures.style import styled

    every = frame
    names = tuple(map(str, dict.fromkeys(frame["sweep"]))) if further else (sweep,)
    design, workload = designed((space, *further), names)
    if {"cell", "seed"} <= set(frame.columns):
        frame = frame.drop_duplicates(["cell", "seed"])  # sweeps may share cells
    home = Path(directory)
    for folder in (home / "figures", home / "tables"):
        _free(folder).mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    steps = 2 * (len(design.analyses()) + bool(further))
    on_step(0, steps)
    with styled():
        sections = all_sections(
            frame, design, workload, curves, lambda done: on_step(done, steps), analysis_files or {}
        )
        if further:
            sections.append(compared(every, design, workload))
            on_step(len(sections), steps)
        sections = with_file_names(sections)
        for number, section in enumerate(sections, 1):
            for drawing in section.drawings:
                for ending in ("png", "svg"):
                    path = _free(home / "figures" / f"{drawing.name}.{ending}")
                    drawing.figure.savefig(path, metadata={"Date": None} if ending == "svg" else None)
                    files.append(path)
            on_step(len(sections) + number, steps)
    for section in sections:
        for name, table in section.tables.items():
            path = _free(home / "tables" / f"{name}.csv")
            table.to_csv(path, index=False)
            files.append(path)
    said = answer(frame, design, workload, sections)
    parts = all_parts(frame, design, workload, sections, said, sweep, notes, facts)
    explored = {f"part-{k}": [made() for made in section.explored] for k, section in enumerate(sections)}
    page = to_html(parts, f"raysweep: {sweep}", home, explored, next_sweep(design, sweep))
    for name, text in (("report.md", to_markdown(parts)), ("report.html", page)):
        _free(home / name).write_text(text, encoding="utf-8")
        files.append(home / name)
    manifest.remove_stale(home, files)
    manifest.record(home, files)
    return Report(home, [section.headline for section in sections], said.lines, files)


def _free(path: Path) -> Path:
    """The path; a symbolic link there is removed first, so that nothing is written outside the directory."""
    if path.is_symlink():
        path.unlink()
    return path


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
    from raysweep.reporting.figures.style import styled

    design, workload = designed(({**space, "analysis": [entry]},), (sweep,))
    with styled():
        (section,) = all_sections(frame, design, workload, None, lambda done: None, {})
    return section


def section_of_comparison(frame: pd.DataFrame, spaces: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Section:
    """The section in which a report of several sweeps compares them, without writing anything.

    frame: the rows of all sweeps, told apart by the column `sweep`. spaces, names: of the sweeps, in the same order.
    """
    from raysweep.reporting.figures.style import styled

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
    return comparison_section(asked.rows, asked.design, asked.workload)


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
        if only:
            section = replace(section, title=f"{section.title} ({only})", headline=f"{section.headline} ({only})")
        sections.append(section)
        on_step(len(sections))
    return sections


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
    finite = {metric: asked.rows[metric].where(can_be_fitted(asked.rows[metric])) for metric in metrics}
    fitted = replace(asked, rows=asked.rows.assign(**finite))
    good = fitted.rows[fitted.rows["status"] == "ok"]
    empty = [metric for metric in metrics if good[metric].isna().all()]
    if good.empty:
        why = f"{kind}: no row is ok ({states(asked.rows)}), so there is nothing to analyse"
    elif empty:
        finite_somewhere = np.isfinite(asked.rows.loc[good.index, empty[0]].astype(float)).any()
        beyond = f"beyond {LARGEST:g} (too large to be squared) or not finite in every row"
        said = beyond if finite_somewhere else "finite in no row"
        why = f"{kind}: {empty[0]} is {said}, so there is nothing to analyse"
    elif axis := too_large(asked):
        why = f"{kind}: an axis is analysed up to {LARGEST:g}, and {plain(axis)} has values beyond"
    else:
        why = nothing_to_fit(kind, asked)
    if why:
        return Section(kind.capitalize(), why)
    module = import_module(f"raysweep.reporting.analyses.{kind}")
    section: Section = getattr(module, f"{kind}_section")(fitted)
    section = replace(section, explored=section.explored or every_curve(fitted))
    return with_note(replace(section, headline=f"{section.headline}{not_fitted(good, metrics)}"), idle)


def not_fitted(good: pd.DataFrame, metrics: Sequence[str]) -> str:
    """How many ok rows an analysis leaves out, as text to append to a headline; empty if none.

    The reader must know this, because a mean over the remaining rows may be biased.
    """
    counts = {metric: int(good[metric].isna().sum()) for metric in metrics}
    parts = [
        f"{counted(count, 'ok row')} of {len(good):,} left out, where {metric} is not finite or beyond {LARGEST:g}"
        for metric, count in counts.items()
        if count
    ]
    return f" ({'; '.join(parts)})" if parts else ""


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
        f"{kind} over {plain(x)}: nothing to fit, because no two of {counted(cells, 'cell')} differ in {plain(x)} "
        f"alone; rows differ in {', '.join(map(plain, keys))} too, and are not put into one curve (fix these, or "
        f"ask for a grid over {plain(x)})"
    )


def states(frame: pd.DataFrame) -> str:
    """How many rows have each status, in words."""
    counts = frame["status"].value_counts()
    return ", ".join(f"{count:,} {plain(str(word))}" for word, count in counts.items()) or "there is none"
