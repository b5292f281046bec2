"""The comparison of several sweeps: each is compared with the first one, draw by draw."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from raysweep.analyses import registry
from raysweep.analyses.design import Design
from raysweep.analyses.finding import NOTHING, Finding, Needed, Nothing, Outcome, Plot, as_table
from raysweep.analyses.outcomes import side, takes
from raysweep.analyses.prepared import lost_cells
from raysweep.analyses.question import Question
from raysweep.analyses.rows import all_keys, groups, heavy_rows, parameters_of, places_on, varying
from raysweep.analyses.series import CurvesPlot, laid_out, plain_series
from raysweep.analyses.single_runs import degrees_of, method_of, with_errors
from raysweep.fits.comparison import HIGHER, LOWER, Overall, over_cells, paired, per_cell
from raysweep.lazy import pd
from raysweep.space.analyses import metrics_of, opened
from raysweep.workloads.declaration import Workload

KIND, ASKED = "comparison", "How do the sweeps differ?"
ENDS = (("here", "left"), ("there", "right"))
CLOSE = 1e-6  # the relative difference up to which numbers of two tables are one: 32 bits hold 7 digits


def compared(frame: pd.DataFrame, design: Design, workload: Workload) -> Finding:
    """The mean difference of each sweep and the first one, for all metrics that the analyses name,
    else all with a closed form, else all. Where runs have errors of their own (`with_errors`), seeds do not matter.

    One row per sweep and metric: estimate is the mean over cells, formed in each draw first; cells, draws, smallest,
    largest, higher and lower (of how many cells the difference is clear after Holm's correction), alone_here and
    alone_there (cells that the first or the other sweep alone has). tables: comparison_METRIC, one row per cell.

    frame: every row of every sweep, also rows that they share.
    """
    first, *others = design.names
    rows, plots = list[dict[str, Any]](), list[Plot]()
    tables, reasons, method = dict[str, pd.DataFrame](), dict[str, Nothing](), dict[str, str]()
    parameters, measured = parameters_of(frame, workload), [one.name for one in workload.metrics if one.name in frame]
    with_theory = [name for name in measured if f"{name}_theory" in frame]
    metrics = [name for name in design.metrics() if name in measured] or with_theory or measured
    frame = joined(frame, parameters).assign(sweep=frame["sweep"].astype(str))
    of_cell = list(dict.fromkeys([*varying(parameters, frame), "sweep"]))
    asked = {metric: Question(frame, {"metric": metric}, workload, KIND, design) for metric in metrics}
    errors = {metric: with_errors(question, of_cell) for metric, question in asked.items()}
    seeds = {name: set(frame.loc[frame["sweep"] == name, "seed"]) for name in design.names}
    for place, name in enumerate(others, 1):
        differing = Design((design.spaces[0], design.spaces[place])).between()
        same = [parameter for parameter in parameters if parameter not in differing]
        here, there = (frame.loc[frame["sweep"] == each, same].drop_duplicates() for each in (first, name))
        cells = here.merge(there, on=same, how="outer", indicator="in")
        comparable = [one for one in metrics if errors[one][1] or not seeds[first].isdisjoint(seeds[name])]
        if not comparable or not (cells["in"] == "both").any():
            reasons[name] = Nothing.NO_CELL_SHARED if comparable else Nothing.NO_SEED_SHARED
            continue
        alone = {f"alone_{end}": int((cells["in"] == f"{side}_only").sum()) for end, side in ENDS}
        for metric in comparable:
            rows_of, error = errors[metric]
            parts = [rows_of[rows_of["sweep"] == each] for each in (first, name)]
            usable = [part[~heavy_rows(part, metric, workload)] for part in parts]
            pairs = paired(usable[0], usable[1], same, metric, error)
            if not len(pairs):
                continue
            table = per_cell(pairs, same, error=error, degrees=degrees_of(error))
            x, keys = axes_of(table, metric, design, workload)
            stem = f"{KIND}_{metric}" if len(others) == 1 else f"{KIND}_{name}/{metric}"
            tables[stem] = table[[*keys, *([x] if x else []), *table.columns[len(same) :]]]
            rows.append({"sweep": name, "metric": metric, **row(table, over_cells(pairs, same, error=error)), **alone})
            method |= method_of(error)
            if x:
                plots.append(difference_plot(stem, table, x, keys, metric, design, workload))
    if others and not rows and not reasons:
        reasons[others[0]] = Nothing.MOST_LOST
    lost = lost_cells(frame, metrics, design, workload)
    facts: dict[str, Any] = {"first": first, "not_compared": reasons, **({"lost": lost} if lost else {}), **method}
    if not rows:
        facts |= {NOTHING: next(iter(reasons.values())), "about": ""}
    keys = ["sweep", "metric"]
    table = as_table(rows, keys if rows else [])
    return Finding(KIND, KIND, table, keys=keys, facts=facts, tables=tables, plots=lambda: plots, question=ASKED)


def joined(frame: pd.DataFrame, parameters: list[str]) -> pd.DataFrame:
    """The rows with close numbers of a parameter as one, the smallest: another table may hold them in 32 bits. Numbers
    of a parameter that a sweep itself tells apart stay as they are."""
    for name in frame[parameters].select_dtypes("float"):
        values = np.unique(frame[name].dropna())
        apart = np.r_[True, ~np.isclose(values[1:], values[:-1], rtol=CLOSE, atol=0)][: len(values)]
        first = values[apart][np.cumsum(apart) - 1]
        together = frame.assign(**{name: frame[name].map(dict(zip(values, first, strict=True)))})
        before, after = (each.groupby("sweep")[name].nunique() for each in (frame, together))
        frame = together if before.equals(after) else frame
    return frame


def row(table: pd.DataFrame, whole: Overall) -> dict[str, Any]:
    """The numbers of one metric. table: one row per cell (`fits.comparison.per_cell`)."""
    same, draws = (table[["difference", "low", "high"]] == 0).all(axis=None), int(table["draws"].max())
    outcome = Outcome.NO_EFFECT if same else side(whole.low, whole.high, Outcome.HIGHER, Outcome.LOWER)
    return {
        "outcome": outcome,
        **(takes(Needed.MORE_DRAWS, draws) if outcome == Outcome.UNDECIDED else {}),
        "estimate": whole.mean,
        "low": whole.low,
        "high": whole.high,
        "cells": len(table),
        "draws": draws,
        "smallest": float(table["difference"].min()),
        "largest": float(table["difference"].max()),
        "higher": int((table["status"] == HIGHER).sum()),
        "lower": int((table["status"] == LOWER).sum()),
    }


def axes_of(table: pd.DataFrame, metric: str, design: Design, workload: Workload) -> tuple[str | None, list[str]]:
    """(the axis over which differences are drawn, None with one cell; the parameters that distinguish the lines): those
    of the first analysis of the metric, if they vary."""
    varied = varying(parameters_of(table, workload), table)
    x, keys = None, []
    for entry in design.analyses():
        kind, options = opened(entry)
        if kind not in registry.names() or metric not in metrics_of(options):
            continue
        x = next((options[key] for key in ("x", "length", "lr", "y") if options.get(key) in varied), None)
        keys = [name for name in [options.get("y"), *(options.get("by") or [])] if name in varied and name != x]
        if x:
            break
    x = x or max(varied, key=lambda name: table[name].nunique(), default=None)
    return x, [key for key in all_keys(table, workload, x, keys, design) if key != x]


def difference_plot(
    name: str, table: pd.DataFrame, x: str, keys: list[str], metric: str, design: Design, workload: Workload
) -> CurvesPlot:
    table, at, categories = places_on(table, x, workload, design)
    parts = list(groups(table.sort_values(at), keys))
    panels = laid_out(parts, keys[:1], keys[1:], partial(plain_series, columns=(at, "difference", "low", "high")))
    return CurvesPlot(name, panels, x, metric, len(parts), categories)
