"""The table of a finding on the first screen: which of its rows, or of their summaries, matter most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from raysweep.analyses.counts import conditions
from raysweep.analyses.design import usual
from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.rows import in_order, spread, varying
from raysweep.phrases import counted
from raysweep.report.axis_tables import FIRST, NO_TABLE, by_axis, crossed_table, p_note
from raysweep.report.clauses import as_said, outcome_words
from raysweep.report.names import called, capitalized
from raysweep.report.phrases import NOUNS
from raysweep.report.tables import LEAST_P, P, Table, p_text, table_of, where_all
from raysweep.report.tables_by_kind import of_law, of_predictors
from raysweep.report.theory_words import missed_words
from raysweep.report.which_settings import condition_words, in_which
from raysweep.workloads.declaration import Workload

ENOUGH = 3
"""Settings that are clear by a test stand alone if they are so many, else those that are not follow them."""
RANKED = ("best", "search")
"""The kinds whose settings are in the order of their values."""


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
        whole = crossed_table(finding, workload)
        if not whole.head and "p_holm" not in table:
            whole = by_axis(finding, workload)
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
        shown = f"{shown} {p_note(finding, workload, 0 if alone else None)}"
    first = table[table["axis"] == table["axis"].iloc[0]] if finding.kind == "law" else table[:0]
    if Outcome.UNDECIDED in set(first["outcome"]) - set(table["outcome"].iloc[rows]):
        shown += f" Undecided {in_which(first, Outcome.UNDECIDED, keys, workload)}."
    note = shown if len(rows) < len(kept) else " ".join(_of_search(finding, workload))
    return replace(out, note=f"{note} {missed_words(finding)}".strip())


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
