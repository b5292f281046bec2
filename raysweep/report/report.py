"""The report of one or several sweeps of one workload: its files, and the object that stands for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from raysweep.analyses.comparison import KIND, compared
from raysweep.analyses.design import Design
from raysweep.analyses.finding import NOTHING, Finding, Nothing
from raysweep.analyses.findings import designed, findings_of
from raysweep.analyses.prepared import each_once
from raysweep.analyses.rows import error_column, varying
from raysweep.fits.processes import helped, mapped
from raysweep.phrases import counted, place
from raysweep.report import file_names, set_up
from raysweep.report.as_json import report_json
from raysweep.report.axis_tables import FIRST
from raysweep.report.explorer import labelled
from raysweep.report.figures import drawn
from raysweep.report.first_tables import first_table
from raysweep.report.names import called, capitalized, plain, unit_of
from raysweep.report.notes import headings_of, title
from raysweep.report.notes import notes as notes_of
from raysweep.report.page import Part, Picture, to_html, to_markdown
from raysweep.report.phrases import EFFECTS, SOURCES
from raysweep.report.sentences import sentence, undecided
from raysweep.report.tables import whole_table
from raysweep.storage.paths import AnyPath
from raysweep.theory import papers
from raysweep.workloads.declaration import Workload

SCREEN, ANSWER, ANSWERS, HEAD = 28, 4, 5, 2
"""Rows of tables that a first screen holds, how many fewer for each answer, the most answers that it counts, and the
rows that a head takes."""
EXPLAINED = 3
"""The most metrics that it explains."""
FEWEST, LATER = 3, 4
"""The least rows that the first answer shows, and the most of each later one."""


@dataclass(frozen=True, repr=False)
class Report:
    """A report that was written, which shows itself as its answers and the place of its page.

    answer: one sentence per finding, after its question if the space asks one. files: all that were written.
    """

    directory: AnyPath
    findings: Sequence[Finding]
    answer: Sequence[str]
    files: Sequence[AnyPath]

    def __repr__(self) -> str:
        return "\n".join([*self.answer, f"report: {place(self.directory / 'report.html')}"])


@dataclass(frozen=True)
class Written:
    """What surrounds the findings on a page.

    sweep: the title. warnings: what the reader must know. facts: further lines on where the numbers come from.
    missing: how many rows the sweeps still have to compute. reload: seconds after which the page reads itself again,
        because more rows are coming; 0 for a page that stays as it is.
    """

    sweep: str
    warnings: Sequence[str] = ()
    facts: Sequence[str] = ()
    missing: int = 0
    reload: int = 0


def write_report(
    frame: pd.DataFrame,
    spaces: Sequence[Mapping[str, Any]],
    directory: Path,
    about: Written,
    *,
    curves: Callable[[], pd.DataFrame] | None = None,
    analysis_files: Mapping[str, Path] | None = None,
    on_step: Callable[[int, int], None] = lambda done, total: None,
    on_answer: Callable[[Sequence[str]], None] = lambda answer: None,
) -> Report:
    """Write report.html (self-contained), report.md, report.json, figures/ and tables/. Figures and tables of another
    report in `directory` go if this report does not have them; a file that no report wrote is never changed.

    frame: one row per (cell, seed) with status, parameters, metrics and closed forms (`_theory`); the rows of several
        sweeps are told apart by the column `sweep`, in the order of `spaces`.
    spaces: the resolved space of each sweep. Their `analysis` lists the analyses.
    curves: gives the learning curves (the table of `Sweep.curves`); called only if an analysis needs them.
    analysis_files: the files of functions that analyses name, by what the space calls them. A file is executed only if
        it stands here: that the space names it is not enough, because a space may come from somebody else.
    on_step: called with (steps done, steps in total), first with 0 done: a step is an analysis or its figures.
    on_answer: called with the answer once it is there, before anything is drawn or written.

    Raises InputError for an analysis that cannot be made, and for a scale that does not fit the values of a sweep.
    """
    several = len(spaces) > 1
    names = tuple(map(str, dict.fromkeys(frame["sweep"]))) if several else (about.sweep,)
    design, workload = designed(spaces, names)
    rows = each_once(frame, ["cell", "seed"])
    steps = 2 * (len(design.analyses()) + several)
    on_step(0, steps)
    with helped():
        findings = findings_of(rows, design, workload, curves, analysis_files, lambda done: on_step(done, steps))
        if several:
            findings.insert(0, compared(frame, design, workload))
            on_step(len(findings), steps)
        findings.sort(key=lambda one: (one.kind != KIND, set_up.first_of(one.question, one.kind)))
        findings[1:] = sorted(findings[1:], key=undecided)
        findings = with_file_names(findings)
        pairs = zip(headings_of(findings, workload), findings, strict=True)
        answer = [f"{asked * bool(one.question)} {sentence(one, workload)}".strip() for asked, one in pairs]
        on_answer(answer)
        pictures, files = _draw(findings, workload, directory, lambda done: on_step(len(findings) + done, steps))
    files += _write_tables(findings, directory)
    page = page_of(rows, design, workload, findings, pictures, about)
    texts = {
        "report.json": report_json(names, findings, [one.sentence for one in page["parts"]]),
        "report.md": to_markdown(page),
        "report.html": to_html(page, directory),
    }
    for name, text in texts.items():
        file_names.free(directory / name).write_text(text, encoding="utf-8")
        files.append(directory / name)
    file_names.settle(directory, files)
    return Report(directory, findings, answer, files)


def with_file_names(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, in which each table has the name of a file of its own."""
    taken: set[str] = set()
    return [
        replace(one, tables={file_names.plain_name(name, taken): table for name, table in one.tables.items()})
        for one in findings
    ]


