"""Where a metric changes sign along an axis, in slices of another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from raysweep.analyses.between import of_difference
from raysweep.analyses.closed_form import add_lines, add_theory, can_say, displacements, fine, zero_line
from raysweep.analyses.finding import Finding, Outcome, Plot
from raysweep.analyses.outcomes import outcome, with_outcomes
from raysweep.analyses.places import (
    EVERYWHERE,
    FITTED,
    PlaceLine,
    few,
    has_place,
    in_front,
    joined,
    places_finding,
    places_plot,
)
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import (
    Part,
    Where,
    comparable,
    edges_of,
    finite_values,
    groups,
    heavy_rows,
    is_exact,
    is_number,
    means_table,
    signs_of,
)
from raysweep.analyses.series import CurvesPlot, marks, series_panels
from raysweep.analyses.single_runs import method_of, with_errors
from raysweep.fits.boundary import fit_boundary
from raysweep.fits.comparison import joint
from raysweep.fits.processes import mapped
from raysweep.fits.reasons import Reason
from raysweep.fits.result import Fit, Status
from raysweep.fits.zero import SIGN_DRAWS
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.workloads.declaration import Workload

MOST_MAPS = 4
FINE, DRAWN = 121, 81
"""Zeros of a closed form that are only drawn are looked for between so many places: no eye tells closer ones apart."""


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


def run(question: Question) -> Finding:
    """The zeros of a metric over x, one per setting."""
    question, measured = of_difference(question), question
    x, y, metric, workload = question.x, question.options.get("y"), question.metric, question.workload
    of_y = [y] if y else []
    keys = question.keys_besides(x, *of_y)
    lead = [*keys, *of_y]
    rows, error = with_errors(question, [*lead, x])
    parts = list(groups(rows, keys))
    level = question.read_at("boundary")
    fit_one = partial(one_line, x=x, y=y, metric=metric, level=level, workload=workload, error=error)
    tables, fits, edges = list[pd.DataFrame](), list[Fit](), edges_of(rows, x)
    for (where, _), (fit, expected) in zip(parts, mapped(fit_one, [rows for _, rows in parts]), strict=True):
        fits.append(replace(fit, crossings=in_front(fit.crossings.assign(**where), keys)))
        table = with_outcomes(add_theory(fit.table, expected, question.level), edges)
        # On the sign scale the zero is a zero of the median, but the closed form gives the zero of the mean.
        table.loc[table["scale"] == "sign", "z"] = np.nan
        tables.append(add_lines(table, question.lines, question.level))
    whole = in_front(joined((where, table) for (where, _), table in zip(parts, tables, strict=True)), lead)
    named = {f"{question.name}_zeros": whole}
    apart = [displacements(rows, table, x, y, metric) for (_, rows), table in zip(parts, tables, strict=True)]
    ways, said = {bool(rising) for fit in fits for rising in fit.crossings["rising"]}, int(can_say(whole).sum())
    facts: dict[str, Any] = {
        "rising": ways.pop() if len(ways) == 1 else None,  # through all zeros
        "several": int((whole["crossings"] > 1).sum()) or None,
        "joint": against_theory(whole, apart),
        **method_of(error),
        "lines": {  # how many intervals do not hold the constant, and of how many
            name: {"value": value, "outside": int(whole[f"excluded {name}"].sum()), "of": said}
            for name, value in question.lines.items()
        },
    }
    if question is not measured:  # a difference is a metric of no other table
        named[f"{question.name}_differences"] = means_table(question.rows, [*lead, x], metric, workload)
        ((axis, values),) = measured.options["between"].items()
        facts["between"] = {"metric": measured.metric, "axis": axis, "values": list(values)}
    signs = signs_of(metric, workload)
    meanings = question.words or (dict(zip(("positive", "negative"), signs, strict=True)) if all(signs) else {})
    return places_finding(
        question,
        "boundary",
        whole,
        lead,
        {name: fact for name, fact in facts.items() if fact not in (None, {})},
        stops="boundary",
        one_of_two=question is not measured,
        meanings=meanings,
        fits=fits,
        plots=partial(plots, question, parts, tables, whole, lead),
        tables=named,
    )


def one_line(
    rows: pd.DataFrame, *, x: str, y: str | None, metric: str, level: float, workload: Workload, error: str | None
) -> tuple[Fit, list[np.ndarray]]:
    """(the fit of one line, the zeros of the closed form in its slices)."""
    scale, exact, log = slice_scale(rows, y, metric, workload), is_exact(rows, metric), workload.logarithmic(x)
    fit = fit_boundary(rows, x, y, metric, "seed", level, scale=scale, exact=exact, logarithmic=log, error=error)
    slices = fit.table[y].to_numpy() if y else np.zeros(1)
    fit = replace(fit, table=limited_by_failures(fit.table, rows, x, y, metric))
    return fit, zero_line(rows, x, y, metric, workload, slices)


def slice_scale(rows: pd.DataFrame, y: str | None, metric: str, workload: Workload) -> Any:
    """The scale for each slice: the sign where the workload says that draws of some cell have no variance, else the
    mean, as a single outlier must not change the question to one about the median; None if the fit chooses."""
    if workload.heavy_tailed is None or rows["seed"].nunique() < SIGN_DRAWS:
        return None
    heavy = heavy_rows(rows, metric, workload)
    if y is None:
        return "sign" if heavy.any() else "linear"
    return {label: "sign" if heavy[(rows[y] == label).to_numpy()].any() else "linear" for label in rows[y].unique()}


def limited_by_failures(table: pd.DataFrame, rows: pd.DataFrame, x: str, y: str | None, metric: str) -> pd.DataFrame:
    """The table of a fit, whose reasons say where a zero is not known because no row beyond some x is ok."""
    table = table.copy()
    for place, row in zip(table.index, table.to_dict("records"), strict=True):
        if outcome(row["status"], row["reason"]) not in (Outcome.BEYOND_LOW, Outcome.BEYOND_HIGH):
            continue
        part = rows[rows[y] == row[y]] if y else rows
        tried, good = part[x], part.loc[(part["status"] == "ok") & np.isfinite(part[metric].astype(float)), x]
        up = row["status"] == Status.CENSORED_HIGH
        if tried.max() > good.max() if up else tried.min() < good.min():
            table.loc[place, "note"] = f"{row['note']}, no row is ok {'above' if up else 'below'}"
            table.loc[place, "reason"] = Reason.HIGH_NOT_OK if up else Reason.LOW_NOT_OK
    return table


def against_theory(whole: pd.DataFrame, apart: Sequence[pd.DataFrame]) -> dict[str, float]:
    """All located zeros against the closed form's at once, with the draw as the unit; empty if that is not known.
    distance: their mean distance in x. mean, error: of the distances in units of the scatter of one draw."""
    if (test := joint(pd.concat(apart, axis=1).to_numpy(float))) is None:
        return {}
    located = whole[whole["status"] == Status.LOCATED]
    distance = float((located["estimate"] - located["theory"]).mean())
    return {"distance": distance, "mean": test.mean, "error": test.error, "z": test.z, "draws": test.draws}


def plots(
    question: Question, parts: Sequence[Part], tables: Sequence[pd.DataFrame], whole: pd.DataFrame, lead: list[str]
) -> list[Plot]:
    """Maps if there is a y, the zeros over another axis, and the curves; the curves first if few settings have one."""
    y, rows = question.options.get("y"), question.rows
    keys = [key for key in lead if key != y]
    along = y if y and is_number(rows, y) else next((key for key in keys if is_number(rows, key)), None)
    first, second = list[Plot](maps_plot(question, parts, tables)), list[Plot]()
    if along and (along != y or len(parts) > 1):
        second += places_plot(question, whole, lead, along, "zero", partial(zeros_of_line, question, lead, along))
    if len(parts) > 1 or question.lines:  # several lines in one figure are easier to compare than maps
        first, second = second, first
    curves = slices_plot(question, parts, whole, keys)
    return [curves, *first, *second] if few(whole) else [*first, *second, curves]


def maps_plot(question: Question, parts: Sequence[Part], tables: Sequence[pd.DataFrame]) -> list[MapsPlot]:
    """The metric over x and y, one map per setting of the other axes; empty if the cells lie on one line."""
    x, y, rows = question.x, question.options.get("y"), question.rows
    if not y or not is_number(rows, y) or rows[y].nunique() < 2 or rows[x].nunique() < 2:
        return []
    located = {place for place, table in enumerate(tables) if has_place(table)}
    chosen = comparable([tuple(where.values()) for where, _ in parts], MOST_MAPS, located)
    shown = [Map(*parts[k], tables[k], *zeros_over(question, parts[k][1], y)) for k in chosen]
    return [MapsPlot(f"{question.name}_surface", shown, x, y, question.metric, len(parts), question.lines)]


def zeros_over(question: Question, rows: pd.DataFrame, along: str) -> tuple[np.ndarray, list[np.ndarray]]:
    """(finely spaced values of an axis, the closed form's zeros at each)."""
    places = fine(finite_values(rows, along), along, question.workload, FINE)
    return places, zero_line(rows, question.x, along, question.metric, question.workload, places, DRAWN)


def zeros_of_line(question: Question, lead: Sequence[str], along: str, where: Where, table: pd.DataFrame) -> PlaceLine:
    """One line of zeros, with the closed form's on a fine grid."""
    others = [other for other in lead if other != along]
    rows = question.rows[(question.rows[others] == table[others].iloc[0]).all(axis=1)]
    places, roots = zeros_over(question, rows, along)
    return PlaceLine(where, along, table, places, np.array([root[0] if len(root) == 1 else np.nan for root in roots]))


def slices_plot(question: Question, parts: Sequence[Part], whole: pd.DataFrame, keys: list[str]) -> CurvesPlot:
    x, metric, y = question.x, question.metric, question.options.get("y")
    of_y = [y] if y else []
    slices: list[Part] = [({**label, **where}, part) for where, rows in parts for label, part in groups(rows, of_y)]
    names = [*of_y, *keys]
    zeros = dict(zip(whole[names].itertuples(index=False, name=None), marks(whole), strict=True))
    marked = [zeros.get(tuple(where.values())) for where, _ in slices]
    panels = series_panels(slices, names, x, metric, question.workload, marked)
    return CurvesPlot(f"{question.name}_slices", panels, x, metric, len(slices), placed="zero")


ANALYSIS = Analysis(
    kind="boundary",
    question="At which {x} does {metric} change sign?",
    run=run,
    required=allowed.METRIC_X,
    optional={
        **allowed.BY_LEVEL,
        "y": allowed.number_axis,
        "lines": allowed.lines,
        "between": allowed.between,
        "words": allowed.words("positive", "negative"),
    },
    columns=(*FITTED, *EVERYWHERE, "clear_points", "crossings", "sign", "zero_end"),
    along="x",
    means_only=True,
)
