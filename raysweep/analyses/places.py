"""The places of curves, zeros or extrema, one per setting: the finding, what would decide open ones, the figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Needed, Outcome, Plot
from raysweep.analyses.movement import PLACED, moves
from raysweep.analyses.outcomes import needed, takes
from raysweep.analyses.question import Question
from raysweep.analyses.rows import Part, Where, edges_of, finite_values
from raysweep.analyses.series import CurvesPlot, Panel, Series, by_panel, laid_out
from raysweep.fits.draws import log_axis, not_zero
from raysweep.fits.result import Fit, Status
from raysweep.lazy import pd

FEWEST = 2  # places or bounds in a figure of places
WITHIN = 1.001  # an interval is as narrow as asked for up to the rounding of its ends
FITTED = (
    *("draws", "estimate", "exact", "high", "low", "method_spread", "note", "points", "reason", "scale", "status"),
    *("theory", "z"),
)
HALVED = ("draws_to_halve", "halved", "method", "points_from", "points_to", "points_to_halve", "turn")
EVERYWHERE = ("high_simultaneous", "low_simultaneous")
"""What tables of places call their columns."""
FURTHER = (
    *("z", "draws", "draws_to_halve", "points_to_halve", "points_from", "points_to", "halved", "diverged_from"),
    *("choice", "regret", "base", "fall", "fall_low", "fall_high", "p", "p_holm"),
)
"""What the table of a finding has of a fit after the columns of all findings: the distance to theory in its errors,
the draws, what would halve the interval (so many draws in all, so many more values of x between two of them), of a
surface the value of least expected regret with that regret, and of a turn with given errors the first value, the fall
from the best one to the last, and p of no turn."""


@dataclass(frozen=True, eq=False)
class PlaceLine:
    """The places of one line.

    table: one row per value of the axis.
    fine: values of the axis at which the closed form, or a law, is drawn.
    expected: the places of the closed form, or of the law, at `fine`; NaN where it has none.
    band: of the law there, (2, len(fine)); empty without one.
    """

    where: Where
    table: pd.DataFrame
    fine: np.ndarray
    expected: np.ndarray
    band: np.ndarray = field(default_factory=lambda: np.empty((2, 0)))


@dataclass(frozen=True, eq=False)
class PlacesPlot(Plot):
    """Places in x over another axis.

    along: that axis. placed: what they are: zero, minimum, maximum or optimum, of the metric.
    every: how many lines there are; the panels may show fewer. constants: in x, by name.
    """

    panels: Sequence[Panel[PlaceLine]]
    x: str
    along: str
    metric: str
    placed: str
    every: int
    constants: Mapping[str, float] = field(default_factory=dict)


def joined(parts: Iterable[Part]) -> pd.DataFrame:
    """Concatenate the tables of several settings, with the values of the keys as columns."""
    return pd.concat([table.assign(**where) for where, table in parts], ignore_index=True)


def in_front(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The table with the columns `names` first."""
    return table[[*names, *(name for name in table.columns if name not in names)]]


def places_finding(
    question: Question,
    kind: str,
    whole: pd.DataFrame,
    keys: Sequence[str],
    fits: Sequence[Fit],
    plots: Callable[[], Sequence[Plot]],
    tables: Mapping[str, pd.DataFrame],
    stops: str = "optimum",
    one_of_two: bool = False,
    facts: Mapping[str, Any] | None = None,
    meanings: Mapping[str, str] | None = None,
) -> Finding:
    """The finding of the places of a question.

    whole: one row per setting: keys, the table of its fit, theory, z and outcome.
    stops: what a `precision` calls such a place, boundary or optimum.
    one_of_two: it is asked which of two curves is better, so nothing is open beyond the grid.
    """
    level = question.read_at(stops)
    about: dict[str, Any] = {"computed_at": level} if level != question.level else {}
    if "choice" in whole:
        about["method"] = "one_surface"
    return question.finding(
        kind,
        _rows(question, whole, keys, stops, one_of_two),
        keys,
        meanings=meanings or {},
        moves=moves(whole, list(keys)),
        facts={**about, **(facts or {})},
        tables=tables,
        plots=plots,
        fits=fits,
    )


def has_place(table: pd.DataFrame) -> bool:
    """Whether some place of a table is located."""
    return bool((table["status"] == Status.LOCATED).any())


def few(whole: pd.DataFrame) -> bool:
    """Whether so few settings have a place that the curves themselves say more."""
    return int((whole["status"] == Status.LOCATED).sum()) < len(whole) / 4


