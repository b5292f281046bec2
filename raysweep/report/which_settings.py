"""Which settings say something, and in how many."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from raysweep.analyses.counts import Condition, Group, conditions, telling_axis
from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.rows import varying
from raysweep.phrases import plural, some_of
from raysweep.report.clauses import outcome_words
from raysweep.report.names import called, in_short, listed, settings, unit_of
from raysweep.report.phrases import NOUNS, SIGNS
from raysweep.workloads.declaration import Workload

FEW = 3
"""The most settings that are named one by one."""


def which(finding: Finding, group: Group, workload: Workload) -> str:
    """Which settings they are; empty if that takes more than a few words."""
    base = finding.facts.get("base", {})
    if base and group.count <= FEW:  # each in what it differs from the base
        rows = finding.table[finding.table["outcome"] == group.outcome][list(base)].to_dict("records")
        other = [{key: value for key, value in row.items() if value != base[key]} for row in rows]
        return f" for {either([settings(one, workload) for one in other])}"
    where = " and ".join(condition_words(one, workload) for one in group.where)
    return f" for {where}" if where and not group.nearly else ""


def in_which(table: pd.DataFrame, outcome: Outcome, keys: Sequence[str], workload: Workload) -> str:
    """In which settings this is the outcome: "for bs ≤ 128"; or in how many."""
    chosen = (table["outcome"] == outcome).to_numpy()
    where = [condition_words(one, workload) for one in conditions(table, chosen, keys)]
    return f"for {' and '.join(where)}" if where else f"in {chosen.sum()}"


def share(finding: Finding, group: Group, workload: Workload) -> str:
    """In how many settings of all, and which these nearly are; "any of" and "either" where nothing is clear."""
    every, noun = len(finding.table), NOUNS.get(finding.kind, "setting")
    if group.count < every or group.outcome != Outcome.UNCLEAR:
        where = ", ".join(condition_words(one, workload) for one in group.where if group.nearly)
        where *= group.outcome != Outcome.UNDECIDED  # what these need says more
        return f" in {some_of(group.count, every, noun)}" + (f" (mostly {where})" if where else "")
    return f" in either {noun}" if every == 2 else f" in any of {every:,} {plural(noun)}"


def of_each(finding: Finding, group: Group) -> str:
    """Of two axes of words, in how many settings each value of one has the outcome: " in 3 of 12 settings (a 2, b 1)";
    and in how many there is another outcome. Empty if these are many words."""
    table, varied = finding.table, varying(finding.keys, finding.table)
    words = all(isinstance(value, str) for key in varied for value in table[key])
    if group.count == len(table) or len(varied) != 2 or not words or (len(group.where) == 1 and not group.nearly):
        return ""
    counts = table.loc[table["outcome"] == group.outcome, telling_axis(finding)].value_counts()
    said = ", ".join(f"{value} {count}" for value, count in counts.items())
    (rest,) = set(table["outcome"]) - {group.outcome}
    some = f" in {some_of(group.count, len(table), 'setting')} ({said}); {outcome_words(rest, finding)}"
    return f"{some} in {len(table) - group.count}" * (len(counts) <= FEW)


def either(texts: Sequence[str]) -> str:
    """One of several: "a, b or c"."""
    *first, last = texts or [""]
    return f"{', '.join(first)} or {last}" if first else last


def condition_words(one: Condition, workload: Workload) -> str:
    """What the values of one axis have in common, such as "γ ≥ 1"."""
    if one.key in {"metric", "sweep"} - workload.by_name.keys():
        return " and ".join(called(value, workload) for value in one.values)
    if one.relation in ("=", "in"):
        return either(listed(one.key, one.values, workload))
    name, unit = workload.symbol(one.key) or called(one.key, workload), unit_of(one.key, workload)
    values = [f"{in_short(value)}{unit if unit == '°' else ''}" for value in one.values]
    return (
        f"{name} from {values[0]} to {values[1]}"
        if one.relation == "between"
        else f"{name} {SIGNS[one.relation]} {values[0]}"
    )