def _write_tables(findings: Sequence[Finding], directory: Path) -> list[Path]:
    """Write tables/NAME.csv of every finding; returns the files."""
    file_names.free(directory / "tables").mkdir(parents=True, exist_ok=True)
    tables = {name: table for finding in findings for name, table in finding.tables.items()}
    files = [file_names.free(directory / "tables" / f"{name}.csv") for name in tables]
    for file, table in zip(files, tables.values(), strict=True):
        table.to_csv(file, index=False)
    return files


def _draw(
    findings: Sequence[Finding], workload: Workload, directory: Path, on_step: Callable[[int], None]
) -> tuple[list[list[Picture]], list[Path]]:
    """Draw figures/NAME.png and .svg of every finding; returns the pictures by finding, and the files."""
    file_names.free(directory / "figures").mkdir(parents=True, exist_ok=True)
    taken, pictures, jobs = set[str](), list[list[Picture]](), []
    for finding in findings:
        on_step(len(pictures))
        pictures.append([])
        for name, figure, caption in drawn(finding, workload):
            stem = file_names.plain_name(name, taken)
            paths = [file_names.free(directory / "figures" / f"{stem}.{kind}") for kind in ("png", "svg")]
            jobs.append((figure, paths))
            width, height = figure.get_size_inches()
            alt = f"{title(finding, workload)}: {sentence(finding, workload)}"
            pictures[-1].append(Picture(f"figures/{stem}.png", alt, capitalized(caption), width / height))
    mapped(_save, jobs)
    on_step(len(findings))
    return pictures, [path for _, paths in jobs for path in paths]


