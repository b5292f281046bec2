"""Rows of a finding as a table of formatted text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from raysweep.analyses.design import usual
from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.rows import varying
from raysweep.errors import printable
from raysweep.fits.result import without_chance
from raysweep.numbers import alike, interval_numbers, number, shared_decimals
from raysweep.report.clauses import outcome_words, percent_changed
from raysweep.report.names import axis_label, called, capitalized, short, unit_of
from raysweep.report.names import settings as setting_text
from raysweep.report.needed_words import needed_words
from raysweep.report.phrases import DIFFERENCE, ESTIMATES, IN_X, PER_DECADE, SPREAD
from raysweep.workloads.declaration import Workload

Column = tuple[str, bool, list[str]]
"""The head of a column, whether it holds numbers, and the texts."""
SHOWN = 60
"""The most rows of the folded table; further ones are in the CSV only."""
NOTHING = "–"
LEAST_P, P = 1e-4, "p, adjusted"
"""The smallest p that is told from smaller ones, and the head of its column."""
BEND = {"estimate": "", "low": "_low", "high": "_high"}
ENDS = ("first", "last")
BASE = "base setting"
"""The row from which all others differ in one axis."""
SHORT = 24
"""The most letters of a setting that stands in one line."""


@dataclass(frozen=True)
class Table:
    """Formatted text: the head and the rows, all of one length, without columns that are empty everywhere.

    numbers: which columns hold numbers. note: which settings they are; empty if they are all. usual: the values that a
    row leaves out, as words. caption: what the cells are, if the heads do not say it.
    """

    head: list[str]
    rows: list[list[str]]
    numbers: list[bool]
    note: str = ""
    usual: str = ""
    caption: str = ""


def of_columns(columns: Iterable[Column], note: str = "") -> Table:
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
        return of_columns(_pivoted(finding, rows, workload))
    unit, _ = units(finding, workload)
    called_so = [(names or {}).get(row, "") for row in chosen]
    keys = varying(finding.keys, finding.table)
    base = usual(finding.table, keys) if finding.kind != "search" else {}
    settings = setting_column(finding, rows, keys, workload, called_so, base)
    status, needed = _status(rows, finding), [needed_words(row, finding, workload) for row in rows]
    shown, theory = with_intervals(rows, unit)
    if not any(status):
        shown = or_outcome(shown, rows, finding)
        if not all(needed):  # a column would be empty for most
            shown = [f"{text}; needs {more}" if more else text for text, more in zip(shown, needed, strict=True)]
            needed = []
    out = of_columns(
        [
            *(_axes(finding, rows, workload) if finding.kind == "search" else [settings]),
            *_at_ends(finding, rows, workload),
            (estimate_head(finding, workload), True, shown),
            *(_other(name, rows, workload) for name in finding.facts.get("others", ())),
            *_tested(finding, rows),
            ("status", False, status),
            ("theory", True, theory),
            ("needs", False, needed or [NOTHING] * len(rows)),
        ]
    )
    said = f"{capitalized(BASE)}: {setting_text(base, workload)}; other rows say how they differ from it."
    return replace(out, usual=said * bool(base))


def whole_table(finding: Finding, workload: Workload) -> Table:
    """All rows that a page shows."""
    every, table = len(finding.table), table_of(finding, workload, range(min(SHOWN, len(finding.table))))
    return replace(table, note=f"The first {SHOWN} of {every} rows; all are in the CSV." * (every > SHOWN))


def where_all(finding: Finding) -> str:
    """Where all rows are, of which a page shows some."""
    return "listed below" if len(finding.table) <= SHOWN else "in the CSV"


def _pivoted(finding: Finding, rows: Sequence[Mapping[str, Any]], workload: Workload) -> Iterator[Column]:
    """A line for each setting, with a column for each axis, and what would decide the first one that is open."""
    axes = list(dict.fromkeys(finding.table["axis"]))
    rows = rows[: len(rows) - len(rows) % len(axes)]
    by_axis = [[row for row in rows if row["axis"] == axis] for axis in axes]
    keys = varying([key for key in finding.keys if key != "axis"], finding.table)
    if keys:
        yield setting_column(finding, by_axis[0], keys, workload)
    needed = [[needed_words(row, finding, workload) for row in part] for part in by_axis]
    needs = [next(filter(None, line), "") for line in zip(*needed, strict=True)]
    few = 2 * sum(map(bool, needs)) < len(needs)  # a column would be empty for most
    for k, (axis, part) in enumerate(zip(axes, by_axis, strict=True)):
        pair = finding.kind == "joint_optimum"
        unit = unit_of(axis, workload) if pair else ""
        shown = or_outcome(with_intervals(part, unit)[0], part, finding)
        if few:
            shown = [f"{text}; needs {more}" if more else text for text, more in zip(shown, needed[k], strict=True)]
        name = called(axis, workload)
        yield f"{f'best {name}' if pair else f'exponent of {name}'} [{100 * finding.level:g} %]", True, shown
    yield "needs", False, [text * (not few) for text in needs]


def _axes(finding: Finding, rows: Sequence[Mapping[str, Any]], workload: Workload) -> list[Column]:
    return [
        (called(name, workload), True, [NOTHING if row[name] is None else number(row[name], 3) for row in rows])
        for name in finding.facts["axes"]
    ]


def setting_column(
    finding: Finding,
    rows: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    workload: Workload,
    names: Sequence[str] = (),
    base: Mapping[str, Any] | None = None,
) -> Column:
    """The values of the keys, but those that are as in `base`, or the names of rows that have one. If all values are
    texts without words of their own, or those of one axis are numbers, the names of the axes stand in the head."""
    plain = [key for key in keys if key in workload.by_name and workload.by_name[key].words is None]
    if len(keys) == 1 and not any(names) and finding.table[keys[0]].dtype.kind in "if":
        return axis_column(keys[0], [row[keys[0]] for row in rows], workload)
    if keys and plain == keys and all(isinstance(row[key], str) for row in rows for key in keys):
        texts = [", ".join(printable(row[key]) for key in keys) for row in rows]
        return ", ".join(called(key, workload) for key in keys), False, _named(texts, names)
    base = base or finding.facts.get("base") or {}
    differ = [{key: row[key] for key in keys if key not in base or row[key] != base[key]} for row in rows]
    texts = [setting_text(some, workload) if some or not base else BASE for some in differ]
    texts = _named(texts, names)
    return "metric" if list(keys) == ["metric"] else "setting", max(map(len, texts)) <= SHORT, texts


def axis_column(key: str, values: Iterable[Any], workload: Workload) -> Column:
    """Values of an axis; degrees stand beside them, another unit in the head."""
    head = (
        f"{called(key, workload)} {workload.symbol(key)}"
        if unit_of(key, workload) == "°"
        else axis_label(key, workload)
    )
    return head, True, [short(key, value, workload) for value in values]


def _named(texts: list[str], names: Sequence[str]) -> list[str]:
    return [name or text for name, text in zip(names, texts, strict=True)] if names else texts


def _at_ends(finding: Finding, rows: Sequence[Mapping[str, Any]], workload: Workload) -> Iterator[Column]:
    """The means at both ends of the axis of a trend."""
    shown = alike(*(row[name] for name in ENDS if name in finding.table for row in rows), padded=True)
    for k, at in enumerate(finding.facts.get("ends", ())):
        yield f"at {setting_text({finding.x: at}, workload)}", True, shown[k * len(rows) : (k + 1) * len(rows)]
    changed = percent_changed(pd.DataFrame(rows), finding, workload)
    yield "change", True, [f"{change:+.0f} %" for change in changed] if len(changed) else [NOTHING] * len(rows)


def _other(name: str, rows: Sequence[Mapping[str, Any]], workload: Workload) -> Column:
    ends = {"estimate": "mean", "low": "low", "high": "high"}
    values = [{end: row[f"{name}_{column}"] for end, column in ends.items()} for row in rows]
    return called(name, workload), True, with_intervals(values, unit_of(name, workload))[0]


def _tested(finding: Finding, rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """What is known of tests: the fall from a turn to the end, how much an exponent grows along its axis, and p."""
    p = next((name for name in ("p_holm", "p_value") if name in finding.table), "")
    texts = [p_text(row[p]) for row in rows] if p else [NOTHING] * len(rows)
    falls = [{"estimate": row.get("fall", np.nan), "low": np.nan, "high": np.nan} for row in rows]
    bends = [{end: row.get(f"bend{of}", np.nan) for end, of in BEND.items()} for row in rows]
    shown = [with_intervals(some, "")[0] for some in (falls, bends)]
    heads = ("fall to the end", "change of the local exponent", P)
    return [(head, True, some) for head, some in zip(heads, (*shown, texts), strict=True)]


def p_text(value: float) -> str:
    """An adjusted p, or that it is smaller than `LEAST_P`."""
    return f"< {LEAST_P:f}".rstrip("0") if value < LEAST_P else number(value, 2)


def units(finding: Finding, workload: Workload) -> tuple[str, str]:
    """The unit of estimates that stands behind each of them, "°", and the one in their head: " (epochs)"."""
    unit = unit_of(finding.x if finding.kind in IN_X else finding.metric, workload)
    return (unit, "") if unit == "°" else ("", f" ({unit[1:]})" * bool(unit))


def estimate_name(finding: Finding, workload: Workload) -> str:
    x, metric = called(finding.x, workload), called(finding.metric, workload)
    extreme = "highest" if finding.facts.get("turn") == "maximum" else "lowest"
    names = {"search": metric, "optimum": f"best {x}", "inflection": f"{x} at the {extreme} {metric}"}
    names["boundary"] = f"{x} at sign change"
    per_decade = finding.facts.get("logarithmic")
    if finding.facts.get("two_values") and not per_decade and np.ptp(finding.facts["ends"]) == 1:
        return DIFFERENCE
    name = names.get(finding.kind) or ESTIMATES.get(finding.kind, "estimate")
    return f"{name}{PER_DECADE * bool(per_decade)}"


def estimate_head(finding: Finding, workload: Workload) -> str:
    table, head = finding.table, f"{estimate_name(finding, workload)}{units(finding, workload)[1]}"
    located = table[table["outcome"] == Outcome.LOCATED]
    if "exact" in table and len(located) and without_chance(located).all():
        return f"{head} [{SPREAD}]"
    over = f" over {finding.facts['sample']}" if "sample" in finding.facts else ""
    return head + f" [{100 * finding.level:g} % interval{over}]" * bool(table[["low", "high"]].notna().any(axis=None))


def _status(rows: Sequence[Mapping[str, Any]], finding: Finding) -> list[str]:
    """The outcome of each row; empty if a known p or the ends of a trend say it, or if all settings with an estimate
    have one outcome."""
    table = finding.table
    with_estimate = table.loc[np.isfinite(table["estimate"].astype(float)), "outcome"]
    if finding.facts.get("one_draw") or {"p_holm", *ENDS} & {*table} or with_estimate.nunique() < 2:
        return [""] * len(rows)
    return [outcome_words(row["outcome"], finding) for row in rows]


def or_outcome(texts: Sequence[str], rows: Sequence[Mapping[str, Any]], finding: Finding) -> list[str]:
    """The texts, and what the rows say where these say nothing."""
    words = [outcome_words(row["outcome"], finding) for row in rows]
    return [word if text == NOTHING else text for text, word in zip(texts, words, strict=True)]


def with_intervals(rows: Sequence[Mapping[str, Any]], unit: str) -> tuple[list[str], list[str]]:
    """Each estimate with its interval, or the bound that is known, and theory's value, with their unit and, if these
    fit all, the same decimals."""
    ends = [(row["estimate"], *_ends(row)) for row in rows]
    values = np.array(ends, dtype=float)
    errors = (values[:, 2] - values[:, 1]) / 2
    shared, alone = shared_decimals(values[:, 0], errors), alike(*values[:, 0], padded=True)
    texts, theories = [], []
    for k, (row, (value, low, high)) in enumerate(zip(rows, ends, strict=True)):
        vanishes = shared is not None and low * high > 0 and min(abs(low), abs(high)) < 0.5 * 10.0**-shared
        decimals = None if vanishes else shared_decimals(values[k], errors[k : k + 1]) if shared is None else shared
        bare = np.isfinite(value) and not (np.isfinite(low) and np.isfinite(high))
        head, *span = [alone[k]] if bare else interval_numbers(value, low, high, decimals)
        bracket = f" [{', '.join(span)}]" if span else ""
        texts.append(f"{head}{unit * (head != NOTHING)}{bracket}")
        theory = row.get("theory", np.nan)
        if not np.isfinite(value):  # a bound has three digits
            shown = number(theory, 3)
        else:
            shown = number(theory) if decimals is None else f"{theory:.{decimals}f}"
        theories.append(f"{shown}{unit}" if np.isfinite(theory) else "")
    return texts, theories


def _ends(row: Mapping[str, Any]) -> tuple[float, float]:
    """The ends of an interval; no lower one for a bound of values that are all positive."""
    low, high = row["low"], row["high"]
    return np.nan if row.get("outcome") == Outcome.BOUND_LOW and low == 0 else low, high
