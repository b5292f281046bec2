"""Rows that differ only in parameters on which the asked metrics do not depend are one measurement, and count once."""

from __future__ import annotations

from dataclasses import replace

from raysweep.analyses.question import Question
from raysweep.analyses.rows import parameters_of
from raysweep.report.names import plain
from raysweep.reporting.analyses.section import Section
from raysweep.space.analyses import metrics_of

KINDS = ("best", "boundary", "curves", "inflection", "optimum", "power_law", "trend")
"""The analyses that look at the means of their metrics alone."""


def counted_once(kind: str, asked: Question) -> tuple[Question, list[str]]:
    """The question about rows that count once, and the parameters that these no longer have.

    A parameter that the entry names is kept. Of several equal rows the first one that is ok is kept.
    """
    options, workload, rows = asked.options, asked.workload, asked.rows
    metrics = [*metrics_of(options), *([options["beside"]] if options.get("beside") else [])]
    if kind not in KINDS or not metrics or "between" in options:
        return asked, []
    named = {*asked.by, *(options.get(key) for key in ("x", "y"))}
    free = set.intersection(*(workload.idle(metric) for metric in metrics)) - named
    idle = [name for name in parameters_of(rows, workload) if name in free and rows[name].nunique(dropna=False) > 1]
    if not idle:
        return asked, []
    same = [name for name in ("sweep", *parameters_of(rows, workload), "seed") if name in rows and name not in idle]
    order = (rows["status"] != "ok").sort_values(kind="stable").index
    first = rows.loc[order].drop_duplicates(same).sort_index()
    return replace(asked, rows=first.drop(columns=idle)), idle


def with_note(section: Section, idle: list[str]) -> Section:
    """The section, which says on which parameters its metrics do not depend."""
    if not idle:
        return section
    note = f"This does not depend on {' and '.join(map(plain, idle))}: each draw counts once."
    return replace(section, paragraphs=[note, *section.paragraphs])
