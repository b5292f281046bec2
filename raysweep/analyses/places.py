"""The places of curves, zeros or extrema, one per setting: the finding, how they change with the other axes, what would
decide open ones, the figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from raysweep.analyses.design import usual
from raysweep.analyses.finding import Finding, Move, Needed, Outcome, Plot
from raysweep.analyses.outcomes import needed, takes
from raysweep.analyses.question import Question
from raysweep.analyses.rows import Part, Where, edges_of, finite_values, groups, is_number, varying
from raysweep.analyses.series import PANELS, CurvesPlot, Panel, laid_out, marks, series_panels
from raysweep.fits.draws import log_axis, not_zero
from raysweep.fits.result import Status
from raysweep.fits.statistics import all_at_once
from raysweep.lazy import pd

FEWEST = 2  # places or bounds in a figure of places
PLACED = (Status.LOCATED, Status.CENSORED_LOW, Status.CENSORED_HIGH)
LEGIBLE = 6  # lines of a panel that can be told apart
WITHIN = 1.001  # an interval is as narrow as asked for up to the rounding of its ends
FITTED = ("draws", "exact", "method_spread", "note", "points", "scale", "status", "z")
HALVED = ("draws_to_halve", "halved", "method", "points_from", "points_to", "points_to_halve", "turn")
EVERYWHERE = ("high_simultaneous", "low_simultaneous")
"""What tables of places call their columns."""
FURTHER = (
    *("z", "draws", "draws_to_halve", "points_to_halve", "points_from", "points_to", "halved", "diverged_from"),
    *("exact", "choice", "regret", "base", "fall", "fall_low", "fall_high", "p", "p_holm"),
)
"""What the table of a finding has of a fit after the columns of all findings: the distance to theory in its errors,
the draws, what would halve the interval (so many draws in all, so many more values of x between two of them), of a
surface the value of least expected regret with that regret, whether a place is exact if some are, and of a turn with
given errors the first value, the fall from the best one to the last, and p of no turn."""


@dataclass(frozen=True, eq=False)
class PlaceLine:
    """The places of one line over an axis, `along`. table: one row per value of it.

    fine, expected: values of the axis, and the place of the closed form, or of a law, at each; NaN where it has none.
    band: of the law there, (2, len(fine)); empty without one.
    """

    where: Where
    along: str
    table: pd.DataFrame
    fine: np.ndarray
    expected: np.ndarray
    band: np.ndarray = field(default_factory=lambda: np.empty((2, 0)))


@dataclass(frozen=True, eq=False)
class PlacesPlot(Plot):
    """Places in x over another axis, the same or another one in each panel.

    placed: what they are: zero, minimum, maximum or optimum, of the metric.
    every: how many lines there are; the panels may show fewer. constants: in x, by name.
    """

    panels: Sequence[Panel[PlaceLine]]
    x: str
    metric: str
    placed: str
    every: int
    constants: Mapping[str, float] = field(default_factory=dict)


def drawable(plot: PlacesPlot) -> list[PlacesPlot]:
    """The plot, if a place or a bound of one is known anywhere."""
    tables = [line.table[["estimate", "low", "high"]].to_numpy(float) for panel in plot.panels for line in panel.lines]
    return [plot] if any(np.isfinite(table).any() for table in tables) else []


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
    facts: Mapping[str, Any],
    stops: str = "optimum",
    one_of_two: bool = False,
    **fields: Any,
) -> Finding:
    """The finding of the places of a question. fields: further ones of `Finding`.

    whole: one row per setting: keys, the table of its fit, theory, z and outcome.
    stops: what a `precision` calls such a place, boundary or optimum.
    one_of_two: it is asked which of two curves is better, so nothing is open beyond the grid.
    """
    level = question.read_at(stops)
    about: dict[str, Any] = {"computed_at": level} if level != question.level else {}
    about |= {"method": "one_surface"} if "choice" in whole else {}
    rows = _rows(question, whole, keys, stops, one_of_two)
    return question.finding(kind, rows, keys, moves=moves(whole, list(keys)), facts={**about, **facts}, **fields)


def moves(table: pd.DataFrame, keys: list[str]) -> list[Move]:
    """How the place changes with each axis of numbers, all others fixed: the places at the first and the last value of
    the axis with a located place are compared. If fewer than two settings can be compared so, bounds count as places.
    """
    out = []
    for key in (key for key in varying(keys, table) if is_number(table, key)):
        move = _move(table[table["status"] == Status.LOCATED], keys, key, by_bounds=False)
        if move is None or move.rises + move.falls + move.both + move.open < 2:  # of few places their bounds say more
            wider = _move(table[table["status"].isin(PLACED)], keys, key, by_bounds=True)
            compared = move and (move.first, move.last)
            move = wider if wider and (wider.first, wider.last) != compared else move
        out += [move] if move else []
    return out


def _move(places: pd.DataFrame, keys: list[str], key: str, by_bounds: bool) -> Move | None:
    """How the place changes with one axis between settings with a place or a bound; None if none can be compared. Of
    two settings that are compared at least one has a place."""
    fitted, theory = Counter[str](), Counter[float]()
    compared: list[float] = []
    for _, rows in groups(places, [other for other in keys if other != key]):
        if rows[key].nunique() < 2:
            continue
        first, last = rows.loc[rows[key].idxmin()], rows.loc[rows[key].idxmax()]
        if Status.LOCATED not in (first["status"], last["status"]):
            continue
        compared += rows[key].agg(["min", "max"]).tolist()
        if last["low"] > first["high"] or last["high"] < first["low"]:
            fitted["rises" if last["low"] > first["high"] else "falls"] += 1
        else:
            located = rows[rows["status"] == Status.LOCATED].sort_values(key)
            ends = all_at_once(*located[["low", "high"]].to_numpy(float).T)
            fitted["both" if turns(*ends) else "open"] += 1
        step = last["theory"] - first["theory"]
        if np.isfinite(step):
            theory[float(np.sign(step)) * (abs(step) > 1e-6 * abs(first["theory"]))] += 1
    if not fitted:
        return None
    ways = fitted["rises"], fitted["falls"], fitted["both"], fitted["open"]
    return Move(key, min(compared), max(compared), *ways, (theory[1.0], theory[-1.0], theory[0.0]), by_bounds)


def turns(low: np.ndarray, high: np.ndarray) -> bool:
    """Whether some place lies above one before it and one after it, or below both, by intervals that do not meet.
    low, high: in order, for all places at once."""
    return any(
        low[k] > max(high[:k].min(), high[k + 1 :].min()) or high[k] < min(low[:k].max(), low[k + 1 :].max())
        for k in range(1, len(low) - 1)
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
    seeds = int(rows.groupby([x, *keys], dropna=False)["seed"].nunique().max()) if len(rows) else 0  # of a cell
    lines = [f"{part} {name}" for name in question.lines for part in ("z", "excluded")]
    whole = whole.drop(columns=["exact"] * ("exact" in whole and not whole["exact"].any()))
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
    for each setting of the rest. A setting with a single value of the key is no line. If these are most settings, or
    all others differ from a usual one in one axis, each axis has a panel, named by how it differs from the usual
    setting. Empty if fewer than two places or bounds are known on these lines.
    line: makes one of them; by default with the theory of the table."""
    others = sorted((key for key in keys if key != along), key=lambda key: -whole[key].nunique())
    of_line, of_panel = others[:1], [key for key in keys if key in others[1:]]

    def with_theory(where: Where, table: pd.DataFrame, along: str = along) -> PlaceLine:
        return PlaceLine(where, along, table, table[along].to_numpy(float), table["theory"].to_numpy(float))

    every = list(groups(whole, [*of_line, *of_panel]))
    tables = [(where, table) for where, table in every if table[along].nunique() > 1]
    base, few_on_lines = usual(whole, varying(keys, whole)), 2 * sum(len(table) for _, table in tables) < len(whole)
    alone = one_by_one(whole, keys) if (base or few_on_lines) and not line else []
    if alone:
        every = tables = [(where, table) for where, table, _ in alone]
    if sum(int(table["status"].isin(PLACED).sum()) for _, table in tables) < FEWEST:
        return []
    differ = [
        {key: value for key, value in where.items() if key not in base or value != base[key]} for where, *_ in alone
    ]
    panels = [Panel(where, [with_theory({}, *rest)]) for where, (_, *rest) in zip(differ, alone[:PANELS], strict=False)]
    panels = panels or laid_out(tables, of_line, of_panel, line or with_theory, located=has_place)
    name, constants = f"{question.name}_line", question.lines
    return [PlacesPlot(name, panels, question.x, question.metric, placed, len(every), constants)]


