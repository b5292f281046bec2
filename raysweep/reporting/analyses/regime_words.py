"""The regimes of all settings, and what they say in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.question import Question
from raysweep.fits.at_best_lr import change_word
from raysweep.fits.extremum import Extremum
from raysweep.fits.regime import FLAT, QUICK, Regime, Verdict, case_of
from raysweep.fits.result import Status
from raysweep.fits.sample_size import draws_to_halve
from raysweep.numbers import interval, number
from raysweep.phrases import counted, some_of
from raysweep.report.names import plain, unit_of
from raysweep.report.statuses import NOT_DECIDED, note_words
from raysweep.reporting.analyses.movement import movement, movement_words
from raysweep.reporting.analyses.where import in_brackets
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

LOSSES: dict[str, str] = {  # how the losses change in each case of O §3.4.2
    Verdict.QUICKLY: "both losses improve",
    Verdict.SLOWLY: "the in-domain loss improves, the pretraining loss degrades",
    Verdict.CONSTANT: "both losses degrade in the end",
    Verdict.NO_CASE: "the in-domain loss degrades, the pretraining loss improves",
    Verdict.UNDETERMINED: "one of the losses shows neither",
}

MOVES: dict[str, str] = {
    Verdict.QUICKLY: "falls quickly",
    Verdict.SLOWLY: "falls slowly",
    Verdict.CONSTANT: "hardly moves",
    Verdict.INCREASING: "rises",
}


@dataclass(frozen=True, eq=False)
class Regimes:
    """The regimes of all settings.

    answers: (values of the keys, regime) of each setting.
    beside: the other metrics, evaluated at the best rate for the metric of the question.
    pretraining: the one of them that is the pretraining loss; empty if unknown.
    """

    asked: Question
    keys: list[str]
    lr: str
    length: str
    beside: list[str]
    pretraining: str
    answers: list[tuple[tuple[Any, ...], Regime]]

    @property
    def all(self) -> list[Regime]:
        """The regimes alone."""
        return [one for _, one in self.answers]

    def case(self, one: Regime) -> str:
        """The case of O §3.4.2, decided by the losses; empty if the pretraining loss is unknown."""
        if not self.pretraining:
            return ""
        return case_of(one.at_best_lr.over_length, one.beside[self.pretraining].over_length)

    def changes(self, one: Regime) -> dict[str, Extremum]:
        """How each metric at the best rate changes with the length. The metric of the question comes first."""
        changes = {name: one.beside[name].over_length for name in self.beside}
        return {self.asked.metric: one.at_best_lr.over_length, **changes}

    @cached_property
    def slopes(self) -> pd.DataFrame:
        """A table of the slopes, in the form of a table of places (see `Places`)."""
        import pandas as pd

        rows = [
            {
                **dict(zip(self.keys, values, strict=True)),
                "status": Status.LOCATED if np.isfinite(one.slope) else Status.UNDETERMINED,
                "low": one.low,
                "high": one.high,
            }
            for values, one in self.answers
        ]
        return pd.DataFrame(rows)


def open_words(found: Regimes) -> str:
    """In how many settings the regime is open and what deciding it would take, in words; empty if in none."""
    unknown = [one for one in found.all if one.verdict == Verdict.UNDETERMINED]
    if not unknown:
        return ""
    among = f" in {len(unknown)} of {counted(len(found.all), 'setting')}" if len(found.all) > 1 else ""
    beyond = sum(not np.isfinite([one.low, one.high]).all() and one.bounded > 0 for one in unknown)
    takes = [f"{plain(found.lr)} beyond the grid{f' for {beyond}' if beyond < len(unknown) else ''}"] * (beyond > 0)
    takes += ["more seeds or lengths over a wider range"] * (beyond < len(unknown))
    return (
        f"how the best {plain(found.lr)} moves with {plain(found.length)}{among} (deciding it takes {', '.join(takes)})"
    )


def slope_words(one: Regime) -> str:
    """The slope with its interval in words; one-sided if censored lengths leave a side open."""
    if np.isfinite(one.low) and np.isfinite(one.high) and not np.isfinite(one.slope):
        return f"between {number(one.low, 2)} and {number(one.high, 2)}"
    return interval(one.slope, one.low, one.high)


def of_one(found: Regimes, one: Regime) -> tuple[str, str]:
    """(headline, detail) of a single setting."""
    lr, length = plain(found.lr), plain(found.length)
    headline = (
        f"{NOT_DECIDED}: how the best {lr} moves with {length}"
        if one.verdict == Verdict.UNDETERMINED
        else f"the best {lr} {MOVES[one.verdict]} with {length}"
    )
    if (slope := slope_words(one)) != "–":
        headline += f", log-log slope {slope} ({100 * one.level:g} %)"
    change = found.changes(one)[found.asked.metric]
    tuned = f"{tuned_words(found)} {change_words(change, found.length, found.asked.workload)}"
    return headline, "; ".join([*([note_words(one.note)] if one.note else []), tuned])


def tuned_words(found: Regimes) -> str:
    """The words before how the metric changes."""
    return f"at its best {plain(found.lr)}, {plain(found.asked.metric)}"


def verdict_word(verdict: str) -> str:
    """The regime for a reader."""
    return NOT_DECIDED if verdict == Verdict.UNDETERMINED else str(verdict)


def cases_and_losses(found: Regimes) -> list[str]:
    """Paragraphs on O §3.4.2's case of the settings and on how the other metrics change at the best rate."""
    text = []
    if found.pretraining and len(found.all) == 1:
        case = found.case(found.all[0])
        text.append(f"O §3.4.2's case by the losses at that rate: {verdict_word(case)} ({LOSSES[case]}).")
    elif found.pretraining:
        cases = Counter(found.case(one) for one in found.all)
        known = ", ".join(f"{verdict_word(case)} in {cases[case]}" for case in LOSSES if case in cases)
        text.append(f"O §3.4.2's case by the losses at that rate: {known}.")
    if found.beside:
        said = (changes_of(found, name) for name in found.beside)
        text.append(f"At the best {plain(found.lr)}, {'; '.join(said)}.")
    return text


