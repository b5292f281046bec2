"""The answer of a report in a few plain sentences: what was found, how sure it is, and what is undecided.

The first screen of the report and the terminal say the same sentences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raysweep.analyses.design import Design
from raysweep.phrases import counted
from raysweep.report.names import first_capital, plain
from raysweep.reporting.analyses.section import Section
from raysweep.workloads.declaration import STATUSES

if TYPE_CHECKING:
    import pandas as pd

MOST, ENOUGH = 5, 3
"""So many findings are said at most. Where so many decide something, those that only show means are not said."""
ALL, FEWEST = 290, 20
"""So many words have all findings together at most, and a detail at least, if it is cut."""
CLAUSE = re.compile(r";(?=\s)|[.](?=\s[A-Z])")
"""Where a clause ends."""
WORD = re.compile(r"\S+(?: = \S+)?")
"""A word; a setting such as "σ = 0.2" is one."""
BEGINS = re.compile(r"(?!\w+ =)[a-z][a-z0-9'-]*(?=[\s,:;.]|$)")
"""An English word at the start of a text."""
SURE, OPEN = "How sure", "Undecided"
NOTHING_OPEN, ALL_OPEN = "nothing that was asked", "everything that was asked (deciding it takes rows that are ok)"
NO_ROW = "No row is ok, so there is nothing to analyse; `raysweep debug` shows why a row failed."


@dataclass(frozen=True)
class Finding:
    """What one section says, or what several say that ask the same or say the same.

    question: what the space asks with them; empty if it does not say.
    headlines: the findings in a few words, each beginning with what matters most (see `first_clause`).
    detail: the rest of them, as a sentence; empty if there is none.
    places: of these sections. means_only: whether they only show means.
    """

    question: str
    headlines: tuple[str, ...]
    detail: str
    places: tuple[int, ...]
    means_only: bool

    @property
    def headline(self) -> str:
        """The headlines as one sentence."""
        return sentence("; ".join(self.headlines))

    @property
    def text(self) -> str:
        """The question, the headline and the detail in one line."""
        return " ".join(filter(None, (self.question, self.headline, self.detail)))


@dataclass(frozen=True)
class Answer:
    """The sentences of the answer, without Markdown.

    found: one finding per question that the space asks with its analyses, or, where it asks none, per analysis, those
        that only show means last, if at all; at most `MOST`. Their details may be cut.
    more: how many further findings the sections have, in words; empty if none.
    whole: which sections are said in full there, by position; the others say it themselves.
    sure: how sure it is. undecided: what is open and what deciding it would take.
    """

    found: list[Finding]
    more: str
    whole: frozenset[int]
    sure: str
    undecided: str

    @property
    def lines(self) -> list[str]:
        """All sentences, one or several a line."""
        more = [self.more] if self.more else []
        return [*(one.text for one in self.found), *more, f"{SURE}: {self.sure}", f"{OPEN}: {self.undecided}"]


def answer(frame: pd.DataFrame, design: Design, sections: Sequence[Section], missing: int = 0) -> Answer:
    """The answer that the sections give together. frame: the rows. missing: how many are not computed yet."""
    every = findings(sections)
    comparison = {len(sections) - 1} if len(design.spaces) > 1 else set()  # what several sweeps are reported for
    every.sort(key=lambda one: comparison.isdisjoint(one.places))
    if any(one.question for one in every):
        said = [one for one in every if one.question or not comparison.isdisjoint(one.places)]
    else:
        deciding = sum(not one.means_only for one in every)
        said = [one for one in every if deciding < ENOUGH or not one.means_only]
    said = said[:MOST]
    found = shortened(said)
    whole = frozenset(place for one, short in zip(said, found, strict=True) if one == short for place in one.places)
    left = [one for one in every if one not in said]
    kinds = of_kinds([sections[one.places[0]].title for one in left])
    more = f"{counted(len(left), 'more answer')} in the report{kinds}." if left else ""
    first = [sections[place] for one in said for place in one.places]
    asked = [sections[place] for one in left if one.question for place in one.places]  # there was no room for these
    if not any(one.question for one in every):
        first = list(sections)
    widths = joined([section.sure for section in first], 40)
    parts = [seeds_words(frame), *([widths] if widths else []), rows_words(frame)]
    undecided = joined([section.undecided for section in [*first, *asked]], 45)
    if missing:
        parts.insert(0, f"so far only {len(frame):,} of {counted(len(frame) + missing, 'row')}")
        undecided = undecided or "all that the missing rows will tell"
    undecided = undecided or NOTHING_OPEN
    if not (frame["status"] == "ok").any():
        found = found or [Finding("", (NO_ROW,), "", (), False)]
        undecided = ALL_OPEN
    return Answer(found, more, whole, f"{'; '.join(parts)}.", sentence(undecided))


def findings(sections: Sequence[Section]) -> list[Finding]:
    """What the sections find, in their order, but what only shows means last unless it answers a question."""
    together: dict[str, list[int]] = {}
    for place, section in enumerate(sections):
        together.setdefault(section.question or section.whole, []).append(place)
    out = []
    for places in together.values():
        several = [sections[place] for place in places]
        headlines = tuple(dict.fromkeys(section.headline for section in several))
        details = "; ".join(dict.fromkeys(section.detail for section in several if section.detail))
        question = several[0].question
        means_only = not question and all(section.means_only for section in several)
        out.append(Finding(question, headlines, sentence(details) if details else "", tuple(places), means_only))
    return sorted(out, key=lambda finding: finding.means_only)


def shortened(found: Sequence[Finding]) -> list[Finding]:
    """The findings with so much of their details that all have `ALL` words together: short details are whole, and the
    others share what is left."""
    room = ALL - sum(len(WORD.findall(f"{one.question} {one.headline}")) for one in found)
    lengths = sorted(len(WORD.findall(one.detail)) for one in found)
    most = FEWEST
    for place, length in enumerate(lengths):
        most = max(FEWEST, room // (len(lengths) - place))
        if length > most:
            break
        room -= length
    return [replace(one, detail=clipped(one.detail, most)) for one in found]


def first_clause(text: str) -> str:
    """The text up to its first colon or semicolon outside of brackets, if that is more than one word: what matters
    most in it."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and text[place : place + 2] in (": ", "; ") and " " in text[:place]:
            return text[:place]
    return text


