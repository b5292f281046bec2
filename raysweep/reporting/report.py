"""The report of a sweep: the question, the answer, its uncertainty, figures, tables and provenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raysweep.fits.processes import helped, mapped
from raysweep.phrases import place
from raysweep.reporting.document import manifest
from raysweep.reporting.document.answer import answer
from raysweep.reporting.document.file_names import with_file_names
from raysweep.reporting.document.html import to_html
from raysweep.reporting.document.markdown import to_markdown
from raysweep.reporting.document.page import next_sweep
from raysweep.reporting.document.parts import all_parts
from raysweep.reporting.sections import all_sections, compared, designed
from raysweep.storage.paths import AnyPath

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


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
    missing: int = 0,
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
    missing: how many rows the sweeps still have to compute.
    curves: gives the learning curves (the table of `Sweep.curves`, with the same sweeps as `frame`). It is called only
        if an analysis needs them.
    analysis_files: the files of functions that analyses name, by what the space calls them. A file is executed only if
        it stands here: that the space names it is not enough, because a space may come from somebody else.
    on_step: called with (steps done, steps in total), first with 0 done. Each analysis is one step and its figures are
        another one; the comparison of several sweeps counts like an analysis.

    Raises InputError for an analysis that cannot be made, and for a scale that does not fit the values of a sweep.
    """
    from raysweep.report.figures.style import styled

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
    with styled(), helped():
        sections = all_sections(
            frame, design, workload, curves, lambda done: on_step(done, steps), analysis_files or {}
        )
        if further:
            sections.append(compared(every, design, workload))
            on_step(len(sections), steps)
        sections = with_file_names(sections)
        drawn: list[tuple[Figure, list[Path]]] = []
        for number, section in enumerate(sections):
            if number:
                on_step(len(sections) + number, steps)
            drawn += [
                (drawing.figure, [_free(home / "figures" / f"{drawing.name}.{ending}") for ending in ("png", "svg")])
                for drawing in section.drawings
            ]
        mapped(_save, drawn)
        files += [path for _, paths in drawn for path in paths]
        on_step(steps, steps)
    for section in sections:
        for name, table in section.tables.items():
            path = _free(home / "tables" / f"{name}.csv")
            table.to_csv(path, index=False)
            files.append(path)
    said = answer(frame, design, sections, missing)
    parts = all_parts(frame, design, workload, sections, said, sweep, notes, facts)
    explored = {f"part-{k}": [made() for made in section.explored] for k, section in enumerate(sections)}
    page = to_html(parts, f"raysweep: {sweep}", home, explored, next_sweep(design, sweep))
    for name, text in (("report.md", to_markdown(parts)), ("report.html", page)):
        _free(home / name).write_text(text, encoding="utf-8")
        files.append(home / name)
    manifest.remove_stale(home, files)
    manifest.record(home, files)
    return Report(home, [section.whole for section in sections], said.lines, files)


def _save(drawn: tuple[Figure, list[Path]]) -> None:
    """Write a figure to files, one after the other: the first one places its parts for all."""
    from raysweep.report.figures.style import styled

    figure, paths = drawn
    with styled():
        for path in paths:
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _free(path: Path) -> Path:
    """The path; a symbolic link there is removed first, so that nothing is written outside the directory."""
    if path.is_symlink():
        path.unlink()
    return path
