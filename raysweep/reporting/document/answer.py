"""The answer of a report in a few plain sentences: what was found, how sure it is, and what is undecided.

The first screen of the report and the terminal say the same sentences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from raysweep.phrases import counted
from raysweep.reporting.analyses.section import Section
from raysweep.reporting.design import Design
from raysweep.reporting.words import first_capital, plain
from raysweep.workloads.declaration import STATUSES, Workload

if TYPE_CHECKING:
    import pandas as pd

MOST, ENOUGH = 5, 3
"""So many findings are said at most. Where so many decide something, those that only show means are not said."""
LONGEST, WIDEST, ALL = 50, 100, 260
"""So many words have one of many findings, one of few, and all findings at most; the sections say the rest."""
CLAUSE = re.compile(r";(?=\s)|[.](?=\s[A-Z])")
"""Where a clause ends."""
WORD = re.compile(r"\S+(?: = \S+)?")
"""A word; a setting such as "σ = 0.2" is one."""
SURE, OPEN = "How sure", "Undecided"
NOTHING_OPEN, ALL_OPEN = "nothing that was asked", "everything that was asked (deciding it takes rows that are ok)"
NO_ROW = "No row is ok, so there is nothing to analyse; `raysweep debug` shows why a row failed."


@dataclass(frozen=True)
class Finding:
    """What one section says, or what several say that ask the same or say the same.

    text: the question, if there is one, and the answer. places: of these sections.
    question: what the space asks with them. means_only: whether they only show means.
    """

    text: str
    places: tuple[int, ...]
    question: str
    means_only: bool


@dataclass(frozen=True)
class Answer:
    """The sentences of the answer, without Markdown.

    found: one sentence per question that the space asks with its analyses, or, where it asks none, per analysis, those
        that only show means last, if at all; at most `MOST`.
    whole: which sections are said in full there, by position; the others say their headline themselves.
    sure: how sure it is. undecided: what is open and what deciding it would take.
    """

    found: list[str]
    whole: frozenset[int]
    sure: str
    undecided: str

    @property
    def lines(self) -> list[str]:
        """All sentences, one or several a line."""
        return [*self.found, f"{SURE}: {self.sure}", f"{OPEN}: {self.undecided}"]


def answer(
    frame: pd.DataFrame, design: Design, workload: Workload, sections: Sequence[Section], missing: int = 0
) -> Answer:
    """The answer that the sections give together. frame: the rows. missing: how many are not computed yet."""
    names = {metric.name for metric in workload.metrics} | set(design.names)
    every = findings(sections, names)
    comparison = {len(sections) - 1} if len(design.spaces) > 1 else set()  # what several sweeps are reported for
    every.sort(key=lambda one: comparison.isdisjoint(one.places))
    if any(one.question for one in every):
        said = [one for one in every if one.question or not comparison.isdisjoint(one.places)]
    else:
        deciding = sum(not one.means_only for one in every)
        said = [one for one in every if deciding < ENOUGH or not one.means_only]
    most = min(WIDEST, max(LONGEST, ALL // max(len(said[:MOST]), 1)))
    texts = [clipped(one.text, most + len(WORD.findall(one.question))) for one in said[:MOST]]
    total = accumulate(len(WORD.findall(text)) for text in texts)
    found = [text for text, words in zip(texts, total, strict=True) if words <= ALL]
    said = said[: len(found)]
    whole = frozenset(place for one, text in zip(said, found, strict=True) if text == one.text for place in one.places)
    if left := [one for one in every if one not in said]:
        titles = [sections[one.places[0]].title for one in left]
        found.append(f"{counted(len(left), 'more answer')} in the sections of the report{of_kinds(titles)}.")
    first, rest = ([sections[place] for one in some for place in one.places] for some in (said, left))
    if not any(one.question for one in every):
        first, rest = list(sections), []
    widths = joined([section.sure for section in first], 45)
    parts = [seeds_words(frame), *([widths] if widths else []), rows_words(frame)]
    undecided = joined([section.undecided for section in first], 60, len({each.undecided for each in rest} - {""}))
    if missing:
        parts.insert(0, f"so far only {len(frame):,} of {counted(len(frame) + missing, 'row')}")
        undecided = undecided or "all that the missing rows will tell"
    undecided = undecided or NOTHING_OPEN
    if not (frame["status"] == "ok").any():
        found, undecided = found or [NO_ROW], ALL_OPEN
    return Answer(found, whole, f"{'; '.join(parts)}.", sentence(undecided, names))


def findings(sections: Sequence[Section], names: Collection[str]) -> list[Finding]:
    """What the sections find, in their order, but what only shows means last unless it answers a question.

    names: as in `sentence`.
    """
    together: dict[str, list[int]] = {}
    for place, section in enumerate(sections):
        together.setdefault(section.question or section.headline, []).append(place)
    out = []
    for places in together.values():
        several = [sections[place] for place in places]
        full = sentence("; ".join(dict.fromkeys(section.headline for section in several)), names)
        question = several[0].question
        means_only = not question and all(section.means_only for section in several)
        out.append(Finding(f"{question} {full}".strip(), tuple(places), question, means_only))
    return sorted(out, key=lambda finding: finding.means_only)


def sentence(text: str, names: Collection[str] = ()) -> str:
    """The text with a capital first letter and a full stop. A column name at the start is not changed.

    names: columns whose names may be plain words.
    """
    first = text.split(" ", 1)[0]
    text = text if "_" in first or "`" in first or first.rstrip(":,") in names else first_capital(text)
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

    Where no clause ends in their second half, the cut is after the last of them.
    """
    words = WORD.findall(text)
    if len(words) <= most:
        return text
    first = " ".join(words[:most])
    ends = [found.end() for found in CLAUSE.finditer(first) if found.end() > len(first) / 2]
    return first[: ends[-1] if ends else None].rstrip(",;:") + " …"


def joined(texts: Sequence[str], most: int, further: int = 0) -> str:
    """The texts that are not empty, as many as have `most` words together; the number of the others is said.

    further: how many there are besides, which are only counted.
    """
    known = [text for text in dict.fromkeys(texts) if text]
    kept: list[str] = []
    for text in known:
        short = clipped(text, most)
        if kept and len(WORD.findall(" ".join([*kept, short]))) > most:
            break
        kept.append(short)
    more = len(known) - len(kept) + further
    if more and not kept:
        return f"{NOTHING_OPEN}; in the sections {counted(more, 'more point')}"
    return "; ".join([*kept, f"{more} more in the sections"] if more else kept)


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