def capital(text: str) -> str:
    """The text with a capital first letter, if it begins with a word. A name in code style or with underscores, a
    symbol, and a word with capital letters within are not changed."""
    return first_capital(text) if BEGINS.match(text) else text


def sentence(text: str) -> str:
    """The text as a sentence: with a capital first letter (see `capital`) and a full stop."""
    text = capital(text)
    return text if text.endswith((".", "!", "?", "…")) else text + "."


def of_kinds(titles: Sequence[str]) -> str:
    """How many sections there are of each kind, in brackets: a title begins with its kind and a colon, or is one
    of the others."""
    counts = Counter(title.split(":")[0].lower() if ":" in title else "other" for title in titles)
    if set(counts) == {"other"}:
        return ""
    return f" ({', '.join(f'{kind}: {count}' for kind, count in counts.most_common())})" if counts else ""


def clipped(text: str, most: int) -> str:
    """The text, or what its first `most` words say in full clauses, and "…".

    Where no clause ends in their second half, the cut is after the last of them, or before a bracket that it opens.
    """
    words = WORD.findall(text)
    if len(words) <= most:
        return text
    first = " ".join(words[:most])
    ends = [found.end() for found in CLAUSE.finditer(first) if found.end() > len(first) / 2]
    first = first[: ends[-1] if ends else None]
    opened = []  # a bracket that is cut open says nothing
    for place, letter in enumerate(first):
        if letter in "([":
            opened.append(place)
        elif letter in ")]" and opened:
            opened.pop()
    return first[: opened[0] if opened else None].rstrip(" ,;:") + " …"


def joined(texts: Sequence[str], most: int) -> str:
    """The texts that are not empty, as many as have `most` words together; the number of the others is said."""
    known = [text for text in dict.fromkeys(texts) if text]
    kept: list[str] = []
    for text in known:
        short = clipped(text, most)
        if kept and len(WORD.findall(" ".join([*kept, short]))) > most:
            break
        kept.append(short)
    more = len(known) - len(kept)
    return "; ".join([*kept, f"{more} more in the report"] if more else kept)


def seeds_words(frame: pd.DataFrame) -> str:
    """How many seeds the cells have, in words."""
    per_cell = frame.groupby("cell")["seed"].nunique() if "cell" in frame.columns else frame["seed"].value_counts()
    if not len(per_cell):
        return "no cell"
    fewest, most = int(per_cell.min()), int(per_cell.max())
    seeds = counted(most, "seed") if fewest == most else f"{fewest} to {counted(most, 'seed')}"
    return f"{seeds} in each of {counted(len(per_cell), 'cell')}" if len(per_cell) > 1 else f"{seeds} in one cell"


def rows_words(frame: pd.DataFrame) -> str:
    """Which rows are in no mean and no fit, in words."""
    counts: dict[str, int] = {word: int((frame["status"] == word).sum()) for word in STATUSES}
    bad = ", ".join(f"{count:,} {plain(word)}" for word, count in counts.items() if word != "ok" and count)
    if not bad:
        return (
            f"none of {len(frame):,} rows failed or diverged" if len(frame) > 1 else "its row did not fail or diverge"
        )
    return f"{counts['ok']:,} of {counted(len(frame), 'row')} ok, left out of every mean and fit: {bad}"
