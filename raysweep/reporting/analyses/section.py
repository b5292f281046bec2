"""One analysis of a report: its answer in a line, its figures and its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawing:
    """A figure with the sentence that explains it; name is the file's, without ending."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Section:
    """title, headline: the answer in one line. paragraphs: what stands under it. drawings: the most important first.
    shown: rows of ready text for the table in the report. tables: complete numbers, by file name without ending."""

    title: str
    headline: str
    paragraphs: list[str] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)
    shown: Sequence[Mapping[str, Any]] = field(default_factory=list)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
