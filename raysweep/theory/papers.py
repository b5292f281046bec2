"""The papers that workloads, spaces and reports name by a letter. THEORY.md has their authors and full titles."""

import re

PAPERS = {
    "F": "Features are fate",
    "T": "A Theoretical Analysis of Fine-tuning with Linear Teachers",
    "O": "Overtrained Language Models Are Harder to Fine-Tune",
    "D": "Towards Understanding the Transferability of Deep Representations",
    "M": "Towards Understanding Why Mask Reconstruction Pretraining Helps in Downstream Tasks",
}
_CITED = re.compile(r"(?<![\w'])([FTODM])(?:'s\b|(?= (?:Fig|Tab|Thm|Theorem|Lemma|Cor|Prop|Def|App|§|section|eq)))")


def cited(text: str) -> list[str]:
    """The letters by which a text cites papers ("O Fig. 3", "T's bound"), in the order of PAPERS."""
    letters = set(_CITED.findall(text))
    return [letter for letter in PAPERS if letter in letters]


def legend(text: str) -> str:
    """One line that says which papers the letters of a text stand for; empty if it cites none."""
    named = [f"{letter} is {PAPERS[letter]}" for letter in cited(text)]
    return f"papers: {'; '.join(named)}" if named else ""
