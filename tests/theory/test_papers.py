"""The letters by which papers are cited, and what they stand for."""

import re
from pathlib import Path

from raysweep import theory, workloads
from raysweep.theory import papers


def test_letters_are_found_where_they_cite():
    assert papers.cited("no paper: OK, D, a Table, F1 and T. M") == []
    everything = "sharper than T's bound, after O Fig. 3 left, 4, and D §3 (F Thm 3.9, M Lemma 1)"
    assert papers.cited(everything) == list("FTODM")
    assert papers.legend("nothing") == ""
    assert papers.legend("O §4, F Fig. 1") == (
        "papers: F is Features are fate; O is Overtrained Language Models Are Harder to Fine-Tune"
    )


def test_the_titles_are_those_of_the_theory_sheet():
    sheet = " ".join((Path(theory.__file__).parent / "THEORY.md").read_text().split())
    for letter, title in papers.PAPERS.items():
        assert f"{letter}: " in sheet
        assert title in sheet


def test_the_list_of_workloads_says_which_papers_their_letters_mean():
    """A letter stands there with words of its title."""
    outputs = [workloads.get(name).summary for name in workloads.names()]
    named = [pair for text in outputs for pair in re.findall(r"\b([FTODM]), ([^,;)]+)", text)]
    assert {letter for letter, _ in named} == set(papers.PAPERS)
    assert all(words in papers.PAPERS[letter] for letter, words in named)
    assert sum(len(re.findall(r"\b[FTODM]\b", text)) for text in outputs) == len(named)
