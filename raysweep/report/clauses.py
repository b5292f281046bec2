"""Clauses: what the settings of one outcome say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from raysweep.analyses.counts import Group, Way
from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.rows import signs_of
from raysweep.numbers import alike, number
from raysweep.report.names import called, setting, unit_of, what_differs
from raysweep.report.phrases import (
    ALIKE,
    ALIKE_PLACES,
    BEST_PLACES,
    BOUNDS,
    CLAUSES,
    EFFECTS,
    IF_ANY,
    MEANT,
    NOT_MEASURED,
    OF_KIND,
    ON_THE_WHOLE,
    OTHERWISE,
    OUTCOMES,
    PER_DECADE,
    PERHAPS,
    SIDES,
    SOMEWHERE,
    SUBJECTS,
    WAYS,
)
from raysweep.report.place_words import BRIEF, NAMING, at_words, is_words, place_words
from raysweep.workloads.declaration import Workload

WEAK = 0.3
"""The size of a rank correlation below which it says little."""
LEVEL = 3
"""Values that an axis has at least from where on a change is said to stay as it is."""
TWICE = 2
"""A value this many times another is not said in percent of it."""


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
            effect=effect(finding),
            if_any=IF_ANY * (finding.kind == "boundary"),
            count=group.count,
            are="is" if group.count == 1 else "are",
            **_further(finding, group, workload, size),
            **sides,
        )
    )


def not_measured(group: Group, finding: Finding) -> bool:
    """Whether means have no finite variance. (Of engines a single x has no order.)"""
    return group.outcome == Outcome.MEASURED and not np.isfinite(group.low) and finding.kind != "engines"


def effect(finding: Finding) -> str:
    """What is not clear: a turn, a trend, a difference."""
    return "difference" if finding.facts.get("two_values") else EFFECTS.get(finding.kind, "difference")


def outcome_words(outcome: str, finding: Finding) -> str:
    """What a table and the short form of a sentence say of an outcome: "transfer helps everywhere", "undecided"."""
    if outcome == Outcome.UNCLEAR:
        return f"no clear {effect(finding)}"
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
    sure = f"{PERHAPS} " if finding.kind == "boundary" else "" if edge else f"{SOMEWHERE} "
    return f"{sure}{side} {number(group.low, 3)}{unit_of(finding.x, workload)}{whose.format(edge) * bool(edge)}"


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
        if group.count > 1 and len(changed := percent_changed(rows, finding, workload).abs()):
            texts = dict.fromkeys(f"{end:.0f}" for end in (changed.min(), changed.max()))
            slope = f" (by {' to '.join(texts)} %)" * (size < BRIEF)
        if facts.get("two_values"):
            by = (rows["last"] - rows["first"]).abs()
            ends = list(dict.fromkeys(alike(by.min(), by.max(), error=group.error)))
            if len(ends) > 1 and group.drive and size < NAMING:
                ends = _at_ends(ends, by, rows[group.drive.key], group.error, workload)
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


def percent_changed(rows: pd.DataFrame, finding: Finding, workload: Workload) -> pd.Series:
    """By how many percent a metric that should be small changes from one end of the axis of a trend to the other; empty
    if that would mislead: where one end is not positive, or the last is twice the first, or against the slope."""
    small = any(one.name == finding.metric and one.direction == "minimize" for one in workload.metrics)
    if not small or "first" not in rows or finding.facts.get("two_values"):
        return pd.Series(dtype=float)
    first, last = rows["first"], rows["last"]
    tame = (first > 0) & (last > 0) & (last < TWICE * first) & ((last - first) * rows["estimate"] > 0)
    return 100 * (last / first - 1) if tame.all() else pd.Series(dtype=float)


def _at_ends(texts: list[str], by: pd.Series, axis: pd.Series, error: float, workload: Workload) -> list[str]:
    """The texts of the smallest and the largest value with where these are, if they are at the ends of an axis, and
    from where on the last one holds."""
    if axis.duplicated().any() or axis.dtype.kind not in "if":
        return texts
    low, high = sorted((axis.idxmin(), axis.idxmax()), key=lambda end: float(by[end]))
    if max(by[low] - by.min(), by.max() - by[high]) > error:
        return texts
    flat = (by[axis.sort_values().index] - by[axis.idxmax()]).abs() <= error
    level = flat.index[flat[::-1].cumprod()[::-1] == 1]
    places = {end: f"at {setting(str(axis.name), axis[end], workload)}" for end in (low, high)}
    if len(level) >= LEVEL:
        places[axis.idxmax()] = f"from {setting(str(axis.name), axis[level[0]], workload)} on"
    return [f"{text} {places[end]}" for text, end in zip(texts, (low, high), strict=True)]


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
