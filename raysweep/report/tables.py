"""The table of a finding as rows of formatted text, and which of its rows matter most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from raysweep.analyses.counts import EXPLAINED, conditions, groups_of, telling_axis, told_by
from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.rows import in_order, spread, varying
from raysweep.errors import printable
from raysweep.numbers import alike, interval_numbers, number, shared_decimals
from raysweep.phrases import counted
from raysweep.report.clauses import as_said, brief_words, condition_words, needed_words, outcome_words
from raysweep.report.names import axis_label, called, capitalized, in_short, unit_of
from raysweep.report.names import settings as setting_text
from raysweep.report.phrases import EFFECTS, ESTIMATES, IN_X, NOUNS
from raysweep.workloads.declaration import Workload

Column = tuple[str, bool, list[str]]
"""The head of a column, whether it holds numbers, and the texts."""
FIRST, SHOWN = 8, 60
"""The most rows on the first screen, and in the folded table; further ones are in the CSV only."""
NOTHING = "–"
COUNTED = 4
"""The most outcomes that a table counts."""
BEND = {"estimate": "", "low": "_low", "high": "_high"}
SHORT, WIDE = 24, 76
"""The most letters of a setting that stands in one line, and of a whole line."""


@dataclass(frozen=True)
class Table:
    """Formatted text: the head and the rows, all of one length, without columns that are empty everywhere.

    numbers: which columns hold numbers. note: which settings they are; empty if they are all.
    """

    head: list[str]
    rows: list[list[str]]
    numbers: list[bool]
    note: str = ""


def first_table(finding: Finding, workload: Workload, most: int = FIRST) -> Table:
    """What matters most in at most so many rows: of many settings of two axes all, a column for each value of the
    shorter one; of several axes what those of each value of one axis say, if it tells much or no place is known, else
    the settings of `first_rows`, but no cells of curves. Empty if the sentence says it."""
    finding = as_said(finding)
    if finding.keys == ["axis"] and finding.kind == "law":
        return _best_values(finding, workload, most)
    if len(finding.table) == 1:
        return Table([], [], [])
    table, keys = finding.table, varying(finding.keys, finding.table)
    plain = table["outcome"].iloc[0] != Outcome.BEST and not {"axis", "p_holm"} & set(table) and "metric" not in keys
    if len(table) > FIRST and len(keys) > 1 and plain:
        whole = _crossed(finding, keys, workload)
        whole = whole if whole.head else _by_axis(finding, workload)
        if whole.head or finding.kind == "curves":
            return whole
    same = _alike(finding, workload)
    hidden = {row for rows, _ in same for row in rows[1:]}
    kept = [row for row in range(len(table)) if row not in hidden]
    if len(same) == 1 == len(kept):  # the sentence says it
        return Table([], [], [])
    rows = [kept[row] for row in first_rows(replace(finding, table=table.iloc[kept]), most)]
    out = table_of(finding, workload, rows, {some[0]: text for some, text in same})
    every = counted(len(table) * len(out.rows) // len(rows), NOUNS.get(finding.kind, "setting"))
    held = len(out.rows) + sum(len(some) - 1 for some, _ in same if some[0] in rows)
    shown = f"{held:,} of {every}; all are below."
    effect = EFFECTS.get(finding.kind, "difference")
    tested = f" p: of no {effect}, adjusted for all of them (Holm)." * ("p, adjusted" in out.head)
    return replace(out, note=shown + tested if len(rows) < len(kept) else " ".join(_of_search(finding, workload)))


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
        return np.argsort(table["p_holm"].to_numpy(), kind="stable")[:most].tolist()
    if len(table) <= most:
        return list(range(len(table)))
    if table["outcome"].iloc[0] == Outcome.BEST:
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


def _best_values(finding: Finding, workload: Workload, most: int) -> Table:
    """The best values that a single law was fitted to, beside what the other settings forecast of each."""
    (values,) = finding.tables.values()
    over, every = finding.facts["over"], len(values)
    values = values.iloc[spread(range(every), most)]
    rows, unit = values.to_dict("records"), unit_of(finding.x, workload)
    forecasts = [{**row, "estimate": row["law"], "low": row["law_low"], "high": row["law_high"]} for row in rows]
    level = f"[{100 * finding.level:g} %]"
    columns: list[Column] = [(axis_label(one, workload), True, list(map(in_short, values[one]))) for one in over]
    best = _or_outcome(_numbers(rows, unit)[0], rows, finding)
    columns.append((f"best {called(finding.x, workload)} {level}", True, best))
    notes = list[str]()
    if middle := finding.facts.get("middle"):  # else no law was fitted
        columns.append((f"forecast by other settings {level}", True, _numbers(forecasts, unit)[0]))
        (law,), _ = _numbers([middle], unit)
        notes.append(f"The law gives {law} at {setting_text(middle['at'], workload)}.")
    if every > len(rows):
        notes.append(f"{len(rows)} of {counted(every, 'setting')}; all are in the CSV.")
    return _table(columns, " ".join(notes))


def _crossed(finding: Finding, keys: Sequence[str], workload: Workload) -> Table:
    """A line for each value of one of two axes, a column for each of the other: the estimates, or else the outcomes.
    Empty if that is no small table."""
    table = finding.table
    across, down = sorted(keys, key=lambda key: (key == finding.x, table[key].nunique()))[:2]
    values = {key: sorted(table[key].unique(), key=in_order) for key in (across, down)}
    if len(keys) > 2 or len(values[down]) > FIRST or table.duplicated(list(keys)).any():
        return Table([], [], [])
    rows = table.to_dict("records")
    shown, _ = _numbers(rows, unit_of(finding.x if finding.kind in IN_X else finding.metric, workload))
    texts = _or_outcome(shown, rows, finding)
    at = {(row[across], row[down]): text for row, text in zip(rows, texts, strict=True)}
    columns: list[Column] = [(axis_label(down, workload), True, list(map(in_short, values[down])))]
    for value in values[across]:
        texts = [at.get((value, place), NOTHING) for place in values[down]]
        columns.append((setting_text({across: value}, workload), True, texts))
    out = _table(columns, f"{capitalized(_head(finding, workload))} of all {counted(len(table), 'setting')}.")
    return out if sum(max(map(len, texts)) for _, _, texts in columns) <= WIDE else Table([], [], [])


def _by_axis(finding: Finding, workload: Workload) -> Table:
    """A line for each value of the axis that tells most: the median and the range of estimates, if it tells much of
    these, and how many settings have which outcome."""
    table, kind = finding.table, finding.kind
    plain = finding.x in finding.keys and (table["outcome"] == Outcome.MEASURED).all()
    key = finding.x if plain else telling_axis(finding)
    tells, values = told_by(finding, key), spread(sorted(table[key].dropna().unique(), key=in_order), FIRST)
    if tells.max() < EXPLAINED and (table["outcome"] == Outcome.LOCATED).any():
        return Table([], [], [])
    parts = [table[table[key] == value] for value in values]
    places = [part[np.isfinite(part["estimate"])] for part in parts]
    unit = unit_of(finding.x if kind in IN_X else finding.metric, workload)
    name = (f"{_name(finding, workload)}: " if kind != "curves" else "") + "median (range across settings)"
    head, unit = (name, unit) if unit == "°" else (f"{name}{f' in{unit}' if unit else ''}", "")
    columns: list[Column] = [(axis_label(key, workload), True, list(map(in_short, values)))]
    if tells["rank"] >= EXPLAINED:
        columns.append((head, True, [_range(one, unit) for one in places]))
    words = {group.outcome: brief_words(finding, group, workload) for group in groups_of(finding)}
    outcomes = sorted(table["outcome"].value_counts().index[:COUNTED], key=lambda one: one != Outcome.LOCATED)
    for one in outcomes if table["outcome"].nunique() > 1 else ():
        counts = [int((part["outcome"] == one).sum()) for part in parts]
        columns.append((words[one], True, [str(count or "") for count in counts]))
    some = "" if len(values) == table[key].nunique() else f", {len(values)} of its {table[key].nunique()} values"
    others = [called(one, workload) for one in varying(finding.keys, table)]
    every = f"{counted(len(table), NOUNS.get(kind, 'setting'))} of {', '.join(others[:-1])} and {others[-1]}"
    return _table(columns, f"All {every}, by {called(key, workload)}{some}; each is below.")


def _range(table: pd.DataFrame, unit: str) -> str:
    """The median of some estimates, and between what they lie, in digits that their errors leave."""
    if not len(table):
        return NOTHING
    values, error = table["estimate"].quantile([0, 0.5, 1]), (table["high"] - table["low"]).median() / 2
    low, middle, high = (f"{text}{unit}" for text in alike(*values, error=error))
    return middle if low == high else f"{middle} ({low} to {high})"


def _table(columns: Iterable[Column], note: str = "") -> Table:
    """The columns that are not empty everywhere."""
    kept = [one for one in columns if any(text not in ("", NOTHING) for text in one[2])]
    lines = [list(line) for line in zip(*([text or NOTHING for text in one[2]] for one in kept), strict=True)]
    return Table([one[0] for one in kept], lines, [one[1] for one in kept], note)


def table_of(
    finding: Finding, workload: Workload, chosen: Sequence[int], names: Mapping[int, str] | None = None
) -> Table:
    """The chosen rows: setting, estimate with its interval or else the outcome, status where estimates differ in it,
    theory, and what would decide an open one. The axes of a law or of a pair are columns. names: of settings, by row,
    that are called otherwise than by their values."""
    rows = finding.table.iloc[list(chosen)].to_dict("records")
    if "axis" in finding.keys:
        return _table(_pivoted(finding, rows, workload))
    unit = unit_of(finding.x if finding.kind in IN_X else finding.metric, workload)
    called_so = [(names or {}).get(row, "") for row in chosen]
    settings = _settings(finding, rows, varying(finding.keys, finding.table), workload, called_so)
    status = _status(rows, finding)
    shown, theory = _numbers(rows, unit)
    if not any(status):
        shown = _or_outcome(shown, rows, finding)
    return _table(
        [
            *(_axes(finding, rows, workload) if finding.kind == "search" else [settings]),
            (_head(finding, workload), True, shown),
            *(_other(name, rows, workload) for name in finding.facts.get("others", ())),
            *_tested(finding, rows),
            ("status", False, status),
            ("theory", True, theory),
            ("needs", False, [needed_words(row, finding, workload) for row in rows]),
        ]
    )


def whole_table(finding: Finding, workload: Workload) -> Table:
    """All rows that a page shows."""
    every = len(finding.table)
    note = f"The first {SHOWN} of {every} rows; all are in the CSV."
    return replace(table_of(finding, workload, range(min(SHOWN, every))), note=note if every > SHOWN else "")


def _pivoted(finding: Finding, rows: Sequence[Mapping[str, Any]], workload: Workload) -> Iterator[Column]:
    """A line for each setting, with a column for each axis, and what would decide the first one that is open."""
    axes = list(dict.fromkeys(finding.table["axis"]))
    rows = rows[: len(rows) - len(rows) % len(axes)]
    by_axis = [[row for row in rows if row["axis"] == axis] for axis in axes]
    keys = varying([key for key in finding.keys if key != "axis"], finding.table)
    if keys:
        yield _settings(finding, by_axis[0], keys, workload)
    for axis, part in zip(axes, by_axis, strict=True):
        pair = finding.kind == "joint_optimum"
        unit = unit_of(axis, workload) if pair else ""
        shown = _or_outcome(_numbers(part, unit)[0], part, finding)
        name = called(axis, workload)
        yield f"{f'best {name}' if pair else f'power of {name}'} [{100 * finding.level:g} %]", True, shown
    needed = [[needed_words(row, finding, workload) for row in part] for part in by_axis]
    yield "needs", False, [next(filter(None, line), "") for line in zip(*needed, strict=True)]


def _axes(finding: Finding, rows: Sequence[Mapping[str, Any]], workload: Workload) -> list[Column]:
    return [
        (called(name, workload), True, [NOTHING if row[name] is None else number(row[name], 3) for row in rows])
        for name in finding.facts["axes"]
    ]


def _settings(
    finding: Finding,
    rows: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    workload: Workload,
    names: Sequence[str] = (),
) -> Column:
    """The values of the keys, or the names of rows that have one. If all values are texts without words of their own,
    or those of one axis are numbers, the names of the axes stand in the head."""
    plain = [key for key in keys if key in workload.by_name and workload.by_name[key].words is None]
    if len(keys) == 1 and not any(names) and finding.table[keys[0]].dtype.kind in "if":
        return axis_label(keys[0], workload), True, [in_short(row[keys[0]]) for row in rows]
    if keys and plain == keys and all(isinstance(row[key], str) for row in rows for key in keys):
        texts = [", ".join(printable(row[key]) for key in keys) for row in rows]
        return ", ".join(called(key, workload) for key in keys), False, _named(texts, names)
    base = finding.facts.get("base") or {}
    differ = [[key for key in keys if key not in base or row[key] != base[key]] for row in rows]
    texts = [setting_text({key: row[key] for key in some}, workload) for row, some in zip(rows, differ, strict=True)]
    texts = _named(texts, names)
    return "setting", max(map(len, texts)) <= SHORT, texts


def _named(texts: list[str], names: Sequence[str]) -> list[str]:
    return [name or text for name, text in zip(names, texts, strict=True)] if names else texts


def _other(name: str, rows: Sequence[Mapping[str, Any]], workload: Workload) -> Column:
    ends = {"estimate": "mean", "low": "low", "high": "high"}
    values = [{end: row[f"{name}_{column}"] for end, column in ends.items()} for row in rows]
    return called(name, workload), True, _numbers(values, unit_of(name, workload))[0]


def _tested(finding: Finding, rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """What is known of tests: the fall from a turn to the end, how much an exponent grows along its axis, and p."""
    p = next((name for name in ("p_holm", "p_value") if name in finding.table), "")
    texts = ["< 0.0001" if row[p] < 1e-4 else number(row[p], 2) for row in rows] if p else [NOTHING] * len(rows)
    falls = [{"estimate": row.get("fall", np.nan), "low": np.nan, "high": np.nan} for row in rows]
    bends = [{end: row.get(f"bend{of}", np.nan) for end, of in BEND.items()} for row in rows]
    shown = [_numbers(some, "")[0] for some in (falls, bends)]
    heads = ("fall to the end", "change of the local exponent", "p, adjusted")
    return [(head, True, some) for head, some in zip(heads, (*shown, texts), strict=True)]


def _name(finding: Finding, workload: Workload) -> str:
    return called(finding.metric, workload) if finding.kind == "search" else ESTIMATES.get(finding.kind, "estimate")


def _head(finding: Finding, workload: Workload) -> str:
    interval_of = (
        f" [{100 * finding.level:g} % interval]" if finding.table[["low", "high"]].notna().any(axis=None) else ""
    )
    return f"{_name(finding, workload)}{interval_of}"


def _status(rows: Sequence[Mapping[str, Any]], finding: Finding) -> list[str]:
    """The outcome of each row; empty if a known p says it, or if all settings with an estimate have one outcome."""
    table = finding.table
    with_estimate = table.loc[np.isfinite(table["estimate"].astype(float)), "outcome"]
    if finding.facts.get("one_draw") or "p_holm" in table or with_estimate.nunique() < 2:
        return [""] * len(rows)
    return [outcome_words(row["outcome"], finding) for row in rows]


def _or_outcome(texts: Sequence[str], rows: Sequence[Mapping[str, Any]], finding: Finding) -> list[str]:
    """The texts, and what the rows say where these say nothing."""
    words = [outcome_words(row["outcome"], finding) for row in rows]
    return [word if text == NOTHING else text for text, word in zip(texts, words, strict=True)]


def _numbers(rows: Sequence[Mapping[str, Any]], unit: str) -> tuple[list[str], list[str]]:
    """Each estimate with its interval, or the bound that is known, and theory's value, with their unit and, if these
    fit all, the same decimals."""
    ends = [(row["estimate"], *_ends(row)) for row in rows]
    values = np.array(ends, dtype=float)
    errors = (values[:, 2] - values[:, 1]) / 2
    shared, alone = shared_decimals(values[:, 0], errors), alike(*values[:, 0])
    texts, theories = [], []
    for k, (row, (value, low, high)) in enumerate(zip(rows, ends, strict=True)):
        vanishes = shared is not None and low * high > 0 and min(abs(low), abs(high)) < 0.5 * 10.0**-shared
        decimals = None if vanishes else shared_decimals(values[k], errors[k : k + 1]) if shared is None else shared
        bare = np.isfinite(value) and not (np.isfinite(low) and np.isfinite(high))
        head, *span = [alone[k]] if bare else interval_numbers(value, low, high, decimals)
        bracket = f" [{', '.join(span)}]" if span else ""
        texts.append(f"{head}{unit * (head != NOTHING)}{bracket}")
        theory = row.get("theory", np.nan)
        shown = number(theory) if decimals is None else f"{theory:.{decimals}f}"
        theories.append(f"{shown}{unit}" if np.isfinite(theory) else "")
    return texts, theories


def _ends(row: Mapping[str, Any]) -> tuple[float, float]:
    """The ends of an interval; no lower one for a bound of values that are all positive."""
    low, high = row["low"], row["high"]
    return np.nan if row.get("outcome") == Outcome.BOUND_LOW and low == 0 else low, high
