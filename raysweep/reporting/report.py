"""The report of a sweep: the question, the answer, how sure it is, then figures, tables and provenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raysweep.fits.draws import LARGEST, can_be_fitted
from raysweep.phrases import counted
from raysweep.reporting.analyses.comparison import comparison_section
from raysweep.reporting.analyses.section import Question, Section
from raysweep.reporting.design import Design
from raysweep.reporting.document import manifest
from raysweep.reporting.document.html import to_html
from raysweep.reporting.document.markdown import to_markdown
from raysweep.reporting.selection import all_keys, groups
from raysweep.reporting.words import plain
from raysweep.space.analyses import ANALYSES, check_analysis, metrics_of, no_best_place, opened
from raysweep.space.checks import Context
from raysweep.storage.paths import AnyPath
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Report:
    """What was written where. headline: a line per analysis, what was found and how sure."""

    directory: AnyPath
    headline: list[str]
    files: Sequence[AnyPath]


def write_report(
    frame: pd.DataFrame,
    space: Mapping[str, Any],
    directory: str | Path,
    *,
    sweep: str,
    notes: Sequence[str] = (),
    further: Sequence[Mapping[str, Any]] = (),
    on_step: Callable[[int, int], None] = lambda done, of: None,
) -> Report:
    """report.md, report.html (self-contained), figures/ and tables/ of one sweep, or of several of one workload.

    Figures and tables that an earlier report left in `directory` and this one does not have are removed; a file that
    no report wrote is never touched.

    frame: one row per (cell, seed) with status, parameters, metrics and closed forms (`_theory`).
    space: the resolved space; its `analysis` says what is asked.
    sweep: what the report is called; notes: what its reader must know besides.
    further: the spaces of the other sweeps of the column `sweep`, in its order; what they ask is answered too.
    on_step: told how many of how many steps are done, first that none is. An analysis is a step and its figures are
        another, and so for the comparison of several sweeps.

    InputError for an analysis that cannot be made, and for a scale that does not fit the values of every sweep.
    """
    from raysweep import workloads
    from raysweep.reporting.figures.style import styled

    every = frame
    names = tuple(map(str, dict.fromkeys(frame["sweep"]))) if further else (sweep,)
    design = Design((space, *further), names)
    workload = design.scaled(workloads.get(space["workload"]))
    if {"cell", "seed"} <= set(frame.columns):
        frame = frame.drop_duplicates(["cell", "seed"])  # sweeps may share cells
    home = Path(directory)
    for folder in (home / "figures", home / "tables"):
        _free(folder).mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    steps = 2 * (len(design.analyses()) + bool(further))
    on_step(0, steps)
    with styled():
        sections = all_sections(frame, design, workload, lambda done: on_step(done, steps))
        if further:
            sections.append(comparison_section(every, design, workload))
            on_step(len(sections), steps)
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
    markdown = to_markdown(frame, design, workload, sections, sweep, notes)
    for name, text in (("report.md", markdown), ("report.html", to_html(markdown, f"raysweep: {sweep}", home))):
        _free(home / name).write_text(text, encoding="utf-8")
        files.append(home / name)
    manifest.remove_stale(home, files)
    manifest.record(home, files)
    return Report(home, [section.headline for section in sections], files)


def _free(path: Path) -> Path:
    """The path, and no link there that would have something written elsewhere."""
    if path.is_symlink():
        path.unlink()
    return path


def all_sections(
    frame: pd.DataFrame, design: Design, workload: Workload, on_step: Callable[[int], None]
) -> list[Section]:
    """One section per analysis asked for. on_step: told how many are made."""
    sections: list[Section] = []
    used: Counter[str] = Counter()
    context = Context(workload, {name: [] for name in frame.columns if name in workload.by_name})
    for entry in design.analyses():
        check_analysis(entry, "analysis", context)
        kind, options = opened(entry)
        used[kind] += 1
        name = kind if used[kind] == 1 else f"{kind}_{used[kind]}"
        sections.append(section_of(kind, Question(frame, options, workload, name, design)))
        on_step(len(sections))
    return sections


def section_of(kind: str, asked: Question) -> Section:
    """The section of one question, made by KIND_section of the module analyses.KIND; where nothing can be answered,
    one that says why."""
    metrics = metrics_of(asked.options)
    finite = {metric: asked.rows[metric].where(can_be_fitted(asked.rows[metric])) for metric in metrics}
    fitted = replace(asked, rows=asked.rows.assign(**finite))
    good = fitted.rows[fitted.rows["status"] == "ok"]
    empty = [metric for metric in metrics if good[metric].isna().all()]
    if good.empty:
        why = f"{kind}: no row is ok ({states(asked.rows)}), so there is nothing to analyse"
    elif empty:
        why = f"{kind}: {empty[0]} is finite in no row, so there is nothing to analyse"
    else:
        why = nothing_to_fit(kind, asked)
    if why:
        return Section(kind.capitalize(), why)
    module = import_module(f"raysweep.reporting.analyses.{kind}")
    section: Section = getattr(module, f"{kind}_section")(fitted)
    return replace(section, headline=f"{section.headline}{not_fitted(good, metrics)}")


def not_fitted(good: pd.DataFrame, metrics: Sequence[str]) -> str:
    """Which ok rows an analysis leaves out, ready to append: a mean over the others is that of survivors."""
    counts = {metric: int(good[metric].isna().sum()) for metric in metrics}
    parts = [
        f"{counted(count, 'ok row')} of {len(good):,} left out, where {metric} is not finite or beyond {LARGEST:g}"
        for metric, count in counts.items()
        if count
    ]
    return f" ({'; '.join(parts)})" if parts else ""


def nothing_to_fit(kind: str, asked: Question) -> str:
    """Why there is nothing to fit: the axis has values, of another sweep, among which no best place can be sought, or x
    varies and all cells differ in something else too. Empty if there is something."""
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
    """How many rows ended in which way."""
    counts = frame["status"].value_counts()
    return ", ".join(f"{count:,} {plain(str(word))}" for word, count in counts.items()) or "there is none"
