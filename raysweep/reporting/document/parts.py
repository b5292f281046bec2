"""The parts of a report as Markdown: the first screen, and what is folded below it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raysweep.analyses.design import Design
from raysweep.report.names import coded, first_capital, labelled, markdown_table, plain
from raysweep.reporting import symmetric_draws
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.reporting.document.answer import OPEN, SURE, Answer, Finding, capital, clipped, first_clause, sentence
from raysweep.reporting.document.provenance import provenance
from raysweep.reporting.document.question import names_in_words, question, set_up, varied_in_short
from raysweep.theory import papers
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

SHOWN_ROWS = 60  # further rows of a table are in the CSV only
ASKED, AXES, CAPTION, NOTED, TITLE = 50, 40, 36, 40, 7
"""The most words on the first screen of the question, the axes, the caption, all notes, and a title in the contents."""
WIDE = 2.2  # a figure that is so many times as wide as high does not stand beside text
BREAK = "\\"  # a line of Markdown that ends so is followed by the next one on a line of its own
CONTENTS = 6  # the most sections that the contents name
UNFOLDED = 600  # the most words before a click; the contents name fewer sections where the answers need the room


@dataclass(frozen=True)
class Part:
    """A part of a report.

    anchor: what a link to the part names.
    title: what stands there when the part is folded; empty for the parts of the first screen, which are not.
    lines: its Markdown.
    wide: whether it needs the whole width of a page.
    alt: what its figures show, for readers who do not see them.
    about: the anchor of the part that tells more of it; empty for none.
    """

    anchor: str
    title: str
    lines: list[str]
    wide: bool = False
    alt: str = ""
    about: str = ""


def all_parts(
    frame: pd.DataFrame,
    design: Design,
    workload: Workload,
    sections: Sequence[Section],
    answer: Answer,
    sweep: str,
    notes: Sequence[str],
    facts: Sequence[str],
) -> list[Part]:
    """The first screen and all folded parts, each fact once.

    frame: the rows; sweep: the title. notes: what the reader must know; facts: where else the numbers come from.
    """
    asked = sentence(question(design, workload))
    top = next(((k, section.drawings[0]) for k, section in enumerate(sections) if section.drawings), None)
    noted, folded_notes = within(notes, NOTED)
    told, around = question_first(asked)
    caption = top[1].caption if top else ""
    drawn = drawn_words(top[1]) if top else ""
    meant = names_in_words(design, workload, "\n".join([caption, *answer.lines]), drawn)
    unfolded = "\n".join([asked, caption, *answer.lines, meant])
    cited = papers.legend(unfolded)
    begin = [f"# {sweep}", "", f"**{coded(clipped(told, ASKED), workload)}**", ""]
    axes = clipped(varied_in_short(design, workload), AXES)
    below = " ".join(
        filter(None, (coded(clipped(around, ASKED), workload), axes, f"{first_capital(cited)}." if cited else ""))
    )
    begin += [below, ""] if below else []
    first = [Part("question", "", begin)]
    if top:
        width, height = top[1].figure.get_size_inches()
        alt, about = sections[top[0]].whole, f"part-{top[0]}"
        lines = picture(top[1], workload, first_sentence(caption))
        first.append(Part("figure", "", lines, wide=width > WIDE * height, alt=alt, about=about))
    lines = [line for one in answer.found for line in item(one, workload)] or [
        "- The space asks for no analysis; the numbers are in the results."
    ]
    lines += ["", f"**{SURE}.** {coded(answer.sure, workload)}", ""]
    lines += [f"**{OPEN}.** {coded(answer.undecided, workload)}", ""]
    lines += paragraphs([f"*{coded(meant, workload)}*"] if meant else [])
    lines += paragraphs([f"> {note}" for note in noted])
    parts, spelled = [], papers.cited(unfolded)
    for k, section in enumerate(sections):
        told_here = of_section(section, k, answer, top, workload)
        text = "\n".join([section.title, *told_here])
        new = papers.legend(text, spelled)
        told_here += paragraphs([f"{first_capital(new)}."] if new else [])
        spelled += papers.cited(text)
        parts.append(Part(f"part-{k}", section.title, told_here, alt=section.whole))
    symmetric = symmetric_draws.sentences(frame, design, workload).strip()
    more = [coded(text, workload) for text in (set_up(design, workload), symmetric) if text]
    more += [f"> {note}" for note in folded_notes]
    if max(len(told.split()), len(around.split())) > ASKED:
        more = [f"The question in full: {coded(asked, workload)}", *more]
    parts.append(Part("set-up", "Set-up: what was varied and measured", paragraphs(more)))
    parts.append(Part("provenance", "Where the numbers come from", provenance(frame, design, facts)))
    first.append(Part("answer", "", lines))
    room = UNFOLDED - sum(words_in(line) for part in first for line in part.lines)
    return [*first, Part("contents", "", [contents(parts, workload, room), ""]), *parts]


def words_in(line: str) -> int:
    """How many words of a line of Markdown are read; the address of a link or a picture is none."""
    return len(re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", line).split())


def drawn_words(drawing: Drawing) -> str:
    """All text in a figure."""
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in drawing.figure.findobj(Text))


def question_first(asked: str) -> tuple[str, str]:
    """(the text up to its last question mark, what stands after it), the whole text if it has none."""
    told, mark, around = asked.rpartition("?")
    return (told + mark, around.strip()) if mark else (asked, "")


def item(found: Finding, workload: Workload) -> list[str]:
    """A finding as an item of a list: the question, its answer with what matters most in bold, and the detail, each on
    a line of its own."""
    texts = [f"*{found.question}*" if found.question else "", in_bold(found.headlines), found.detail]
    first, *rest = [coded(text, workload) for text in texts if text]
    return [
        f"- {first}{BREAK if rest else ''}",
        *(f"  {text}{BREAK}" for text in rest[:-1]),
        *(f"  {text}" for text in rest[-1:]),
    ]


def in_bold(headlines: Sequence[str]) -> str:
    """The headlines as one sentence, with the first clause of each in bold."""
    texts = [capital(headlines[0]), *headlines[1:]]
    text = "; ".join(f"**{(lead := first_clause(one))}**{one.removeprefix(lead)}" for one in texts)
    return text if text.endswith((".", "…", ".**", "…**")) else f"{text}."


def within(notes: Sequence[str], most: int) -> tuple[list[str], list[str]]:
    """(the first notes that have `most` words together, the others)."""
    count, total = 0, 0
    for note in notes:
        total += len(note.split())
        if total > most:
            break
        count += 1
    return list(notes[:count]), list(notes[count:])


def contents(parts: Sequence[Part], workload: Workload, room: int) -> str:
    """Links to the folded parts, of the sections as many as `room` words allow."""
    *sections, set_up, source = parts

    def line(count: int) -> str:
        named = [*sections[:count], set_up, source]
        links = [f"[{coded(clipped(part.title, TITLE), workload)}](#{part.anchor})" for part in named]
        left = len(sections) - count
        more = f", {left} more {'analysis' if left == 1 else 'analyses'} below" if left else ""
        return f"**Contents.** {' · '.join(links)}{more}"

    most = min(CONTENTS, len(sections))
    return line(next((count for count in range(most, 0, -1) if words_in(line(count)) <= room), 0))


def of_section(
    section: Section, place: int, answer: Answer, top: tuple[int, Drawing] | None, workload: Workload
) -> list[str]:
    """The Markdown of an analysis, without what the first screen has already said and shown."""
    lines: list[str] = []
    drawings = list(section.drawings)
    if top and top[0] == place:
        drawings = drawings[1:]
        if first_sentence(top[1].caption) != top[1].caption:
            lines += [f"The figure at the top: {coded(top[1].caption, workload)}", ""]
    for drawing in drawings[:1]:
        lines += picture(drawing, workload)
    if place not in answer.whole:
        lines += [coded(sentence(section.whole), workload), ""]
    lines += paragraphs([capital(coded(paragraph, workload)) for paragraph in section.paragraphs])
    for drawing in drawings[1:]:
        lines += picture(drawing, workload)
    if section.shown:
        lines += [coded(markdown_table(list(section.shown[:SHOWN_ROWS])), workload), ""]
        if len(section.shown) > SHOWN_ROWS:
            lines += [f"The first {SHOWN_ROWS} of {len(section.shown)} lines; all are in the CSV.", ""]
    if section.tables:
        links = ", ".join(f"[{name}.csv](tables/{name}.csv)" for name in section.tables)
        lines += [f"Numbers in full: {links}.", ""]
    return lines


def paragraphs(texts: Sequence[str]) -> list[str]:
    """Lines of Markdown, with an empty line after each text."""
    return [line for text in texts for line in (text, "")]


def first_sentence(caption: str) -> str:
    """What a figure shows, without what its legend says again."""
    return clipped(re.split(r"(?<=[.!?])\s+(?=[A-Z])", caption, maxsplit=1)[0], CAPTION)


def picture(drawing: Drawing, workload: Workload, caption: str = "") -> list[str]:
    """A figure and its caption in Markdown. caption: instead of its own."""
    caption = sentence(labelled(caption or drawing.caption, workload))
    return [f"![{plain(drawing.name)}](figures/{drawing.name}.png)", "", f"*{coded(caption, workload)}*", ""]
