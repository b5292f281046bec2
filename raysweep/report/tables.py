"""The table of a finding as rows of formatted text, and which of its rows matter most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.rows import spread, varying
from raysweep.errors import printable
from raysweep.numbers import interval, number
from raysweep.report.clauses import located_axis, needed_words
from raysweep.report.names import called, setting, unit_of
from raysweep.report.phrases import ESTIMATES, IN_X, OUTCOMES, PER_METRIC
from raysweep.workloads.declaration import Workload

Column = tuple[str, bool, list[str]]
"""The head of a column, whether it holds numbers, and the texts."""
FIRST, SHOWN = 8, 60
"""The most rows on the first screen, and in the folded table; further ones are in the CSV only."""
NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """Formatted text: the head and the rows, all of one length, without columns that are empty everywhere.

    numbers: which columns hold numbers. every: how many rows the finding has.
    """

    head: list[str]
    rows: list[list[str]]
    numbers: list[bool]
    every: int


def first_rows(finding: Finding, most: int = FIRST) -> list[int]:
    """The positions of the rows that matter most, in order: of a ranking the first ones, of tests those of the least
    adjusted p, else some of each outcome."""
    table = finding.table
    if len(table) <= most:
        return list(range(len(table)))
    if table["outcome"].iloc[0] == Outcome.BEST:
        return list(range(most))
    if finding.kind == "joint_optimum":  # both axes of a setting, one under the other
        return [row for first in spread(list(range(0, len(table), 2)), most // 2) for row in (first, first + 1)]
    if "p_holm" in table and table["p_holm"].notna().any():
        return np.argsort(table["p_holm"].to_numpy(), kind="stable")[:most].tolist()
    groups = [np.flatnonzero((table["outcome"] == one).to_numpy()) for one in table["outcome"].value_counts().index]
    groups = groups[:most]
    room = [1] * len(groups)
    for _ in range(most - len(groups)):  # to the outcome that is shown least, by its share
        place = max(range(len(groups)), key=lambda k: (room[k] < len(groups[k])) * len(groups[k]) / room[k])
        room[place] += 1
    return sorted(int(row) for group, count in zip(groups, room, strict=True) for row in spread(list(group), count))


def table_of(finding: Finding, workload: Workload, chosen: Sequence[int]) -> Table:
    """The chosen rows: setting, estimate with its interval, status, theory, and what would decide an open one."""
    rows = finding.table.iloc[list(chosen)].to_dict("records")
    in_x, pair = finding.kind in IN_X, finding.kind == "joint_optimum"
    units = [unit_of(located_axis(row, finding) if in_x or pair else finding.metric, workload) for row in rows]
    keys = [key for key in finding.keys if not (pair and key == "axis")]
    varied = varying(keys, finding.table)
    settings = [_settings(finding, rows, varied, workload)] * bool(varied or not pair)
    columns: list[Column] = [
        *(_axes(finding, rows, workload) if finding.kind == "search" else settings),
        *([("axis", False, [called(row["axis"], workload) for row in rows])] if pair else []),
        (_head(finding, workload), True, [_estimate(row, unit) for row, unit in zip(rows, units, strict=True)]),
        *(_other(name, rows, workload) for name in finding.facts.get("others", ())),
        *(_tested(rows) if "p_holm" in finding.table else ()),
        ("status", False, [_status(row, finding) for row in rows]),
        ("theory", True, [_theory(row, unit) for row, unit in zip(rows, units, strict=True)]),
        ("would decide it", False, [needed_words(row, finding, workload) for row in rows]),
    ]
    kept = [one for one in columns if any(text not in ("", NOTHING) for text in one[2])]
    cells = [[text or NOTHING for text in one[2]] for one in kept]
    lines = [list(line) for line in zip(*cells, strict=True)]
    return Table([one[0] for one in kept], lines, [one[1] for one in kept], len(finding.table))


def _theory(row: Mapping[str, Any], unit: str) -> str:
    return f"{number(row['theory'])}{unit}" if np.isfinite(row["theory"]) else ""


def _axes(finding: Finding, rows: Sequence[Mapping[str, Any]], workload: Workload) -> list[Column]:
    """A column for each axis of a search, the most important first."""
    return [
        (called(name, workload), True, [NOTHING if row[name] is None else number(row[name]) for row in rows])
        for name in finding.facts["axes"]
    ]


def _settings(finding: Finding, rows: Sequence[Mapping[str, Any]], keys: Sequence[str], workload: Workload) -> Column:
    """The values of the keys. If all are texts without words of their own, their names stand in the head."""
    plain = [key for key in keys if key in workload.by_name and workload.by_name[key].words is None]
    if keys and plain == keys and all(isinstance(row[key], str) for row in rows for key in keys):
        texts = [", ".join(printable(row[key]) for key in keys) for row in rows]
        return ", ".join(called(key, workload) for key in keys), False, texts
    return "setting", False, [setting_words(row, keys, workload) for row in rows]


def _other(name: str, rows: Sequence[Mapping[str, Any]], workload: Workload) -> Column:
    """Another metric of the same setting."""
    values = [{end: row[f"{name}_{end}"] for end in ("mean", "low", "high")} for row in rows]
    unit = unit_of(name, workload)
    return called(name, workload), True, [_estimate({**one, "estimate": one["mean"]}, unit) for one in values]


def _tested(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """What is known of turns that were tested: the first value, the fall from the best value to the end, and p."""
    falls = [_estimate({"estimate": row["fall"], "low": row["fall_low"], "high": row["fall_high"]}, "") for row in rows]
    return [
        ("first value", True, [number(row["base"], 3) for row in rows]),
        ("fall to the end", True, falls),
        ("p, adjusted", True, ["< 0.0001" if row["p_holm"] < 1e-4 else number(row["p_holm"], 2) for row in rows]),
    ]


def _head(finding: Finding, workload: Workload) -> str:
    name = called(finding.metric, workload) if finding.kind == "search" else ESTIMATES.get(finding.kind, "estimate")
    if finding.facts.get("one_draw"):
        return name
    return f"{name} [{100 * finding.level:g} % interval]"


def _status(row: Mapping[str, Any], finding: Finding) -> str:
    if finding.facts.get("one_draw") or "p_holm" in finding.table:  # p says it
        return ""
    if finding.kind in PER_METRIC and (finding.table["outcome"] == Outcome.MEASURED).all():
        return ""
    return OUTCOMES.get(row["outcome"], str(row["outcome"]))


def _estimate(row: dict[str, Any], unit: str) -> str:
    """The estimate with its interval, or the bound that is known, with its unit."""
    one_sided = row.get("outcome") == Outcome.BOUND_LOW and row["low"] == 0  # a bound of values that are all positive
    text = interval(row["estimate"], np.nan if one_sided else row["low"], row["high"])
    if np.isfinite(row["estimate"]) and not (np.isfinite(row["low"]) and np.isfinite(row["high"])):
        text = number(row["estimate"])
    if text == NOTHING:
        return text
    head, bracket, rest = text.partition(" [")
    return f"{head}{unit}{bracket}{rest}"


def setting_words(row: Mapping[str, Any], keys: Sequence[str], workload: Workload) -> str:
    """The values of the keys; metrics and sweeps without the word for it."""
    plain = {"metric", "sweep"} - workload.by_name.keys()
    texts = [called(row[key], workload) if key in plain else setting(key, row[key], workload) for key in keys]
    return ", ".join(texts)
