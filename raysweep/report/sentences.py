"""The sentence of a finding, composed of clauses: what most settings say, in how many, whether theory agrees, and what
the others say.

Clauses are added in that order as long as the sentence has at most `MOST` words.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from raysweep.analyses.counts import Group, groups_of
from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.nothing import NOTHING, Nothing
from raysweep.analyses.rows import varying
from raysweep.fits.reasons import Reason
from raysweep.numbers import interval, number
from raysweep.phrases import counted, some_of
from raysweep.report.clauses import clause, needed_words, place_words, share, theory_words, where_words
from raysweep.report.names import as_called, called, capitalized, settings, unit_of, without_common_beginning
from raysweep.report.phrases import FURTHER, LEADING, LOGGED, NOTHINGS, NOUNS, OPEN, PER_METRIC, POWERS, SUBJECTS
from raysweep.workloads.declaration import Workload

MOST = 25
"""Words of a sentence."""


def sentence(finding: Finding, workload: Workload) -> str:
    """The answer of a finding in at most `MOST` words."""
    if finding.texts:
        return finding.texts[0]
    if not len(finding.table):
        return without_settings(finding, workload)
    parts = _by_metric(finding)
    extremes = _extremes(finding, workload) if len(parts) == 1 and finding.kind == "curves" else ""
    if extremes:
        return capitalized(_longer(extremes, theory_words(finding, workload), "; {}")) + "."
    if len(parts) > 1 and finding.kind == "curves":  # each metric is said before theory
        parts = [replace(one, table=one.table.assign(theory=np.nan)) for one in parts]
    texts = [_answer(one, workload) for one in parts]
    text = texts[0]
    for other in texts[1:]:
        text = _longer(text, other, "; {}")
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
        with_law = finding.table["outcome"] != Outcome.UNDECIDED
        if with_law.all() and len(finding.keys) == 1:
            return _answer_of_law(finding, workload)
        if with_law.any() and len(finding.facts["over"]) > 1:
            return _answer_of_axes(finding, workload)
        finding = replace(finding, table=finding.table[finding.table["axis"] == finding.facts["over"][0]])
    if finding.kind == "joint_optimum":
        return _answer_of_pair(finding, workload)
    workload, several = as_called(finding, workload), len(finding.table) > 1
    lead, *others = sorted(groups_of(finding), key=lambda group: _order(group, finding))
    subjects = OPEN if lead.outcome == Outcome.UNDECIDED else SUBJECTS
    first = text = clause(finding, lead, workload, subjects.get(finding.kind, "it"))
    if finding.kind == "best":
        text = _longer(text, _first_setting(finding, workload), " at {}")
    elif several:
        text += f" in {share(lead, len(finding.table), NOUNS.get(finding.kind, 'setting'))}"
        text = _longer(text, where_words(lead.where, workload), " ({})")
    if lead.outcome == Outcome.UNDECIDED:
        text = _longer(text, _all_need(finding, workload), ": it takes {}")
        text = _longer(text, _together(finding, workload), ": {} vary together")
    if overall := finding.facts.get("overall"):
        whole = interval(overall["rank_correlation"], overall["low"], overall["high"])
        text = _longer(text, whole, "; over all cells {}")
    text = _longer(text, _besides(finding, workload), "{}")
    theory, last = theory_words(finding, workload), finding.kind == "curves"
    text = _longer(text, "" if last else theory, "; {}")
    for group in others:
        other = FURTHER.get(group.outcome) or without_common_beginning(first, clause(finding, group, workload))
        longer = _longer(text, other + ("" if finding.kind == "best" else f" in {group.count}"), "; {}")
        if longer == text and finding.kind == "best":
            break  # what is worse says little without what cannot be told from the best
        text = longer
    return _longer(text, theory if last else "", "; {}")


def _answer_of_search(finding: Finding, workload: Workload) -> str:
    """The best configuration of a search, what is not told from it, and which axes carry the variance."""
    facts, first = finding.facts, finding.table.iloc[0]
    text = clause(finding, groups_of(replace(finding, table=finding.table.head(1)))[0], workload)
    leading = {name: share for name, share in facts["shares"].items() if share >= LEADING}
    named = [name for name in leading or facts["axes"] if first[name] is not None and first[name] == first[name]]
    text = _longer(text, settings({name: first[name] for name in named}, workload), " at {}")
    if facts["alike"]:
        every = counted(facts["configurations"], "configuration")
        text = _longer(text, f"{facts['alike']} of {every} not told from it", "; {}")
    if facts["one_draw"] and facts["configurations"] > 1:
        text = _longer(text, "one run each, so chance may decide among the best", "; {}")
    shares = " and ".join(f"{called(name, workload)} {100 * share:.0f} %" for name, share in leading.items())
    return _longer(text, shares, "; {} of the variance")


def _extremes(finding: Finding, workload: Workload) -> str:
    """Where a measured metric is lowest and highest; empty if that is not measured, is at several places, or takes too
    many words."""
    measured = finding.table[finding.table["estimate"].notna()]
    if (finding.table["outcome"] != Outcome.MEASURED).any() or len(measured) < 2:
        return ""
    ordered = measured["estimate"].sort_values().to_numpy()
    if np.isclose(ordered[0], ordered[1]) or np.isclose(ordered[-1], ordered[-2]):
        return ""
    varied = varying(finding.keys, measured)
    low, high = (measured.loc[at] for at in (measured["estimate"].idxmin(), measured["estimate"].idxmax()))
    unit = unit_of(finding.metric, workload)
    places = [
        f"{number(row['estimate'], 3)}{unit}, at {settings({key: row[key] for key in varied}, workload)}"
        for row in (low, high)
    ]
    text = f"{called(finding.metric, workload)} is lowest, {places[0]}, and highest, {places[1]}"
    return _longer("", text, "{}")


def _answer_of_law(finding: Finding, workload: Workload) -> str:
    """The product of powers of one law, and how often it forecasts what it did not see."""
    workload = as_called(finding, workload)
    powers = [
        f"{called(row['axis'], workload)}^{interval(row['estimate'], row['low'], row['high'])}"
        for row in finding.table.to_dict("records")
    ]
    text = f"the best {called(finding.x, workload)} goes as {' · '.join(powers)}"
    if out := finding.facts.get("largest_out"):
        first = called(finding.facts["over"][0], workload)
        text = _longer(text, f"{out['inside']} of {out['of']} at the largest {first} lie as forecast", "; {}")
    return text


def _answer_of_axes(finding: Finding, workload: Workload) -> str:
    """What the best value does along each axis of the laws, each in how many of their settings."""
    workload, text, over = as_called(finding, workload), "", finding.facts["over"]
    for axis, table in finding.table.groupby("axis", sort=False):
        with_law = table[table["outcome"] != Outcome.UNDECIDED]
        lead = groups_of(replace(finding, table=with_law))[0]
        power = POWERS[lead.outcome].format(axis=called(str(axis), workload))
        among = f" of {len(table)}" if len(over) == 2 else ""
        if text:
            text = _longer(text, f"{power} in {lead.count}{among}", " and {}")
        else:
            text = f"the best {called(finding.x, workload)} {power} in {some_of(lead.count, len(table), 'setting')}"
    undecided = (finding.table["outcome"] == Outcome.UNDECIDED).sum() // len(over)
    return _longer(text, f"undecided in {undecided}", "; {}") if undecided else text


def _answer_of_pair(finding: Finding, workload: Workload) -> str:
    """Where the best values of both axes lie, each in how many settings it is located."""
    workload, text = as_called(finding, workload), ""
    for axis, table in finding.table.groupby("axis", sort=False):
        part = replace(finding, table=table, x=str(axis), keys=finding.keys[:-1])
        group = next((one for one in groups_of(part) if one.outcome == Outcome.LOCATED), None)
        name = f"the best {called(part.x, workload)}" + f" for {called(finding.metric, workload)}" * (not text)
        addition = f"{name} is {place_words(part, group, workload)}" if group else f"{name} is not located"
        if group and len(table) > 1:
            addition += f" in {group.count}" if text else f" in {share(group, len(table), 'setting')}"
        text = _longer(text, addition, "; {}") if text else addition
    return text


def _order(group: Group, finding: Finding) -> int:
    """The place of a group in a sentence: first the best, and places if a quarter of all settings have one."""
    tested = finding.facts.get("method") == "known_turns"  # of many curves few are expected to turn
    located = group.outcome == Outcome.LOCATED and (tested or 4 * group.count >= len(finding.table))
    return {Outcome.BEST: 0, Outcome.WORSE: 2}.get(group.outcome, int(not located))


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
        return "; not one power" + (f" in {bends}" if len(table) > 1 else "")
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
