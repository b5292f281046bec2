"""Maps of a metric over two axes with the zeros of its slices: the data of phase diagrams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from raysweep.analyses.finding import Plot
from raysweep.analyses.rows import Where

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Map:
    """One panel: the rows, the table of their fit (with a column y), and the closed form's zeros.

    fine: values of y. roots: the zeros of the closed form in x, one array for each of them.
    """

    where: Where
    rows: pd.DataFrame
    table: pd.DataFrame
    fine: np.ndarray
    roots: list[np.ndarray]


@dataclass(frozen=True, eq=False)
class MapsPlot(Plot):
    """A metric over x and y. every: how many maps there are. constants: in x, by name."""

    maps: Sequence[Map]
    x: str
    y: str
    metric: str
    every: int
    constants: Mapping[str, float] = field(default_factory=dict)
