"""Which the settings are that a sentence begins with, and what the others say, in several lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from raysweep.analyses.counts import Group, conditions, within
from raysweep.analyses.finding import Finding, Outcome
from raysweep.phrases import counted
from raysweep.report.clauses import brief_words, clause
from raysweep.report.names import short, what_differs
from raysweep.report.needed_words import needed_words
from raysweep.report.phrases import BEST_PLACES, BOUNDS, EDGES, ESTIMATES, FURTHER, NOUNS
from raysweep.report.place_words import SIZES, place_words
from raysweep.report.sentences_by_kind import unique
from raysweep.report.which_settings import condition_words, either, share, which
from raysweep.workloads.declaration import Workload

AT_EDGE = (Outcome.IMPROVES, Outcome.DEGRADES)
DETAILS = 6
"""In how many lengths it is said what others say, see `other_words`."""
LEFT_OUT = 0.1
"""Others that are at most this share of all settings may be left out beside how many the leading ones are."""


def leading_words(finding: Finding, lead: Group, others: Sequence[Group], workload: Workload) -> list[list[str]]:
    """Which the leading settings are, by detail as in `other_words`, the longest form first: in how many of all if some
    others are only counted, and nothing if these are named."""
    every, noun = len(finding.table), NOUNS.get(finding.kind, "setting")
    if every == 1 or (lead.count == every and lead.outcome == Outcome.UNDECIDED and all_need(finding, workload)):
        return [[""]] * DETAILS
    by_medians = every == lead.count and lead.drive and lead.drive.medians
    if by_medians and clause(finding, lead, workload) != brief_words(finding, lead, workload):  # a place is said
        return [[f" across {counted(every, noun)}", ""]] * DETAILS  # what medians do, single settings need not do
    where, part = which(finding, lead, workload), share(finding, lead, workload)
    some = f"{lead.count:,} of {counted(every, noun)}"
    named = [f"{where} ({some})", where] * bool(where) + only_words(finding, lead, workload)
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


def only_words(finding: Finding, group: Group, workload: Workload) -> list[str]:
    """In how many settings, with what they share: [" in 11 of 272 settings (only γ ≥ 1)"]; [] if that is nothing."""
    some = f" in {group.count:,} of {counted(len(finding.table), NOUNS.get(finding.kind, 'setting'))}"
    return [some + common for common in [in_common(finding, group, workload)] if common]


def other_words(
    first: Sequence[str], groups: Sequence[Group], finding: Finding, workload: Workload, but: str
) -> list[list[str]]:
    """What further settings say, and which or how many they are, in `DETAILS` lengths: with which they are, in few
    words, and with counts of several, of all; at last nothing. first: what the leading ones say, in full and in
    short. but: stands before bounds."""
    out, before = [list[str]() for _ in range(DETAILS)], first
    edges = [group for group in groups if group.outcome in AT_EDGE]
    for group in groups:
        whole = clause(replace(finding, question="?"), group, workload, SIZES)
        brief, count = brief_words(finding, group, workload), f" in {group.count:,}"
        differs = min((what_differs(one, whole) for one in before), key=len)
        text, before = brief if group.outcome in FURTHER else differs, [whole]
        text = but * (group.outcome in BOUNDS) + text
        shortest = least = brief_words(finding, group, workload, whose="")
        if group.outcome == Outcome.LOCATED:
            place = place_words(finding, group, workload, SIZES)
            least = f"{ESTIMATES.get(finding.kind, 'found')} {place}"
            shortest = place if group.count == 1 else least
        named = which(finding, group, workload) or count
        named += in_common(finding, group, workload)
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


def in_common(finding: Finding, group: Group, workload: Workload) -> str:
    """What settings with a place share, if that does not name them and few others share it: " (only γ ≥ 1)"."""
    if group.outcome != Outcome.LOCATED or which(finding, group, workload):
        return ""
    common = within(finding.table, group.outcome, finding.keys)
    if not common:
        return ""
    words = [short(common.key, value, workload) for value in common.values if isinstance(value, str)]
    return f" (only {either(words) if words else condition_words(common, workload)})"


def all_need(finding: Finding, workload: Workload) -> str:
    """What would decide all open settings; empty if they need different things."""
    rows = finding.table[finding.table["outcome"] == Outcome.UNDECIDED].drop_duplicates(["needed", "needed_number"])
    return needed_words(rows.iloc[0], finding, workload) if len(rows) == 1 else ""
