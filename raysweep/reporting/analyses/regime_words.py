"""What a regime analysis says: its line, its paragraphs, its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.at_best_lr import change_word
from raysweep.fits.regime import FLAT, QUICK, Regime, Verdict, case_of
from raysweep.fits.result import Status
from raysweep.fits.sample_size import draws_to_halve
from raysweep.reporting.analyses.movement import movement, movement_words
from raysweep.reporting.words import counted, interval, number, plain, settings, unit_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


LOSSES: dict[str, str] = {  # what each case of O §3.4.2 is known by
    Verdict.QUICKLY: "both losses improve",
    Verdict.SLOWLY: "the in-domain loss improves, the pretraining loss degrades",
    Verdict.CONSTANT: "both losses degrade in the end",
    Verdict.NO_CASE: "the in-domain loss degrades, the pretraining loss improves",
    Verdict.UNDETERMINED: "one of the losses shows neither",
}


def numbers(one: Regime, pretraining: str) -> dict[str, Any]:
    """One setting as a row of the table. pretraining: which metric beside is the pretraining loss; may be empty."""
    return {
        "verdict": one.verdict,
        "paper_case": case_in(one, pretraining),
        "slope": one.slope,
        "low": one.low,
        "high": one.high,
        "lengths_located": one.located,
        "lengths_bounded": one.bounded,
        "lengths_left_out": one.left_out,
        "draws": one.draws,
        "tuned": change_word(one.at_best_lr.over_length),
        "tuned_turn": one.at_best_lr.over_length.estimate,
        "tuned_turn_low": one.at_best_lr.over_length.low,
        "tuned_turn_high": one.at_best_lr.over_length.high,
        **{f"{name}_tuned": change_word(other.over_length) for name, other in one.beside.items()},
        "note": one.note,
    }


def case_in(one: Regime, pretraining: str) -> str:
    """O's case by the losses; empty where no metric is known to be the pretraining loss."""
    return case_of(one.at_best_lr.over_length, one.beside[pretraining].over_length) if pretraining else ""


def slope_words(one: Regime) -> str:
    """The slope with its interval; one-sided where censored lengths leave a side open."""
    if np.isfinite(one.low) and np.isfinite(one.high) and not np.isfinite(one.slope):
        return f"between {number(one.low, 2)} and {number(one.high, 2)}"
    return interval(one.slope, one.low, one.high)


def headline(
    answers: list[tuple[tuple[Any, ...], Regime]],
    keys: list[str],
    lr: str,
    length: str,
    metric: str,
    beside: list[str],
    pretraining: str,
    workload: Workload,
) -> str:
    """What was found, how sure: one line."""
    what = f"best {plain(lr)} against {plain(length)}"
    if len(answers) == 1:
        one = answers[0][1]
        text = f"{what}: {one.verdict}" + (f" ({one.note})" if one.note else "")
        known = slope_words(one)
        text += f", log-log slope {known} ({100 * one.level:g} %)" if known != "–" else ""
        if case := case_in(one, pretraining):
            text += f"; O §3.4.2's case by the losses at that rate: {case} ({LOSSES[case]})"
        text += f"; tuned, {plain(metric)} {tuned_words(one.at_best_lr.over_length, length, workload)}"
        for other in beside:
            text += f", {plain(other)} {tuned_words(one.beside[other].over_length, length, workload)}"
        return text
    words = [one.verdict for _, one in answers]
    text = f"{what}: " + ", ".join(f"{word} in {words.count(word)}" for word in Verdict if word in words)
    decreasing = sum(one.verdict == Verdict.UNDETERMINED and one.high < 0 for _, one in answers)
    if decreasing:
        text += f" ({'all' if decreasing == words.count(Verdict.UNDETERMINED) else decreasing} of these decreasing)"
    text += f" of {counted(len(answers), 'setting')}"
    notes = [one.note for _, one in answers if one.note]
    if notes and words.count(Verdict.UNDETERMINED) == len(words):
        text += f" ({max(set(notes), key=notes.count)})"
    slopes = [one.slope for _, one in answers if np.isfinite(one.slope)]
    if len(slopes) == 1:
        text += f" (log-log slope {number(slopes[0], 2)})"
    elif slopes:
        text += f" (log-log slopes {number(min(slopes), 2)} to {number(max(slopes), 2)})"
    if moved := movement_words(slope_table(answers, keys), keys):
        text += f"; the slope {moved}"
    cases = [case for _, one in answers if (case := case_in(one, pretraining))]
    if cases:
        text += "; O §3.4.2's case by the losses at that rate: " + ", ".join(
            f"{case} in {cases.count(case)}" for case in LOSSES if case in cases
        )
    for other, trends in [(metric, [one.at_best_lr.over_length for _, one in answers])] + [
        (name, [one.beside[name].over_length for _, one in answers]) for name in beside
    ]:
        said = [change_word(trend) for trend in trends]
        counts = [f"{word} in {said.count(word)}" for word in dict.fromkeys(sorted(said, key=said.count, reverse=True))]
        text += f"; tuned, {plain(other)} " + ", ".join(counts)
        turns = [trend.estimate for trend in trends if trend.status == Status.LOCATED]
        if turns:
            text += f" (turning at {plain(length)} {number(min(turns), 3)} to {number(max(turns), 3)})"
    return text


