"""Clauses: what the settings of one outcome say, which they are, what theory says of them and what they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from raysweep.analyses.against_theory import shares, verdict
from raysweep.analyses.counts import Condition, Group, Way, conditions, telling_axis
from raysweep.analyses.finding import Finding, Needed, Outcome
from raysweep.analyses.rows import signs_of, varying
from raysweep.numbers import alike, at_most, interval_numbers, number
from raysweep.phrases import counted, plural, some_of
from raysweep.report.names import called, in_short, listed, setting, settings, short, unit_of, what_differs
from raysweep.report.phrases import (
    ALIKE,
    ALIKE_PLACES,
    BEST_PLACES,
    BOUNDS,
    CLAUSES,
    EFFECTS,
    ESTIMATES,
    IN_X,
    MEANT,
    NOT_MEASURED,
    NOUNS,
    OF_KIND,
    ON_THE_WHOLE,
    OTHERWISE,
    OUTCOMES,
    PER_DECADE,
    SIDES,
    SIGNS,
    SUBJECTS,
    WAYS,
)
from raysweep.workloads.declaration import Workload

FEW = 3
"""The most settings that are named one by one."""
SYMBOL = 4
"""Letters at most of a name that takes no article: x, lr, step."""
EVEN = 0.1
"""So many times a value are about the value up to this."""
FEWEST = 6
"""The fewest estimates of which it is worth a word that all lie on one side of theory."""
WEAK = 0.3
"""The size of a rank correlation below which it says little."""
STAY = 5
"""Of so many settings places move along an axis although in one of them that is not clear."""
ENDS, NAMING, BRIEF, SIZES = -1, 2, 4, 6
"""The size of intervals alone; those from which on a place does not say at which values of an axis it lies, and not
even that it changes; and in how many lengths it is said."""


def clause(finding: Finding, group: Group, workload: Workload, size: int = 0) -> str:
    """What the settings of one outcome say. size: how short the place is, see `place_words`."""
    sides = _sides(finding, workload)
    meant = MEANT.get(finding.kind, {}) if sides else {}
    if not_measured(group, finding):
        meant = {Outcome.MEASURED: NOT_MEASURED}
    if group.outcome == Outcome.LOCATED and finding.kind == "boundary" and "below" not in sides:
        meant = {}  # the sides differ between zeros
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
            is_place=is_words(finding, group, workload, size),
            for_metric=f" for {metric}" * (size % 2 == 0 or not finding.question),
            effect=EFFECTS.get(finding.kind, "difference"),
            count=group.count,
            are="is" if group.count == 1 else "are",
            **_further(finding, group, workload, size),
            **sides,
        )
    )


def not_measured(group: Group, finding: Finding) -> bool:
    """Whether means have no finite variance. (Of engines a single x has no order.)"""
    return group.outcome == Outcome.MEASURED and not np.isfinite(group.low) and finding.kind != "engines"


def outcome_words(outcome: str, finding: Finding) -> str:
    """What a table and the short form of a sentence say of an outcome: "transfer helps everywhere", "undecided"."""
    if outcome == Outcome.UNCLEAR:
        return f"no clear {EFFECTS.get(finding.kind, 'difference')}"
    sided = SIDES.get(Outcome(outcome), "") if "positive" in finding.meanings else ""
    of_kind = OF_KIND.get(finding.kind, {}).get(Outcome(outcome), "")
    return sided.format(**finding.meanings) or of_kind or OUTCOMES.get(Outcome(outcome), str(outcome))


def brief_words(finding: Finding, group: Group, workload: Workload, whose: str = " (the {} tried)") -> str:
    """The same, of a bound with its value and whose it is: "above 0.003 (the largest tried)"."""
    if not_measured(group, finding):
        return NOT_MEASURED.format(of="")
    if not (finding.x and np.isfinite(group.low) and group.outcome in BOUNDS):
        return outcome_words(group.outcome, finding)
    side, edge = BOUNDS[group.outcome]
    return f"{side} {number(group.low, 3)}{unit_of(finding.x, workload)}{whose.format(edge) * bool(edge)}"


def as_said(finding: Finding) -> Finding:
    """The finding with the outcomes that words tell apart. What is said as a decided one needs nothing."""
    table, alike = finding.table, {**ALIKE, **(ALIKE_PLACES if finding.kind in BEST_PLACES else {})}
    said = table["outcome"].replace(alike)
    decided = (said != table["outcome"]) & said.isin(table.loc[table["needed"] == "", "outcome"])
    needed = {"needed": table["needed"].mask(decided, ""), "needed_number": table["needed_number"].mask(decided)}
    return replace(finding, table=table.assign(outcome=said, **needed))


def _further(finding: Finding, group: Group, workload: Workload, size: int) -> dict[str, str]:
    """What the clauses of some kinds have besides, such as {length} and {throughout}."""
    rows, facts = finding.table[finding.table["outcome"] == group.outcome], finding.facts
    predictors, sweeps = (rows[key].unique() if key in rows else [] for key in ("predictor", "sweep"))
    back = ON_THE_WHOLE if "turns_back" in rows and bool(rows["turns_back"].any()) else ""
    slope = f", log-log slope {place_words(finding, group, workload, size)}"
    if finding.kind == "trend":
        per = PER_DECADE * bool(facts.get("logarithmic"))
        slope = f" (slope {place_words(finding, group, workload, BRIEF)}{per})" * (size == 0)
        if facts.get("two_values"):
            by = (rows["last"] - rows["first"]).abs().sort_values()
            ends, drive = list(dict.fromkeys(alike(by.iloc[0], by.iloc[-1], error=group.error))), group.drive
            if len(ends) > 1 and drive and not drive.medians and size < NAMING:
                at = rows.loc[by.index[[0, -1]], drive.key]
                ends = [f"{end} at {setting(drive.key, value, workload)}" for end, value in zip(ends, at, strict=True)]
            slope = f" (by {' to '.join(ends)})" * (size < BRIEF)
    means = called(finding.metric, workload) if finding.question else "means"
    fall, highest = fall_words(finding), facts.get("turn") == "maximum"
    difference = f"mean difference {place_words(finding, group, workload, size)}"
    if group.count > 1:
        difference = f"mean differences at most {number(max(abs(group.low), abs(group.high)), 2)}"
    return {
        "means": f" ({means} {place_words(finding, group, workload, BRIEF)})" * (size < BRIEF),
        "apart": f": {difference} standard deviations over seeds" if np.isfinite(group.low) and size < BRIEF else "",
        "length": called(facts.get("length", ""), workload),
        "meets": called(facts.get("meets", ""), workload),
        "extreme": "highest" if highest else "lowest",
        "fall": f" (then {WAYS[Way.FALLS if highest else Way.RISES]} by {fall})" * bool(fall and size in (0, BRIEF)),
        "reference": str(facts.get("reference", "")),
        "beside": called(facts.get("beside", ""), workload) or " and ".join(facts.get("constants", ())) or "0",
        "predictors": str(len(facts.get("predictors", ()))),
        "predictor": called(str(predictors[0]), workload) if len(predictors) == 1 else "one predictor",
        "throughout": " throughout" if "throughout" in rows and bool(rows["throughout"].all()) else back,
        "ways": " or ".join(WAYS[Way(way)] for way in dict.fromkeys(rows["way"])) if "way" in rows else "",
        "weakly": " weakly" * bool(max(abs(group.low), abs(group.high)) < WEAK),
        "often": " more than once, most clearly" * bool(facts.get("several") == group.count),
        "slope": slope * bool(np.isfinite(group.low)),
        "than": f"{f'in {next(iter(sweeps))} ' if len(sweeps) == 1 else ''}than in {facts.get('first', '')}",
    }


def fall_words(finding: Finding) -> str:
    """By how much the metric gets worse from turns to the end: "0.05 to 0.09"; empty where that is not measured."""
    falls = finding.table[finding.table["outcome"] == Outcome.LOCATED]
    if "fall" not in falls or not len(falls := falls.dropna(subset="fall")):
        return ""
    error = float((falls["fall_high"] - falls["fall_low"]).median() / 2)
    return " to ".join(dict.fromkeys(alike(falls["fall"].min(), falls["fall"].max(), error=error)))


def _sides(finding: Finding, workload: Workload) -> dict[str, str]:
    """The meanings of a finding, and of its sides below and above a zero, if it goes one way through all."""
    sides = dict(finding.meanings)
    if "between" in finding.facts:
        sides = dict(zip(("positive", "negative"), signs_of(finding.metric, workload), strict=True)) | sides
    if {"positive", "negative"} <= sides.keys() and "rising" in finding.facts:
        first, second = sides["positive"], sides["negative"]
        if finding.facts["rising"]:
            first, second = second, first
        sides |= {"below": first, "above": what_differs(first, second)}
    return sides


def at_words(finding: Finding, group: Group, workload: Workload, size: int) -> str:
    """Where on its axis: "an overlap angle of 57.1° to 60.0°"; in short without the name of an axis that has a unit or
    a symbol: "60.0°", "t = 2.3"."""
    x = called(finding.x, workload)
    if len(x) <= SYMBOL:
        return place_words(finding, group, workload, size, f"{x} ")
    place = place_words(finding, group, workload, size)
    unit, symbol = unit_of(finding.x, workload), workload.symbol(finding.x)
    if size % 2 and (unit or symbol):
        return place if unit else f"{symbol} = {place}"
    if (what := x.split(" per ")[0]).endswith("s") and not what.endswith("ss"):  # several things have no article
        return f"{symbol or x} = {place}"
    return f"{'an' if x[0].lower() in 'aeiou' else 'a'} {x} of {place}"


def place_words(finding: Finding, group: Group, workload: Workload, size: int = 0, name: str = "") -> str:
    """The estimate with its interval if one setting has it; else what all are about, or from where to where they lie,
    and with which axis that changes (size 0 and 1: and at which of its values; `ENDS`: how far intervals reach, alone).
    name: stands before the number."""
    unit = unit_of(finding.x, workload) if finding.kind in IN_X else ""
    degrees, unit = (unit, "") if unit == "°" else ("", unit)
    drive, numbers = group.drive, group.reach or (group.low, group.middle, group.high)
    ends = (drive.first[1], drive.last[1]) if drive else ()
    if (apart := group.apart) and finding.kind in IN_X:
        texts = [f"{text}{degrees}" for text in alike(apart.others, apart.low, apart.high, error=group.error)]
        other = " to ".join(dict.fromkeys(texts[1:]))
        return f"about {name}{texts[0]}{unit} ({other}{unit} for {setting(apart.key, apart.value, workload)})"
    texts = alike(*numbers, *ends, error=group.error)
    if group.reach and texts[1] == texts[2]:  # the interval is far smaller than the place
        finer = interval_numbers(numbers[0], numbers[1], numbers[2])
        texts = finer if len(finer) > 1 else texts
    low, middle, high, *moved = (f"{text}{degrees}" for text in texts)
    if group.reach:
        return f"{name}{low}{unit}{f' ({100 * finding.level:g} %: {middle} to {high})' * (size < BRIEF)}"
    if group.times:
        return f"{name}{times_words(*group.times, workload)}"
    if low == high:
        return f"{name}{low}{unit}"
    pattern = moving_words(finding, group, workload, symbols=size >= NAMING)
    if pattern and ENDS < size < BRIEF:
        first, last = (high, low) if "rising" not in pattern else (low, high)
        return f"{name}{first} to {last}{unit} ({pattern})"
    if drive and drive.one_way and size < BRIEF and moved[0] != moved[1]:
        way = "rising" if drive.last[1] > drive.first[1] else "falling"
        if size >= NAMING:
            along = workload.symbol(drive.key) or called(drive.key, workload)
            return f"{name}{moved[0]} {way} to {moved[1]}{unit} with {along}"
        begin, end = (setting(drive.key, at, workload) for at, _ in (drive.first, drive.last))
        median = " in the median" * (drive.medians and not group.alike)
        return f"{name}{moved[0]}{unit} at {begin} ({way} to {moved[1]} at {end}{median})"
    if drive and not drive.one_way and not drive.medians and size < NAMING:
        begin, end = (setting(drive.key, at, workload) for at, _ in (drive.first, drive.last))
        return f"{name}{low}{unit} ({begin}) to {high}{unit} ({end})"
    about = f"about {name}{middle}{unit}"
    across = f"{low} to {high}{unit}{' across settings' * (size < BRIEF)}"
    sure, more = f"{100 * finding.level:g} %", f"median {middle}" * (group.count > 2)
    if group.span and group.error > 0 and group.outcome == Outcome.LOCATED:
        middle, *span = (f"{text}{degrees}" for text in alike(group.middle, *group.span, error=group.error))
        if size == ENDS:
            return f"{name}{' to '.join(span)}{unit} ({sure})"
        about, more = f"about {name}{middle}{unit}", f"{sure} intervals within {' to '.join(span)}{unit}"
    elif group.alike:
        more = across
    return f"{about if group.alike else f'{name}{across}'}{f' ({more})' * (size < NAMING and bool(more))}"


def moving_words(finding: Finding, group: Group, workload: Workload, symbols: bool) -> str:
    """How places clearly move along several axes: "rising with depth, falling with noise and overlap angle"; empty if
    they do so along fewer than two, or are about one value. In one setting of `STAY` they need not."""
    if group.outcome != Outcome.LOCATED or group.alike:
        return ""
    ways: dict[str, list[str]] = {"rising": [], "falling": []}
    mostly = ""
    for move in finding.moves:
        clear = move.rises + move.falls
        few = STAY * move.open <= clear + move.open and not (move.both or move.by_bounds)
        if bool(move.rises) != bool(move.falls) and few:
            name, mostly = called(move.key, workload), mostly or "mostly " * bool(move.open)
            ways["rising" if move.rises else "falling"].append(symbols * workload.symbol(move.key) or name)
    said = [f"{way} with {' and '.join(names)}" for way, names in ways.items() if names]
    return (mostly + ", ".join(said)) * (sum(map(len, ways.values())) > 1)


def is_words(finding: Finding, group: Group, workload: Workload, size: int) -> str:
    """The verb and the place: "is about 60°", or what the places do along the axis that drives them."""
    drive = group.drive
    if not drive or group.alike or size >= BRIEF or moving_words(finding, group, workload, symbols=True):
        return f"is {place_words(finding, group, workload, size)}"
    unit = unit_of(finding.x, workload) if finding.kind in IN_X else ""
    first, last = (f"{text}{unit}" for text in alike(drive.first[1], drive.last[1], error=group.error))
    begin, end = (short(drive.key, at, workload) for at, _ in (drive.first, drive.last))
    name, median = called(drive.key, workload), "median " * drive.medians
    if not drive.one_way:
        return f"is highest at {name} {end} ({median}{last}), lowest at {begin} ({first})"
    way = "rises" if drive.last[1] > drive.first[1] else "falls"
    if size >= NAMING:
        return f"{way} with {name} from {first} to {last}"
    return f"{way} with {name} from {median}{first} (at {begin}) to {last} (at {end})"


def times_words(key: str, factor: float, workload: Workload) -> str:
    """What estimates are about so many times of: "about the target norm (0.98 times)"."""
    name, times = called(key, workload), f"{number(factor, 2)} times"
    return f"about the {name} ({times})" if abs(factor - 1) < EVEN else f"about {times} the {name}"


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


def theory_words(finding: Finding, workload: Workload) -> list[str]:
    """Whether theory agrees, and how far it is from estimates, the longest form first; empty without a theory."""
    if not (theory := verdict(finding)):
        return []
    angles = _in_degrees(finding, workload)
    far = f"{at_most(theory.apart if angles else 100 * theory.share)}{'°' if angles else ' %'}"
    near, every = angles or not theory.near_zero, theory.every
    if every == 0:
        if theory.agrees:
            return ["theory agrees"]
        differs = f"theory differs by at most {far}" if near else "theory differs"
        return [differs] * (finding.kind != "curves")  # values near 0 differ by any share
    if every == 1:
        return [f"theory {'agrees' if theory.agrees else 'differs'} ({number(theory.value)})"]
    if not theory.agrees:
        some = f"theory differs in {theory.outside} of {every}"
        return [f"{some}, by at most {far}"] * near + [some]
    if not near:
        return ["theory agrees"]
    noun = "means" if finding.kind == "curves" else "estimates"
    inside = some_of(every - theory.outside, every, "interval")
    side = f", all {noun} {'above' if theory.side > 0 else 'below'} it" * (every >= FEWEST and theory.side != 0)
    within = f"theory agrees within {far}"
    return [*(f"{within} (in {inside}{after})" for after in (side, "")), within, "theory agrees"]


def farthest_words(finding: Finding, workload: Workload) -> str:
    """In which setting theory is farthest from an estimate, and both; empty if they read alike."""
    table, angles = finding.table, _in_degrees(finding, workload)
    if not (far := (table["estimate"] - table["theory"]).abs() if angles else shares(table)).notna().any():
        return ""
    row = table.loc[far.idxmax()]
    where = settings({key: row[key] for key in varying(finding.keys, table)}, workload)
    estimate, theory = (f"{text}{'°' * angles}" for text in alike(row["estimate"], row["theory"]))
    return f"Theory is farthest for {where}: {theory}, measured {estimate}." * (theory != estimate)


def missed_words(finding: Finding) -> str:
    """How theory can agree although it lies outside of some intervals; empty if it lies in all or differs."""
    if not (said := verdict(finding)) or not said.agrees or not said.outside:
        return ""
    return f"Theory misses {said.outside} of {said.every} intervals; settings share seeds, so they err alike."


def _in_degrees(finding: Finding, workload: Workload) -> bool:
    """Whether estimates are angles."""
    return unit_of(finding.x, workload) == "°" and finding.kind in IN_X


def located_axis(row: Mapping[str, Any], finding: Finding) -> str:
    """The axis on which a row of `Finding.table` locates a value."""
    return str(row["axis"]) if finding.kind == "joint_optimum" else finding.x


def between_words(finding: Finding, workload: Workload) -> str:
    """Between what the estimate of a single open setting lies: "slope between -0.4 and 0.2 at 95 %". Empty if one end
    is not known."""
    low, high = finding.table[["low", "high"]].to_numpy(float)[0]
    if len(finding.table) > 1 or not np.isfinite([low, high]).all():
        return ""
    (between,) = interval_numbers(np.nan, low, high)
    unit = unit_of(finding.x, workload) if finding.kind in IN_X else ""
    return f"{ESTIMATES.get(finding.kind, 'estimate')} {between}{unit} at {100 * finding.level:g} %"


def needed_words(row: Mapping[str, Any], finding: Finding, workload: Workload) -> str:
    """What would decide an open setting; empty if it is decided. row: one of `Finding.table`."""
    if not row["needed"]:
        return ""
    axis, at = located_axis(row, finding), row["needed_number"]
    x, value = called(axis, workload), f"{number(at)}{unit_of(axis, workload) if axis and np.isfinite(at) else ''}"
    return {
        Needed.MORE_DRAWS: f"more than {counted(int(at), 'seed')}" if np.isfinite(at) else "more runs",
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