def _save(job: tuple[Any, list[Path]]) -> None:
    from raysweep.report.figures.style import placed, styled

    figure, paths = job
    with styled():
        placed(figure)
        for path in paths:
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def page_of(
    frame: pd.DataFrame,
    design: Design,
    workload: Workload,
    findings: Sequence[Finding],
    pictures: Sequence[Sequence[Picture]],
    about: Written,
) -> dict[str, Any]:
    """All that the page shows, by what templates call it.

    set_up: what was varied. meanings: what the metric is. rows: cells, seeds and statuses. figure: the picture at the
    top. about: the anchor of its part. state: what is missing. details: the set-up in full. spaces: resolved, as JSON.
    """
    top = next((k for k, some in enumerate(pictures) if some), None)
    headings = headings_of(findings, workload)
    titles = [title(one, workload) for one in findings]
    titles = [
        one.question or text if titles.count(text) > 1 else text for one, text in zip(findings, titles, strict=True)
    ]
    asked = {k for k, one in enumerate(findings) if one.question} or set(range(len(findings)))
    parts, room = list[Part](), SCREEN - ANSWER * min(len(asked | {0}), ANSWERS)
    for k, (finding, some) in enumerate(zip(findings, pictures, strict=True)):
        settings = len(finding.table)
        most = min(room, LATER if k else FIRST)
        first = first_table(finding, workload, most if most >= FEWEST else FIRST) if settings else None
        if k not in asked | {0} or any(_repeats(finding, one) for one in findings[:k]):
            first = None
        if first and any(one.first and one.first.usual == first.usual for one in parts):
            first = replace(first, usual="")  # it stands above
        lines = len(first.rows) + HEAD if first else 0
        parts.append(
            Part(
                f"part-{k}",
                titles[k],
                headings[k] if finding.question or (k and k in asked) else "",  # the page begins with the first one's
                sentence(replace(finding, question=headings[k]), workload),
                first if first and first.head else None,
                k == 0 or lines <= room,
                whole_table(finding, workload) if settings else None,
                some[1:] if k == top else some,
                notes_of(finding, workload),
                list(finding.tables),
                [labelled(made(), finding, workload) for made in finding.explored],
            )
        )
        room -= lines if parts[-1].open else 0
    folded(parts, findings, workload)
    compares = bool(findings) and findings[0].kind == KIND
    question = findings[0].question if compares else set_up.question(design, workload)
    shown = [question, *(text for part in parts for text in (part.title, part.question))]
    drawn_lines = [name for one in findings for name in one.facts.get("lines", ())]
    drawn_lines += [called(name, workload) for one in findings for name in one.facts.get("predictors", ())]
    cited = papers.legend("\n".join([*shown, *drawn_lines, *(one.caption for some in pictures for one in some)]))
    one_seed = ", one seed" if frame["seed"].nunique() == 1 else ""
    missing = f"{len(frame):,} of {counted(len(frame) + about.missing, 'row')}{one_seed}" if about.missing else ""
    sure = [one for one in findings if one.metric in frame and one.table["low"].notna().any()]
    given = all(error_column(frame, one.metric, workload) for one in sure)
    early = missing and parts and not about.reload and undecided(findings[0])
    if early:  # later answers are folded, too
        parts[1:] = [replace(one, question="", first=None) for one in parts[1:]]
    state = f"Incomplete: {missing}." if missing and not early else ""
    return {
        "sweep": about.sweep,
        "question": question,
        "answer": f"Too early: {missing}." if early else parts[0].sentence if parts else "",
        "set_up": set_up.varied_in_short(design, workload),
        "meanings": meanings(workload, findings, 0 if top is None else top, cited),
        "rows": f"{set_up.rows_words(frame)}{f'; {SOURCES[given]}' * bool(one_seed and sure)}",
        "parts": parts,
        "warnings": about.warnings,
        "figure": None if top is None else pictures[top][0],
        "about": "" if top is None else f"part-{top}",
        "state": f"Running: {missing}. This page reads itself again." if about.reload else state,
        "reload": about.reload,
        "details": set_up.details(design, workload),
        "provenance": set_up.provenance(frame, design, about.facts),
        "spaces": set_up.resolved(design),
    }


def _repeats(finding: Finding, other: Finding) -> bool:
    """Whether a finding compares some of the predictors that another one compares, so that its table says the same."""
    some, every = (set(one.facts.get("predictors", ())) for one in (finding, other))
    alike = finding.metric == other.metric and finding.keys == other.keys and finding.where == other.where
    return alike and bool(some) and some <= every


def folded(parts: list[Part], findings: Sequence[Finding], workload: Workload) -> None:
    """Give later questions that are all open one line, with what decides them, and none to a comparison of one."""
    later, lines, asked = list(enumerate(findings))[1:], dict[str, dict[str, int]](), dict[int, str]()
    for k, one in later:
        if one.facts.get(NOTHING) == Nothing.ONE_SETTING:
            parts[k] = replace(parts[k], question="")
        elif len(one.table) and undecided(one):
            about = called(one.metric if one.kind != "regime" else one.x, workload)
            name = f"{EFFECTS.get(one.kind, plain(one.kind))} of {about}"
            lines.setdefault(parts[k].sentence, {}).setdefault(name, k)
            asked[k], parts[k] = parts[k].question, replace(parts[k], question="", first=None)
    for names in lines.values():
        first, *others = names.values()
        parts[first] = replace(parts[first], question=f"Open: {', '.join(names)}" if others else asked[first])


def meanings(workload: Workload, findings: Sequence[Finding], top: int, cited: str) -> str:
    """What the metrics of findings are that are described, at most `EXPLAINED` of them, and the axes of the one at the
    top that are angles or have neither a unit nor a letter; and which papers letters name."""
    described = {one.name: one.description for one in workload.metrics if one.description and not workload.function}
    metrics, axes = list[str](), list[str]()
    for lead in findings[top : top + 1]:
        metrics += [lead.metric, *(lead.table["predictor"].dropna().unique() if "predictor" in lead.table else ())]
        axes += filter(workload.by_name.get, dict.fromkeys((lead.x, *varying(lead.keys, lead.table))))
    about = [one for one in dict.fromkeys((*metrics, *(one.metric for one in findings))) if one in described]
    texts = [f"{called(name, workload)}: {described[name]}" for name in about[:EXPLAINED]]
    for one in map(workload.by_name.__getitem__, axes):
        unknown = one.type in (int, float) and not one.symbol and not one.unit
        if one.description and not workload.function and (unknown or unit_of(one.name, workload) == "°"):
            texts.append(f"{called(one.name, workload)}: {one.description}")
    return " ".join(f"{capitalized(text)}." for text in (*texts, cited) if text)
