"""Clauses: what the settings of one outcome say, which they are, what theory says of them and what they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from raysweep.analyses.counts import Condition, Group, telling_axis
from raysweep.analyses.finding import Finding, Needed, Outcome
from raysweep.analyses.rows import signs_of, varying
from raysweep.numbers import NOTHING, alike, number
from raysweep.phrases import counted, plural, some_of
from raysweep.report.names import called, in_short, listed, settings, unit_of, without_common_beginning
from raysweep.report.phrases import (
    ALIKE,
    ALIKE_PLACES,
    BEST_PLACES,
    BOUNDS,
    CLAUSES,
    EFFECTS,
    IN_X,
    MEANT,
    NOT_MEASURED,
    NOUNS,
    OTHERWISE,
    OUTCOMES,
    SIDES,
    SIGNS,
    SUBJECTS,
)
from raysweep.workloads.declaration import Workload

FEW = 3
"""The most settings that are named one by one."""
SYMBOL = 4
"""Letters at most of a name that takes no article: x, lr, step."""
EQUAL = 1e-6
"""Theory agrees with an exact value up to this share of it."""


def clause(finding: Finding, group: Group, workload: Workload, size: int = 0) -> str:
    """What the settings of one outcome say. size: how short the place is, see `place_words`."""
    sides = _sides(finding, workload)
    meant = MEANT.get(finding.kind, {}) if sides else {}
    if group.outcome == Outcome.MEASURED and not np.isfinite(group.low):
        meant = {Outcome.MEASURED: NOT_MEASURED}
    form = meant.get(group.outcome) or CLAUSES.get(finding.kind, {}).get(group.outcome) or OTHERWISE.get(group.outcome)
    metric = called(finding.metric, workload)
    return (
        (form or outcome_words(group.outcome, finding))
        .replace("{it}", SUBJECTS.get(finding.kind, "it"))
        .format(
            metric=metric,
            of="" if finding.question else f"{metric}: ",
            x=called(finding.x, workload),
            at=at_words(finding, group, workload, size),
            place=place_words(finding, group, workload, size),
            for_metric=f" for {metric}" * (size % 2 == 0 or not finding.question),
            effect=EFFECTS.get(finding.kind, "difference"),
            count=group.count,
            are="is" if group.count == 1 else "are",
            **_further(finding, group, workload),
            **sides,
        )
    )


def outcome_words(outcome: str, finding: Finding) -> str:
    """What a table and the short form of a sentence say of an outcome: "transfer helps everywhere", "undecided"."""
    if outcome == Outcome.UNCLEAR:
        return f"no clear {EFFECTS.get(finding.kind, 'difference')}"
    sided = SIDES.get(Outcome(outcome), "") if "positive" in finding.meanings else ""
    return sided.format(**finding.meanings) or OUTCOMES.get(Outcome(outcome), str(outcome))


def brief_words(finding: Finding, group: Group, workload: Workload) -> str:
    """The same, of a bound with its value: "above 0.003"."""
    if group.outcome == Outcome.MEASURED and not np.isfinite(group.low):
        return NOT_MEASURED.format(of="")
    if not (finding.x and np.isfinite(group.low) and group.outcome in BOUNDS):
        return outcome_words(group.outcome, finding)
    return f"{BOUNDS[group.outcome]} {number(group.low, 3)}{unit_of(finding.x, workload)}"


def as_said(finding: Finding) -> Finding:
    """The finding with the outcomes that words tell apart."""
    alike = {**ALIKE, **(ALIKE_PLACES if finding.kind in BEST_PLACES else {})}
    return replace(finding, table=finding.table.assign(outcome=finding.table["outcome"].replace(alike)))


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


def at_words(finding: Finding, group: Group, workload: Workload, size: int) -> str:
    """Where on its axis: "an overlap angle of 57.1° to 60.0°"; in short without the name of an axis that has a unit."""
    x, place = called(finding.x, workload), place_words(finding, group, workload, size)
    if len(x) <= SYMBOL:
        return f"{x} {place}"
    if size % 2 and unit_of(finding.x, workload):
        return place
    return f"{'an' if x[0].lower() in 'aeiou' else 'a'} {x} of {place}"


def place_words(finding: Finding, group: Group, workload: Workload, size: int = 0) -> str:
    """The estimate with its interval if one setting has it, else from where to where the estimates lie, with the axis
    that drives them (size 0 and 1), or their median with what holds all intervals if these are wide (below 4)."""
    unit = unit_of(finding.x, workload) if finding.kind in IN_X else ""
    degrees, unit = (unit, "") if unit == "°" else ("", unit)
    low, high = (f"{text}{degrees}" for text in alike(group.low, group.high, error=group.error))
    medians = " (medians)" * group.medians
    if group.ends and size < 2:
        smallest, largest = ends_words(group, workload)
        return f"{low} at {smallest} to {high}{unit} at {largest}{medians}"
    if not group.reach or size >= 4:
        return f"{low if low == high else f'{low} to {high}'}{unit}{medians}"
    middle, *ends = (f"{text}{degrees}" for text in alike(*group.reach, error=group.error))
    several = group.count > 1
    sure = f"{100 * finding.level:g} %{' intervals' * several}: {' to '.join(ends)}"
    return f"{'about ' * several}{middle}{unit} ({sure})"


def ends_words(group: Group, workload: Workload) -> list[str]:
    """Where the estimates of a group are smallest and largest; a long name with the first alone."""
    if workload.symbol(group.ends[0].key):
        return [condition_words(at, workload) for at in group.ends]
    return listed(group.ends[0].key, [at.values[0] for at in group.ends], workload)


def power_words(name: str, finding: Finding, group: Group, workload: Workload, size: int) -> str:
    """A factor of a law: "N^-0.5 (95 %: -0.6 to -0.4)", or between which powers it lies and where."""
    at = [f" at {text}" for text in ends_words(group, workload)] if group.ends and size < 2 else []
    if group.count == 1 or not at:
        place = place_words(finding, group, workload, 0 if group.count == 1 else 4)
        return f"{name}^({place})" if " to " in place and group.count > 1 else f"{name}^{place}"
    powers = alike(group.low, group.high, error=group.error)
    return " to ".join(f"{name}^{text}{end}" for text, end in zip(powers, at, strict=True))


def which(finding: Finding, group: Group, workload: Workload) -> str:
    """Which settings they are; empty if that takes more than a few words."""
    base = finding.facts.get("base", {})
    if base and group.count <= FEW:  # each in what it differs from the base
        rows = finding.table[finding.table["outcome"] == group.outcome][list(base)].to_dict("records")
        other = [{key: value for key, value in row.items() if value != base[key]} for row in rows]
        return f" for {either([settings(one, workload) for one in other])}"
    where = " and ".join(condition_words(one, workload) for one in group.where)
    return f" for {where}" if where and not group.nearly else ""


def share(finding: Finding, group: Group, workload: Workload) -> str:
    """In how many settings of all, and which these nearly are; "any of" and "either" where nothing is clear."""
    every, noun = len(finding.table), NOUNS.get(finding.kind, "setting")
    if group.count < every or group.outcome != Outcome.UNCLEAR:
        where = ", ".join(condition_words(one, workload) for one in group.where if group.nearly)
        where *= group.outcome != Outcome.UNDECIDED  # what these need says more
        return f" in {some_of(group.count, every, noun)}" + (f" (mostly {where})" if where else "")
    return f" in either {noun}" if every == 2 else f" in any of {every:,} {plural(noun)}"


def of_each(finding: Finding, group: Group, workload: Workload) -> str:
    """Of two axes, in how many settings of each value of the one that tells most, if these are few words."""
    table, varied = finding.table, varying(finding.keys, finding.table)
    if group.count == len(table) or len(varied) != 2 or (len(group.where) == 1 and not group.nearly):
        return ""
    key = telling_axis(finding)
    (other,) = (one for one in varied if one != key)
    counts = (table["outcome"] == group.outcome).groupby(table[key]).agg(["sum", "size"]).sort_values("sum")[::-1]
    if len(counts) > FEW or counts["size"].nunique() > 1 or not all(isinstance(one, str) for one in counts.index):
        return ""
    (first, some), *rest = counts["sum"].items()
    every = counted(int(counts["size"].iloc[0]), called(other, workload))
    none = either([str(value) for value, some in rest if not some])
    said = f" in {some} of {every} for {first}" + "".join(f", {some} for {value}" for value, some in rest if some)
    (other,) = set(table["outcome"]) - {group.outcome}
    return f"{said}; {outcome_words(other, finding)} for {none}" if none else said


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


def theory_words(finding: Finding, workload: Workload) -> str:
    """Whether theory's values lie in all intervals but those that miss by chance, or how far they are from exact
    values; empty without a theory."""
    from scipy.special import bdtrc

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
    outside, every = int(((compared["theory"] < low) | (compared["theory"] > high)).sum()), len(compared)
    if every == 1:
        return f"theory, {number(compared['theory'].iloc[0], 4)}, {'differs' if outside else 'agrees'}"
    likely = outside == 0 or bdtrc(outside - 1, every, 1 - finding.level) > 1 - finding.level
    return "theory agrees" if likely else f"theory differs in {outside} of {every}"


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
        Needed.MORE_SETTINGS: f"best values in {number(at)} settings",
        Needed.OK_ABOVE: f"rows that are ok above {value}",
        Needed.OK_BELOW: f"rows that are ok below {value}",
        Needed.OK_ROWS: "rows that are ok",
    }[Needed(row["needed"])]