def tuned_words(trend: Any, length: str, workload: Workload) -> str:
    """What happens to a metric at the tuned rate, and where it turns."""
    word = change_word(trend)
    if trend.status == Status.LOCATED:
        unit = unit_of(length, workload)
        return f"improves up to {plain(length)} {interval(trend.estimate, trend.low, trend.high)}{unit}, then degrades"
    return "shows no clear change" if trend.status == Status.UNDETERMINED else word


def paragraphs(
    answers: list[tuple[tuple[Any, ...], Regime]],
    keys: list[str],
    lr: str,
    length: str,
    metric: str,
    pretraining: str,
    level: float,
    workload: Workload,
) -> list[str]:
    """The rule, the method, and what is missing."""
    draws = max(one.draws for _, one in answers)
    text = movement(slope_table(answers, keys), keys, "slope")
    text.append(
        f"Rule: the {100 * level:g} % interval of the slope of log {plain(lr)} over log {plain(length)} must lie "
        f"within ±{FLAT:g} (constant), above 0 (increasing), at or below {QUICK:g} (quickly decreasing), or between "
        f"{QUICK:g} and 0 (slowly decreasing); else it is undetermined. These bounds are this project's own, the paper "
        f"has none: {QUICK:g} is where the damage of a move stays the same if curvature grows in proportion to length "
        "and the move in proportion to the rate."
    )
    case = (
        "O §3.4.2 tells its cases apart by the losses at the tuned rate: quickly decreasing where both improve with "
        "length, slowly decreasing where the in-domain loss improves and the pretraining loss degrades in the end, "
        "constant where both degrade in the end. "
    )
    if pretraining:
        text.append(
            case + f"Here {plain(metric)} is the in-domain loss and {plain(pretraining)} the pretraining loss. A loss "
            "degrades in the end if it clearly rises after its lowest point; it improves if no such rise was shown and "
            "it clearly falls, from the middle length to the greatest, too. Where a loss shows neither, the case is "
            "undetermined."
        )
    else:
        text.append(case + "No pretraining loss after fine-tuning is among the metrics here, so no case is named.")
    text.append(
        "The slope is least squares with equal weights over the lengths; its interval has the draw as the unit "
        f"(jackknife over {counted(draws, 'draw')}, Student's t) and holds for every interpolation used. Lengths whose "
        "optimum is censored enter with their bound, and leave that side of the interval as wide as the bound does."
    )
    if draws > 1 and any(np.isfinite([one.low, one.high]).all() for _, one in answers):
        text[-1] += f" Half the width takes about {draws_to_halve(draws, level)} draws, or lengths over a wider range."
    bounded, left_out = sum(one.bounded for _, one in answers), sum(one.left_out for _, one in answers)
    total = sum(one.located for _, one in answers) + bounded + left_out
    if bounded or left_out:
        text.append(
            f"Of {counted(total, 'length')} in all settings {bounded} have a bound only, and {left_out} do not count "
            "(optimum undetermined, or length 0 or ∞)."
        )
    notes = [(settings(keys, values, workload), one.note) for values, one in answers if one.note]
    if notes and len(answers) > 1:
        by_note: dict[str, int] = {}
        for _, note in notes:
            by_note[note] = by_note.get(note, 0) + 1
        text.append("Undetermined: " + "; ".join(f"{note} (in {count})" for note, count in by_note.items()) + ".")
    return text


def slope_table(answers: list[tuple[tuple[Any, ...], Regime]], keys: list[str]) -> pd.DataFrame:
    """The slopes as places that may move with the other axes."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                **dict(zip(keys, values, strict=True)),
                "status": Status.LOCATED if np.isfinite(one.slope) else Status.UNDETERMINED,
                "low": one.low,
                "high": one.high,
            }
            for values, one in answers
        ]
    )


def shown_row(
    values: tuple[Any, ...], one: Regime, keys: list[str], length: str, metric: str, pretraining: str
) -> dict[str, str]:
    """One setting as ready text."""
    out = {plain(key): number(value) for key, value in zip(keys, values, strict=True)}
    out["regime by the slope"] = one.verdict
    if pretraining:
        out["case by the losses (O §3.4.2)"] = case_in(one, pretraining)
    out["slope [interval]"] = slope_words(one)
    out["lengths (located + bounds)"] = f"{one.located} + {one.bounded}"
    out[f"{plain(metric)}, tuned"] = change_word(one.at_best_lr.over_length)
    change = one.at_best_lr.over_length
    out[f"turning at {plain(length)}"] = interval(change.estimate, change.low, change.high)
    for name, other in one.beside.items():
        out[f"{plain(name)}, tuned"] = change_word(other.over_length)
    return out
