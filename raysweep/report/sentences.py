"""The sentence of a finding, composed of clauses: what most settings say, in how many, whether theory agrees, and what
the others say.

Clauses are added in that order as long as the sentence has at most `MOST` words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

import numpy as np

from raysweep.analyses.counts import Group, Way, groups_of, ways
from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.nothing import NOTHING, Nothing
from raysweep.analyses.rows import varying
from raysweep.fits.reasons import Reason
from raysweep.numbers import interval, number
from raysweep.phrases import counted, some_of
from raysweep.report.clauses import clause, needed_words, place_words, share, theory_words, which
from raysweep.report.names import as_called, called, capitalized, in_short, setting, settings, unit_of, what_differs
from raysweep.report.phrases import FURTHER, LEADING, LOGGED, NOTHINGS, NOUNS, OPEN, OUTCOMES, PER_METRIC, POWERS, WAYS
from raysweep.workloads.declaration import Workload

MOST = 25
"""Words of a sentence."""
WHAT = ("metric", "x", "length", "meets")
"""What names what is undecided."""


def sentence(finding: Finding, workload: Workload) -> str:
    """The answer of a finding in at most `MOST` words."""
    if finding.texts:
        return finding.texts[0]
    if not len(finding.table):
        return without_settings(finding, workload)
    parts = _by_metric(finding)
    if len(parts) > 1 and finding.kind == "curves":  # each metric is said before theory
        parts = [replace(one, table=one.table.assign(theory=np.nan)) for one in parts]
    text = ""
    for one in parts:
        text = _longer(text, _answer(one, workload), "; {}") if text else _answer(one, workload)
    return capitalized(text) + "."


def _by_metric(finding: Finding) -> list[Finding]:
    """The finding as one for each metric and each constant beside it, if an answer is about one at a time."""
    split = [key for key in ("metric", "against") if key in finding.keys and finding.kind in PER_METRIC]
    keys, out = [key for key in finding.keys if key not in split], []
    for values, table in finding.table.groupby(split, sort=False) if split else [((), finding.table)]:
        setting = dict(zip(split, values, strict=True))
        facts = {**finding.facts, **({"constants": [setting["against"]]} if "against" in setting else {})}
        out.append(replace(finding, metric=setting.get("metric", finding.metric), keys=keys, table=table, facts=facts))
    return out


def _first_setting(finding: Finding, workload: Workload) -> str:
    return settings({key: finding.table[key].iloc[0] for key in varying(finding.keys, finding.table)}, workload)


def _answer(finding: Finding, workload: Workload) -> str:
    """The answer of a finding that is no function of the user and has a setting."""
    if finding.kind == "search":
        return _answer_of_search(finding, workload)
    if finding.kind == "law":
        if (finding.table["outcome"] != Outcome.UNDECIDED).any():
            return _answer_of_law(finding, workload)
        finding = replace(finding, table=finding.table[finding.table["axis"] == finding.facts["over"][0]])
    if finding.kind == "joint_optimum":
        return _answer_of_pair(finding, workload)
    workload, theory = as_called(finding, workload), theory_words(finding, workload)
    if finding.kind == "curves" and (along := _fitting(_along(finding, workload), "")):
        return _longer(along, theory, "; {}")
    groups = groups_of(finding)
    lead, *others = sorted(groups, key=lambda group: _order(group, finding))
    if finding.kind != "best":
        others = [group for group in groups if group != lead]  # the most frequent first
    every = len(finding.table)
    among = f" in {lead.count} of {counted(every, NOUNS.get(finding.kind, 'setting'))}"
    among = "" if every == 1 or finding.kind == "best" else among
    forms = [clause(one, lead, workload) for one in (finding, replace(finding, meanings={}))]
    forms.append(OUTCOMES.get(lead.outcome, str(lead.outcome)))
    first = next((form for form in forms if _fitting(form + among, "")), forms[-1])
    say = partial(
        _with_others, first=first, lead=lead, others=others, finding=finding, workload=workload, theory=theory
    )
    if finding.kind == "best":
        return say(_longer(first, _first_setting(finding, workload), " at {}"))[0]
    if every == 1:
        return say(first)[0]
    where = which(finding, lead, workload) or share(finding, lead, workload)
    text, whole = say(_fitting(first + where, first + among))
    with_counts = f"{first}{where} ({lead.count} of {every})"
    if whole or lead.nearly or not lead.where or len(with_counts.split()) > MOST:
        return text
    return say(with_counts)[0]  # some settings are left out, as the counts tell


def _with_others(
    text: str, first: str, lead: Group, others: Sequence[Group], finding: Finding, workload: Workload, theory: str
) -> tuple[str, bool]:
    """(an answer that begins with a text, whether it says what all other groups of settings say).

    first: the clause of the leading group, with which the text begins."""
    whole = True
    if lead.outcome == Outcome.UNDECIDED:
        if not finding.question:  # which says what
            about = {**finding.facts, "x": finding.x, "metric": finding.metric}
            names = {key: called(about[key], workload) for key in WHAT if key in about}
            what = OPEN.get(finding.kind, "{metric}").format(**names)
            text = _longer(text, what, ": {}")
        text = _longer(text, _all_need(finding, workload), "; it takes {}")
        text = _longer(text, _together(finding, workload), "; {} vary together")
    if overall := finding.facts.get("overall"):
        correlation = interval(overall["rank_correlation"], overall["low"], overall["high"])
        text = _longer(text, correlation, "; over all cells {}")
    text = _longer(text, _besides(finding, workload), "{}")
    for group in others:
        where = which(finding, group, workload)
        if theory and not where and finding.kind != "curves":
            text, theory = _longer(text, theory, "; {}"), ""
        other = FURTHER.get(group.outcome) or what_differs(first, clause(finding, group, workload))
        in_few = f"{other} in {group.count}"
        if finding.kind == "best":
            longer = _longer(text, other, "; {}")
        else:
            brief = f"{OUTCOMES.get(group.outcome, str(group.outcome))} in {group.count}"
            needs = _all_need(finding, workload) if group.outcome == Outcome.UNDECIDED else ""
            named = other + where if where else in_few
            forms = [f"{named} (needs {needs})" * bool(needs), named, in_few, "" if theory else brief]
            every = (_longer(text, each, "; {}") for each in forms)
            longer = next((each for each in every if each != text), text)
        if longer == text and finding.kind == "best":
            break  # what is worse says little without what cannot be told from the best
        text, whole = longer, whole and longer != text
    return _longer(text, theory, "; {}"), whole


def _answer_of_search(finding: Finding, workload: Workload) -> str:
    """The best configuration of a search, what is not told from it, and which axes carry the variance."""
    facts, first = finding.facts, finding.table.iloc[0]
    text = _fitting(clause(finding, groups_of(replace(finding, table=finding.table.head(1)))[0], workload), "located")
    leading = {name: share for name, share in facts["shares"].items() if share >= LEADING}
    named = [name for name in leading or facts["axes"] if first[name] is not None and first[name] == first[name]]
    text = _longer(text, settings({name: first[name] for name in named}, workload), " at {}")
    if facts["alike"]:
        every = counted(facts["configurations"], "configuration")
        text = _longer(text, f"{facts['alike']} of {every} not told from it", "; {}")
    if facts["one_draw"] and facts["configurations"] > 1:
        text = _longer(text, "one run each, so chance may decide", "; {}")
    shares = " and ".join(f"{called(name, workload)} {100 * share:.0f} %" for name, share in leading.items())
    return _longer(text, shares, "; share of the variance: {}")


def _along(finding: Finding, workload: Workload) -> str:
    """How a measured metric changes along its axis: between what and what, or in how many settings it rises, falls, or
    is lowest or highest in between. Empty if that is not measured, or not clear in any setting."""
    counts, table, x = ways(finding), finding.table.sort_values(finding.x), finding.x
    name, every = called(finding.metric, workload), counts.total()
    if not every or every == counts[Way.UNCLEAR]:
        return ""
    if every > 1:
        span = f"{called(x, workload)} {in_short(table[x].min())} to {in_short(table[x].max())}{unit_of(x, workload)}"
        (way, count), *others = counts.most_common()
        text = f"over {span}, {name} {WAYS[way]} in {count} of {every} settings"
        return reduce(lambda text, other: _longer(text, f"{WAYS[other[0]]} in {other[1]}", ", {}"), others, text)
    (way,) = counts
    monotone = way in (Way.RISES, Way.FALLS)
    rows = table.index[[0, -1]] if monotone else [table["estimate"].idxmin(), table["estimate"].idxmax()]
    unit = unit_of(finding.metric, workload)
    values = [f"{number(value, 3)}{unit}" for value in table.loc[rows, "estimate"]]
    pairs = zip(values, table.loc[rows, x], strict=True)
    first, last = (f"{value} at {setting(x, place, workload)}" for value, place in pairs)
    return (
        f"{name} {WAYS[way]} from {first} to {last}" if monotone else f"{name} is lowest, {first}, and highest, {last}"
    )


def _answer_of_law(finding: Finding, workload: Workload) -> str:
    """The product of powers of the laws, between what their exponents lie, and how often they forecast rightly."""
    workload, facts = as_called(finding, workload), finding.facts
    laws = finding.table[finding.table["outcome"] != Outcome.UNDECIDED]
    powers, ways = [], []
    for axis, table in laws.groupby("axis", sort=False):
        name, row = called(str(axis), workload), table.iloc[0]
        low, high = (number(end, 2) for end in (table["estimate"].min(), table["estimate"].max()))
        one = interval(row["estimate"], row["low"], row["high"])
        powers.append(f"{name}^{one}" if len(table) == 1 else f"{name}^{low if low == high else f'({low}…{high})'}")
        lead = groups_of(replace(finding, table=table))[0]
        ways.append(f"{POWERS[lead.outcome].format(axis=name)} in {lead.count}" * (len(table) > 1))
    text = f"the best {called(finding.x, workload)} ∝ {' · '.join(powers)}"
    every = len(finding.table) // len(facts["over"])
    if len(finding.keys) > 1:
        others = " and ".join(workload.symbol(key) or called(key, workload) for key in finding.keys if key != "axis")
        text = _longer(text, some_of(len(laws) // len(facts["over"]), every, f"setting of {others}"), " in {}")
    text = _fitting(text, "located")
    for way in ways:
        text = _longer(text, way, "; {}")
    if out := facts.get("largest_out"):
        first = called(facts["over"][0], workload)
        lie = "lies" if out["inside"] == 1 else "lie"
        text = _longer(text, f"{out['inside']} of {out['of']} at the largest {first} {lie} as forecast", "; {}")
    return text


def _answer_of_pair(finding: Finding, workload: Workload) -> str:
    workload, text = as_called(finding, workload), ""
    for axis, table in finding.table.groupby("axis", sort=False):
        part = replace(finding, table=table, x=str(axis), keys=finding.keys[:-1])
        group = next((one for one in groups_of(part) if one.outcome == Outcome.LOCATED), None)
        name = f"the best {called(part.x, workload)}" + f" for {called(finding.metric, workload)}" * (not text)
        addition = f"{name} is {place_words(part, group, workload)}" if group else f"{name} is not located"
        if group and len(table) > 1:
            addition += f" in {group.count}" if text else f" in {some_of(group.count, len(table), 'setting')}"
        text = _longer(text, addition, "; {}") if text else _fitting(addition, "located")
    return text


def _order(group: Group, finding: Finding) -> int:
    """The place of a group in a sentence: first the best, and places if a quarter of all settings have one; what is not
    clear leads nothing else."""
    located = group.outcome == Outcome.LOCATED and 4 * group.count >= len(finding.table)
    last = {Outcome.BEST: 0, Outcome.WORSE: 2, Outcome.UNCLEAR: 2, Outcome.UNDECIDED: 2}
    return last.get(group.outcome, int(not located))


def _fitting(*texts: str) -> str:
    return next((text for text in texts if len(text.split()) <= MOST), texts[-1])


def _longer(text: str, addition: str, form: str) -> str:
    """The text with the addition, if there is one and both together are short enough."""
    longer = text + form.format(addition)
    return longer if addition and len(longer.split()) <= MOST else text


def _all_need(finding: Finding, workload: Workload) -> str:
    """What would decide all open settings; empty if they need different things."""
    rows = finding.table[finding.table["outcome"] == Outcome.UNDECIDED].drop_duplicates(["needed", "needed_number"])
    return needed_words(rows.iloc[0], finding, workload) if len(rows) == 1 else ""


def _together(finding: Finding, workload: Workload) -> str:
    """The axes of laws that nothing tells apart; empty if that is not why all open settings have no law."""
    why = set(finding.table.loc[finding.table["outcome"] == Outcome.UNDECIDED, "reason"])
    axes = finding.facts["over"] if why == {Reason.AXES_TOGETHER} else ()
    return " and ".join(called(axis, workload) for axis in axes)


def _besides(finding: Finding, workload: Workload) -> str:
    """What some kinds add to what most settings say, with the mark before it: beside which setting a shift is, in how
    many settings a power changes, and where what was logged is least and most."""
    table, facts = finding.table, finding.facts
    if base := facts.get("base"):
        return f", beside {settings(base, workload)}"
    if bends := facts.get("bends"):
        return "; the log-log curve bends" + (f" in {bends}" if len(table) > 1 else "")
    measured = table[table["outcome"] == Outcome.MEASURED]
    if finding.kind not in LOGGED or len(measured) < 2:
        return ""
    varied = varying(finding.keys, table)
    extremes = (measured.loc[row, varied] for row in (measured["estimate"].idxmin(), measured["estimate"].idxmax()))
    return "; least with {}, most with {}".format(*(settings(end.to_dict(), workload) for end in extremes))


def without_settings(finding: Finding, workload: Workload) -> str:
    """The sentence of a finding that has no setting: why, or what a function of the user returned."""
    why = finding.facts.get(NOTHING)
    if why is None:
        return f"{finding.kind} returned {counted(finding.facts.get('rows', 0), 'row')} and no text."
    about = finding.facts.get("about", "")
    text = NOTHINGS[Nothing(why)].format(about=called(about, workload))
    return capitalized(text) + "."
