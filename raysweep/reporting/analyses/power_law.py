"""The power_law analysis: with which power of an axis does a metric grow, and is it one power throughout?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.kinds.power_law import exponents, law, means
from raysweep.analyses.question import Question
from raysweep.analyses.rows import groups
from raysweep.analyses.series import laid_out
from raysweep.fits.power_law import clear_signs
from raysweep.fits.reasons import MESSAGES, Reason
from raysweep.numbers import interval, number
from raysweep.phrases import counted, some_of
from raysweep.report.figures.power_law import power_law_figure
from raysweep.report.names import plain
from raysweep.report.statuses import THEORY
from raysweep.reporting.analyses.section import Drawing, Section

if TYPE_CHECKING:
    import pandas as pd

SLOPE = ("exponent", "low", "high", "draws")


def power_law_section(asked: Question) -> Section:
    """Fits, figure and table of one `power_law` entry."""
    x, metric = asked.x, asked.metric
    keys = asked.keys(x)
    parts = list(groups(asked.rows, keys))
    whole = exponents(parts, keys, asked)
    fitted = [(values, (rows, row)) for (values, rows), row in zip(parts, whole.to_dict("records"), strict=True)]
    usable = [(values, both) for values, both in fitted if np.isfinite(both[1]["exponent"])]

    panels = laid_out(usable, keys[:1], keys[1:], lambda where, both: law(where, *both, asked))
    drawn = f"geometric mean over draws with its {asked.percent} interval (pointwise)"
    drawn = drawn if (whole["draws"] > 1).any() else "values of the only draw"
    caption = f"{metric} against {plain(x)}, both on log scales: {drawn}, and the fitted power law."
    drawings = []
    if panels:
        figure, told = power_law_figure(panels, x, metric, asked.workload, asked.percent)
        drawings = [Drawing(asked.name, f"{caption} {told}".strip(), figure)]
    headline, detail = of_one(whole.iloc[0].to_dict(), asked) if len(whole) == 1 else of_several(whole, asked)
    return Section(
        title=f"Power law: {metric} over {plain(x)}",
        headline=headline,
        detail=detail,
        paragraphs=[how(asked, len(whole)), *left_out(whole)],
        drawings=drawings,
        shown=[shown_row(row, keys, asked, bool(whole["theory"].notna().any())) for row in whole.to_dict("records")],
        tables={f"{asked.name}_exponents": whole, f"{asked.name}_means": means(usable, keys, asked)},
        undecided=undecided(whole, asked),
    )


def known(row: Mapping[str, Any], name: str, low: str, high: str) -> str:
    """A fitted number with its interval, or alone if a single draw has none."""
    return interval(row[name], row[low], row[high]) if np.isfinite(row[low]) else number(row[name])


def way(rows: Sequence[Mapping[str, Any]], asked: Question) -> tuple[str, bool]:
    """(whether the metric grows or falls, in words, in how many settings unless it is in all of them alike, and with
    one power or not, which is said only if it is not shown to change in most settings; whether it says in how many
    settings)."""
    exponent, low, high, draws = (np.array([row[name] for row in rows], float) for name in SLOPE)
    signs, x = clear_signs(exponent, low, high, draws, asked.level), plain(asked.x)
    if abs(signs.sum()) < len(signs):
        if not signs.any():
            return f"{asked.metric} is not shown to grow or fall with {x}: log-log slope", False
        counts = {f"grows with {x}": 1, f"falls with {x}": -1, "not clear": 0}
        there = [(words, count) for words, sign in counts.items() if (count := int((signs == sign).sum()))]
        said = [f"{words} in {count}" for words, count in there]
        said[0] += f" of {counted(len(rows), 'setting')}"
        return f"{asked.metric} {', '.join(said)}: log-log slope", True
    verb = "grows" if signs[0] > 0 else "falls"
    bends = sum(bool(row["bends"]) for row in rows)
    if 2 * bends >= len(rows):
        where = f" in {bends}" if 1 < len(rows) > bends else ""
        return f"{asked.metric} {verb} with {x}, not with one power{where}: mean exponent", False
    return f"{asked.metric} {verb} with {x} to the power", False


def of_one(row: Mapping[str, Any], asked: Question) -> tuple[str, str]:
    """(the exponent of a single setting and its interval, what stands beside it), in words."""
    over = f"{asked.metric} over {plain(asked.x)}"
    if not np.isfinite(row["exponent"]):
        return f"no power law of {over} can be fitted ({row['note']})", ""
    sure = asked.percent if np.isfinite(row["low"]) else MESSAGES[Reason.SINGLE_DRAW]
    headline = f"{way([row], asked)[0]} {known(row, 'exponent', 'low', 'high')} ({sure})"
    detail = [f"{THEORY} {number(row['theory'], 4)}"] if np.isfinite(row["theory"]) else []
    if row["bends"]:
        change = known(row, "bend", "bend_low", "bend_high")
        ends = f"{number(row['first'])} to {number(row['last'])}"
        detail.append(f"it is not one power: the exponent changes by {change} over {ends}")
    return headline, "; ".join(detail)


def of_several(whole: pd.DataFrame, asked: Question) -> tuple[str, str]:
    """(the smallest and the largest exponent; their intervals, and in how many settings it changes), in words."""
    found = whole[np.isfinite(whole["exponent"])].sort_values("exponent")
    every = counted(len(whole), "setting")
    if not len(found):
        why = whole["note"].iloc[0]
        return f"no power law of {asked.metric} over {plain(asked.x)} can be fitted, in {every} ({why})", ""
    ends = found.iloc[[0, -1]].to_dict("records")
    span = " to ".join(dict.fromkeys(number(row["exponent"], 3) for row in ends))
    found_way, said_of_all = way(found.to_dict("records"), asked)
    headline = f"{found_way} {span}"
    if not said_of_all or len(found) < len(whole):
        headline += f", in {some_of(len(found), len(whole), 'setting')}"
    intervals = " to ".join(known(row, "exponent", "low", "high") for row in ends)
    if found["low"].isna().all():
        return headline, MESSAGES[Reason.SINGLE_DRAW]
    return headline, f"{intervals} ({asked.percent}); {changes(found, asked)}"


def undecided(whole: pd.DataFrame, asked: Question) -> str:
    """What a single draw leaves open, in words; empty if every fitted setting has an interval."""
    open_in = int((np.isfinite(whole["exponent"]) & whole["low"].isna()).sum())
    among = f" in {open_in} of {counted(len(whole), 'setting')}" if len(whole) > 1 else ""
    what = f"whether {asked.metric} grows or falls with {plain(asked.x)}{among}"
    return f"{what} (deciding it takes more than 1 seed)" if open_in else ""


def changes(found: pd.DataFrame, asked: Question) -> str:
    """In how many settings a metric grows or falls faster or more slowly towards larger values, in words.

    found: one row per setting with exponent, bend and bends."""
    x, bends = plain(asked.x), found[found["bends"]]
    if not len(bends):
        return f"along {x} the exponent is not shown to change"
    verb = np.where(bends["exponent"] > 0, "grows", "falls")
    way = np.where(bends["bend"] * np.sign(bends["exponent"]) > 0, "faster", "more slowly")
    counts = Counter(zip(verb, way, strict=True)).most_common()
    one = len({verb for (verb, _), _ in counts}) == 1  # which is said once
    said = [
        f"{way} in {count}" if one and place else f"{verb} {way} in {count}"
        for place, ((verb, way), count) in enumerate(counts)
    ]
    return f"towards larger {x} it {' and '.join(said)} (log-log slope, p < {1 - asked.level:.2g}, Holm)"


def how(asked: Question, settings: int) -> str:
    """How the numbers were computed, in words."""
    several = f", after Holm's correction for {counted(settings, 'setting')}" if settings > 1 else ""
    return (
        f"The exponent is the least-squares slope of log {asked.metric} over log {plain(asked.x)}. Each draw has a "
        f"line of its own; the interval is Student's t over their slopes, {asked.percent} for each setting on its own. "
        f"That the metric grows or falls is said where p < {1 - asked.level:.2g}{several}. "
        "The bend is how much the exponent grows from the first value to the last, by a parabola: a power law has "
        f"none. It counts as shown where p < {1 - asked.level:.2g}{several}; then the exponent is a mean over this "
        "range. The prefactor is the line's value at 1."
    )


def left_out(whole: pd.DataFrame) -> list[str]:
    """A paragraph on what was left out and what could not be fitted; an empty list if there is nothing to say."""
    notes = whole["note"][whole["note"] != ""].value_counts()
    return [f"{'; '.join(f'{text} (in {count})' for text, count in notes.items())}."] if len(notes) else []


def shown_row(row: Mapping[str, Any], keys: list[str], asked: Question, theory: bool) -> dict[str, str]:
    """One setting as a row of formatted text. theory: whether any setting has a closed form."""
    out = {plain(str(key)): number(row[key]) for key in keys}
    out[f"exponent [{asked.percent}]"] = known(row, "exponent", "low", "high")
    if theory:
        out[THEORY] = number(row["theory"], 4)
    out["prefactor"] = number(row["prefactor"], 4)
    out[f"bend [{asked.percent}]"] = known(row, "bend", "bend_low", "bend_high")
    out["p if it has none"] = number(row["bend_p_holm"], 2)
    out["values"], out["draws"] = str(row["points"]), str(row["draws"])
    return out
