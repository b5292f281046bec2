"""Clauses: what the settings of one outcome say, which they are, what theory says of them and what they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from raysweep.analyses.counts import Condition, Group
from raysweep.analyses.finding import Finding, Needed, Outcome
from raysweep.analyses.rows import signs_of
from raysweep.numbers import NOTHING, interval, number
from raysweep.phrases import counted, plural, some_of
from raysweep.report.names import called, listed, setting, unit_of, without_common_beginning
from raysweep.report.phrases import CLAUSES, DENIED, IN_X, MEANT, NOT_MEASURED, OTHERWISE, OUTCOMES, SIGNS
from raysweep.workloads.declaration import Workload

SYMBOL = 3
"""Letters at most of a name that takes no article: x, lr."""
EQUAL = 1e-6
"""Theory agrees with an exact value up to this share of it."""


def clause(finding: Finding, group: Group, workload: Workload, subject: str = "it") -> str:
    """What the settings of one outcome say. subject: of a clause that has none of its own."""
    sides = _sides(finding, workload)
    meant = MEANT.get(finding.kind, {}) if sides else {}
    if group.outcome == Outcome.MEASURED and not np.isfinite(group.low):
        meant = {Outcome.MEASURED: NOT_MEASURED}
    form = meant.get(group.outcome) or CLAUSES.get(finding.kind, {}).get(group.outcome) or OTHERWISE.get(group.outcome)
    return (
        (form or OUTCOMES.get(group.outcome, str(group.outcome)))
        .replace("{it}", subject)
        .format(
            metric=called(finding.metric, workload),
            x=called(finding.x, workload),
            at=at_words(finding, group, workload),
            place=place_words(finding, group, workload),
            count=group.count,
            are="is" if group.count == 1 else "are",
            comma="," if len(finding.table) > 1 else "",
            **_further(finding, group, workload),
            **sides,
        )
    )


def _further(finding: Finding, group: Group, workload: Workload) -> dict[str, str]:
    """What the clauses of some kinds have besides, such as {length} and {throughout}."""
    rows, facts = finding.table[finding.table["outcome"] == group.outcome], finding.facts
    predictors = rows["predictor"].unique() if "predictor" in rows else []
    return {
        "length": called(facts.get("length", ""), workload),
        "meets": called(facts.get("meets", ""), workload),
        "reference": str(facts.get("reference", "")),
        "beside": called(facts.get("beside", ""), workload) or " and ".join(facts.get("constants", ())) or "0",
        "predictor": called(str(predictors[0]), workload) if len(predictors) == 1 else "one predictor",
        "throughout": " throughout" if "throughout" in rows and bool(rows["throughout"].all()) else "",
    }


def _sides(finding: Finding, workload: Workload) -> dict[str, str]:
    """The meanings of a finding, and of its sides below and above a zero, if it goes one way through all."""
    sides = dict(finding.meanings)
    if "between" in finding.facts:
        sides = dict(zip(("positive", "negative"), signs_of(finding.metric, workload), strict=True)) | sides
    if {"positive", "negative"} <= sides.keys():
        first, second = sides["positive"], sides["negative"]
        if finding.facts.get("rising"):
            first, second = second, first
        sides |= {"below": first, "above": without_common_beginning(first, second)}
    return sides


def at_words(finding: Finding, group: Group, workload: Workload) -> str:
    """Where on its axis: "an overlap angle of 57.1° [56.8°, 57.4°]", or "between" two estimates."""
    x, place = called(finding.x, workload), place_words(finding, group, workload)
    if len(x) <= SYMBOL:
        return f"{x} {place}"
    return f"{'an' if x[0].lower() in 'aeiou' else 'a'} {x} {place if spans(group) else f'of {place}'}"


def spans(group: Group) -> bool:
    """Whether the estimates of the settings differ as they are shown."""
    return group.count > 1 and number(group.low, 3) != number(group.high, 3)


def place_words(finding: Finding, group: Group, workload: Workload) -> str:
    """The estimate with its interval if one setting has it, else between what the estimates lie."""
    unit = unit_of(finding.x, workload) if finding.kind in IN_X else ""
    if group.count == 1:
        row = finding.table[finding.table["outcome"] == group.outcome].iloc[0]
        bounded = np.isfinite(row["low"]) or np.isfinite(row["high"])
        return f"{interval(row['estimate'], row['low'], row['high']) if bounded else number(row['estimate'])}{unit}"
    extremes = group.low, group.high
    rows = finding.table[finding.table["outcome"] == group.outcome]
    if finding.kind == "regime":  # a verdict is of the interval
        within = f"within [{number(rows['low'].min(), 2)}, {number(rows['high'].max(), 2)}]"
        slopes = " to ".join(dict.fromkeys(number(end, 2) for end in extremes))
        return f"{slopes}, {within}" if np.isfinite(extremes).all() else within
    low, high = f"{number(extremes[0], 3)}", f"{number(extremes[1], 3)}{unit}"
    return high if f"{low}{unit}" == high else f"between {low}{unit if unit == '°' else ''} and {high}"


def share(group: Group, every: int, noun: str) -> str:
    """In how many settings of all; "any of" and "either" where the clause denies something."""
    if group.count < every or group.outcome not in DENIED:
        return some_of(group.count, every, noun)
    return f"either {noun}" if every == 2 else f"any of {every:,} {plural(noun)}"


def where_words(conditions: Sequence[Condition], workload: Workload) -> str:
    """Conditions in words: "γ ≥ 1, L = 1"."""
    return ", ".join(_condition_words(one, workload) for one in conditions)


def _condition_words(one: Condition, workload: Workload) -> str:
    if one.key in {"metric", "sweep"} - workload.by_name.keys():
        return ", ".join(called(value, workload) for value in one.values)
    if one.relation == "=":
        return setting(one.key, one.values[0], workload)
    if one.relation == "in":
        return ", ".join(listed(one.key, one.values, workload))
    name, unit = workload.symbol(one.key) or called(one.key, workload), unit_of(one.key, workload)
    values = [f"{number(value)}{unit if unit == '°' else ''}" for value in one.values]
    return (
        f"{name} from {values[0]} to {values[1]}"
        if one.relation == "between"
        else f"{name} {SIGNS[one.relation]} {values[0]}"
    )


def theory_words(finding: Finding, workload: Workload) -> str:
    """Whether theory's values lie in the intervals, or how far they are from exact values; empty without a theory."""
    table = finding.table
    if finding.kind == "best":  # the interval of a choice
        return ""
    compared = table[table["theory"].notna() & (table["low"].notna() | table["high"].notna())]
    if not len(compared):
        return ""
    low, high = compared["low"].fillna(-np.inf), compared["high"].fillna(np.inf)
    exact = high - low <= NOTHING * compared["estimate"].abs()
    if exact.all():
        apart = ((compared["estimate"] - compared["theory"]).abs() / compared["theory"].abs()).fillna(0).max()
        if finding.kind == "curves" and apart > EQUAL:  # values near 0 may differ by any share
            return ""
        return "theory agrees" if apart <= EQUAL else f"theory differs by at most {number(100 * apart, 2)} %"
    compared, low, high = compared[~exact], low[~exact], high[~exact]
    outside = int(((compared["theory"] < low) | (compared["theory"] > high)).sum())
    if finding.kind == "curves" and len(compared) > 1:  # of intervals of single cells some miss it
        inside = f"{len(compared) - outside} of {len(compared)} intervals" if outside else "every interval"
        return f"theory lies in {inside}"
    if len(compared) == 1:
        return f"theory, {number(compared['theory'].iloc[0], 4)}, {'differs' if outside else 'agrees'}"
    return f"theory agrees in {len(compared) - outside}/{len(compared)}" if outside else "theory agrees"


