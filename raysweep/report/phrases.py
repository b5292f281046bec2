"""Every word a report says of a finding. Nothing reads these words; they are made when a finding is shown.

A sentence is composed of clauses: what most settings say, in how many, whether theory agrees, what the others say.
Clauses are added in that order as long as the sentence has at most `MOST` words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from raysweep.analyses.counts import Condition, Group, groups_of
from raysweep.analyses.finding import Finding, Move, Needed, Outcome
from raysweep.analyses.nothing import NOTHING, Nothing
from raysweep.analyses.rows import signs_of
from raysweep.fits.statistics import LEVEL, normal_quantile
from raysweep.numbers import interval, number
from raysweep.phrases import counted
from raysweep.report.names import (
    as_called,
    called,
    capitalized,
    line_label,
    listed,
    setting,
    settings,
    unit_of,
    without_common_beginning,
)
from raysweep.workloads.declaration import Workload

MOST = 25
"""Words of a sentence."""

OUTCOMES: Mapping[Outcome, str] = {
    Outcome.LOCATED: "located",
    Outcome.BEYOND_LOW: "below the grid",
    Outcome.BEYOND_HIGH: "above the grid",
    Outcome.EDGE_LOW: "at the lower edge or below",
    Outcome.EDGE_HIGH: "at the upper edge or above",
    Outcome.BOUND_LOW: "upper bound only",
    Outcome.BOUND_HIGH: "lower bound only",
    Outcome.OK_LOW: "below the rows that are ok",
    Outcome.OK_HIGH: "above the rows that are ok",
    Outcome.IMPROVES: "best at the largest value",
    Outcome.DEGRADES: "best at the smallest value",
    Outcome.POSITIVE: "positive everywhere",
    Outcome.NEGATIVE: "negative everywhere",
    Outcome.TOUCHES: "meets zero without crossing",
    Outcome.NO_EFFECT: "no effect",
    Outcome.UNDECIDED: "not decided",
    Outcome.UNCLEAR: "not clear",
    Outcome.ALIKE: "not told from the best",
}
"""The status of a setting in a table; other outcomes are words already."""

CLAUSES: Mapping[str, Mapping[Outcome, str]] = {
    "boundary": {
        Outcome.LOCATED: "{metric} changes sign at {x} {place}",
        Outcome.POSITIVE: "{metric} is positive everywhere",
        Outcome.NEGATIVE: "{metric} is negative everywhere",
        Outcome.TOUCHES: "{metric} meets zero without crossing",
        Outcome.NO_EFFECT: "{metric} is zero everywhere",
    },
    "predicted_boundary": {
        Outcome.AGREES: "the predicted {x} agrees with the measured one",
        Outcome.HIGHER: "the predicted {x} is too high",
        Outcome.LOWER: "the predicted {x} is too low",
        Outcome.UNDECIDED: "the predicted {x} cannot be compared with the measured one",
    },
    "inflection": {
        Outcome.LOCATED: "{metric} turns at {x} {place}",
        Outcome.IMPROVES: "more {x} is better throughout",
        Outcome.DEGRADES: "less {x} is better throughout",
        Outcome.NO_EFFECT: "{metric} is the same at every {x}",
    },
    "optimum": {
        Outcome.LOCATED: "the best {x} for {metric} is {place}",
        Outcome.IMPROVES: "the largest {x} is best for {metric}",
        Outcome.DEGRADES: "the smallest {x} is best for {metric}",
        Outcome.NO_EFFECT: "{metric} is the same at every {x}",
    },
    "agreement": {
        Outcome.AGREES: "theory and experiment agree",
        Outcome.DIFFERS: "theory and experiment differ",
        Outcome.UNDECIDED: "theory and experiment cannot be compared",
    },
    "relation": {
        Outcome.RISES: "{metric} rises with {x} (rank correlation {place})",
        Outcome.FALLS: "{metric} falls with {x} (rank correlation {place})",
        Outcome.UNCLEAR: "{x} is not shown to predict {metric} (rank correlation {place})",
        Outcome.MEASURED: "{metric} and {x} have rank correlation {place}",
        Outcome.UNDECIDED: "{metric} and {x} have no rank correlation",
    },
    "r_squared": {
        Outcome.BEST: "{predictor} clearly explains {metric} best (R² {place})",
        Outcome.UNCLEAR: "no predictor clearly explains {metric} best",
        Outcome.MEASURED: "{predictor} explains {metric} with R² {place}",
    },
    "engines": {
        Outcome.NO_EFFECT: "{metric} equals that of {reference} up to rounding",
        Outcome.CONSTANT: "{metric} differs from {reference} by the same at every {x}",
        Outcome.INCREASING: "{metric} approaches that of {reference} as {x} → 0 (order {place})",
        Outcome.DECREASING: "{metric} departs from that of {reference} as {x} → 0 (order {place})",
        Outcome.MEASURED: "{metric} differs from {reference} at a single {x}",
    },
    "trend": {
        Outcome.RISES: "{metric} rises with {x}{throughout}",
        Outcome.FALLS: "{metric} falls with {x}{throughout}",
        Outcome.UNCLEAR: "{metric} shows no clear trend with {x}",
        Outcome.NO_EFFECT: "{metric} does not change with {x}",
        Outcome.UNDECIDED: "whether {metric} changes with {x} cannot be tested",
    },
    "best": {
        Outcome.BEST: "the best {metric} is {place}",
        Outcome.ALIKE: "{count} cannot be told from it",
        Outcome.WORSE: "{count} are worse",
    },
    "search": dict.fromkeys((Outcome.BEST, Outcome.MEASURED), "the best {metric} is {place}"),
    "curves": {
        Outcome.MEASURED: "{metric} is {place}",
        Outcome.HIGHER: "{metric} is higher than {beside}",
        Outcome.LOWER: "{metric} is lower than {beside}",
        Outcome.NO_EFFECT: "{metric} equals {beside}",
    },
    "comparison": {
        Outcome.HIGHER: "{metric} is higher by {place}",
        Outcome.LOWER: "{metric} is lower (difference {place})",
        Outcome.UNCLEAR: "{metric} is not shown to differ (difference {place})",
        Outcome.NO_EFFECT: "{metric} is the same in every draw",
    },
    "power_law": {
        Outcome.RISES: "{metric} grows with {x} to the power {place}",
        Outcome.FALLS: "{metric} falls with {x} to the power {place}",
        Outcome.NO_EFFECT: "{metric} does not change with {x}",
        Outcome.UNCLEAR: "whether {metric} grows or falls with {x} is not clear (exponent {place})",
        Outcome.UNDECIDED: "no power of {x} is known for {metric}",
    },
    "shift": {
        Outcome.HIGHER: "the best {x} is higher, by a factor {place}",
        Outcome.LOWER: "the best {x} is lower, by a factor {place}",
        Outcome.UNCLEAR: "no shift of the best {x} is shown (factor {place})",
        Outcome.UNDECIDED: "how far the best {x} shifts is not decided",
    },
    "regime": {
        Outcome.CONSTANT: "the best {x} hardly changes with {length} (log-log slope {place})",
        Outcome.INCREASING: "the best {x} rises with {length} (log-log slope {place})",
        Outcome.SLOWLY_DECREASING: "the best {x} falls slowly with {length} (log-log slope {place})",
        Outcome.QUICKLY_DECREASING: "the best {x} falls quickly with {length} (log-log slope {place})",
        Outcome.DECREASING: "the best {x} falls with {length}, how fast is open (log-log slope {place})",
        Outcome.UNDECIDED: "how the best {x} changes with {length} is not decided",
    },
    "learning_curves": {
        Outcome.MEASURED: "{metric} ends at {place}",
        Outcome.UNDECIDED: "{metric} is not known, because too few draws are ok,",
    },
    "landscape": {Outcome.MEASURED: "{metric} rises by {place} above its middle on average"},
}
"""What a setting says, by kind and outcome. {x}, {metric}: names; {place}: the estimate, or between what it lies."""

MEANT: Mapping[str, Mapping[Outcome, str]] = {
    "boundary": {
        Outcome.LOCATED: "{metric}: {below} below {x} {place} and {above} above",
        Outcome.POSITIVE: "{metric}: {positive} everywhere",
        Outcome.NEGATIVE: "{metric}: {negative} everywhere",
    },
    "inflection": {Outcome.LOCATED: "{located}: {metric} turns at {x} {place}"},
    "trend": {Outcome.RISES: "{rises}{throughout}", Outcome.FALLS: "{falls}{throughout}"},
    "best": {Outcome.BEST: "{best}: the best {metric} is {place}"},
    "curves": {Outcome.HIGHER: "{metric} is positive ({positive})", Outcome.LOWER: "{metric} is negative ({negative})"},
}
"""The same where the space or the workload says what the sides mean (`Finding.meanings`)."""

OTHERWISE: Mapping[Outcome, str] = {
    Outcome.BEYOND_LOW: "{it} lies below the grid of {x}",
    Outcome.BEYOND_HIGH: "{it} lies above the grid of {x}",
    Outcome.EDGE_LOW: "{it} lies at the lower edge of {x} or below",
    Outcome.EDGE_HIGH: "{it} lies at the upper edge of {x} or above",
    Outcome.BOUND_LOW: "{it} is only bounded from above",
    Outcome.BOUND_HIGH: "{it} is only bounded from below",
    Outcome.OK_LOW: "{it} lies below the rows that are ok",
    Outcome.OK_HIGH: "{it} lies above the rows that are ok",
    Outcome.NO_EFFECT: "{it} makes no difference",
    Outcome.UNCLEAR: "no difference of {metric} is clear",
    Outcome.UNDECIDED: "{it} is not decided",
    Outcome.MEASURED: "{metric} is {place}",
    Outcome.RISES: "{metric} rises with {x}",
    Outcome.FALLS: "{metric} falls with {x}",
}
"""What a setting says where its kind has no clause of its own."""

NOT_MEASURED = "{metric} has no finite variance"
"""What settings say in which a mean means nothing."""

SUBJECTS: Mapping[str, str] = {
    "boundary": "the zero of {metric}",
    "inflection": "the turning point of {metric}",
    "optimum": "the best {x} for {metric}",
}
"""What {it} is where such a clause comes first, by kind."""

OPEN: Mapping[str, str] = {
    **SUBJECTS,
    "boundary": "where {metric} changes sign in {x}",
    "inflection": "where {metric} turns in {x}",
}
"""The same where it is not decided."""


def sentence(finding: Finding, workload: Workload) -> str:
    """The answer of a finding in at most `MOST` words."""
    if finding.texts:
        return finding.texts[0]
    if not len(finding.table):
        return without_settings(finding, workload)
    texts = [_answer(one, workload) for one in _by_metric(finding)]
    text = texts[0]
    for other in texts[1:]:
        text = _longer(text, other, "; {}")
    return capitalized(text) + "."


def _by_metric(finding: Finding) -> list[Finding]:
    """The finding as one for each metric and each constant beside it, if an answer is about one at a time."""
    split = [key for key in ("metric", "against") if key in finding.keys and finding.kind in PER_METRIC]
    keys, out = [key for key in finding.keys if key not in split], []
    for values, table in finding.table.groupby(split, sort=False) if split else [((), finding.table)]:
        own = dict(zip(split, values, strict=True))
        facts = {**finding.facts, **({"constants": [own["against"]]} if "against" in own else {})}
        out.append(replace(finding, metric=own.get("metric", finding.metric), keys=keys, table=table, facts=facts))
    return out


def _first_setting(finding: Finding, workload: Workload) -> str:
    varied = [key for key in finding.keys if finding.table[key].nunique(dropna=False) > 1]
    return ", ".join(setting(key, finding.table[key].iloc[0], workload) for key in varied)


def _answer(finding: Finding, workload: Workload) -> str:
    """The answer of a finding that is no function of the user and has a setting."""
    if finding.kind == "search":
        return _answer_of_search(finding, workload)
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
    if overall := finding.facts.get("overall"):
        whole = interval(overall["rank_correlation"], overall["low"], overall["high"])
        text = _longer(text, whole, "; over all cells {}")
    text = _longer(text, _besides(finding, workload), "{}")
    text = _longer(text, theory_words(finding, workload), "; {}")
    for group in others:
        other = without_common_beginning(first, clause(finding, group, workload))
        text = _longer(text, other + ("" if finding.kind == "best" else f" in {group.count}"), "; {}")
    return text


def _answer_of_search(finding: Finding, workload: Workload) -> str:
    """The best configuration of a search, what is not told from it, and which axes carry the variance."""
    facts, first = finding.facts, finding.table.iloc[0]
    text = clause(finding, groups_of(replace(finding, table=finding.table.head(1)))[0], workload)
    leading = {name: share for name, share in facts["shares"].items() if share >= LEADING}
    named = [name for name in leading or facts["axes"] if first[name] is not None and first[name] == first[name]]
    text = _longer(text, settings(named, first[named], workload), " at {}")
    if facts["alike"]:
        every = counted(facts["configurations"], "configuration")
        text = _longer(text, f"{facts['alike']} of {every} not told from it", "; {}")
    if facts["one_draw"] and facts["configurations"] > 1:
        text = _longer(text, "with one draw each, chance may decide", "; {}")
    shares = " and ".join(f"{called(name, workload)} {100 * share:.0f} %" for name, share in leading.items())
    return _longer(text, shares, "; share of variance: {}")


LEADING = 0.1
"""An axis with this share of the variance is named in a sentence."""


def _order(group: Group, finding: Finding) -> int:
    """The place of a group in a sentence: first the best, and places if a quarter of all settings have one."""
    located = group.outcome == Outcome.LOCATED and 4 * group.count >= len(finding.table)
    return {Outcome.BEST: 0, Outcome.WORSE: 2}.get(group.outcome, int(not located))


def _longer(text: str, addition: str, form: str) -> str:
    """The text with the addition, if there is one and both together are short enough."""
    longer = text + form.format(addition)
    return longer if addition and len(longer.split()) <= MOST else text


def _all_need(finding: Finding, workload: Workload) -> str:
    """What would decide all open settings; empty if they need different things."""
    rows = finding.table[finding.table["outcome"] == Outcome.UNDECIDED]
    if rows["needed"].nunique() != 1:
        return ""
    most = {"needed": rows["needed"].iloc[0], "needed_number": rows["needed_number"].max()}
    return needed_words(most, finding, workload) if rows["needed_number"].nunique() == 1 else ""


def clause(finding: Finding, group: Group, workload: Workload, subject: str = "it") -> str:
    """What the settings of one outcome say. subject: of a clause that has none of its own."""
    sides = _sides(finding, workload)
    meant = MEANT.get(finding.kind, {}) if sides else {}
    if group.outcome == Outcome.MEASURED and not np.isfinite(group.low):
        meant = {Outcome.MEASURED: NOT_MEASURED}
    form = meant.get(group.outcome) or CLAUSES.get(finding.kind, {}).get(group.outcome) or OTHERWISE.get(group.outcome)
    return (
        (form or OUTCOMES.get(group.outcome, str(group.outcome)))
        .replace("{it}", subject)
        .format(
            metric=called(finding.metric, workload),
            x=called(finding.x, workload),
            place=place_words(finding, group, workload),
            count=group.count,
            **_further(finding, group, workload),
            **sides,
        )
    )


def _further(finding: Finding, group: Group, workload: Workload) -> dict[str, str]:
    """What the clauses of some kinds have besides: {length}, {reference}, {beside}, {predictor} and {throughout}."""
    rows, facts = finding.table[finding.table["outcome"] == group.outcome], finding.facts
    predictors = rows["predictor"].unique() if "predictor" in rows else []
    return {
        "length": called(facts.get("length", ""), workload),
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


def _besides(finding: Finding, workload: Workload) -> str:
    """What some kinds add to what most settings say, with the mark before it: beside which setting a shift is, in how
    many settings a power changes, and where what was logged is least and most."""
    table, facts = finding.table, finding.facts
    if base := facts.get("base"):
        return f", beside {settings(base, base.values(), workload)}"
    if bends := facts.get("bends"):
        return "; not one power" + (f" in {bends}" if len(table) > 1 else "")
    measured = table[table["outcome"] == Outcome.MEASURED]
    if finding.kind not in LOGGED or len(measured) < 2:
        return ""
    varied = [key for key in finding.keys if table[key].nunique(dropna=False) > 1]
    ends = (measured.loc[row, varied] for row in (measured["estimate"].idxmin(), measured["estimate"].idxmax()))
    return "; least with {}, most with {}".format(*(settings(varied, end, workload) for end in ends))


def place_words(finding: Finding, group: Group, workload: Workload) -> str:
    """The estimate with its interval if one setting has it, else between what the estimates lie."""
    unit = unit_of(finding.x, workload) if finding.kind in IN_X else ""
    if group.count == 1:
        row = finding.table[finding.table["outcome"] == group.outcome].iloc[0]
        known = np.isfinite(row["low"]) or np.isfinite(row["high"])
        return f"{interval(row['estimate'], row['low'], row['high']) if known else number(row['estimate'])}{unit}"
    ends = group.low, group.high
    rows = finding.table[finding.table["outcome"] == group.outcome]
    if finding.kind == "regime":  # a verdict is of the interval
        within = f"within [{number(rows['low'].min(), 2)}, {number(rows['high'].max(), 2)}]"
        slopes = " to ".join(dict.fromkeys(number(end, 2) for end in ends))
        return f"{slopes}, {within}" if np.isfinite(ends).all() else within
    low, high = f"{number(ends[0], 3)}", f"{number(ends[1], 3)}{unit}"
    return high if f"{low}{unit}" == high else f"{low}{unit if unit == '°' else ''} to {high}"


NOUNS = {"agreement": "metric", "curves": "cell", "comparison": "sweep", "relation": "group"}
"""What a setting is, by kind."""
DENIED = (Outcome.UNCLEAR, Outcome.UNDECIDED)
"""Outcomes whose clauses deny something."""
LOGGED = ("landscape", "learning_curves")
"""The kinds of what a stage logged."""
PER_METRIC = ("comparison", "curves", "engines", *LOGGED)
"""The kinds whose answer is about one metric at a time."""


def share(group: Group, every: int, noun: str) -> str:
    """In how many settings of all; "any of" where the clause denies something."""
    if group.count < every:
        return f"{group.count:,} of {every:,} {noun}s"
    return f"{'any of' if group.outcome in DENIED else 'all'} {every:,} {noun}s"


def where_words(conditions: Sequence[Condition], workload: Workload) -> str:
    """Conditions in words: "γ ≥ 1, L = 1"."""
    return ", ".join(_condition_words(one, workload) for one in conditions)


def _condition_words(one: Condition, workload: Workload) -> str:
    if one.key in {"metric", "sweep"} - workload.by_name.keys():
        return ", ".join(called(value, workload) for value in one.values)
    if one.relation == "=":
        return setting(one.key, one.values[0], workload)
    if one.relation == "in":
        return ", ".join(listed(one.key, one.values, workload))
    name, unit = workload.symbol(one.key) or called(one.key, workload), unit_of(one.key, workload)
    ends = [f"{number(value)}{unit if unit == '°' else ''}" for value in one.values]
    return (
        f"{name} from {ends[0]} to {ends[1]}"
        if one.relation == "between"
        else f"{name} {SIGNS[one.relation]} {ends[0]}"
    )


SIGNS = {"<=": "≤", ">=": "≥"}


def theory_words(finding: Finding, workload: Workload) -> str:
    """Whether theory's values lie in the intervals; empty without a theory."""
    table = finding.table
    if finding.kind in ("best", "curves"):  # intervals of single cells, whose draws are shared
        return ""
    known = table[table["theory"].notna() & (table["low"].notna() | table["high"].notna())]
    if not len(known):
        return ""
    low, high = known["low"].fillna(-np.inf), known["high"].fillna(np.inf)
    outside = int(((known["theory"] < low) | (known["theory"] > high)).sum())
    if len(known) == 1:
        return f"theory, {number(known['theory'].iloc[0], 4)}, {'differs' if outside else 'agrees'}"
    return f"theory agrees in {len(known) - outside}" if outside else "theory agrees"


