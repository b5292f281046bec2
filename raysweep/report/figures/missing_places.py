"""The marks of curves without a place, in the figure of places: above or below all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from raysweep.analyses.finding import Outcome
from raysweep.analyses.outcomes import AT
from raysweep.report.figures import drawing
from raysweep.report.figures.style import FAINT
from raysweep.report.phrases import OUTCOMES

ROOM = 0.04  # of the height of a panel, for a row of marks
MOST = 3  # kinds of curves without a place that a legend lists
ABOVE, BELOW, OPEN = ("x", True), ("x", False), ("$?$", False)
"""The marks: the marker, and whether it stands above all places."""
MARKS = {OUTCOMES[Outcome.IMPROVES]: ABOVE, OUTCOMES[Outcome.UNDECIDED]: OPEN}
"""The mark of a curve without a place by what tables say of it, if not BELOW."""
Line = tuple["pd.DataFrame", Any]
"""The table of places of one line, and its colour."""


def words_of(table: pd.DataFrame) -> list[str]:
    """What each curve without a place does, as tables say it; empty where there is a place or a bound."""
    return ["" if outcome in AT else OUTCOMES[outcome] for outcome in table["outcome"]]


def marked(table: pd.DataFrame, *marks: tuple[str, bool]) -> np.ndarray:
    """Which curves have one of these marks."""
    return np.array([bool(word) and MARKS.get(word, BELOW) in marks for word in words_of(table)])


def draw_missing(axes: Sequence[Axes], parts: Sequence[Sequence[Line]], along: str) -> None:
    """Draw a mark where no place was found: a cross above all places for a curve that is best at the largest value, a
    question mark for one that is not decided, else a cross, below all places. Each line that lacks some has a row."""
    sides = [
        (marks, [[line for line in lines if marked(line[0], *marks).any()] for lines in parts])
        for marks in ((ABOVE,), (BELOW, OPEN))
    ]
    rooms = [ROOM * (rows + 0.5) if (rows := max(map(len, side))) else 0.0 for _, side in sides]
    if not any(rooms):
        return
    make_room(axes[0], *rooms)
    for k, panel in enumerate(axes):
        up = panel.get_xaxis_transform()
        look: dict[str, Any] = {"linestyle": "none", "markersize": 4.5, "zorder": 3, "transform": up}
        for (marks, side), room in zip(sides, rooms, strict=True):
            above = marks[0][1]
            if room:
                edge = 1 - room if above else room
                panel.plot([0, 1], [edge, edge], color=FAINT, linewidth=0.8, linestyle=":", transform=panel.transAxes)
            for row, (table, shade) in enumerate(side[k]):
                height = (1 - ROOM * (row + 0.75)) if above else room - ROOM * (row + 0.75)
                for mark in marks:
                    at = table[along].to_numpy(float)[marked(table, mark)]
                    panel.plot(at, np.full(len(at), height), color=shade, marker=mark[0], **look)


def make_room(panel: Axes, above: float, below: float) -> None:
    """Widen the axis by shares of its height; no ticks stand there."""
    scale = panel.yaxis.get_transform()
    low, high = scale.transform(np.array(panel.get_ylim()))
    ticks = [tick for tick in panel.get_yticks() if low <= scale.transform(np.array([tick]))[0] <= high]
    if panel.get_yscale() == "linear":
        panel.set_yticks(ticks)
    whole = (high - low) / (1 - above - below)
    limits = np.array([low - whole * below, high + whole * above])
    panel.set_ylim(*map(float, scale.inverted().transform(limits)))


def missing_legend(tables: Sequence[pd.DataFrame]) -> Iterator[tuple[Line2D, str]]:
    """The entries of the legend for the marks that are drawn, each with its sentence."""
    there = dict.fromkeys(word for table in tables for word in words_of(table) if word)
    for mark in (ABOVE, BELOW, OPEN):
        texts = [word for word in there if MARKS.get(word, BELOW) == mark]
        if texts:
            text = " or ".join(texts) if len(texts) < MOST else "no place"
            name = "Question marks" if mark == OPEN else "Crosses"
            place = f"{'above' if mark == ABOVE else 'below'} the dotted line"
            yield drawing.mark(text, marker=mark[0]), f"{name} {place}: {text}."