def located_axis(row: Mapping[str, Any], finding: Finding) -> str:
    """The axis on which a row of `Finding.table` locates a value."""
    return str(row["axis"]) if finding.kind == "joint_optimum" else finding.x


def needed_words(row: Mapping[str, Any], finding: Finding, workload: Workload) -> str:
    """What would decide an open setting; empty if it is decided. row: one of `Finding.table`."""
    if not row["needed"]:
        return ""
    axis, at = located_axis(row, finding), row["needed_number"]
    x, value = called(axis, workload), f"{number(at)}{unit_of(axis, workload) if axis and np.isfinite(at) else ''}"
    return {
        Needed.MORE_DRAWS: f"more than {counted(int(at), 'seed')}" if np.isfinite(at) else "more seeds",
        Needed.MORE_UNITS: f"more than {counted(int(at), called(finding.facts.get('unit', 'cell'), workload))}"
        if np.isfinite(at)
        else "",
        Needed.LARGER_X: f"{x} above {value}",
        Needed.SMALLER_X: f"{x} below {value}",
        Needed.MORE_X: f"more values of {called(finding.facts.get('length', axis), workload)}",
        Needed.MORE_SETTINGS: f"{number(at)} settings with a best value or a bound",
        Needed.OK_ABOVE: f"rows that are ok above {value}",
        Needed.OK_BELOW: f"rows that are ok below {value}",
        Needed.OK_ROWS: "rows that are ok",
    }[Needed(row["needed"])]
