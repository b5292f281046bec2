"""A space may say in words what it asks with an analysis: the report answers these questions first, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import run
from spaces import small_space
from test_report import TRANSFER

from raysweep.errors import InputError
from raysweep.reporting.analyses.section import Section
from raysweep.reporting.design import Design
from raysweep.reporting.document.answer import answer
from raysweep.reporting.document.parts import with_lead

FRAME = pd.DataFrame({"cell": ["a", "b"], "seed": [0, 0], "status": "ok", "sweep": "one"})


def found(sections: list[Section], sweeps: int = 1) -> list[str]:
    """The findings of a report with these sections."""
    return answer(FRAME, Design(({},) * sweeps, ("one", "two")[:sweeps]), TRANSFER, sections).found


def test_questions_are_answered_in_the_order_of_the_space_and_the_rest_is_counted() -> None:
    sections = [
        Section("Curves: c", "c goes from 1 to 2", means_only=True),
        Section("Curves: a", "a goes from 1 to 2", means_only=True, question="How far does a go?"),
        Section("Boundary: b", "b changes sign at 3"),
        Section("Trend: d", "it rises", question="Does d rise?", sure="d ± 1"),
    ]
    assert found(sections) == [
        "How far does a go? A goes from 1 to 2.",
        "Does d rise? It rises.",
        "2 more answers in the sections of the report (boundary: 1, curves: 1).",
    ]
    assert answer(FRAME, Design(({},), ("one",)), TRANSFER, sections).whole == {1, 3}


def test_two_analyses_that_ask_the_same_give_one_answer() -> None:
    sections = [Section("Trend: a", word, question="Does it rise?") for word in ("a rises", "b falls", "a rises")]
    assert found(sections) == ["Does it rise? A rises; b falls."]


def test_the_comparison_of_several_sweeps_still_stands_first() -> None:
    sections = [Section("Trend: a", "a rises", question="Does it rise?"), Section("Trend: b", "b falls")]
    comparison = Section("Comparison", "The second is better")
    assert found([*sections, comparison], sweeps=2)[:2] == ["The second is better.", "Does it rise? A rises."]


def test_the_question_is_what_stands_in_bold() -> None:
    assert with_lead("How fast? Best rate 0.1: in all.") == "**How fast?** Best rate 0.1: in all."
    assert with_lead("Best rate 0.1: in all.") == "**Best rate 0.1:** in all."


def test_it_stands_in_the_report_and_in_the_terminal(tmp_path: Path) -> None:
    boundary = {"question": "Up to which angle?", "metric": "transferability_finetune", "x": "overlap_angle"}
    curves = {"metric": "risk_finetune", "x": "overlap_angle", "where": {"gamma": 0.3}, "question": "At 0.3?"}
    axes = {"overlap_angle": [20, 40, 60, 80], "gamma": [0.3, 0.5]}
    space = small_space(seeds=6, axes=axes, analysis=[{"curves": curves}, {"boundary": boundary}])
    report = run(tmp_path, space).report(tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text()
    assert report.answer[0].startswith("At 0.3? risk_finetune goes from ")
    assert "only γ = 0.3" not in report.answer[0]
    assert report.answer[1].startswith("Up to which angle? ")
    assert "- **Up to which angle?** " in text
    assert "\nCurves: risk_finetune over overlap angle (only γ = 0.3)" in text.replace("<b>", "\n").replace("`", "")
    assert "**Question.** At 0.3; up to which angle?" in text


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