def changes_of(found: Regimes, name: str) -> str:
    """How a metric at the best rate changes with the length, over all settings, in words."""
    changes = [found.changes(one)[name] for one in found.all]
    if len(changes) == 1:
        return f"{plain(name)} {change_words(changes[0], found.length, found.asked.workload)}"
    counts = Counter(change_word(change) for change in changes).most_common()
    text = f"{plain(name)} " + ", ".join(f"{word} in {count}" for word, count in counts)
    at = [change.estimate for change in changes if change.status == Status.LOCATED]
    if at:
        text += f" (turning at {plain(found.length)} {number(min(at), 3)} to {number(max(at), 3)})"
    return text


def of_several(found: Regimes) -> tuple[str, str]:
    """(how many settings have each regime; the slopes, and how each metric at the best rate changes), in words."""
    words = Counter(one.verdict for one in found.all)
    lr, length, every = plain(found.lr), plain(found.length), len(found.all)
    most, count = words.most_common(1)[0]
    if differs := 2 * count <= every:
        text = f"how the best {lr} moves with {length} differs between settings"
    elif most == Verdict.UNDETERMINED:
        text = f"{NOT_DECIDED} in {some_of(count, every, 'setting')}: how the best {lr} moves with {length}"
    else:
        text = f"the best {lr} {MOVES[most]} with {length} in {some_of(count, every, 'setting')}"
    wheres = {
        word: in_brackets(found.slopes, [one.verdict == word for one in found.all], found.keys, found.asked.workload)
        for word in words
    }
    rest = ", ".join(
        f"{verdict_word(word)} in {words[word]}{wheres[word]}"
        for word in Verdict
        if word in words and (differs or word != most)
    )
    mark = "; " if ": " in text else ": "
    headline = f"{text}{mark}{rest}{f' of {every}' if differs else ''}" if rest else text
    said = []
    open_ones = [one for one in found.all if one.verdict == Verdict.UNDETERMINED]
    if decreasing := sum(one.high < 0 for one in open_ones):
        said.append(f"decreasing, fast or slowly, in {decreasing} of the not decided")
    notes = [one.note for one in found.all if one.note]
    if notes and len(open_ones) == every:
        note, shared = Counter(notes).most_common(1)[0]
        said.append(note_words(note) + (f" in {shared}" if shared < every else ""))
    slopes = [one.slope for one in found.all if np.isfinite(one.slope)]
    if len(slopes) == 1:
        said.append(f"log-log slope {number(slopes[0], 2)}")
    elif slopes:
        said.append(
            f"log-log slopes {' to '.join(dict.fromkeys(number(end, 2) for end in (min(slopes), max(slopes))))}"
        )
    said += [f"the slope {text}" for text in movement_words(found.slopes, found.keys, found.asked.workload) if text]
    changed = changes_of(found, found.asked.metric).removeprefix(f"{plain(found.asked.metric)} ")
    return headline, "; ".join([*said, f"{tuned_words(found)} {changed}"])


