"""Tables of settings of several axes: a column for each value of one axis, or a line for each value of one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from raysweep.analyses.counts import EXPLAINED, crossed, groups_of, telling_axis, told_by
from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.rows import in_order, spread, varying
from raysweep.numbers import alike
from raysweep.phrases import counted
from raysweep.report.clauses import brief_words, effect, fall_words, outcome_words
from raysweep.report.names import called, capitalized
from raysweep.report.names import settings as setting_text
from raysweep.report.phrases import NOUNS, OUTCOMES
from raysweep.report.tables import (
    LEAST_P,
    NOTHING,
    SHORT,
    Table,
    axis_column,
    estimate_head,
    estimate_name,
    of_columns,
    or_outcome,
    p_text,
    setting_column,
    units,
    where_all,
    with_intervals,
)
from raysweep.report.theory_words import farthest, farthest_words, missed_words
from raysweep.workloads.declaration import Workload

FIRST = 8
"""The most rows of a table on the first screen."""
NO_TABLE = Table([], [], [])
COUNTED = 4
"""The most outcomes that a table counts."""
WIDE, HEAD, HIGH = 78, 10, 10
"""The most letters of a line of a crossed table, those of a head that it has room for, and its most lines of text."""


def crossed_table(finding: Finding, workload: Workload) -> Table:
    """A line for each setting of all axes but one, a column for each value of that one: the estimates, with intervals
    if these fit, or else the outcomes; of tests those that have a place; of many values of an axis evenly spaced ones.
    Empty if that is no small table."""
    every, tested = finding.table, "p_holm" in finding.table
    table = every[every["outcome"] == Outcome.LOCATED] if tested else every
    keys, rows = varying(finding.keys, table), table.to_dict("records")
    if len(table) <= FIRST or table.duplicated(keys).any():
        return NO_TABLE
    unit, in_head = units(finding, workload)
    bare = [{**row, "low": np.nan, "high": np.nan} if np.isfinite(row["estimate"]) else row for row in rows]
    whole, short = (or_outcome(with_intervals(some, unit)[0], some, finding) for some in (rows, bare))
    forms = (
        (whole, estimate_head(finding, workload), ""),
        ([text.replace(" [", "\n[") for text in whole], estimate_head(finding, workload), ""),
        (short, f"{estimate_name(finding, workload)}{in_head}", f"; intervals are {where_all(finding)}"),
    )
    more = p_note(finding, workload, table["p_holm"].max()) if tested else farthest_words(finding, workload)
    order = sorted(keys, key=lambda key: (key == finding.x, table[key].nunique()))
    two = len(keys) == 2
    for thinned, (texts, head, where), across in product((False, True)[: 1 + two], forms if two else forms[:1], order):
        down = [key for key in keys if key != across]
        lines = table[down].drop_duplicates().to_dict("records")
        lines.sort(key=lambda line: [in_order(value) for value in line.values()])
        far = farthest(finding, workload)
        cited = table.loc[table.index == far, down].to_dict("records")
        lines = _thinned(lines, table, down, cited) if thinned else lines
        at = {tuple(row[key] for key in (*down, across)): text for row, text in zip(rows, texts, strict=True)}
        columns = [setting_column(finding, lines, down, workload)]
        for value in sorted(table[across].unique(), key=in_order):
            shown = [at.get((*line.values(), value), NOTHING) for line in lines]
            columns.append((setting_text({across: value}, workload), True, shown))
        (_, _, first), *others = columns
        parts = [[part for text in shown for part in text.split("\n")] for _, _, shown in others]
        widths = [max(*map(len, some), min(len(head), HEAD)) for (head, _, _), some in zip(others, parts, strict=True)]
        height = sum(any("\n" in shown[k] for _, _, shown in others) for k in range(len(lines))) + len(lines)
        held = sum(text != NOTHING for _, _, shown in others for text in shown)
        full = 2 * held >= len(lines) * len(others)
        fits = min(max(map(len, first)), SHORT) + sum(widths) <= WIDE  # long settings and heads break into lines
        if full and fits and len(lines) <= FIRST and height <= HIGH:
            rest = sorted({outcome_words(one, finding) for one in every["outcome"]} - {OUTCOMES[Outcome.LOCATED]})
            besides = f" (others: {' or '.join(rest)})" * bool(tested and rest and not thinned)
            some = f"{held} of " if tested or thinned else "all "
            where = where or f"; all are {where_all(finding)}" * thinned
            caption = f"{capitalized(head)}: {some}{counted(len(every), 'setting')}{besides}{where}"
            return replace(of_columns(columns, f"{more} {missed_words(finding)}".strip()), caption=caption)
    return NO_TABLE


def _thinned(
    lines: list[dict[str, Any]], table: pd.DataFrame, keys: list[str], cited: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """At most `FIRST` of the lines in their order: those that are cited, then, evenly spaced, those in which something
    is located, then others."""
    located = table.loc[table["outcome"] == Outcome.LOCATED, keys].drop_duplicates().to_dict("records")
    named = [k for k, line in enumerate(lines) if line in cited]
    places = [k for k, line in enumerate(lines) if line in located and k not in named]
    others = [k for k in range(len(lines)) if k not in {*named, *places}]
    first = [*named, *spread(places, FIRST - len(named))]
    return [lines[k] for k in sorted([*first, *(spread(others, FIRST - len(first)) if len(first) < FIRST else ())])]


def by_axis(finding: Finding, workload: Workload) -> Table:
    """A line for each value of the axis that tells most: the median and the range of estimates, if it tells much of
    these, and how many settings have which outcome."""
    table, kind = finding.table, finding.kind
    plain = finding.x in finding.keys and (table["outcome"] == Outcome.MEASURED).all()
    key = finding.x if plain else telling_axis(finding)
    tells, values = told_by(finding, key), spread(sorted(table[key].dropna().unique(), key=in_order), FIRST)
    located = (table["outcome"] == Outcome.LOCATED).any()
    if (tells.max() < EXPLAINED and located) or not crossed(table, key, varying(finding.keys, table)):
        return NO_TABLE
    parts = [table[table[key] == value] for value in values]
    places = [part[np.isfinite(part["estimate"])] for part in parts]
    unit, in_head = units(finding, workload)
    name = called(finding.metric, workload) if kind == "curves" else estimate_name(finding, workload)
    head = f"{name}: median (range across settings){in_head}"
    columns = [axis_column(key, values, workload)]
    if tells["rank"] >= EXPLAINED:
        columns.append((head, True, [_range(one, unit) for one in places]))
        if beside := finding.facts.get("beside"):
            shown = [_range(one.assign(estimate=one["beside"]), unit) for one in places]
            columns.append((f"{called(beside, workload)}{in_head}", True, shown))
    words = {group.outcome: brief_words(finding, group, workload) for group in groups_of(finding)}
    outcomes = sorted(table["outcome"].value_counts().index[:COUNTED], key=lambda one: one != Outcome.LOCATED)
    for one in outcomes if table["outcome"].nunique() > 1 else ():
        counts = [int((part["outcome"] == one).sum()) for part in parts]
        columns.append((words[one], True, [str(count or "") for count in counts]))
    some = "" if len(values) == table[key].nunique() else f", {len(values)} of its {table[key].nunique()} values"
    others = [called(one, workload) for one in varying(finding.keys, table)]
    every = f"{counted(len(table), NOUNS.get(kind, 'setting'))} of {', '.join(others[:-1])} and {others[-1]}"
    return of_columns(columns, f"All {every}, by {called(key, workload)}{some}; each is {where_all(finding)}.")


def _range(table: pd.DataFrame, unit: str) -> str:
    """The median of some estimates, and between what they lie, in digits that their errors leave."""
    if not len(table):
        return NOTHING
    values, error = table["estimate"].quantile([0, 0.5, 1]), (table["high"] - table["low"]).median() / 2
    low, middle, high = (f"{text}{unit}" for text in alike(*values, error=error))
    return middle if low == high else f"{middle} ({low} to {high})"


def p_note(finding: Finding, workload: Workload, most: float | None) -> str:
    """What p tests, and for how many settings it is adjusted. most: of the rows shown, if no column has theirs."""
    head = "p"
    if most is not None:
        head = f"All have p {p_text(most) if most < LEAST_P else f'≤ {p_text(most)}'}"
    text = f"{head} of no {effect(finding)}, adjusted for all {len(finding.table):,} (Holm)."
    fall = fall_words(finding)
    return text + f" From a turn to the end {called(finding.metric, workload)} gets worse by {fall}." * bool(fall)
