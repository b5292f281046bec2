"""The marks of curves without a place, in the figure of places: above or below all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.finding import Outcome
from raysweep.analyses.outcomes import outcome
from raysweep.fits.result import Status
from raysweep.report.figures import drawing
from raysweep.report.figures.style import FAINT
from raysweep.report.phrases import OUTCOMES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

ROOM = 0.04  # of the height of a panel, for a row of marks
WITHOUT_PLACE = (Status.UNDETERMINED, Status.MONOTONE)
MOST = 3  # kinds of curves without a place that a legend lists
AT_LARGEST, NOT_DECIDED = OUTCOMES[Outcome.IMPROVES], OUTCOMES[Outcome.UNDECIDED]
CROSS, QUESTION_MARK = "x", "$?$"
Line = tuple["pd.DataFrame", Any]
"""The table of places of one line, and its colour."""


def words_of(table: pd.DataFrame) -> np.ndarray:
    """What each curve without a place does, as tables say it; empty where there is a place or a bound."""
    rows = table.to_dict("records")
    words = [
        OUTCOMES[outcome(row["status"], row.get("reason", ""))] if row["status"] in WITHOUT_PLACE else ""
        for row in rows
    ]
    return np.array(words, object)


def mark_of(word: str) -> str:
    """The mark of a curve without a place."""
    return QUESTION_MARK if word == NOT_DECIDED else CROSS


def draw_missing(axes: Sequence[Axes], parts: Sequence[Sequence[Line]], along: str) -> None:
    """Draw a mark where no place was found: a cross above all places for a curve that is best at the largest value, a
    question mark for one that is not decided, else a cross, below all places. Each line that lacks some has a row."""
    every = [[(table, shade, words_of(table)) for table, shade in lines] for lines in parts]
    high, low = (
        [[line for line in lines if chosen(line[2], above).any()] for lines in every] for above in (True, False)
    )
    rooms = [ROOM * (rows + 0.5) if (rows := max(map(len, side))) else 0.0 for side in (high, low)]
    if not any(rooms):
        return
    make_room(axes[0], *rooms)
    for k, panel in enumerate(axes):
        for side, room, above in ((high, rooms[0], True), (low, rooms[1], False)):
            if room:
                edge = 1 - room if above else room
                panel.plot([0, 1], [edge, edge], color=FAINT, linewidth=0.8, linestyle=":", transform=panel.transAxes)
            for row, (table, shade, words) in enumerate(side[k]):
                height = (1 - ROOM * (row + 0.75)) if above else room - ROOM * (row + 0.75)
                draw_row(panel, table[along].to_numpy(float), np.where(chosen(words, above), words, ""), height, shade)


def chosen(words: np.ndarray, above: bool) -> np.ndarray:
    """Which curves have a mark above all places, or below them."""
    return (words == AT_LARGEST) if above else (words != AT_LARGEST) & (words != "")


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


def draw_row(panel: Axes, at: np.ndarray, words: np.ndarray, height: float, shade: Any) -> None:
    """One row of marks. height: in shares of the panel's height. words: empty where there is none."""
    for mark in (CROSS, QUESTION_MARK):
        chosen = np.array([bool(word) and mark_of(word) == mark for word in words])
        panel.plot(
            at[chosen],
            np.full(int(chosen.sum()), height),
            color=shade,
            marker=mark,
            linestyle="none",
            markersize=4.5,
            zorder=3,
            transform=panel.get_xaxis_transform(),
        )


def missing_legend(tables: Sequence[pd.DataFrame]) -> Iterator[tuple[Line2D, str]]:
    """The entries of the legend for the marks that are drawn, each with its sentence."""
    there = dict.fromkeys(word for table in tables for word in words_of(table) if word)
    for mark, above in ((CROSS, True), (CROSS, False), (QUESTION_MARK, False)):
        texts = [word for word in there if mark_of(word) == mark and (word == AT_LARGEST) == above]
        if texts:
            text = " or ".join(texts) if len(texts) < MOST else "no place"
            name = "Question marks" if mark == QUESTION_MARK else "Crosses"
            place = "above the dotted line" if above else "below the dotted line"
            yield drawing.mark(text, marker=mark), f"{name} {place}: {text}."
