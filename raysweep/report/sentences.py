"""The sentence of a finding: clauses on what most settings say, in how many, what the others say, and whether theory
agrees, as many as fit in `MOST` words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, reduce
from itertools import product

import numpy as np
import pandas as pd

from raysweep.analyses.counts import Group, Way, conditions, groups_of, unmeasured, ways, within
from raysweep.analyses.finding import NOTHING, Finding, Nothing, Outcome
from raysweep.analyses.rows import varying
from raysweep.fits.reasons import Reason
from raysweep.numbers import alike, digits_for, interval, number
from raysweep.phrases import counted, some_of
from raysweep.report.clauses import (
    BRIEF,
    ENDS,
    NAMING,
    as_said,
    between_words,
    brief_words,
    clause,
    condition_words,
    either,
    in_which,
    moving_words,
    needed_words,
    of_each,
    place_words,
    share,
    theory_words,
    which,
)
from raysweep.report.names import (
    as_called,
    called,
    capitalized,
    listed,
    setting,
    settings,
    short,
    unit_of,
    what_differs,
)
from raysweep.report.notes import title
from raysweep.report.phrases import (
    BEST_PLACES,
    BOUNDS,
    CLAUSES,
    EDGES,
    ESTIMATES,
    FURTHER,
    LEADING,
    NOT_MEASURED,
    NOTHINGS,
    NOUNS,
    ON_THE_WHOLE,
    OTHERWISE,
    PER_METRIC,
    POWERS,
    REST,
    WAYS,
)
from raysweep.workloads.declaration import Workload

MOST = 25
"""Words of a sentence."""
AT_EDGE = (Outcome.IMPROVES, Outcome.DEGRADES)
SIZES, DETAILS = 6, 6
"""In how many lengths a place is said, see `place_words`, and what others say, see `_others`."""
LEFT_OUT, SCATTERED = 0.1, 3
"""Others that are at most this share of all settings may be left out beside how many the leading ones are; and fewer
than half of them that differ from one another, if they are so many."""


def sentence(finding: Finding, workload: Workload) -> str:
    """The answer of a finding in at most `MOST` words."""
    if finding.texts:
        return finding.texts[0]
    if not len(finding.table):
        return without_settings(finding, workload)
    parts = _by_metric(as_said(finding))
    if len(parts) > 1 and finding.kind == "curves":  # each metric is said before theory
        parts = [replace(one, table=one.table.assign(theory=np.nan)) for one in parts]
    text = ""
    for k, one in enumerate(parts):
        answer = _answer(one, workload, (MOST - len(text.split())) // min(len(parts) - k, 2))
        text = _longer(text, answer, "; {}") if text else answer
    asked = f"{title(finding, workload)} " if not finding.question and undecided(finding) else ""
    return _fitting(f"{asked}{capitalized(text)}.", f"{capitalized(text)}.")


def undecided(finding: Finding) -> bool:
    """Whether no setting is decided."""
    return set(finding.table["outcome"]) == {Outcome.UNDECIDED}


def _by_metric(finding: Finding) -> list[Finding]:
    """The finding as one for each metric and each constant beside it, if an answer is about one at a time."""
    split = [key for key in ("metric", "against") if key in finding.keys and finding.kind in PER_METRIC]
    keys, out = [key for key in finding.keys if key not in split], []
    for values, table in finding.table.groupby(split, sort=False) if split else [((), finding.table)]:
        setting = dict(zip(split, values, strict=True))
        facts = {**finding.facts, **({"constants": [setting["against"]]} if "against" in setting else {})}
        out.append(replace(finding, metric=setting.get("metric", finding.metric), keys=keys, table=table, facts=facts))
    return out


def _answer(finding: Finding, workload: Workload, most: int) -> str:
    """The answer of a finding that is no function of the user and has a setting, if possible in so many words."""
    if finding.kind == "search":
        return _answer_of_search(finding, workload)
    if finding.kind == "law":
        if (finding.table["outcome"] != Outcome.UNDECIDED).any():
            return _answer_of_law(finding, workload)
        finding = replace(finding, table=finding.table[finding.table["axis"] == finding.facts["over"][0]])
    if finding.kind == "joint_optimum":
        return _answer_of_pair(finding, workload)
    workload, theory = as_called(finding, workload), theory_words(finding, workload)
    if finding.kind == "curves" and (forms := _along(finding, workload, alone=most == MOST)):
        along = next((form for form in forms if len(form.split()) <= most), forms[-1])
        return reduce(lambda text, said: text if text != along else _longer(text, said, "; {}"), theory, along)
    lead, *others = sorted(groups_of(finding), key=lambda group: _order(group, finding))
    others.sort(key=lambda group: group.outcome != Outcome.LOCATED)  # a place says more than how many have none
    if SCATTERED <= len(others) == len(finding.table) - lead.count < len(finding.table) / 2:
        others, theory = [], theory * (lead.outcome == Outcome.LOCATED)  # else it is of what is left out
    if "fall" in finding.table and {group.outcome for group in others} == {Outcome.UNCLEAR}:
        others = []  # how far it falls says more than in how many there is no clear turn
    begin = unique(*(clause(finding, lead, workload, size) for size in range(SIZES)))
    if lead.alike and not lead.drive and not theory:
        begin.insert(NAMING, clause(finding, lead, workload, ENDS))
    bare = replace(finding, meanings={}, question="?")
    brief = unique(*(clause(bare, lead, workload, size) for size in (NAMING + 1, SIZES + 1)))
    if lead.outcome == Outcome.LOCATED:
        brief.append(f"{ESTIMATES.get(finding.kind, 'found')} {place_words(finding, lead, workload, SIZES)}")
    else:
        of = f"{called(finding.metric, workload)}: " if most < MOST else ""  # the one before was about another
        brief.append(f"{of}{brief_words(finding, lead, workload)}")
    if finding.kind == "best":  # what is worse says little without what cannot be told from the best
        words = [f"; {clause(finding, group, workload)}" for group in others]
        at = settings({key: finding.table[key].iloc[0] for key in varying(finding.keys, finding.table)}, workload)
        at += f" and {counted(lead.count - 1, 'other')}" * (lead.count > 1 and bool(at))
        fewer = ["".join(words[:count]) for count in range(len(words), -1, -1)]
        forms = [f"{first} at {at}" * bool(at) or first for first in begin]
        return _fitting(*(form + rest for rest in fewer for form in forms), *begin, *brief)
    extras, each = _besides(finding, lead, workload), of_each(finding, lead) if len(others) == 1 else ""
    but = "but " * bool(lead.drive and lead.drive.one_way)  # a bound is an exception from how places move
    rest = cache(lambda first: _others(first, others, finding, workload, but))
    wheres = _wheres(finding, lead, others, workload)
    says, bare_count = unique(*theory, ""), f" in {lead.count:,} of {len(finding.table):,}"
    moving = moving_words(finding, lead, workload, symbols=True)
    rules = [begin[:NAMING]] * bool(lead.drive) + [begin[:BRIEF]]  # what an axis says is more than what theory says
    rules = [[*begin[:BRIEF], clause(bare, lead, workload), *brief[:1]]] * bool(moving) + rules
    if _in_common(finding, lead, workload):
        fallen = [clause(finding, lead, workload, BRIEF)] * ("fall" in finding.table)
        rules = [fallen or begin[NAMING:BRIEF], *rules]
    # a whole sentence goes before the fragment that ends `brief`
    for forms, said, more in product((*rules, begin, brief[:-1], brief), says, extras):
        details = range(DETAILS if moving else DETAILS - 1)
        for per, detail, counting, first in product(unique(each, ""), details, (False, True), forms):
            for at in [per] if per else [at for at in wheres[detail] if counting or at != bare_count]:
                after = [] if per else rest(first)[detail]
                text = "; ".join(filter(None, [f"{first}{at}{more}", *after, said]))
                if len(text.split()) <= most:
                    return text
    text = _fitting(*(first + at for first in brief for at in wheres[0]))
    plain = f"{brief[0]} in {lead.count:,} of {len(finding.table):,}"
    return _cut(unique(text, text if which(finding, lead, workload) else plain), others, rest(text)[-2])


def _cut(texts: Sequence[str], others: Sequence[Group], parts: Sequence[str]) -> str:
    """The first of the texts that leaves room for most of the parts, which say what the others are, and in how many
    settings the parts are that it leaves out."""
    counts = [group.count for group in others]
    edge, other, *_ = [*(k for k, group in enumerate(others) if group.outcome in AT_EDGE), -1, -1]
    if other >= 0:  # both edges are said as one
        counts[edge], counts[other] = counts[edge] + counts[other], 0
    left = [REST.format(count=rest) if (rest := sum(counts[kept:])) else "" for kept in range(len(parts) + 1)]
    shortened = (
        "; ".join(filter(None, [text, *parts[:kept], left[kept]]))
        for kept in range(len(parts), -1, -1)
        for text in texts
    )
    return _fitting(*shortened, texts[0])


def unique(*texts: str) -> list[str]:
    """The texts without repeats."""
    return list(dict.fromkeys(texts))


def _wheres(finding: Finding, lead: Group, others: Sequence[Group], workload: Workload) -> list[list[str]]:
    """Which the leading settings are, by detail as in `_others`, the longest form first: in how many of all if some
    others are only counted, and nothing if these are named."""
    every, noun = len(finding.table), NOUNS.get(finding.kind, "setting")
    if every == 1 or (lead.count == every and lead.outcome == Outcome.UNDECIDED and _all_need(finding, workload)):
        return [[""]] * DETAILS
    if every == lead.count and lead.drive and lead.drive.medians:  # what medians do, single settings need not
        return [[f" across {counted(every, noun)}", ""]] * DETAILS
    where, part = which(finding, lead, workload), share(finding, lead, workload)
    some, common = f"{lead.count:,} of {counted(every, noun)}", _in_common(finding, lead, workload)
    named = [f"{where} ({some})", where] * bool(where) + [f" in {some}{common}"] * bool(common)
    in_all = unique(*named, part, f" in {some}", f" in {lead.count:,} of {every:,}")
    alone = [f" in {some}", f" in {lead.count:,} of {every:,}"] * (1 - lead.count / every <= LEFT_OUT)
    both_edges = {*AT_EDGE} <= {group.outcome for group in others}
    edges = _at_edges(finding, workload) if both_edges else ""
    every_named = others and bool(edges) == both_edges and all(which(finding, group, workload) for group in others)
    # of two kinds of settings one is plain
    plain = len(others) == 1 and not (where and finding.kind in BEST_PLACES)
    left = [""] * (plain or (len(others) == 2 and bool(edges)))
    in_brief = unique(where or part, *left) if every_named else in_all
    few = in_brief if all(group.count == 1 for group in others) else in_all
    return [in_brief, in_brief, few, in_all, in_all, alone]


def _others(first: str, groups: Sequence[Group], finding: Finding, workload: Workload, but: str) -> list[list[str]]:
    """What further settings say, and which or how many they are, in `DETAILS` lengths: with which they are, in few
    words, and with counts of several, of all; at last nothing. first: what the leading ones say. but: stands before
    bounds."""
    out, before = [list[str]() for _ in range(DETAILS)], first
    edges = [group for group in groups if group.outcome in AT_EDGE]
    for group in groups:
        whole = clause(replace(finding, question="?"), group, workload, SIZES)
        brief, count = brief_words(finding, group, workload), f" in {group.count:,}"
        text, before = brief if group.outcome in FURTHER else what_differs(before, whole), whole
        text = but * (group.outcome in BOUNDS) + text
        shortest = least = brief_words(finding, group, workload, whose="")
        if group.outcome == Outcome.LOCATED:
            place = place_words(finding, group, workload, SIZES)
            least = f"{ESTIMATES.get(finding.kind, 'found')} {place}"
            shortest = place if group.count == 1 else least
        named = which(finding, group, workload) or count
        named += _in_common(finding, group, workload)
        single = named if group.count == 1 else count
        forms = [text + named, shortest + named, shortest + single, shortest + count, least + count]
        if len(edges) > 1 and group in edges:
            count, shared = f" in {sum(one.count for one in edges)}", _at_edges(finding, workload)
            forms = [f"{EDGES}{at}" * (group is edges[0]) for at in (*[shared or count] * 2, *[count] * 3)]
        for said, form in zip(out, forms, strict=False):
            said.append(form)
    return out


def _at_edges(finding: Finding, workload: Workload) -> str:
    """Which settings have their best value at either edge: " for γ = 0.1 or 0.8"; empty if that is no condition."""
    chosen = finding.table["outcome"].isin(AT_EDGE).to_numpy()
    where = " and ".join(condition_words(one, workload) for one in conditions(finding.table, chosen, finding.keys))
    return f" for {where}" * bool(where)


def _in_common(finding: Finding, group: Group, workload: Workload) -> str:
    """What settings with a place share, if that does not name them and few others share it: " (only γ ≥ 1)"."""
    if group.outcome != Outcome.LOCATED or which(finding, group, workload):
        return ""
    common = within(finding.table, group.outcome, finding.keys)
    if not common:
        return ""
    words = [short(common.key, value, workload) for value in common.values if isinstance(value, str)]
    return f" (only {either(words) if words else condition_words(common, workload)})"


def _answer_of_search(finding: Finding, workload: Workload) -> str:
    """The best configuration of a search, which axes carry the variance, and what is not told from it."""
    facts = finding.facts
    finding = replace(finding, table=finding.table.head(1))
    first = finding.table.iloc[0]
    sure = " (one run, no interval)" if facts.get("one_draw") else ""
    text = _fitting(f"{clause(finding, groups_of(finding)[0], workload)}{sure}", "found")
    leading = {name: share for name, share in facts["shares"].items() if share >= LEADING}
    at = {name: f"{called(name, workload)} {number(first[name], 3)}" for name in facts["axes"] if pd.notna(first[name])}
    whole, main = (", ".join(at[name] for name in names if name in at) for names in (at, leading or at))
    alike, most = facts["alike"], " and ".join(called(name, workload) for name in leading)
    others = f"; {counted(alike, 'other')} of {facts['configurations']} cannot be told from it" if alike else ""
    shares = " and ".join(f"{called(name, workload)} {100 * share:.0f} %" for name, share in leading.items())
    matters = [f"; share of the variance: {shares}", f"; {most} matter{'s' * (len(leading) == 1)} most"] * bool(leading)
    forms = (f"{text}{f' at {at}' * bool(at)}{others}{more}" for at in (whole, main) for more in (*matters, ""))
    return _fitting(*forms, text)


def _along(finding: Finding, workload: Workload, *, alone: bool) -> list[str]:
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


def _answer_of_law(finding: Finding, workload: Workload) -> str:
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
    text = _fitting(*(first + at for first in said for at in of_all), *said, "found")
    if out := facts.get("largest_out"):
        first = called(facts["over"][0], workload)
        held = f"{out['inside']} of {out['of']} {'lies' if out['inside'] == 1 else 'lie'}"
        text = _longer(text, f"{held} as forecast at the largest values of {first}", "; {}")
    return text


def _answer_of_pair(finding: Finding, workload: Workload) -> str:
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
                of_which = {"it": f"the best {name}{whose}", "place": place_words(part, groups[0], workload, SIZES)}
                text = said.format(x=name, for_metric=whose, metric=called(finding.metric, workload), **of_which)
            if group and len(table) > 1:
                text += f" in {group.count}" if parts else f" in {some_of(group.count, len(table), 'setting')}"
            parts.append(text)
        texts += ["; ".join(parts)]
    return _fitting(*texts, parts[0], "found")


def _order(group: Group, finding: Finding) -> tuple[int, int, bool]:
    """The place of a group: first the best, then places if a third of settings have one, a sixth if with bounds most of
    them are known, any if most others are not clear, then the most frequent, of equals what is clear."""
    counts, every = finding.table["outcome"].value_counts(), len(finding.table)
    most = 2 * counts.reindex([Outcome.LOCATED, *BOUNDS], fill_value=0).sum() > every
    least = 0 if counts.index[0] == Outcome.UNCLEAR else every / 6 if most else every / 3
    located = group.outcome == Outcome.LOCATED and group.count >= least
    rank = {Outcome.BEST: 0, Outcome.WORSE: 2}.get(group.outcome, int(not located))
    return rank, -group.count, group.outcome in (Outcome.UNCLEAR, Outcome.UNDECIDED)


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


def _besides(finding: Finding, lead: Group, workload: Workload) -> list[str]:
    """What is added to what most settings say, with the mark before it, the longest form first: what would decide it,
    beside which setting a shift is, or in how many settings a power changes."""
    table, facts = finding.table, finding.facts
    if lead.outcome == Outcome.UNDECIDED:
        needs, together = _all_need(finding, workload), _together(finding, workload)
        asked, between = f"needs {needs}" * bool(needs), between_words(finding, workload)
        forms = "; ".join(filter(None, [between, asked])), asked
        return unique(*(f" ({one})" * bool(one) + f"; {together} vary together" * bool(together) for one in forms), "")
    out = ""
    if overall := facts.get("overall"):
        out = f"; over all cells {interval(overall['rank_correlation'], overall['low'], overall['high'])}"
    if base := facts.get("base"):
        out = f", beside {settings(base, workload)}"
    elif bends := facts.get("bends"):
        most = number(table.loc[table["bends"], "bend"].abs().max(), 2)
        out = f"; local exponents vary by {'up to ' * (bends > 1)}{most}"
    return unique(out, "")


def without_settings(finding: Finding, workload: Workload) -> str:
    """The sentence of a finding that has no setting: why, or what a function of the user returned."""
    why = finding.facts.get(NOTHING)
    if why is None:
        return f"{finding.kind} returned {counted(finding.facts.get('rows', 0), 'row')} and no text."
    about = finding.facts.get("about", "")
    text = NOTHINGS[Nothing(why)].format(about=called(about, workload), of_about=f" of {about}" * bool(about))
    return capitalized(text) + "."
