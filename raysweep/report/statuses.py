"""The words of a reader for what fits say: status values and notes of tables, and comparisons with a closed form.

Tables (CSV) and the Python API keep the values of `fits.result.Status` and the notes; text and figures use these.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.reasons import MESSAGES, Reason
from raysweep.fits.result import Status
from raysweep.numbers import number
from raysweep.phrases import counted
from raysweep.report.names import plain

if TYPE_CHECKING:
    import pandas as pd

THEORY = "theory"
"""What a reader calls the closed form."""
NOT_DECIDED, NO_EFFECT, NO_TURN, NO_SIGN_CHANGE = (
    "not decided",
    "no effect anywhere",
    "no turning point",
    "no change of sign",
)
BEYOND, AT_EDGE, MAYBE_BEYOND = "beyond the grid", "at the grid's edge or beyond", "only a bound is known"
BEYOND_OK = "beyond the rows that are ok"
OPEN = (NOT_DECIDED, BEYOND, BEYOND_OK, AT_EDGE, MAYBE_BEYOND)
NO_ROW_OK = ", no row is ok"  # stands in the note of a curve whose bound is the last x with a row that is ok

NOTHING_THERE = ("zero everywhere", "flat")  # notes of curves that do not vary at all
NO_CROSSING = ("positive everywhere", "negative everywhere", "exactly zero")  # how notes of such curves begin
NOT_CLEAR = "no clear sign at"  # in the note of a bound inside the grid: the zero may lie inside it too
BEST_INSIDE = "the mean is best inside the grid"  # so begins the note of a curve that may turn there all the same
TOWARDS_EDGE = ("best towards the lower edge", "best towards the upper edge")
PARTLY = re.compile(r" at (\d+) of (\d+) points")  # in the note of a curve whose sign is clear at some points only
SOME_POINTS = "sign clear at some values only"
MAY_BE = ("the interval reaches the lower edge", "the interval reaches the upper edge", MESSAGES[Reason.ZERO_ALIKE])
AT_LARGEST, AT_SMALLEST = "best at the largest value", "best at the smallest value"
WAYS = {"improves": AT_LARGEST, "degrades": AT_SMALLEST}  # by how their notes begin
NOTES = {
    "lengths with a censored optimum leave it open": "lengths whose best rate is only bounded leave it open",
    "the interval of the slope holds more than one regime": "it may be falling, constant or rising, by its interval",
}


def status_words(row: Mapping[str, Any], x: str = "", unit: str = "") -> str:
    """The status of one setting for a reader, with its bound if it has one, for example "beyond the grid, above 0.1".

    row: status, low, high and note. x: the axis.
    """
    word, bound = status_word(row["status"], row["note"]), bound_words(row, unit)
    if x and np.isfinite(row["low"]) and np.isfinite(row["high"]):
        return f"any {plain(x)} from {number(row['low'], 3)} to {number(row['high'], 3)}{unit} may be it"
    if row["note"] in MAY_BE and bound:
        return f"any {plain(x)} {'up to' if row['status'] == Status.CENSORED_LOW else 'from'} {bound} may be it"
    if not bound or row["status"] == Status.MONOTONE:
        return word
    return f"{word}, {'below' if row['status'] == Status.CENSORED_LOW else 'above'} {bound}"


def status_word(status: str, note: str = "") -> str:
    """The status for a reader, without a bound."""
    if status in (Status.CENSORED_LOW, Status.CENSORED_HIGH):
        if NO_ROW_OK in note:
            return BEYOND_OK
        if note in MAY_BE or note.startswith(BEST_INSIDE) or NOT_CLEAR in note:
            return MAYBE_BEYOND
        return AT_EDGE if note.startswith(TOWARDS_EDGE) else BEYOND
    if status == Status.MONOTONE:
        return NO_TURN
    if status != Status.UNDETERMINED:
        return plain(status)
    if note in NOTHING_THERE:
        return NO_EFFECT
    return NO_SIGN_CHANGE if note.startswith(NO_CROSSING) else NOT_DECIDED


def bound_words(row: Mapping[str, Any], unit: str) -> str:
    """The known bound of a place beyond the grid, with its unit; empty if there is none. Of two the one that is not an
    edge of the grid."""
    for end in (row["low"], row["high"])[:: -1 if row["status"] == Status.CENSORED_LOW else 1]:
        if np.isfinite(end):
            return f"{number(end, 3)}{unit}"
    return ""


def note_words(note: str) -> str:
    """A note of a fit for a reader."""
    return NOTES.get(note, note)


def outside(counts: Iterable[tuple[str, int, int, int]], level: float) -> str:
    """Text on what intervals exclude, for example "theory lies outside 1 of 19 intervals", or "inside all 19".

    counts: (name, outside how many, of how many, how many of these are only bounds) of each; those of 0 are left out.
    level: of the intervals, from which follows how many of them exclude the truth by chance.
    """
    said: list[str] = []
    for name, out, among, bounds in counts:
        if not among:
            continue
        chance = round((1 - level) * among)
        inside = "the 1" if among == 1 else "both" if among == 2 else f"all {among}"
        where = f"outside {out} of {among}" if out else f"inside {inside}"
        noun = counted(among, "interval").split(" ")[1]
        text = f"{name} {where}" if said else f"{name} lies {where} {noun}"
        notes = [f"{chance} expected by chance"] * bool(out)
        notes += [f"{bounds} of the {among} only {'a bound' if bounds == 1 else 'bounds'}"] * bool(bounds)
        said.append(text + (f" ({'; '.join(notes)})" if notes else ""))
    return ", ".join(said)


def others(
    table: pd.DataFrame,
    unit: str,
    signs: tuple[str, str] = ("", ""),
    which: Callable[[np.ndarray], str] = lambda chosen: "",
) -> list[str]:
    """How many settings have each status other than located, and which these are, in words, the most frequent first.

    Settings beyond the grid on one side are counted together, with the bound that all of them have.

    signs: what positive and negative values mean, if they mean something. which: gives the words for some rows of the
        table, one boolean each; empty if there are none.
    """
    located = (table["status"] == Status.LOCATED).to_numpy()
    rest = table[~located].reset_index(drop=True)
    words = [status_word(row["status"], row["note"]) for row in rest.to_dict("records")]

    def these(chosen: Iterable[bool]) -> str:
        every = np.zeros(len(table), bool)
        every[~located] = list(chosen)
        return which(every)

    said = []
    for word, _ in Counter(words).most_common():
        rows = rest[[one == word for one in words]]
        text = f"{word} in {len(rows)}"
        if word in (BEYOND, BEYOND_OK, AT_EDGE, MAYBE_BEYOND):
            sides = [
                _side(part, end, name, bound if word == MAYBE_BEYOND else "", unit, len(part) == len(rows))
                for status, end, name, bound in (
                    (Status.CENSORED_HIGH, "low", "above", "lower"),
                    (Status.CENSORED_LOW, "high", "below", "upper"),
                )
                if len(part := rows[rows["status"] == status])
            ]
            where = these(one == word for one in words)
            text += f" ({', '.join([*sides, *([f'at {where}'] if where else [])])})"
        elif word == NO_TURN:
            text = _ways(rest["note"], WAYS, [one == word for one in words], these) or text
        elif word == NO_SIGN_CHANGE and all(signs):
            meant = zip(("positive", "negative"), signs, strict=True)
            ways = {f"{sign} everywhere": f"{way} everywhere" for sign, way in meant}
            text = _ways(rest["note"], ways, [one == word for one in words], these) or text
        elif word == NOT_DECIDED and len(rest) == len(table):
            text += why(rows["note"])
        elif where := these(one == word for one in words):
            text += f" ({where})"
        said.append(text)
    return said


def _ways(
    notes: Iterable[str], words: Mapping[str, str], chosen: Iterable[bool], which: Callable[[Iterable[bool]], str]
) -> str:
    """What the chosen curves do, in how many, and in which; empty unless all their notes say so.

    notes: of all curves. words: by how such notes begin. which: gives the words for some of all curves.
    """
    ways = [way_of(note, words) if one else None for note, one in zip(notes, chosen, strict=True)]
    counts = Counter(way for way in ways if way is not None)
    if "" in counts:
        return ""
    wheres = {way: which(one == way for one in ways) for way in counts}
    return ", ".join(
        f"{way} in {count}{f' ({wheres[way]})' if wheres[way] else ''}" for way, count in counts.most_common()
    )


def way_of(note: str, words: Mapping[str, str] = WAYS) -> str:
    """What a curve without a place does by its note; empty if the note does not say it. words: by how notes begin."""
    return next((said for start, said in words.items() if note.startswith(start)), "")


def _side(rows: pd.DataFrame, end: str, name: str, bound: str, unit: str, alone: bool) -> str:
    """The settings beyond one side of the grid: their bound if all have one and the same, else their number.

    name: above or below. bound: lower or upper, of settings of which only a bound is known; else empty. alone: whether
    there are no others.
    """
    ends = set(rows[end][np.isfinite(rows[end])])
    if not alone:  # beside the bound of one side the other side would be read as having it too
        return f"{len(rows)} {bound or name}"
    other = f"{'a' if bound == 'lower' else 'an'} {bound} one" if bound else name
    return f"{name} {number(ends.pop(), 3)}{unit}" if len(ends) == 1 else other


def why_one(note: str) -> str:
    """The reason in brackets; empty without one, or where the status says it already."""
    return f" ({note_words(note)})" if note and note not in (*MAY_BE, *NOTHING_THERE) else ""


def why(notes: Iterable[str]) -> str:
    """The reasons in brackets, each with its number unless all have it; empty without any. Notes that only differ in
    how many points have a clear sign are one reason."""
    counts: dict[str, int] = {}
    total = 0
    for note in notes:
        total += 1
        if note:
            said = SOME_POINTS if PARTLY.search(note) else note_words(note)
            counts[said] = counts.get(said, 0) + 1
    if not counts:
        return ""
    ordered = sorted(counts.items(), key=lambda each: -each[1])
    if ordered[0][1] == total:
        return f" ({ordered[0][0]})"
    return f" ({'; '.join(f'{count} of them: {note}' for note, count in ordered)})"


def undecided(
    table: pd.DataFrame, what: str, noun: str, x: str, every: int, edges: tuple[str, str] = ("", ""), seeds: int = 0
) -> str:
    """What settings without a place leave open, and what deciding it would take, in words; empty if nothing is open.

    table: one row per setting with status and note. what: the kind of place. noun: the word for a setting. every: how
    many settings there are. edges, seeds: the ends of the grid and the seeds of a cell, as in `needed`.
    """
    counts: dict[str, int] = {}
    bounded = 0
    for row in table.to_dict("records"):
        word = status_word(row["status"], row["note"])
        bounded += word == MAYBE_BEYOND
        if word in OPEN:
            takes = needed(row["status"], row["note"], x, edges, seeds)
            counts[takes] = counts.get(takes, 0) + 1
    if not counts:
        return ""
    total = sum(counts.values())
    among = f" in {total} of {counted(every, noun)}" if every > 1 else ""
    ordered = sorted(counts.items(), key=lambda each: -each[1])
    takes = ", ".join(f"for {count} {text}" if len(ordered) > 1 else text for text, count in ordered)
    bound = f"; in {bounded} of them a bound is known" if 0 < bounded < total else ""
    return f"{what}{among} (deciding it takes {takes}{bound})"


def needed(status: str, note: str, x: str, edges: tuple[str, str] = ("", ""), seeds: int = 0) -> str:
    """What would decide about a setting without a place, in words.

    edges: the smallest and the largest x that was tried, as text; empty if unknown. seeds: how many a cell has; 0 if
    unknown.
    """
    if status_word(status, note) in (BEYOND, AT_EDGE):
        high = status == Status.CENSORED_HIGH
        edge = edges[high]
        where = f"{x} {'above' if high else 'below'} {edge}" if edge else f"{'larger' if high else 'smaller'} {x}"
        return f"{where}, if it is there at all" if status_word(status, note) == BEYOND else where
    if NO_ROW_OK in note:
        return f"rows that are ok at {'larger' if status == Status.CENSORED_HIGH else 'smaller'} {x}"
    if note.startswith("too few points"):
        return f"more values of {x}"
    if note.startswith("no usable rows"):
        return "rows that are ok"
    return f"more than {counted(seeds, 'seed')}" if seeds else "more seeds"
