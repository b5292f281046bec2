"""The table of a finding on the first screen: which of its rows, or of their summaries, matter most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from raysweep.analyses.counts import EXPLAINED, conditions, crossed, groups_of, telling_axis, told_by
from raysweep.analyses.design import usual
from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.rows import in_order, spread, varying
from raysweep.numbers import alike
from raysweep.phrases import counted
from raysweep.report.clauses import as_said, brief_words, effect, fall_words, outcome_words
from raysweep.report.names import called, capitalized
from raysweep.report.names import settings as setting_text
from raysweep.report.phrases import NOUNS, OUTCOMES
from raysweep.report.tables import (
    LEAST_P,
    NOTHING,
    SHORT,
    P,
    Table,
    axis_column,
    estimate_head,
    estimate_name,
    of_columns,
    or_outcome,
    p_text,
    setting_column,
    table_of,
    units,
    where_all,
    with_intervals,
)
from raysweep.report.tables_by_kind import of_law, of_predictors
from raysweep.report.theory_words import farthest, farthest_words, missed_words
from raysweep.report.which_settings import condition_words, in_which
from raysweep.workloads.declaration import Workload

FIRST = 8
"""The most rows."""
COUNTED = 4
"""The most outcomes that a table counts."""
WIDE, HEAD, HIGH = 78, 10, 10
"""The most letters of a line of a crossed table, those of a head that it has room for, and its most lines of text."""
ENOUGH = 3
"""Settings that are clear by a test stand alone if they are so many, else those that are not follow them."""
RANKED = ("best", "search")
"""The kinds whose settings are in the order of their values."""
NO_TABLE = Table([], [], [])


def first_table(finding: Finding, workload: Workload, most: int = FIRST) -> Table:
    """What matters most in at most so many rows: of many settings of two axes all, a column for each value of the
    shorter one; of several axes what those of each value of one axis say, if it tells much or no place is known, else
    the settings of `first_rows`, but no cells of curves. Empty if the sentence says it."""
    finding = as_said(finding)
    if finding.keys == ["axis"] and finding.kind == "law":
        return of_law(finding, workload, most)
    if finding.kind == "r_squared" and finding.table["estimate"].notna().any():
        return of_predictors(finding, workload)
    if len(finding.table) == 1:
        return NO_TABLE
    table, keys = finding.table, varying(finding.keys, finding.table)
    plain = finding.kind not in RANKED and "axis" not in table and "metric" not in keys
    if len(table) > FIRST and len(keys) > 1 and plain:
        whole = _crossed(finding, workload)
        if not whole.head and "p_holm" not in table:
            whole = _by_axis(finding, workload)
        if whole.head or finding.kind == "curves":
            return whole
    same = _alike(finding, workload)
    hidden = {row for rows, _ in same for row in rows[1:]}
    kept = [row for row in range(len(table)) if row not in hidden]
    if len(same) == 1 == len(kept):  # the sentence says it
        return NO_TABLE
    rows = [kept[row] for row in first_rows(replace(finding, table=table.iloc[kept]), most)]
    if base := usual(table, keys) if plain else {}:  # by the axis that is tried
        rows.sort(key=lambda row: [(table[key].iloc[row] != base[key], in_order(table[key].iloc[row])) for key in keys])
    out = table_of(finding, workload, rows, {some[0]: text for some, text in same})
    every = counted(len(table) * len(out.rows) // len(rows), NOUNS.get(finding.kind, "setting"))
    held = len(out.rows) + sum(len(some) - 1 for some, _ in same if some[0] in rows)
    shown = f"{held:,} of {every}; all are {where_all(finding)}."
    if P in out.head:
        column = out.head.index(P)
        alone = {line[column] for line in out.rows} == {p_text(0)}  # a column of one text is said below
        out = _without(out, column) if alone else out
        unclear = (table["outcome"] == Outcome.UNCLEAR).sum()
        shown += f" {capitalized(outcome_words(Outcome.UNCLEAR, finding))} in {unclear:,}." * bool(unclear)
        shown = f"{shown} {_p_note(finding, workload, 0 if alone else None)}"
    first = table[table["axis"] == table["axis"].iloc[0]] if finding.kind == "law" else table[:0]
    if Outcome.UNDECIDED in set(first["outcome"]) - set(table["outcome"].iloc[rows]):
        shown += f" Undecided {in_which(first, Outcome.UNDECIDED, keys, workload)}."
    note = shown if len(rows) < len(kept) else " ".join(_of_search(finding, workload))
    return replace(out, note=f"{note} {missed_words(finding)}".strip())


def _p_note(finding: Finding, workload: Workload, most: float | None) -> str:
    """What p tests, and for how many settings it is adjusted. most: of the rows shown, if no column has theirs."""
    head = "p"
    if most is not None:
        head = f"All have p {p_text(most) if most < LEAST_P else f'≤ {p_text(most)}'}"
    text = f"{head} of no {effect(finding)}, adjusted for all {len(finding.table):,} (Holm)."
    fall = fall_words(finding)
    return text + f" From a turn to the end {called(finding.metric, workload)} gets worse by {fall}." * bool(fall)


def _without(table: Table, column: int) -> Table:
    head, *rows = ([*line[:column], *line[column + 1 :]] for line in (table.head, *table.rows))
    return replace(table, head=head, rows=rows, numbers=[*table.numbers[:column], *table.numbers[column + 1 :]])


def _alike(finding: Finding, workload: Workload) -> list[tuple[list[int], str]]:
    """The rows that say the same, without an estimate, and what they are called as one."""
    table, out = finding.table, list[tuple[list[int], str]]()
    if "axis" in finding.keys or finding.kind == "search":
        return out
    said = [name for name in ("outcome", "low", "high", "needed", "needed_number", "p_holm") if name in table]
    for _, part in table[table["estimate"].isna()].groupby(said, dropna=False, sort=False):
        if len(part) > 1:
            chosen = table.index.isin(part.index)
            where = " and ".join(condition_words(one, workload) for one in conditions(table, chosen, finding.keys))
            count = counted(len(part), NOUNS.get(finding.kind, "setting"))
            out.append((np.flatnonzero(chosen).tolist(), f"{where} ({count})" if where else count))
    return out


def _of_search(finding: Finding, workload: Workload) -> Iterator[str]:
    """What else the rows of a search tell: that each ran once, and which is the best by another metric."""
    if finding.facts.get("one_draw"):
        yield "Each ran once: small differences may be chance."
    for name, (way, place) in finding.facts.get("elsewhere", {}).items():
        where = f"in row {place}" if place <= len(finding.table) else "in none of these"
        yield f"{capitalized(called(name, workload))} is {'highest' if way == 'max' else 'lowest'} {where}."


def first_rows(finding: Finding, most: int = FIRST) -> list[int]:
    """The positions of the rows that matter most, in order: of a ranking the first ones, of tests those of the least
    adjusted p, else some of each outcome."""
    table = finding.table
    if "p_holm" in table and table["p_holm"].notna().any():
        rows = np.argsort(table["p_holm"].clip(lower=LEAST_P).to_numpy(), kind="stable")
        clear = rows[(table["outcome"] != Outcome.UNCLEAR).to_numpy()[rows]]
        return (clear if len(clear) >= ENOUGH else rows)[:most].tolist()
    if len(table) <= most:
        return list(range(len(table)))
    if finding.kind in RANKED:
        return list(range(most))
    if "axis" in finding.keys:  # all axes of a setting stand in one line
        size = table["axis"].nunique()
        values = table["estimate"].to_numpy(float).reshape(-1, size)
        known, rows = np.isfinite(values).all(axis=1), np.arange(len(values))
        ends = list(dict.fromkeys(row for line in values.T for row in _ends_first(rows[known], line, 2)))
        rest = [row for row in rows[known] if row not in ends]
        starts = [*ends, *spread(rest, most - min(most, len(ends))), *rows[~known]][:most]
        return [size * first + row for first in sorted(starts) for row in range(size)]
    outcomes = sorted(table["outcome"].value_counts().index, key=lambda one: one != Outcome.LOCATED)
    groups = [np.flatnonzero((table["outcome"] == one).to_numpy()) for one in outcomes]
    values = table["estimate"].to_numpy(float)
    groups = groups[: most - 1]
    room = [1 + (len(some) > 1 and np.isfinite(values[some]).any()) for some in groups[:1]] + [1] * (len(groups) - 1)
    for _ in range(most - sum(room)):  # to the outcome that is shown least, by its share
        place = max(range(len(groups)), key=lambda k: (room[k] < len(groups[k])) * len(groups[k]) / room[k])
        room[place] += 1
    return sorted(
        int(row) for some, count in zip(groups, room, strict=True) for row in _ends_first(some, values, count)
    )


def _ends_first(rows: np.ndarray, values: np.ndarray, count: int) -> list[int]:
    """So many of some rows: those of the smallest and the largest value, then others, evenly spaced."""
    finite = rows[np.isfinite(values[rows])]
    ends = [finite[values[finite].argmin()], finite[values[finite].argmax()]] if len(finite) and count > 1 else []
    rest = [row for row in rows if row not in ends]
    return [*dict.fromkeys(ends), *spread(rest, count - len(set(ends)))]


def _crossed(finding: Finding, workload: Workload) -> Table:
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
    more = _p_note(finding, workload, table["p_holm"].max()) if tested else farthest_words(finding, workload)
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


def _by_axis(finding: Finding, workload: Workload) -> Table:
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