def change_words(change: Extremum, length: str, workload: Workload) -> str:
    """How a metric at the best rate changes with the length, and where its extremum is, in words."""
    if change.status == Status.LOCATED:
        place = interval(change.estimate, change.low, change.high)
        return f"improves up to {plain(length)} {place}{unit_of(length, workload)}, then degrades"
    return "shows no clear change" if change.status == Status.UNDETERMINED else change_word(change)


def paragraphs(found: Regimes) -> list[str]:
    """The paragraphs on the rule for the regimes, the method, and what is missing."""
    lr, length, percent = plain(found.lr), plain(found.length), found.asked.percent
    draws = max(one.draws for one in found.all)
    text = movement(found.slopes, found.keys, "slope", found.asked.workload)
    text.append(
        f"Rule: the {percent} interval of the slope of log {lr} over log {length} must lie within ±{FLAT:g} "
        f"(constant), above 0 (increasing), at or below {QUICK:g} (quickly decreasing), or between {QUICK:g} and 0 "
        "(slowly decreasing); else it is not decided. These bounds are this project's own, the paper has none: "
        f"{QUICK:g} is where the damage of a move stays the same if curvature grows in proportion to length and the "
        "move in proportion to the rate."
    )
    case = (
        "O §3.4.2 tells its cases apart by the losses at the tuned rate: quickly decreasing where both improve with "
        "length, slowly decreasing where the in-domain loss improves and the pretraining loss degrades in the end, "
        "constant where both degrade in the end. "
    )
    if found.pretraining:
        case += (
            f"Here {plain(found.asked.metric)} is the in-domain loss and {plain(found.pretraining)} the pretraining "
            "loss. A loss degrades in the end if it clearly rises after its lowest point; it improves if no such rise "
            "was shown and it clearly falls, from the middle length to the greatest, too. Where a loss shows neither, "
            "the case is not decided."
        )
    else:
        case += "No pretraining loss after fine-tuning is among the metrics here, so no case is named."
    method = (
        "The slope is least squares with equal weights over the lengths. Its interval comes from the posterior of each "
        f"length's curve, from how each of the {counted(draws, 'draw')} moves all optima together and from how near "
        "the optima lie to a line. Lengths whose "
        "optimum lies beyond the grid enter with their bound, and leave that side of the interval as wide as the bound "
        "does."
    )
    if draws > 1 and any(np.isfinite([one.low, one.high]).all() for one in found.all):
        needed = draws_to_halve(draws, found.asked.level)
        method += f" Half the width takes about {needed} draws, or lengths over a wider range."
    text += [case, method]
    bounded, left_out = sum(one.bounded for one in found.all), sum(one.left_out for one in found.all)
    total = sum(one.located for one in found.all) + bounded + left_out
    if bounded or left_out:
        text.append(
            f"Of {counted(total, 'length')} in all settings {bounded} have a bound only, and {left_out} do not count "
            "(optimum not decided, or length 0 or ∞)."
        )
    notes = Counter(one.note for one in found.all if one.note)
    if notes and len(found.all) > 1:
        text.append("Not decided: " + "; ".join(f"{note_words(note)} ({count})" for note, count in notes.items()) + ".")
    return text