def needed_words(row: Mapping[str, Any], finding: Finding, workload: Workload) -> str:
    """What would decide an open setting; empty if it is decided. row: one of `Finding.table`."""
    if not row["needed"]:
        return ""
    x, at = called(finding.x, workload), row["needed_number"]
    value = f"{number(at)}{unit_of(finding.x, workload)}" if finding.x and np.isfinite(at) else number(at)
    return {
        Needed.MORE_DRAWS: f"more than {counted(int(at), 'seed')}" if np.isfinite(at) else "more seeds",
        Needed.MORE_UNITS: f"more than {counted(int(at), called(finding.facts.get('unit', 'cell'), workload))}"
        if np.isfinite(at)
        else "",
        Needed.LARGER_X: f"{x} above {value}",
        Needed.SMALLER_X: f"{x} below {value}",
        Needed.MORE_X: f"more values of {called(finding.facts.get('length', finding.x), workload)}",
        Needed.OK_ABOVE: f"rows that are ok above {value}",
        Needed.OK_BELOW: f"rows that are ok below {value}",
        Needed.OK_ROWS: "rows that are ok",
    }[Needed(row["needed"])]


TITLES: Mapping[str, str] = {
    "boundary": "Where {metric} changes sign in {x}",
    "predicted_boundary": "Where a power law predicts the zero of {metric}",
    "inflection": "Where {metric} turns in {x}",
    "optimum": "The best {x} for {metric}",
    "agreement": "Theory and experiment",
    "relation": "{metric} and {x}",
    "r_squared": "What explains {metric}",
    "engines": "Engines on the same draws",
    "trend": "How {metric} changes with {x}",
    "best": "The best {metric}",
    "search": "The best configurations for {metric}",
    "curves": "Curves over {x}",
    "comparison": "The sweeps on the same draws",
    "power_law": "The power of {x} with which {metric} grows",
    "shift": "How the best {x} for {metric} shifts between settings",
    "regime": "How the best {x} for {metric} changes with {length}",
    "learning_curves": "What {stage} logged: {metric}",
    "landscape": "The landscape of {metric}",
}
"""The title of a finding in the report, by kind."""

