"""The sentence of a finding: clauses on what most settings say, in how many, what the others say, and whether theory
agrees, as many as fit in `MOST` words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, reduce
from itertools import product

import numpy as np

from raysweep.analyses.counts import Group, conditions, groups_of, within
from raysweep.analyses.finding import NOTHING, Finding, Nothing, Outcome
from raysweep.analyses.rows import varying
from raysweep.fits.reasons import Reason
from raysweep.numbers import interval, number
from raysweep.phrases import counted
from raysweep.report.clauses import (
    BRIEF,
    ENDS,
    NAMING,
    SIZES,
    as_said,
    between_words,
    brief_words,
    clause,
    condition_words,
    either,
    moving_words,
    needed_words,
    of_each,
    place_words,
    share,
    theory_words,
    which,
)
from raysweep.report.names import as_called, called, capitalized, settings, short, what_differs
from raysweep.report.notes import title
from raysweep.report.phrases import BEST_PLACES, BOUNDS, EDGES, ESTIMATES, FURTHER, NOTHINGS, NOUNS, PER_METRIC, REST
from raysweep.report.sentences_by_kind import (
    MOST,
    along_axis,
    fitting,
    longer,
    of_law,
    of_pair,
    of_predictors,
    of_search,
    unique,
)
from raysweep.workloads.declaration import Workload

AT_EDGE = (Outcome.IMPROVES, Outcome.DEGRADES)
DETAILS = 6
"""In how many lengths it is said what others say, see `_others`."""
LEFT_OUT, SCATTERED = 0.1, 3
"""Others that are at most this share of all settings may be left out beside how many the leading ones are; and fewer
than half of them that differ from one another, if they are so many."""


def sentence(finding: Finding, workload: Workload) -> str:
    """The answer of a finding in at most `MOST` words."""
    if finding.texts:
        return finding.texts[0]
    if not len(finding.table):
        return without_settings(finding, workload)
    parts = _by_metric(_bounds_as_one(as_said(finding)))
    if len(parts) > 1 and finding.kind == "curves":  # each metric is said before theory
        parts = [replace(one, table=one.table.assign(theory=np.nan)) for one in parts]
    text = ""
    for k, one in enumerate(parts):
        answer = _answer(one, workload, (MOST - len(text.split())) // min(len(parts) - k, 2))
        text = longer(text, answer, "; {}") if text else answer
    asked = f"{title(finding, workload)} " if not finding.question and undecided(finding) else ""
    return fitting(f"{asked}{capitalized(text)}.", f"{capitalized(text)}.")


def undecided(finding: Finding) -> bool:
    """Whether no setting is decided."""
    return set(finding.table["outcome"]) == {Outcome.UNDECIDED}


def _bounds_as_one(finding: Finding) -> Finding:
    """The finding with places beyond the grid as bounds, if others have a bound on the same side."""
    outcomes = finding.table["outcome"]
    sides = ((Outcome.BEYOND_LOW, Outcome.BOUND_LOW), (Outcome.BEYOND_HIGH, Outcome.BOUND_HIGH))
    both = {beyond: bound for beyond, bound in sides if {beyond, bound} <= set(outcomes)}
    return replace(finding, table=finding.table.assign(outcome=outcomes.replace(both)))


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
        return of_search(finding, workload)
    if finding.kind == "law":
        if (finding.table["outcome"] != Outcome.UNDECIDED).any():
            return of_law(finding, workload)
        finding = replace(finding, table=finding.table[finding.table["axis"] == finding.facts["over"][0]])
    if finding.kind == "joint_optimum":
        return of_pair(finding, workload)
    if finding.kind == "r_squared" and (first := of_predictors(finding, workload)):
        return first
    workload, theory = as_called(finding, workload), theory_words(finding, workload)
    if finding.kind == "curves" and (forms := along_axis(finding, workload, alone=most == MOST)):
        along = next((form for form in forms if len(form.split()) <= most), forms[-1])
        return reduce(lambda text, said: text if text != along else longer(text, said, "; {}"), theory, along)
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
        return fitting(*(form + rest for rest in fewer for form in forms), *begin, *brief)
    extras, each = _besides(finding, lead, workload), of_each(finding, lead) if len(others) == 1 else ""
    but = "but " * bool(lead.drive and lead.drive.one_way)  # a bound is an exception from how places move
    rest = cache(lambda first: _others(first, others, finding, workload, but))
    wheres = _wheres(finding, lead, others, workload)
    says, bare_count = unique(*theory, ""), f" in {lead.count:,} of {len(finding.table):,}"
    moving = moving_words(finding, lead, workload, symbols=True)
    driven, patterns = (
        unique(*(clause(finding, lead, workload, size) for size in range(most))) for most in (NAMING, BRIEF)
    )
    rules = [driven] * bool(lead.drive) + [begin[:BRIEF]]  # what an axis says is more than what theory says
    rules = [[*begin[:BRIEF], clause(bare, lead, workload), *brief[:1]]] * bool(moving) + rules
    if only := _only(finding, lead, workload):
        fallen = [clause(finding, lead, workload, BRIEF)] * ("fall" in finding.table)
        rules = [fallen or begin[NAMING:BRIEF], *rules]
    if extreme := bool(moving) and any(group.outcome in BOUNDS for group in others):  # which is more than theory says
        rules = [patterns, *rules]
    details = range(DETAILS if moving and not extreme else DETAILS - 1)
    # a whole sentence goes before the fragment that ends `brief`
    for forms, said, more in product((*rules, begin, brief[:-1], brief), says, extras):
        for per, detail, counting, first in product(unique(each, ""), details, (False, True), forms):
            for at in [per] if per else [at for at in wheres[detail] if counting or at != bare_count]:
                after = [] if per else rest(first)[detail]
                placed = f"{at.strip()}, {first}" if [at] == only else f"{first}{at}"  # a long list goes first
                text = "; ".join(filter(None, [f"{placed}{more}", *after, said]))
                if len(text.split()) <= most:
                    return text
    text = fitting(*(first + at for first in brief for at in wheres[0]))
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
    return fitting(*shortened, texts[0])


def _wheres(finding: Finding, lead: Group, others: Sequence[Group], workload: Workload) -> list[list[str]]:
    """Which the leading settings are, by detail as in `_others`, the longest form first: in how many of all if some
    others are only counted, and nothing if these are named."""
    every, noun = len(finding.table), NOUNS.get(finding.kind, "setting")
    if every == 1 or (lead.count == every and lead.outcome == Outcome.UNDECIDED and _all_need(finding, workload)):
        return [[""]] * DETAILS
    by_medians = every == lead.count and lead.drive and lead.drive.medians
    if by_medians and clause(finding, lead, workload) != brief_words(finding, lead, workload):  # a place is said
        return [[f" across {counted(every, noun)}", ""]] * DETAILS  # what medians do, single settings need not do
    where, part = which(finding, lead, workload), share(finding, lead, workload)
    some = f"{lead.count:,} of {counted(every, noun)}"
    named = [f"{where} ({some})", where] * bool(where) + _only(finding, lead, workload)
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


def _only(finding: Finding, group: Group, workload: Workload) -> list[str]:
    """In how many settings, with what they share: [" in 11 of 272 settings (only γ ≥ 1)"]; [] if that is nothing."""
    some = f" in {group.count:,} of {counted(len(finding.table), NOUNS.get(finding.kind, 'setting'))}"
    return [some + common for common in [_in_common(finding, group, workload)] if common]


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


def _order(group: Group, finding: Finding) -> tuple[int, int, bool]:
    """The place of a group: first the best, then places if a third of settings have one, a sixth if with bounds most of
    them are known, any if most others are not clear, then the most frequent, of equals what is clear."""
    counts, every = finding.table["outcome"].value_counts(), len(finding.table)
    most = 2 * counts.reindex([Outcome.LOCATED, *BOUNDS], fill_value=0).sum() > every
    least = 0 if counts.index[0] == Outcome.UNCLEAR else every / 6 if most else every / 3
    located = group.outcome == Outcome.LOCATED and group.count >= least
    rank = {Outcome.BEST: 0, Outcome.WORSE: 2}.get(group.outcome, int(not located))
    return rank, -group.count, group.outcome in (Outcome.UNCLEAR, Outcome.UNDECIDED)


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
