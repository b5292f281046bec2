"""The gallery of reports agrees with the claims, with the reports and with the spaces."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import pytest
import yaml
from conftest import TESTS
from documented import DOCS

from raysweep.commands.listing import first_comment
from raysweep.reporting.document.parts import words_in
from raysweep.space import packaged
from raysweep.theory.papers import PAPERS, cited

REPORTS = TESTS.parent / "reports"
GALLERY, CLAIMS = ((REPORTS / name).read_text() for name in ("README.md", "CLAIMS.md"))
NUMBER = re.compile(r"(?<![\w.,_])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?![\w.])")


class Shown(NamedTuple):
    """One row of the gallery."""

    space: str
    folder: str
    said: str
    time: str


def rows() -> list[Shown]:
    """The rows of the gallery's tables."""
    found = []
    for line in GALLERY.splitlines():
        if line.startswith("| <a"):
            picture, answer, papers, made = line.strip("| ").split(" | ")
            time, space = re.fullmatch(r"(.*)<br>\[(\w+)\]\(../search_spaces/\w+\.yaml\)", made).groups()
            folder = re.match(r'<a href="(\w+)/report\.md">', picture)[1]
            found.append(Shown(space, folder, f"{answer.split('** ')[1]} {papers}", time))
    return found


def numbers(text: str) -> set[float]:
    """The numbers of a text, without the sign: a fall of 0.9 is a change of -0.9."""
    return {abs(float(each.replace(",", ""))) for each in NUMBER.findall(text)}


@pytest.mark.parametrize("shown", rows(), ids=lambda shown: shown.folder)
def test_every_number_of_a_row_stands_among_the_claims_or_in_the_report(shown: Shown) -> None:
    claims = [line for line in CLAIMS.splitlines() if line.startswith("| ") and f"`{shown.space}" in line]
    assert claims
    space = packaged.spaces()[shown.space].read_text()
    text = "\n".join([*claims, (REPORTS / shown.folder / "report.md").read_text(), space])
    assert numbers(shown.said) - numbers(text) == set()


@pytest.mark.parametrize("shown", rows(), ids=lambda shown: shown.folder)
def test_the_time_of_a_row_is_that_which_the_space_says(shown: Shown) -> None:
    assert re.search(rf"\b{re.escape(shown.time)}\b", first_comment(packaged.spaces()[shown.space]))


def test_every_committed_report_is_shown_or_is_a_variant_of_one_that_is() -> None:
    shown = {row.space for row in rows()}
    folders = {path.parent.name for path in REPORTS.glob("*/report.md")}
    assert len(shown) == len(rows()) > 25
    assert {folder for folder in folders if not any(folder.startswith(space) for space in shown)} == set()


def test_the_letters_of_papers_are_spelled_out_before_they_are_used() -> None:
    pages = {name: (DOCS / f"{name}.md").read_text() for name in ("questions", "analyses")}
    for name, page in {"gallery": GALLERY, "claims": CLAIMS, **pages}.items():
        words = " ".join(page.split())
        for letter, title in PAPERS.items():
            if name == "analyses" and letter not in cited(page):
                continue
            assert f"*{title}*" in words
            first = re.search(rf"(?<!\w){letter}(?:'s\b|: | Fig| Thm| Table| §)", words.replace(f"**{letter}**", ""))
            assert first is None or words.index(f"*{title}*") < first.start() or f"**{letter}**" in words


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in REPORTS.glob("*/report.md")))
def test_a_report_asks_what_its_space_asks(folder: str) -> None:
    """One that was made of older questions would answer what nobody asks any more."""
    text = (REPORTS / folder / "report.md").read_text()
    made = json.loads(re.search(r"```json\n(.*?)\n```", text, re.DOTALL)[1])
    space = yaml.safe_load(packaged.spaces()[made["name"]].read_text())
    assert made["analysis"] == space["analysis"]
    question = re.search(r"^\*\*(.*?)\*\*$", text, re.MULTILINE)[1]
    assert " ".join(space["description"].split()).startswith(question.removesuffix(" …"))


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in REPORTS.glob("*/report.md")))
def test_a_report_shows_600_words_at_most_before_a_click_and_spells_the_letters_of_papers_out(folder: str) -> None:
    text = (REPORTS / folder / "report.md").read_text()
    screen = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert 150 < sum(map(words_in, screen.splitlines())) <= 600
    *parts, _ = re.split(r"<a id=\"set-up\">", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    spelled = {letter for letter, title in PAPERS.items() if f"{letter} is {title}" in text}
    assert set(cited(parts[0])) <= spelled