def _rows(
    question: Question, whole: pd.DataFrame, keys: Sequence[str], stops: str, one_of_two: bool
) -> list[dict[str, Any]]:
    x, rows = question.x, question.rows
    edges = edges_of(rows, x)
    closed = _closed(question, edges) if not one_of_two else (Outcome.BEYOND_LOW, Outcome.BEYOND_HIGH)
    seeds = int(rows["seed"].nunique()) if "seed" in rows.columns else 0
    lines = [f"{part} {name}" for name in question.lines for part in ("z", "excluded")]
    names = [*keys, "reason", "estimate", "low", "high", *(name for name in (*FURTHER, *lines) if name in whole)]
    out = []
    for row, wide in zip(whole.to_dict("records"), too_wide(question, whole, stops), strict=True):
        result = row["outcome"]
        bounds = (row["high"], row["low"]) if result in (Outcome.OK_LOW, Outcome.OK_HIGH) else edges
        decides = {} if result in closed else needed(result, row["reason"], bounds[0], bounds[1], seeds)
        decides = takes(Needed.MORE_DRAWS, seeds or np.nan) if wide else decides
        # on the sign scale the zero is that of the median, and the closed form's that of the mean
        theory = np.nan if row.get("scale") == "sign" else row["theory"]
        out.append({**{name: row[name] for name in names}, "outcome": result, "theory": theory, **decides})
    return out


def _closed(question: Question, edges: tuple[float, float]) -> list[Outcome]:
    """The sides of the grid beyond which the axis has no values."""
    declared = question.workload.by_name.get(question.x)
    limits = (declared.minimum, declared.maximum) if declared else (None, None)
    sides = zip((Outcome.BEYOND_LOW, Outcome.BEYOND_HIGH), limits, edges, strict=True)
    return [side for side, limit, edge in sides if limit is not None and edge == limit]


def too_wide(question: Question, whole: pd.DataFrame, stops: str) -> np.ndarray:
    """Whether the interval of each located place is wider than a precision of the space asks for."""
    located = (whole["status"] == Status.LOCATED).to_numpy()
    if not (asked := question.precision(stops)) or not located.any():
        return np.zeros(len(whole), dtype=bool)
    width, pointwise = asked
    after = "" if pointwise or "low_simultaneous" not in whole else "_simultaneous"
    low, high = (whole[f"{end}{after}"].to_numpy(float) for end in ("low", "high"))
    values = not_zero(finite_values(question.rows, question.x))
    logarithmic = (low[located] > 0).all() and log_axis(values, question.workload.logarithmic(question.x))
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.sqrt(high / low) if logarithmic and stops == "optimum" else (high - low) / 2
    return located & (size > width * WITHIN)


def places_plot(
    question: Question,
    whole: pd.DataFrame,
    keys: Sequence[str],
    along: str,
    placed: str,
    line: Callable[[Where, pd.DataFrame], PlaceLine] | None = None,
) -> list[PlacesPlot]:
    """The places over one of the keys: a line for each value of the key that has most values among the others, a panel
    for each setting of the rest. A setting with a single value of the key is no line. Empty if fewer than two places
    or bounds are known on these lines.

    line: makes the line of one setting of the other keys; by default with the theory of the table.
    """
    others = [key for key in keys if key != along]
    others.sort(key=lambda key: -whole[key].nunique())  # stable: of equals, the first
    of_line, of_panel = others[:1], [key for key in keys if key in others[1:]]

    def with_theory(where: Where, table: pd.DataFrame) -> PlaceLine:
        return PlaceLine(where, table, table[along].to_numpy(float), table["theory"].to_numpy(float))

    every = by_panel(whole, [*of_line, *of_panel])
    tables = [(where, table) for where, table in every if table[along].nunique() > 1]
    if sum(int(table["status"].isin(PLACED).sum()) for _, table in tables) < FEWEST:
        return []
    panels = laid_out(tables, of_line, of_panel, line or with_theory, located=has_place)
    name, constants = f"{question.name}_line", question.lines
    return [PlacesPlot(name, panels, question.x, along, question.metric, placed, len(every), constants)]


def curves_and_places(
    question: Question,
    panels: Sequence[Panel[Series]],
    whole: pd.DataFrame,
    keys: Sequence[str],
    along: Any,
    placed: str,
) -> Sequence[Plot]:
    """The curves with a mark at each place, and the places over `along`; the curves first if few have a place.

    along: one of the keys; None if the places lie over none of them.
    """
    curves = CurvesPlot(f"{question.name}_curves", panels, question.x, question.metric, len(whole), placed=placed)
    lines = places_plot(question, whole, keys, along, placed) if along else []
    return [curves, *lines] if few(whole) else [*lines, curves]
