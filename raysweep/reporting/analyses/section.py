"""One analysis of a report: the question, and its answer as a headline, figures and tables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raysweep.fits.result import Fit

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawing:
    """A figure with its caption. name: the file name without its extension; it may hold the name of a metric (see
    `document.file_names`)."""

    name: str
    caption: str
    figure: Figure


class DrawnLater(Sequence[Drawing]):
    """Figures that are drawn when they are first looked at, because the numbers of a section often suffice."""

    def __init__(self, draw: Callable[[], Sequence[Drawing]]) -> None:
        self._draw = functools.cache(draw)

    def __len__(self) -> int:
        return len(self._draw())

    def __getitem__(self, place: Any) -> Any:
        return self._draw()[place]


@dataclass(frozen=True)
class Section:
    """The answer to one question.

    headline: the answer in a few words.
    detail: the rest of the answer: in how many settings, beside which theory, and what is different elsewhere.
    question: what the space asks with this analysis, in words; empty if it does not say.
    sure: how sure it is, in words: the typical width of its intervals; empty if it has none.
    undecided: what it leaves open and what deciding it would take; empty if nothing.
    paragraphs: the text below the headline.
    drawings: the figures, the most important first.
    shown: rows of formatted text for the table in the report.
    tables: the complete numbers, by file name without extension, which may hold the name of a metric too.
    fits: the fits of its places, one for each call of a fit; empty if it locates none.
    means_only: whether it shows means and decides nothing; the answer says such sections last.
    explored: gives what the page lets a reader explore (see `explored.explored`); called only to write a page.
    """

    title: str
    headline: str
    paragraphs: list[str] = field(default_factory=list)
    drawings: Sequence[Drawing] = ()
    shown: Sequence[Mapping[str, str]] = field(default_factory=list)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    sure: str = ""
    undecided: str = ""
    fits: Sequence[Fit] = ()
    means_only: bool = False
    explored: Sequence[Callable[[], dict[str, Any]]] = ()
    question: str = ""
    detail: str = ""

    @property
    def whole(self) -> str:
        """The answer in one line: the headline and the detail."""
        return f"{self.headline}; {self.detail}" if self.detail else self.headline