def one_by_one(whole: pd.DataFrame, keys: Sequence[str]) -> list[tuple[Where, pd.DataFrame, str]]:
    """(the values of the others, rows, key) of the longest line along each key of numbers that has one."""
    out = []
    for key in (key for key in varying(keys, whole) if is_number(whole, key)):
        lines = groups(whole, [other for other in varying(keys, whole) if other != key])
        where, rows = max(lines, key=lambda one: one[1][key].nunique())
        out += [(where, rows, key)] if rows[key].nunique() > 1 else []
    return out


def curves_and_places(
    question: Question,
    parts: Sequence[Part],
    whole: pd.DataFrame,
    keys: Sequence[str],
    placed: str,
    theory: bool = True,
) -> Sequence[Plot]:
    """The curves with a mark at each place, and the places over the first key of numbers along which a usual setting of
    the others has three values, else over that with the most; the curves first if few have a place, or if all turns
    are legible in one panel. whole: a row for each part. theory: whether curves have their closed form."""
    lengths = {
        key: float(np.median([part[key].nunique() for _, part in groups(whole, [one for one in keys if one != key])]))
        for key in keys
        if is_number(whole, key) and whole[key].nunique() > 1
    }
    longest = max(lengths, key=lambda key: lengths[key], default=None)
    along = next((key for key in lengths if lengths[key] >= 3), longest)
    panels = series_panels(parts, keys, question.x, question.metric, question.workload, marks(whole))
    if not theory:
        none: dict[str, Any] = {"theory_x": np.empty(0), "theory": np.empty(0), "theory_at_infinity": np.nan}
        panels = [replace(panel, lines=[replace(line, **none) for line in panel.lines]) for panel in panels]
    curves = CurvesPlot(f"{question.name}_curves", panels, question.x, question.metric, len(whole), placed=placed)
    lines = places_plot(question, whole, keys, along, placed) if along else []
    legible = placed != "optimum" and len(panels) == 1 and len(whole) <= LEGIBLE
    return [curves, *lines] if legible or few(whole) else [*lines, curves]
