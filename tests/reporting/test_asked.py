"""A space may say in words what it asks with an analysis: the report answers these questions first, by name."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import run
from markdown_it import MarkdownIt
from spaces import small_space
from test_report import TRANSFER

from raysweep.analyses.design import Design
from raysweep.errors import InputError
from raysweep.reporting.analyses.section import Section
from raysweep.reporting.document.answer import Finding, answer, first_clause, shortened
from raysweep.reporting.document.parts import item

FRAME = pd.DataFrame({"cell": ["a", "b"], "seed": [0, 0], "status": "ok", "sweep": "one"})


def found(sections: list[Section], sweeps: int = 1) -> list[str]:
    """The findings of a report with these sections, and how many more there are."""
    lines = answer(FRAME, Design(({},) * sweeps, ("one", "two")[:sweeps]), sections).lines
    assert lines[-2].startswith("How sure: ")
    return lines[:-2]


def test_questions_are_answered_in_the_order_of_the_space_and_the_rest_is_counted() -> None:
    sections = [
        Section("Curves: c", "c is 1 to 2", means_only=True),
        Section("Curves: a", "a is 1 to 2", means_only=True, question="How far does a go?", detail="lowest 1 at x = 3"),
        Section("Boundary: b", "b changes sign at 3"),
        Section("Trend: d", "it rises", question="Does d rise?", sure="d ± 1"),
    ]
    assert found(sections) == [
        "How far does a go? A is 1 to 2. Lowest 1 at x = 3.",
        "Does d rise? It rises.",
        "2 more answers in the report (boundary: 1, curves: 1).",
    ]
    said = answer(FRAME, Design(({},), ("one",)), sections)
    assert said.whole == {1, 3}
    assert said.found[0] == Finding("How far does a go?", ("a is 1 to 2",), "Lowest 1 at x = 3.", (1,), False)


def test_what_is_open_in_questions_without_room_on_the_screen_is_open_all_the_same() -> None:
    sections = [Section(f"Trend: {k}", f"{k} rises", question=f"Does {k} rise?") for k in "abcde"]
    unasked = Section("Trend: g", "not decided", undecided="whether g rises")
    assert answer(FRAME, Design(({},), ("one",)), [*sections, unasked]).undecided == "Nothing that was asked."
    sixth = replace(unasked, question="Does g rise?")
    assert answer(FRAME, Design(({},), ("one",)), [*sections, sixth]).undecided == "Whether g rises."


def test_two_analyses_that_ask_the_same_give_one_answer() -> None:
    sections = [Section("Trend: a", word, question="Does it rise?") for word in ("a rises", "b falls", "a rises")]
    assert found(sections) == ["Does it rise? A rises; b falls."]
    details = [replace(section, detail=text) for section, text in zip(sections, ("in 1", "in 2", "in 1"), strict=True)]
    assert found(details) == ["Does it rise? A rises; b falls. In 1; in 2."]


def test_the_comparison_of_several_sweeps_still_stands_first() -> None:
    sections = [Section("Trend: a", "a rises", question="Does it rise?"), Section("Trend: b", "b falls")]
    comparison = Section("Comparison", "The second is better")
    assert found([*sections, comparison], sweeps=2)[:2] == ["The second is better.", "Does it rise? A rises."]


def test_what_matters_most_stands_in_bold_on_the_line_below_its_question() -> None:
    def lines(question: str, detail: str, *headlines: str) -> list[str]:
        return item(Finding(question, headlines, detail, (0,), False), TRANSFER)

    assert lines("How fast?", "In all.", "it is 0.1") == ["- *How fast?*\\", "  **It is 0.1**.\\", "  In all."]
    assert lines("How fast?", "", "it is 0.1") == ["- *How fast?*\\", "  **It is 0.1**."]
    assert lines("", "In all.", "it is 0.1") == ["- **It is 0.1**.\\", "  In all."]
    assert lines("", "", "it is 0.1") == ["- **It is 0.1**."]
    two = lines("", "", "it rises in 2 (a: 1; b): by 3; not in 4", "it falls; why")
    assert two == ["- **It rises in 2 (a: 1; b)**: by 3; not in 4; **it falls**; why."]
    page = MarkdownIt("commonmark").render("\n".join(lines("How fast?", "In all.", "it is 0.1: so")))
    assert page.count("<br") == 2
    assert re.sub(r"\s*<br />\s*", "|", page) == (
        "<ul>\n<li><em>How fast?</em>|<strong>It is 0.1</strong>: so.|In all.</li>\n</ul>\n"
    )


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("it rises", "it rises"),
        ("it rises: by 3", "it rises"),
        ("it rises (at a: 1; b); by 3", "it rises (at a: 1; b)"),
        ("boundary: no row is ok", "boundary: no row is ok"),  # one word is no clause
        ("of grammar:0 it rises; by 3", "of grammar:0 it rises"),
    ],
)
def test_what_matters_most_in_a_headline_is_its_first_clause(text: str, first: str) -> None:
    assert first_clause(text) == first


def test_a_long_detail_is_cut_but_never_a_question_or_a_headline() -> None:
    """The sections say in full what the first screen cuts."""
    headline = f"it is {' '.join(f'h{k}' for k in range(60))}"
    sections = [
        Section(f"Trend: {k}", f"{headline} {k}", question=f"And {k}?", detail=" ".join(f"d{k}" for k in range(60)))
        for k in range(5)
    ]
    said = answer(FRAME, Design(({},), ("one",)), sections)
    assert [one.headline for one in said.found] == [f"It is {headline[6:]} {k}." for k in range(5)]
    assert [one.question for one in said.found] == [f"And {k}?" for k in range(5)]
    assert {one.detail for one in said.found} == {f"D0 {' '.join(f'd{k}' for k in range(1, 20))} …"}
    assert said.whole == set()


def details(heads: int, lengths: list[int]) -> tuple[list[int], list[bool]]:
    """(how many words the details of findings with headlines of so many words keep, which of them are whole)."""
    headline, texts = " ".join(["h"] * heads), [" ".join(["d"] * length) for length in lengths]
    kept = [one.detail for one in shortened([Finding("", (headline,), text, (), False) for text in texts])]
    return [text.count("d") for text in kept], [text == whole for text, whole in zip(kept, texts, strict=True)]


def test_short_details_stay_whole_and_long_ones_share_what_is_left() -> None:
    assert details(10, [140, 5, 100, 0, 3]) == ([132, 5, 100, 0, 3], [False, True, True, True, True])
    assert details(10, [140, 5, 135, 0, 3]) == ([116, 5, 116, 0, 3], [False, True, False, True, True])
    assert details(10, [280]) == ([280], [True])
    assert details(10, [281]) == ([280], [False])
    assert details(58, [30, 20, 1, 2, 3]) == ([20, 20, 1, 2, 3], [False, True, True, True, True])  # at its fewest
    assert details(73, [30, 25, 21, 20]) == ([20, 20, 20, 20], [False, False, False, True])


def test_all_findings_together_have_few_words_unless_every_detail_has_its_fewest() -> None:
    random = np.random.default_rng(0)
    cut = 0
    for _ in range(300):
        heads, lengths = int(random.integers(5, 60)), random.integers(0, 120, random.integers(1, 6)).tolist()
        kept, whole = details(heads, lengths)
        total, most = heads * len(lengths) + sum(kept), max(kept)
        assert total <= 290 or most <= 20
        assert most == max(lengths) or total > 260 - len(lengths) or most == 20  # no word is given away
        assert all(is_whole or words == most for words, is_whole in zip(kept, whole, strict=True))
        cut += not all(whole)
    assert 50 < cut < 250


def test_it_stands_in_the_report_and_in_the_terminal(tmp_path: Path) -> None:
    boundary = {"question": "Up to which angle?", "metric": "transferability_finetune", "x": "overlap_angle"}
    curves = {"metric": "risk_finetune", "x": "overlap_angle", "where": {"gamma": 0.3}, "question": "At 0.3?"}
    axes = {"overlap_angle": [20, 40, 60, 80], "gamma": [0.3, 0.5]}
    space = small_space(seeds=6, axes=axes, analysis=[{"curves": curves}, {"boundary": boundary}])
    report = run(tmp_path, space).report(tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text()
    assert report.answer[0].startswith("At 0.3? Risk after fine-tuning is 0")
    assert "only γ = 0.3" not in report.answer[0]
    assert report.answer[1].startswith("Up to which angle? ")
    for line, more in zip(report.answer[:2], ("Lowest ", "Theory lies "), strict=True):
        asked, said = line.split("? ", 1)
        headline, detail = said.split(f" {more}")
        plain = text.replace("**", "")
        assert f"\n- *{asked}?*\\\n  {headline}\\\n  {more}{detail}\n" in plain
    assert "\nCurves: risk after fine-tuning over overlap angle (only γ = 0.3)" in text.replace("<b>", "\n")
    assert "\n**At 0.3; up to which angle?**\n" in text


@pytest.mark.parametrize("question", ["How fast", "", 3, ["How fast?"], "How\nfast?"])
def test_what_is_no_question_is_refused(tmp_path: Path, question: Any) -> None:
    entry = {"trend": {"metric": "risk_finetune", "x": "overlap_angle", "question": question}}
    with pytest.raises(InputError, match=r"analysis\[0\].trend.question: .*a question in words"):
        run(tmp_path, small_space(analysis=[entry]))


def test_a_function_of_somebody_else_does_not_get_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def rows(frame):\n    return f'{len(frame)} rows'\n")
    space = small_space(analysis=[{f"{tmp_path / 'mine.py'}:rows": {"question": "How many rows?"}}])
    report = run(tmp_path, space).report(tmp_path / "report")
    assert report.answer[0] == "How many rows? 18 rows."