_SHAPES = "Intervals hold for one setting at a time, and allow for the shape of the curve between its points."
METHODS: Mapping[str, str] = {
    "boundary": "The draw is the unit: intervals come from a posterior of the mean curve and of the noise between "
    "draws. They hold for one setting at a time; the CSV has simultaneous ones. Where draws have no variance, the zero "
    "is that of the median, and theory is not compared.",
    "inflection": _SHAPES,
    "optimum": f"{_SHAPES} Rows from a value on at which most draws diverged are left out.",
    "predicted_boundary": "Predicted is where the least-squares power law meets the level, with Fieller's interval "
    "over draws; measured is the zero. They differ where their intervals have nothing in common.",
    "agreement": "Differences to the closed form, in standard deviations of a draw, are averaged over cells, draw by "
    "draw, and Student's t over draws tests their mean (Bonferroni over metrics).",
    "relation": "Spearman's rank correlation over cells is found in each draw, with Student's t over draws; with cells "
    "as the sample it is that of means, with an interval for other cells.",
    "r_squared": "R² over units is found in each draw; its interval is for other units (a jackknife, Fisher's scale). "
    "A predictor is clearly the best if its interval lies above all others.",
    "engines": "Rows of one seed and equal parameters are paired. The order is the slope of log |difference|, with "
    "Student's t over draws.",
    "trend": "The least-squares slope is tested after Holm's correction for all settings. Throughout: every step "
    "between neighbouring values is shown to go the same way.",
    "best": "Cells are compared by the differences of equal draws (95 %). The best of many means is too good; "
    "new seeds at this cell show how much.",
    "search": "Configurations are compared by the differences of equal draws (95 %). The best of many is too good; new "
    "seeds show how much. Shares of variance are a functional ANOVA of a random forest (Optuna).",
    "curves": "Means have Student's t intervals over draws. Cells are higher or lower after Holm's correction.",
    "comparison": "Draws of one seed and equal parameters are paired, and averaged over cells in each draw.",
    "power_law": (
        "Each draw has a least-squares line of its own on log scales; the interval is Student's t over their slopes. "
        "That the metric grows or falls is corrected for all settings (Holm). The bend is how much the exponent grows "
        "from the first value to the last, by a parabola."
    ),
    "shift": (
        "The best value is fitted in both settings at each value of the axis that is averaged over, and the logarithm "
        "of their ratio is averaged. Each draw is left out in turn, of both settings at once (jackknife, Student's t). "
        "An interval that holds 1 shows no shift."
    ),
    "regime": (
        "The slope is that of a least-squares line of the log best rate over the log length; bounds count as bounds. "
        "Its interval must lie within ±0.1 (constant), above 0, between -0.5 and 0 (slowly), or below -0.5 (quickly). "
        "These bounds are this project's own; O §3.4.2 tells its cases apart by the losses at the best rate."
    ),
    "learning_curves": (
        "Each mean is over the ok draws, where all of them logged; its band is Student's t over draws, at each point "
        "by itself."
    ),
    "landscape": (
        "The figure shows one draw: others have other directions. The numbers are means over draws of how much higher "
        "the values are on average over the grid than in the middle, with Student's t interval."
    ),
}
"""How the numbers of a kind are made, in at most three sentences."""

