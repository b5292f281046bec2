"""One analysis of a report: what is asked, and its answer in a line, figures and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raysweep.reporting.design import NOTHING_DECLARED, Design
from raysweep.reporting.selection import all_keys
from raysweep.reporting.words import unit_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Question:
    """One entry of a space's `analysis` and the rows that may answer it.

    rows: of every sweep of the report.
    options: what the entry says.
    name: what the names of its files begin with.
    design: what the sweeps declare.
    """

    rows: pd.DataFrame
    options: Mapping[str, Any]
    workload: Workload
    name: str
    design: Design = NOTHING_DECLARED

    @property
    def x(self) -> str:
        """The axis along which is looked."""
        return str(self.options["x"])

    @property
    def metric(self) -> str:
        """The metric that is asked about."""
        return str(self.options["metric"])

    @property
    def by(self) -> list[str]:
        """The parameters by which the entry wants curves told apart."""
        return list(self.options.get("by") or [])

    @property
    def level(self) -> float:
        """The level of all intervals."""
        return float(self.options.get("level", 0.95))

    @property
    def percent(self) -> str:
        """The level as text."""
        return f"{100 * self.level:g} %"

    @property
    def unit(self) -> str:
        """The unit behind a number on the axis x."""
        return unit_of(self.x, self.workload)

    def keys(self, x: str, *first: str) -> list[str]:
        """All parameters that tell curves over x apart: `first`, those of `by`, and whatever else varies."""
        return all_keys(self.rows, self.workload, x, [*first, *self.by], self.design)


@dataclass(frozen=True)
class Drawing:
    """A figure with the sentence that explains it; name is the file's, without ending."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Section:
    """The answer to one question.

    headline: the answer in one line. paragraphs: what stands under it.
    drawings: the most important first.
    shown: rows of ready text for the table in the report.
    tables: complete numbers, by file name without ending.
    """

    title: str
    headline: str
    paragraphs: list[str] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)
    shown: Sequence[Mapping[str, str]] = field(default_factory=list)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
