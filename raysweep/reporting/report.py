"""The report of a sweep: the question, the answer, how sure it is, then figures, tables and provenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raysweep.records.paths import AnyPath
from raysweep.reporting import manifest
from raysweep.reporting.analyses import check_analysis, metrics_of
from raysweep.reporting.html import to_html
from raysweep.reporting.markdown import to_markdown
from raysweep.reporting.section import Section
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

SectionMaker = Callable[["pd.DataFrame", Mapping[str, Any], Workload, str], Section]


@dataclass(frozen=True)
class Report:
    """Where a report was written. headline: a line per analysis, what was found and how sure."""

    directory: AnyPath
    headline: list[str]
    files: Sequence[AnyPath]


def write_report(
    frame: pd.DataFrame, space: Mapping[str, Any], directory: str | Path, *, sweep: str, notes: Sequence[str] = ()
) -> Report:
    """report.md, report.html (self-contained), figures/ and tables/ of one sweep, or of several of one workload.

    Figures and tables that an earlier report left in `directory` and this one does not have are removed; a file that
    no report wrote is never touched.

    frame: one row per (cell, seed) with status, parameters, metrics and closed forms (`_theory`). space: the resolved
    space; its `analysis` says what is asked. Raises ValueError for an analysis that cannot be made.
    """
    from raysweep import workloads
    from raysweep.reporting.style import styled

    workload = workloads.get(space["workload"])
    if {"cell", "seed"} <= set(frame.columns):
        frame = frame.drop_duplicates(["cell", "seed"])  # sweeps may share cells
    home = Path(directory)
    for folder in (home / "figures", home / "tables"):
        _free(folder).mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    with styled():
        sections = all_sections(frame, space, workload)
        for section in sections:
            for drawing in section.drawings:
                for ending in ("png", "svg"):
                    path = _free(home / "figures" / f"{drawing.name}.{ending}")
                    drawing.figure.savefig(path, metadata={"Date": None} if ending == "svg" else None)
                    files.append(path)
    for section in sections:
        for name, table in section.tables.items():
            path = _free(home / "tables" / f"{name}.csv")
            table.to_csv(path, index=False)
            files.append(path)
    markdown = to_markdown(frame, space, workload, sections, sweep, notes)
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


def all_sections(frame: pd.DataFrame, space: Mapping[str, Any], workload: Workload) -> list[Section]:
    """One section per analysis asked for, made by `KIND_section` of the module `section_KIND`."""
    import numpy as np

    sections = []
    used: dict[str, int] = {}
    for entry in space.get("analysis") or []:
        complaint = check_analysis(entry, (name for name in frame.columns if name in workload.by_name), workload)
        if complaint:
            raise ValueError(f"analysis: {complaint}")
        kind, options = next(iter(entry.items()))
        used[kind] = used.get(kind, 0) + 1
        name = kind if used[kind] == 1 else f"{kind}_{used[kind]}"
        good = frame[frame["status"] == "ok"]
        empty = [metric for metric in metrics_of(options or {}) if not np.isfinite(good[metric]).any()]
        if good.empty:
            why = f"{kind}: no row is ok ({states(frame)}), so there is nothing to analyse"
            sections.append(Section(kind.capitalize(), why))
        elif empty:
            sections.append(Section(kind.capitalize(), f"{kind}: {empty[0]} is finite in no row, so there is nothing "
                                                       "to analyse"))
        else:
            maker: SectionMaker = getattr(import_module(f"raysweep.reporting.section_{kind}"), f"{kind}_section")
            sections.append(maker(frame, options or {}, workload, name))
    return sections


def states(frame: pd.DataFrame) -> str:
    """How many rows ended in which way."""
    counts = frame["status"].value_counts()
    return ", ".join(f"{count:,} {str(word).replace('_', ' ')}" for word, count in counts.items()) or "there is none"