ESTIMATES: Mapping[str, str] = {
    "boundary": "zero",
    "inflection": "turning point",
    "optimum": "best value",
    "predicted_boundary": "measured",
    "agreement": "mean difference (SD)",
    "relation": "rank correlation",
    "r_squared": "R²",
    "engines": "order",
    "trend": "slope",
    "best": "mean",
    "curves": "mean",
    "comparison": "mean difference",
    "power_law": "exponent",
    "shift": "factor",
    "regime": "slope",
    "learning_curves": "last mean",
    "landscape": "above the middle",
}
"""What the column of estimates is called, by kind."""

IN_X = ("boundary", "inflection", "optimum", "predicted_boundary")
"""The kinds whose estimates are values of x; those of others are values of the metric, or have no unit."""

NOTHINGS: Mapping[Nothing, str] = {
    Nothing.NO_ROW_OK: "no row is ok, so nothing can be analysed; `raysweep debug` shows why",
    Nothing.NOT_FINITE: "{about} is finite in no row",
    Nothing.TOO_LARGE: "every value of {about} is not finite, or too large to be squared",
    Nothing.MOST_LOST: "in every cell most draws diverged or failed",
    Nothing.AXIS_TOO_LARGE: "{about} has values that are too large to be analysed",
    Nothing.AXIS_NOT_POSITIVE: "{about} has values that are not finite and positive, so no best one is sought",
    Nothing.AXIS_NOT_FINITE: "{about} has values that are not finite, so no best one is sought",
    Nothing.NO_CURVE: "no two cells differ in {about} alone, so there is no curve; ask for a grid over it",
    Nothing.NOTHING_LOGGED: "{about} logged nothing of this",
    Nothing.NO_FUNCTION: "{about}",
    Nothing.FAILED: "{about}",
    Nothing.NO_CLOSED_FORM: "no closed form stands beside two usable draws of {about}",
    Nothing.NO_PAIR: "no row that is ok pairs with {about}",
    Nothing.ONE_SETTING: "there is only one setting, so nothing is compared",
    Nothing.NO_SEED_SHARED: "the sweeps have no seed in common, so draws cannot be paired",
    Nothing.NO_CELL_SHARED: "the sweeps have no cell in common",
}
"""Why there is nothing to say; {about}: as in `Nothing`."""


