"""The sentence of a finding: clauses on what most settings say, in how many, what the others say, and whether theory
agrees, as many as fit in `MOST` words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, reduce
from itertools import product

import numpy as np

from raysweep.analyses.counts import Group, groups_of
from raysweep.analyses.finding import NOTHING, Finding, Nothing, Outcome
from raysweep.analyses.rows import varying
from raysweep.fits.reasons import Reason
from raysweep.numbers import interval, number
from raysweep.phrases import counted
from raysweep.report.clauses import as_said, brief_words, clause
from raysweep.report.details import AT_EDGE, DETAILS, all_need, leading_words, only_words, other_words
from raysweep.report.names import as_called, called, capitalized, settings
from raysweep.report.needed_words import between_words
from raysweep.report.notes import title
from raysweep.report.phrases import BOUNDS, ESTIMATES, NOTHINGS, PER_METRIC, REST
from raysweep.report.place_words import BRIEF, ENDS, NAMING, SIZES, moving, place_words
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
from raysweep.report.theory_words import theory_words
from raysweep.report.which_settings import of_each, which
from raysweep.workloads.declaration import Workload

SCATTERED = 3
"""Others may be left out that are fewer than half of all settings and differ from one another, if they are so many."""


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
    """The finding with places beyond the grid as bounds, if others have a bound on the same side and most a place."""
    outcomes = finding.table["outcome"]
    if 2 * (outcomes == Outcome.LOCATED).sum() <= len(outcomes):
        return finding
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
    lengths = [clause(finding, lead, workload, size) for size in range(SIZES)]
    begin = unique(*lengths)
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
    shortest = clause(bare, lead, workload, SIZES)
    rest = cache(lambda first: other_words((first, shortest), others, finding, workload, but))
    wheres = leading_words(finding, lead, others, workload)
    says, bare_count = unique(*theory, ""), f" in {lead.count:,} of {len(finding.table):,}"
    _, moved = moving(finding, lead)
    # what an axis says is more than what theory says
    rules = [unique(*lengths[:NAMING])] * bool(lead.drive or lead.apart) + [begin[:BRIEF]]
    rules = [[*begin[:BRIEF], clause(bare, lead, workload), *brief[:1]]] * bool(moved) + rules
    if only := only_words(finding, lead, workload):
        fallen = [lengths[BRIEF]] * ("fall" in finding.table)
        rules = [fallen or begin[NAMING:BRIEF], *rules]
    if extreme := bool(moved) and any(group.outcome in BOUNDS for group in others):  # which is more than theory says
        rules = [unique(*lengths[:BRIEF]), *rules]
    details = range(DETAILS if moved and not extreme else DETAILS - 1)
    # a whole sentence goes before the fragment that ends `brief`
    for forms, said, more in product((*rules, begin, brief[:-1], brief), says, extras):
        for per, detail, counting, first in product(unique(each, ""), details, (False, True), forms):
            ats = [*wheres[detail], *[""] * (lead.count == len(finding.table) and said in theory[-1:])]
            for at in [per] if per else [at for at in ats if counting or at != bare_count]:
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


def _order(group: Group, finding: Finding) -> tuple[int, int, bool]:
    """The place of a group: first the best, then places if a third of settings have one, a sixth if with bounds most of
    them are known, any if most others are not clear, then the most frequent, of equals what is clear."""
    counts, every = finding.table["outcome"].value_counts(), len(finding.table)
    most = 2 * counts.reindex([Outcome.LOCATED, *BOUNDS], fill_value=0).sum() > every
    least = 0 if counts.index[0] == Outcome.UNCLEAR else every / 6 if most else every / 3
    located = group.outcome == Outcome.LOCATED and group.count >= least
    rank = {Outcome.BEST: 0, Outcome.WORSE: 2}.get(group.outcome, int(not located))
    return rank, -group.count, group.outcome in (Outcome.UNCLEAR, Outcome.UNDECIDED)


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
        needs, together = all_need(finding, workload), _together(finding, workload)
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
