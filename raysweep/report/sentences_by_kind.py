"""The sentences of searches, laws, pairs, predictors and curves: they do not say how most settings are, and how the
others."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from raysweep.analyses.counts import Way, clear_sides, conditions, groups_of, unmeasured, ways
from raysweep.analyses.finding import Finding, Outcome
from raysweep.numbers import alike, digits_for, number
from raysweep.phrases import counted, some_of
from raysweep.report.clauses import clause
from raysweep.report.names import as_called, called, listed, setting, short, unit_of
from raysweep.report.phrases import (
    BOUNDS,
    CLAUSES,
    LEADER,
    LEADING,
    NOT_MEASURED,
    ON_THE_WHOLE,
    OTHERWISE,
    POWERS,
    WAYS,
)
from raysweep.report.place_words import BRIEF, SIZES, place_words
from raysweep.report.which_settings import condition_words, either, in_which
from raysweep.workloads.declaration import Workload

MOST = 25
"""Words of a sentence."""


def of_search(finding: Finding, workload: Workload) -> str:
    """The best configuration of a search, which axes carry the variance, and what is not told from it."""
    facts = finding.facts
    finding = replace(finding, table=finding.table.head(1))
    first = finding.table.iloc[0]
    sure = " (one run, no interval)" if facts.get("one_draw") else ""
    text = fitting(f"{clause(finding, groups_of(finding)[0], workload)}{sure}", "found")
    leading = {name: share for name, share in facts["shares"].items() if share >= LEADING}
    at = {name: f"{called(name, workload)} {number(first[name], 3)}" for name in facts["axes"] if pd.notna(first[name])}
    whole, main = (", ".join(at[name] for name in names if name in at) for names in (at, leading or at))
    alike, most = facts["alike"], " and ".join(called(name, workload) for name in leading)
    others = f"; {counted(alike, 'other')} of {facts['configurations']} cannot be told from it" if alike else ""
    shares = " and ".join(f"{called(name, workload)} {100 * share:.0f} %" for name, share in leading.items())
    matters = [f"; share of the variance: {shares}", f"; {most} matter{'s' * (len(leading) == 1)} most"] * bool(leading)
    forms = (f"{text}{f' at {at}' * bool(at)}{others}{more}" for at in (whole, main) for more in (*matters, ""))
    return fitting(*forms, text)


def of_law(finding: Finding, workload: Workload) -> str:
    """The product of powers of the laws, between what their exponents lie, and how often they forecast rightly."""
    workload, facts = as_called(finding, workload), finding.facts
    keys = [key for key in finding.keys if key != "axis"]
    laws = finding.table[finding.table["outcome"] != Outcome.UNDECIDED]
    count, every = (len(table) // len(facts["over"]) for table in (laws, finding.table))
    others = " and ".join(workload.symbol(key) or called(key, workload) for key in keys)
    one_axis = finding.table[finding.table["axis"] == facts["over"][0]]
    which_open = unique(in_which(one_axis, Outcome.UNDECIDED, keys, workload), f"in {every - count}")
    rests = [f"; undecided {which}" for which in which_open] if count < every else [""]
    powers, turns = list[list[str]](), False
    for axis, table in laws.groupby("axis", sort=False):
        name, ways_of = called(str(axis), workload), table["outcome"].unique()
        if {Outcome.RISES, Outcome.FALLS} <= set(ways_of):
            every_one = finding.table[finding.table["axis"] == axis]  # those without a law too
            turns, sides = True, [in_which(every_one, way, keys, workload) for way in (Outcome.FALLS, Outcome.RISES)]
            error = ((table["high"] - table["low"]) / 2).median()
            ends = table.groupby("outcome")["estimate"].agg(["min", "max"]).loc[[Outcome.FALLS, Outcome.RISES]]
            texts = alike(*ends.to_numpy().ravel(), error=error)
            spans = ("…".join(dict.fromkeys(texts[k : k + 2])) for k in (0, 2))
            first, last = (f"{name}^{span} {where}" for span, where in zip(spans, sides, strict=True))
            whole = f"{POWERS[Outcome.FALLS].format(first)}, {POWERS[Outcome.RISES].format(last)}"
            powers.append([whole, f"falls with {name} {sides[0]} and rises {sides[1]}"])
        else:
            (group,) = groups_of(replace(finding, table=table.assign(outcome=Outcome.LOCATED), x=""))
            form = POWERS[ways_of[0] if len(ways_of) == 1 else Outcome.UNCLEAR]
            power = [place_words(finding, group, workload, size, f"{name}^") for size in (0, SIZES)]
            if len(table) > 1:  # from the least to the largest exponent
                low, high = alike(group.low, group.high, error=group.error)
                power = [" to ".join(unique(f"{name}^{low}", f"{name}^{high}"))] * 2
            powers.append([form.format(text) for text in power])
    some = [f" in {some_of(count, every, f'setting of {others}')}", f" in {count} of {every} {others}"]
    of_all = [share + rest for rest in rests for share in some] if others and not turns else rests
    marks = " and " if len(powers) == 2 and not turns else ", "
    said = [f"the best {called(finding.x, workload)} {marks.join(some)}" for some in zip(*powers, strict=True)]
    text = fitting(*(first + at for first in said for at in of_all), *said, "found")
    if out := facts.get("largest_out"):
        first = called(facts["over"][0], workload)
        held = f"{out['inside']} of {out['of']} {'lies' if out['inside'] == 1 else 'lie'}"
        text = longer(text, f"{held} as forecast at the largest values of {first}", "; {}")
    return text


def of_pair(finding: Finding, workload: Workload) -> str:
    workload, texts = as_called(finding, workload), list[str]()
    forms = {**{one: OTHERWISE[one] for one in BOUNDS}, **CLAUSES["optimum"]}
    for of, size in ((f" for {called(finding.metric, workload)}", 0), ("", 0), ("", SIZES)):
        parts = list[str]()
        for axis, table in finding.table.groupby("axis", sort=False):
            part = replace(finding, table=table, x=str(axis), keys=finding.keys[:-1])
            groups = groups_of(part)
            group = next((one for one in groups if one.outcome == Outcome.LOCATED), None)
            name, whose = called(part.x, workload), of * (not parts)
            text = f"the best {name}{whose} is {place_words(part, group, workload, size) if group else 'not found'}"
            if len(groups) == 1 and (said := forms.get(groups[0].outcome)) and not group:
                of_which = {
                    "it": f"the best {name}{whose}",
                    "if_any": "",
                    "place": place_words(part, groups[0], workload, SIZES),
                }
                text = said.format(x=name, for_metric=whose, metric=called(finding.metric, workload), **of_which)
            if group and len(table) > 1:
                text += f" in {group.count}" if parts else f" in {some_of(group.count, len(table), 'setting')}"
            parts.append(text)
        texts += ["; ".join(parts)]
    return fitting(*texts, parts[0], "found")


def of_predictors(finding: Finding, workload: Workload) -> str:
    """The predictor with the highest R² in all settings, and in how many it clearly is the best; empty if it is clear
    in none or all, or if this is not one predictor."""
    table = finding.table
    one = "predictor" in table and table["predictor"].nunique(dropna=False) == 1
    if not one or set(table["outcome"]) != {Outcome.BEST, Outcome.UNCLEAR}:
        return ""
    (group,) = groups_of(replace(finding, table=table.assign(outcome=Outcome.MEASURED)))
    of = "" if finding.question else f" for {called(finding.metric, workload)}"  # which the question names
    first = LEADER.format(called(table["predictor"].iloc[0], workload), of)
    places = [f" ({place_words(finding, group, workload, BRIEF)})", ""]
    clear, every = (table["outcome"] == Outcome.BEST).sum(), len(table)
    counts = f" in all {counted(every, 'setting')}, clearly in {clear}", f" in all {every}, clearly in {clear}"
    forms = [f"{first}{place}{count}" for place in places for count in counts]
    if sides := clear_sides(finding):
        parts = [table.loc[holds, "estimate"].agg(["min", "max"]) for _, holds in sides]
        texts = alike(*np.ravel(parts), error=group.error)
        spans = [" to ".join(unique(*texts[k : k + 2])) for k in (0, 2)]
        (where, _), (rest, _) = sides
        others = either([short(rest.key, one, workload) for one in rest.values])
        others = others if rest.relation in ("=", "in") else condition_words(rest, workload)
        split = f"{first}: clearly for {condition_words(where, workload)}{{}}, not clearly for {others}{{}}"
        forms = [split.format(*(f" ({one})" for one in spans)), split.format("", ""), *forms]
    return fitting(*forms)


def along_axis(finding: Finding, workload: Workload, *, alone: bool) -> list[str]:
    """How a measured metric changes along its axis, the longest form first: between what and what, or in which settings
    it rises, falls, or turns. Empty if that is not measured, or not clear in any setting. alone: whether the sentence
    is of this metric alone."""
    lines, x = ways(finding), finding.x
    if lines.empty or (lines["way"] == Way.UNCLEAR).all():
        return []
    lost = unmeasured(finding)
    besides = f"; {NOT_MEASURED.format(of='')} for {either(listed(x, lost, workload))}" if lost else ""
    if len(lines) > 1:
        return [form + besides for form in _along_several(lines, finding, workload, alone=alone)]
    table = finding.table[~finding.table[x].isin(lost)].sort_values(x)
    name, way = called(finding.metric, workload), lines["way"].iloc[0]
    monotone = way in (Way.RISES, Way.FALLS)
    rows = table.index[[0, -1]] if monotone else [table["estimate"].idxmin(), table["estimate"].idxmax()]
    unit, ends = unit_of(finding.metric, workload), table.loc[rows, "estimate"]
    digits = digits_for(ends.abs().max(), np.ptp(ends))  # in which they differ
    pairs = zip([f"{number(value, digits)}{unit}" for value in ends], table.loc[rows, x], strict=True)
    first, last = (f"{value} at {setting(x, place, workload)}" for value, place in pairs)
    if monotone:
        back = ON_THE_WHOLE * bool(lines["back"].iloc[0])
        return [f"{name} {WAYS[way]}{back} from {first} to {last}{besides}"]
    return [f"{name} is lowest, {first}, and highest, {last}{besides}"]


def _along_several(lines: pd.DataFrame, finding: Finding, workload: Workload, *, alone: bool) -> list[str]:
    """The same of several settings. lines: those of `ways`."""
    counts, keys, named = lines["way"].value_counts(), [*lines][:-2], list[str]()
    shares = [f" in {some_of(counts.iloc[0], len(lines), 'setting')}", *(f" in {count}" for count in counts[1:])]
    for way, share_of in zip(counts.index, shares, strict=True):
        where = [condition_words(one, workload) for one in conditions(lines, (lines["way"] == way).to_numpy(), keys)]
        named.append(f" for {' and '.join(where)}" if where else share_of)
    axis, forms = f" with {called(finding.x, workload)}" * alone, list[str]()
    for wheres, along in product((named, shares), (axis, "")):
        back = lines.groupby("way")["back"].any()
        begin, *others = (WAYS[Way(way)] + ON_THE_WHOLE * bool(back[way]) for way in counts.index)
        parts = [begin + along, *others]
        forms.append("; ".join(verb + where for verb, where in zip(parts, wheres, strict=True)))
    if counts.index[0] in (Way.RISES, Way.FALLS) and len(counts) == 1:
        measured = finding.table.dropna(subset="estimate")
        ends = measured.loc[measured[finding.x] == measured[finding.x].max(), "estimate"]
        reach = " to ".join(dict.fromkeys(alike(ends.min(), ends.max())))
        forms = [f"{forms[0]}, reaching {reach}{unit_of(finding.metric, workload)}", *forms]
    return [f"{called(finding.metric, workload)} {form}" for form in forms]


def fitting(*texts: str) -> str:
    return next((text for text in texts if len(text.split()) <= MOST), texts[-1])


def longer(text: str, addition: str, form: str) -> str:
    """The text with the addition, if there is one and both together are short enough."""
    longer = text + form.format(addition)
    return longer if addition and len(longer.split()) <= MOST else text


def unique(*texts: str) -> list[str]:
    """The texts without repeats."""
    return list(dict.fromkeys(texts))
