"""The marks of curves without a place, in the figure of places: above or below all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from raysweep.analyses.finding import Outcome
from raysweep.analyses.outcomes import AT
from raysweep.analyses.places import PlaceLine
from raysweep.report.figures import drawing, scales
from raysweep.report.phrases import OUTCOMES

ROOM = 0.07  # of the height of a panel, for marks
MOST = 3  # kinds of curves without a place that a legend lists
ABOVE, BELOW, OPEN = ("x", True), ("x", False), ("$?$", False)
"""The marks: the marker, and whether it stands above all places."""
MARKS = {OUTCOMES[Outcome.IMPROVES]: ABOVE, OUTCOMES[Outcome.UNDECIDED]: OPEN}
"""The mark of a curve without a place by what tables say of it, if not BELOW."""


def words_of(table: pd.DataFrame) -> list[str]:
    """What each curve without a place does, as tables say it; empty where there is a place or a bound."""
    return ["" if outcome in AT else OUTCOMES[outcome] for outcome in table["outcome"]]


def marked(table: pd.DataFrame, *marks: tuple[str, bool]) -> np.ndarray:
    """Which curves have one of these marks."""
    return np.array([bool(word) and MARKS.get(word, BELOW) in marks for word in words_of(table)])


def draw_missing(sheet: drawing.Sheet[PlaceLine], along: str, shifts: np.ndarray, logarithmic: bool) -> None:
    """Draw a mark where no place was found: a cross above all places for a curve that is best at the largest value, a
    question mark for one that is not decided, else a cross, below all places. shifts: of each line to the right."""
    tables = [line.table for line in sheet.every]
    rooms = [ROOM * any(marked(table, *side).any() for table in tables) for side in ((ABOVE,), (BELOW, OPEN))]
    for panel, lines in sheet.panels:
        scales.strips(panel, *rooms)
        look: dict[str, Any] = {"linestyle": "none", "markersize": 6, "transform": panel.get_xaxis_transform()}
        for line in lines:
            table = line.data.table
            at = scales.shifted(table[along].to_numpy(float), float(shifts[line.index]), logarithmic)
            for mark in (ABOVE, BELOW, OPEN):
                use, height = marked(table, mark), 1 - ROOM / 2 if mark[1] else ROOM / 2
                panel.plot(at[use], np.full(use.sum(), height), color=line.colour, marker=mark[0], **look)


def missing_legend(tables: Sequence[pd.DataFrame]) -> Iterator[Line2D]:
    """The entries of the legend for the marks that are drawn."""
    there = dict.fromkeys(word for table in tables for word in words_of(table) if word)
    for mark in (ABOVE, BELOW, OPEN):
        texts = [word for word in there if MARKS.get(word, BELOW) == mark]
        if texts:
            yield drawing.mark(" or ".join(texts) if len(texts) < MOST else "no place", marker=mark[0])
