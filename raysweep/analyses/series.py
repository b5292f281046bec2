"""Lines of means over an axis, arranged in panels that can be compared: the data of figures of curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np

from raysweep.analyses.closed_form import closed_form, fine
from raysweep.analyses.finding import Plot
from raysweep.analyses.question import Question
from raysweep.analyses.rows import (
    CellMeans,
    Part,
    Where,
    cell_means,
    comparable,
    finite_values,
    groups,
    in_order,
    places_on,
    plain_means,
    spread,
)
from raysweep.fits.result import Status
from raysweep.lazy import pd
from raysweep.workloads.declaration import Workload

PANELS, LINES = 4, 6
"""The most panels of a figure that one sees at once, and the most lines of a panel; of more lines, one fewer."""
FEW_LINES = 8  # the most settings that share a panel although they differ in several keys
Rows = TypeVar("Rows")
Line = TypeVar("Line")
Place = tuple[float, float, float, float]
"""(fitted place, low and high end of its interval, place of the closed form or NaN)."""


@dataclass(frozen=True, eq=False)
class Series:
    """One line of means over x.

    theory_x, theory: the closed form; empty without one. theory_at_infinity: at x = inf; NaN without one.
    base: the same metric of the base model, before fine-tuning or perturbation. beside: another one of the same rows.
    place: a fitted place to show.
    fitted: a fitted curve at the x of `means`; empty without one.
    """

    where: Where
    means: CellMeans
    theory_x: np.ndarray = field(default_factory=lambda: np.empty(0))
    theory: np.ndarray = field(default_factory=lambda: np.empty(0))
    theory_at_infinity: float = np.nan
    base: CellMeans | None = None
    place: Place | None = None
    beside: CellMeans | None = None
    fitted: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def has_theory(self) -> bool:
        """Whether there is a closed form to draw."""
        return bool(len(self.theory)) or bool(np.isfinite(self.theory_at_infinity))


@dataclass(frozen=True, eq=False)
class Panel(Generic[Line]):
    """One panel of a figure and its lines, which have a `where` too."""

    where: Where
    lines: Sequence[Line]


@dataclass(frozen=True, eq=False)
class CurvesPlot(Plot):
    """A metric over x.

    every: how many lines there are; the panels may show fewer.
    categories: the names of the categories at x = 0, 1, ...; empty if x is a number.
    beside: the other metric that each line has.
    placed: what the fitted places of the lines are: zero, minimum, maximum or optimum; empty if they have none.
    constants: of the metric, by name.
    """

    panels: Sequence[Panel[Series]]
    x: str
    metric: str
    every: int = 0
    categories: Sequence[str] = ()
    beside: str = ""
    placed: str = ""
    constants: Mapping[str, float] = field(default_factory=dict)


def laid_out(
    parts: Iterable[tuple[Where, Rows]],
    line_keys: Sequence[str],
    panel_keys: Sequence[str],
    make: Callable[[Where, Rows], Line],
    located: Callable[[Rows], bool] = lambda rows: True,
) -> list[Panel[Line]]:
    """Arrange lines in panels: one panel per setting of the panel keys, with one line per setting of the line keys.

    Of too many panels, those are shown that can be compared (see `comparable`); of too many lines, an evenly spaced
    selection, the same settings of the line keys in every panel. A few settings that are no grid share one panel (see
    `in_one_panel`).

    parts: one for each line: the values of the keys of lines and panels, and its rows, of which `make` makes the line.
    located: whether something was located in the rows: of too many, those are shown in which something was.
    """
    grid: dict[tuple[Any, ...], dict[tuple[Any, ...], Rows]] = {}
    for where, rows in parts:
        panel, line = (tuple(where[key] for key in keys) for keys in (panel_keys, line_keys))
        grid.setdefault(panel, {})[line] = rows
    grid = dict(sorted(grid.items(), key=lambda item: [*map(in_order, item[0])]))
    hits = [{line for line, rows in inside.items() if located(rows)} for inside in grid.values()]
    levels = sorted({line for inside in grid.values() for line in inside}, key=lambda line: [*map(in_order, line)])
    if len(levels) > LINES:
        levels = spread([line for line in levels if any(line in hit for hit in hits)] or levels, LINES - 1)
    if few := in_one_panel(grid, [*line_keys, *panel_keys]):
        return [Panel({}, [make(where, rows) for where, rows in few])]
    chosen = comparable(list(grid), PANELS, {place for place, hit in enumerate(hits) if hit & set(levels)})
    out = []
    for panel, inside in (item for place, item in enumerate(grid.items()) if place in chosen):
        made = [make(dict(zip(line_keys, line, strict=True)), inside[line]) for line in levels if line in inside]
        out.append(Panel(dict(zip(panel_keys, panel, strict=True)), made))
    return [panel for panel in out if panel.lines]


def in_one_panel(
    grid: Mapping[tuple[Any, ...], Mapping[tuple[Any, ...], Rows]], keys: Sequence[str]
) -> list[tuple[Where, Rows]]:
    """(where, rows) of each setting if there are few, and far from all combinations of their values: they are easier to
    compare in one panel. Else an empty list. If all differ from one setting in a single key, the others have it alone.

    grid: the rows by the values of the panel keys, and then of the line keys. keys: all keys, the line keys first.
    """
    every = {(*line, *panel): rows for panel, inside in grid.items() for line, rows in inside.items()}
    counts = [len({values[k] for values in every}) for k in range(len(keys))]
    if len(grid) < 2 or len(every) > FEW_LINES or 2 * len(every) > math.prod(counts):
        return []

    def differs_in(one: tuple[Any, ...], other: tuple[Any, ...]) -> list[int]:
        return [k for k in range(len(keys)) if one[k] != other[k]]

    base = next((one for one in every if all(len(differs_in(one, other)) < 2 for other in every)), None)
    return [
        ({keys[k]: values[k] for k in (differs_in(values, base) if base else ()) or range(len(keys))}, rows)
        for values, rows in every.items()
    ]


def series_panels(
    parts: Sequence[Part],
    keys: Sequence[str],
    x: str,
    metric: str,
    workload: Workload,
    places: Sequence[Place | None] | None = None,
    beside: str = "",
) -> list[Panel[Series]]:
    """The metric over x: one line per value of the first key, one panel per setting of the others (see `laid_out`).
    Parts without a usable row are left out. places: the fitted place of each part. beside: another metric to show."""

    def line(where: Where, part: tuple[pd.DataFrame, Place | None]) -> Series:
        made = series(part[0], x, metric, workload, where, part[1])
        return replace(made, beside=cell_means(part[0], x, beside, workload)) if beside else made

    usable = [
        (where, (rows, place))
        for (where, rows), place in zip(parts, places or [None] * len(parts), strict=True)
        if ((rows["status"].to_numpy() == "ok") & np.isfinite(rows[metric].to_numpy(float))).any()
    ]
    return laid_out(usable, keys[:1], keys[1:], line, lambda part: places is None or part[1] is not None)


def curves_plot(
    asked: Question, metric: str, x: str, keys: Sequence[str], name: str, beside: str = "", **more: Any
) -> list[CurvesPlot]:
    """The figure of a metric over an axis; empty without a usable row. more: further fields of `CurvesPlot`."""
    rows, at, categories = places_on(asked.rows, x, asked.workload, asked.design)
    parts = list(groups(rows, keys))
    panels = series_panels(parts, keys, at, metric, asked.workload, beside=beside)
    return [CurvesPlot(name, panels, x, metric, len(parts), categories, beside, **more)] if panels else []


def marks(table: pd.DataFrame) -> list[Place | None]:
    """The located places of a table of places; None for the others."""
    return [
        (row["estimate"], row["low"], row["high"], row["theory"]) if row["status"] == Status.LOCATED else None
        for row in table.to_dict("records")
    ]


def series(
    part: pd.DataFrame, x: str, metric: str, workload: Workload, where: Where, place: Place | None = None
) -> Series:
    """One line from its rows, with the closed form on a fine grid."""
    means = cell_means(part, x, metric, workload)
    base = base_means(part, x, metric, workload)
    curve = closed_form(part, metric, workload, x)
    if curve is None:  # along zipped axes, only the grid points have a closed form
        return Series(where, means, *grid_theory(part, x, metric), base=base, place=place)
    at = fine(finite_values(part, x), x, workload, 241)
    theory = curve(at)
    if not np.isfinite(theory).any():  # the formula has no value for this line
        at = theory = np.empty(0)
    at_infinity = float(curve(np.array([np.inf]))[0]) if np.isinf(means.x).any() else np.nan
    return Series(where, means, at, theory, at_infinity, base, place)


def plain_series(where: Where, rows: pd.DataFrame, columns: Sequence[str]) -> Series:
    """One line from the columns that have x, the values and both ends of their intervals."""
    return Series(where, plain_means(*rows[list(columns)].to_numpy(float).T))


def base_metric(metric: str, workload: Workload) -> str:
    """The metric of the base model that belongs to METRIC_after, namely METRIC; empty if there is none."""
    before = metric.removesuffix("_after")
    return before if before != metric and any(before == one.name for one in workload.metrics) else ""


def base_means(part: pd.DataFrame, x: str, metric: str, workload: Workload) -> CellMeans | None:
    before = base_metric(metric, workload)
    means = cell_means(part, x, before, workload) if before and before in part.columns else None
    return means if means and len(means.x) else None


def grid_theory(part: pd.DataFrame, x: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """The closed form in the rows at each finite x; empty if there is none or if it is not unique at some x."""
    if (theory := f"{metric}_theory") not in part.columns:
        return np.empty(0), np.empty(0)
    return single_valued(part[x].to_numpy(float), part[theory].to_numpy(float))


def single_valued(x: np.ndarray, theory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the finite x, sorted, the value at each); empty if two values differ at some x."""
    finite = np.isfinite(x) & np.isfinite(theory)
    at, first, inverse = np.unique(x[finite], return_index=True, return_inverse=True)
    values = theory[finite][first]
    if (theory[finite] != values[inverse]).any():
        return np.empty(0), np.empty(0)
    return at, values
