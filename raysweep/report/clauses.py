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
from raysweep.report.names import called, in_short, listed, settings, unit_of, without_common_beginning
from raysweep.report.phrases import CLAUSES, IN_X, MEANT, NOT_MEASURED, NOUNS, OTHERWISE, OUTCOMES, SIGNS, SUBJECTS
from raysweep.workloads.declaration import Workload

FEW = 3
"""The most settings that are named one by one."""
SYMBOL = 3
"""Letters at most of a name that takes no article: x, lr."""
EQUAL = 1e-6
"""Theory agrees with an exact value up to this share of it."""


def clause(finding: Finding, group: Group, workload: Workload) -> str:
    """What the settings of one outcome say."""
    sides = _sides(finding, workload)
    meant = MEANT.get(finding.kind, {}) if sides else {}
    if group.outcome == Outcome.MEASURED and not np.isfinite(group.low):
        meant = {Outcome.MEASURED: NOT_MEASURED}
    form = meant.get(group.outcome) or CLAUSES.get(finding.kind, {}).get(group.outcome) or OTHERWISE.get(group.outcome)
    metric = called(finding.metric, workload)
    return (
        (form or OUTCOMES.get(group.outcome, str(group.outcome)))
        .replace("{it}", SUBJECTS.get(finding.kind, "it"))
        .format(
            metric=metric,
            of="" if finding.question else f"{metric}: ",
            x=called(finding.x, workload),
            at=at_words(finding, group, workload),
            place=place_words(finding, group, workload),
            count=group.count,
            are="is" if group.count == 1 else "are",
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
        "extreme": "highest" if facts.get("turn") == "maximum" else "lowest",
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
    between = spans(group) and not wide_intervals(finding, group)
    return f"{'an' if x[0].lower() in 'aeiou' else 'a'} {x} {place if between else f'of {place}'}"


def spans(group: Group) -> bool:
    """Whether the estimates of the settings differ as they are shown."""
    return group.count > 1 and number(group.low, 3) != number(group.high, 3)


def wide_intervals(finding: Finding, group: Group) -> tuple[float, float] | None:
    """From where to where the intervals of several settings reach, if one of them is wider than the range of the
    estimates, which alone would look too certain; else None."""
    rows = finding.table[
        (finding.table["outcome"] == group.outcome) & np.isfinite(finding.table[["low", "high"]]).all(1)
    ]
    scale = np.log if (rows[["estimate", "low", "high"]] > 0).all(axis=None) else np.asarray
    widths, span = scale(rows["high"]) - scale(rows["low"]), scale(group.high) - scale(group.low)
    return (rows["low"].min(), rows["high"].max()) if group.count > 1 and (widths > span + NOTHING).any() else None


def place_words(finding: Finding, group: Group, workload: Workload) -> str:
    """The estimate with its interval if one setting has it, else between what the estimates lie; with what holds all
    their intervals if these are wide."""
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
    if wide := wide_intervals(finding, group):
        ends = list(dict.fromkeys(number(end, 3) for end in extremes))
        return f"{('–' if group.low >= 0 else ' to ').join(ends)} [{number(wide[0], 3)}, {number(wide[1], 3)}]{unit}"
    low, high = f"{number(extremes[0], 3)}", f"{number(extremes[1], 3)}{unit}"
    return high if f"{low}{unit}" == high else f"between {low}{unit if unit == '°' else ''} and {high}"


def which(finding: Finding, group: Group, workload: Workload) -> str:
    """Which settings they are; empty if that takes more than a few words."""
    base = finding.facts.get("base", {})
    if base and group.count <= FEW:  # each in what it differs from the base
        rows = finding.table[finding.table["outcome"] == group.outcome][list(base)].to_dict("records")
        other = [{key: value for key, value in row.items() if value != base[key]} for row in rows]
        return f" for {either([settings(one, workload) for one in other])}"
    where = " and ".join(_condition_words(one, workload) for one in group.where)
    return f" for {where}" if where and not group.nearly else ""


def share(finding: Finding, group: Group, workload: Workload) -> str:
    """In how many settings of all, and which these nearly are; "any of" and "either" where nothing is clear."""
    every, noun = len(finding.table), NOUNS.get(finding.kind, "setting")
    if group.count < every or group.outcome != Outcome.UNCLEAR:
        where = ", ".join(_condition_words(one, workload) for one in group.where if group.nearly)
        return f" in {some_of(group.count, every, noun)}" + (f" (mostly {where})" if where else "")
    return f" in either {noun}" if every == 2 else f" in any of {every:,} {plural(noun)}"


def either(texts: Sequence[str]) -> str:
    """One of several: "a, b or c"."""
    *first, last = texts
    return f"{', '.join(first)} or {last}" if first else last


def _condition_words(one: Condition, workload: Workload) -> str:
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


def theory_words(finding: Finding, workload: Workload) -> str:
    """Whether theory's values lie in the intervals, or how far they are from exact values; empty without a theory."""
    table = finding.table
    if finding.kind == "best":  # the interval of a choice
        return ""
    compared = table[table[["theory", "estimate", "low", "high"]].notna().all(axis=1)]  # what is located
    if not len(compared):
        return ""
    low, high = compared["low"], compared["high"]
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