def without_settings(finding: Finding, workload: Workload) -> str:
    """The sentence of a finding that has no setting: why, or what a function of the user returned."""
    why = finding.facts.get(NOTHING)
    if why is None:
        return f"{finding.kind} returned {counted(finding.facts.get('rows', 0), 'row')} and no text."
    about = finding.facts.get("about", "")
    text = NOTHINGS[Nothing(why)].format(about=called(about, workload))
    return capitalized(text) + "."


def title(finding: Finding, workload: Workload) -> str:
    """The title of a finding."""
    workload = as_called(finding, workload)
    form = TITLES.get(finding.kind) or (
        finding.kind.replace("_", " ").capitalize() + (": {metric}" * bool(finding.metric))
    )
    names = {"metric": finding.metric, "x": finding.x, "length": finding.facts.get("length", "")}
    text = form.format(
        **{key: called(name, workload) for key, name in names.items()},
        stage=finding.facts.get("stage", finding.facts.get("about", "")),
    )
    text = capitalized(text)
    where = "; ".join(", ".join(listed(name, values, workload)) for name, values in finding.where.items())
    return f"{text} ({where})" if where else text


FACTS: Mapping[str, str] = {
    "infinite": "{x} is infinite in {count} rows: these rank beyond all others.",
    "without_value": "Left out: {count} ok rows without a value of both.",
    "thinned": "Left out: {count} pairs at values of {x} where fewer than half of the draws are ok.",
    "pooled": "Rows of different {names} are pooled; to keep them apart, name these under `by`.",
    "apart": "The reference has no row at the {names} of the others, so pairs differ in that too.",
    "missing": "Left out, because no closed form stands beside two usable draws: {names}.",
}
"""What a reader must know of facts that are a count or names, unless there are none."""


