"""A report says which papers the letters on its first screen mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import run

SPACE = {
    "name": "cited",
    "workload": "linear_transfer",
    "axes": {"overlap_angle": [10, 50, 80]},
    "fixed": {"dim": 20},
    "seeds": 3,
    "analysis": [{"best": {"metric": "risk_finetune"}}],
}
TITLES = "Features are fate", "Overtrained Language Models Are Harder to Fine-Tune"


@pytest.mark.parametrize(
    ("description", "papers"),
    [
        ("Does F Fig. 1 hold, and what of O §3?", f"Papers: F is {TITLES[0]}; O is {TITLES[1]}."),
        ("Which angle is best?", ""),
    ],
)
def test_letters_of_papers_are_spelled_out_below_the_question(description: str, papers: str, storage: Path) -> None:
    sweep = run(storage, {**SPACE, "description": description}, report=True)
    screen = (sweep.folder / "report" / "report.md").read_text().split("<details>")[0]
    question, _, below = screen.partition(f"**{description}**\n\n")
    assert question == "# cited\n\n"
    varied = "Varied: overlap angle θ 10°, 50°, 80°. Fixed: dim d 20."
    assert below.startswith(f"{varied} {papers}\n\n![" if papers else f"{varied}\n\n![")
    assert screen.count("Papers:") == bool(papers)