def notes(finding: Finding, workload: Workload) -> list[str]:
    """What else a reader must know of a finding: which rows it has, and further texts of a user's function."""
    out = [*finding.texts[1:], *(move_words(move, finding, workload) for move in finding.moves)]
    joint = finding.facts.get("joint", {"z": 0.0})
    if abs(joint["z"]) > normal_quantile(LEVEL):
        size = f"{number(abs(joint['distance']), 2)}{unit_of(finding.x, workload)} " * (
            joint["distance"] * joint["z"] > 0
        )
        side = "above" if joint["z"] > 0 else "below"
        out.append(f"On average the zeros lie {size}{side} theory's (z = {joint['z']:+.1f}).")
    for name, line in finding.facts.get("lines", {}).items():
        label = line_label(name, line["value"], finding.x, workload)
        out.append(f"{label} lies outside {line['outside']} of {counted(line['of'], 'interval')}.")
    if level := finding.facts.get("computed_at"):
        out.append(
            f"Draws were added until intervals were narrow enough, which costs coverage, so these "
            f"{100 * finding.level:g} % intervals are computed at {100 * level:.1f} %."
        )
    if finding.idle:
        idle = " and ".join(called(name, workload) for name in finding.idle)
        out.append(f"This does not depend on {idle}: each draw counts once.")
    for name, form in FACTS.items():
        if value := finding.facts.get(name):
            names = ", ".join(called(one, workload) for one in value) if isinstance(value, list) else ""
            out.append(form.format(count=value, names=names, x=called(finding.x, workload)))
    if shares := finding.facts.get("shares"):
        large = [f"{called(name, workload)} {100 * share:.0f} %" for name, share in shares.items() if share >= 0.005]
        small = ["each other axis less than 1 %"] if len(large) < len(shares) else []
        rest = f"combinations of axes {100 * max(0, 1 - sum(shares.values())):.0f} %"
        out.append(f"Share of variance: {', '.join([*large, *small, rest])}.")
    if finding.facts.get("one_draw"):
        out.append("Each configuration has one draw, so none is told from the best; more seeds of these would decide.")
    if until := finding.facts.get("until"):
        out.append(f"Rows that differ only in {called(until, workload)} share one curve, shown as far as the longest.")
    if cases := finding.facts.get("cases"):
        words = ", ".join(f"{'not decided' if case == 'undetermined' else case} in {n}" for case, n in cases.items())
        out.append(f"By the losses at the best rate (O §3.4.2): {words}.")
    for metric, count in finding.facts.get("left_out", {}).items():
        out.append(f"Left out: {counted(count, 'ok row')} in which {called(metric, workload)} is not finite.")
    for lost in finding.facts.get("lost", ()):
        few = f"{lost['fewest']}" + (f" to {lost['most']}" if lost["most"] > lost["fewest"] else "")
        places = [
            ", ".join(setting(key, value, workload) for key, value in place.items()) for place in lost["where"] if place
        ]
        where = f": {'; '.join(places)}" if places else ""
        cells = counted(lost["cells"], "cell")
        out.append(
            f"Left out: {cells} in which most draws diverged or failed ({few} of {lost['draws']} draws ok){where}."
        )
    return [*out, METHODS[finding.kind]] if finding.kind in METHODS else out


def move_words(move: Move, finding: Finding, workload: Workload) -> str:
    """How a place changes along one other axis: "With depth from 1 to 20 it falls in 2, …, of 3 settings"."""
    counts = [(move.rises, "rises"), (move.falls, "falls"), (move.both, "goes up and down")]
    counts += [(move.open, "is not shown to move")]
    unit, every = unit_of(move.key, workload), sum(count for count, _ in counts)
    known = [f"{way} in {count}" for count, way in counts if count]
    text = f"{', '.join(known)} of {every} settings" if every > 1 else next(way for count, way in counts if count)
    ways = zip(move.theory, ("rises", "falls", "stays"), strict=True)
    theory = [f"{way} in {count}" if every > 1 else way for count, way in ways if count]
    beside = f"; theory {', '.join(theory)}" if theory else ""
    bounds = ", of some only a bound" if move.by_bounds else ""
    name, what = called(move.key, workload), ESTIMATES.get(finding.kind, "place")
    return f"With {name} from {number(move.first)} to {number(move.last)}{unit} the {what} {text}{beside}{bounds}."
