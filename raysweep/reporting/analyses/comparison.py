"""The comparison of several sweeps in a report: each sweep is compared with the first one, draw by draw."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.design import Design, values_in
from raysweep.analyses.rows import CellMeans, all_keys, heavy_rows, parameters_of, places_on
from raysweep.analyses.series import Series, Where, by_panel, laid_out
from raysweep.fits.comparison import HIGHER, LOWER, UNTESTED, Overall, over_cells, paired, per_cell
from raysweep.fits.statistics import LEVEL
from raysweep.numbers import interval, number
from raysweep.phrases import counted
from raysweep.report.figures.lines import curves_figure
from raysweep.report.names import plain
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.reporting.lost_cells import survivors
from raysweep.space.analyses import ANALYSES, metrics_of, opened
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

PERCENT = f"{100 * LEVEL:g} %"
SAID = 3  # at most this many comparisons are in the headline


def comparison_section(frame: pd.DataFrame, design: Design, workload: Workload) -> Section:
    """Figures and tables of each sweep minus the first one, for all metrics that the analyses name."""
    first, *others = design.names
    said: list[str] = []
    drawings: list[Drawing] = []
    shown: list[dict[str, str]] = []
    tables: dict[str, pd.DataFrame] = {}
    parameters, metrics = parameters_of(frame, workload), metrics_named(design, workload, frame)
    one = frame[frame["sweep"].astype(str) == first]
    for place, name in enumerate(others, 1):
        other = frame[frame["sweep"].astype(str) == name]
        differing = differing_parameters(design, 0, place)
        same = [parameter for parameter in parameters if parameter not in differing]
        sides = [
            f"{part} ({words})" if (words := values_in_words(design.spaces[k], differing)) else part
            for k, part in ((place, name), (0, first))
        ]
        what = f"{sides[0]} less {sides[1]}"
        if set(one["seed"]).isdisjoint(other["seed"]):
            said.append(f"no seed in common, so draws cannot be compared in pairs: {what}")
            continue
        cells = one[same].drop_duplicates().merge(other[same].drop_duplicates(), on=same, how="outer", indicator="in")
        if not (cells["in"] == "both").any():
            said.append(f"no cell in common, so give both sweeps some of the same values and run them again: {what}")
            continue
        alone = left_alone(cells["in"], (first, name))
        for metric in metrics:
            usable = [part[~heavy_rows(part, metric, workload)] for part in (one, other)]
            pairs = paired(usable[0], usable[1], same, metric)
            if not len(pairs):
                said.append(f"{metric}, {what}: no pair of draws that are both ok and finite, and have a variance")
                continue
            table = per_cell(pairs, same)
            whole = over_cells(pairs, same)
            x, keys = axes_of(table, metric, design, workload)
            stem = f"comparison_{metric}" if len(others) == 1 else f"comparison_{file_word(name, place)}/{metric}"
            tables[stem] = table[[*keys, *([x] if x else []), *table.columns[len(same) :]]]
            said.append(f"{metric}, {what}{found(table, whole)}{alone}")
            alone = ""  # said once
            shown.append(shown_row(metric, name, table, whole, len(others) > 1))
            if x:
                caption = (
                    f"{metric} of {what}, on the same draws: mean difference in each cell with its "
                    f"{PERCENT} interval (pointwise: for one cell, not for all at once)."
                )
                figure, said_of = difference_figure(table, x, keys, metric, design, workload)
                drawings.append(Drawing(stem, f"{caption} {said_of}".strip(), figure))
    more = f"; {len(said) - SAID} more are in the table" if len(said) > SAID else ""
    headline = "; ".join(said[:SAID]) + more
    few = survivors(frame, metrics, design, workload)
    return Section(
        "Comparison of the sweeps", headline, method() if tables else [], drawings, shown, tables, detail=few
    )


def file_word(name: str, place: int) -> str:
    """The part of a file name that stands for a sweep: its name, or its position if the name is not a plain name.

    A plain name never begins like the text for a position, so the two cannot collide.
    """
    return name if re.fullmatch(r"[\w.-]+", name) else f"_{place + 1}"


def method() -> list[str]:
    """The paragraphs on how the numbers were computed."""
    return [
        "Each draw is held against the draw of the same seed in the other sweep, at equal other parameters, so that "
        "what the two share cancels. Intervals are Student's t over the draws' differences: in the figure for each "
        "cell on its own, in the CSV for all cells at once too (Bonferroni). A cell is clearly higher or lower if p < "
        f"{1 - LEVEL:.2g} after Holm's correction for all cells. The mean over cells is formed in each draw first, "
        "over the cells that every draw has. Cells whose draws have no variance are left out."
    ]


def differing_parameters(design: Design, one: int, other: int) -> list[str]:
    """The parameters that have one value in each of two sweeps, but different values."""
    return Design((design.spaces[one], design.spaces[other])).between()


def values_in_words(space: Mapping[str, Any], names: list[str]) -> str:
    """The values of these parameters in one sweep, in words."""
    return ", ".join(f"{plain(name)} = {number(values_in(space, name)[0])}" for name in names)


def metrics_named(design: Design, workload: Workload, frame: pd.DataFrame) -> list[str]:
    """All metrics that the analyses name; if they name none, all with a closed form; if there are none, all metrics."""
    known = [metric.name for metric in workload.metrics if metric.name in frame.columns]
    return (
        [name for name in design.metrics() if name in known]
        or [name for name in known if f"{name}_theory" in frame.columns]
        or known
    )


def axes_of(table: pd.DataFrame, metric: str, design: Design, workload: Workload) -> tuple[str | None, list[str]]:
    """(the axis over which differences are drawn, the parameters that distinguish the lines).

    They are taken from the first analysis of the metric, if they vary. The axis is None if there is only one cell.
    """
    varying = [name for name in parameters_of(table, workload) if table[name].nunique(dropna=False) > 1]
    x, keys = None, []
    for entry in design.analyses():
        kind, options = opened(entry)
        if kind not in ANALYSES or kind == "relation" or metric not in metrics_of(options):
            continue
        x = next((options[key] for key in ("x", "length", "lr", "y") if options.get(key) in varying), None)
        keys = [name for name in [options.get("y"), *(options.get("by") or [])] if name in varying and name != x]
        if x:
            break
    x = x or max(varying, key=lambda name: table[name].nunique(), default=None)
    return x, [key for key in all_keys(table, workload, x, keys, design) if key != x]


def left_alone(sides: pd.Series, names: tuple[str, str]) -> str:
    """How many cells of each of two sweeps are not compared because the other has none like them, in words that follow
    a result; empty if all are compared.

    sides: of each cell whether the first, the second or both have it (left_only, right_only, both).
    """
    counts = zip(names, (int((sides == side).sum()) for side in ("left_only", "right_only")), strict=True)
    said = [f"{counted(count, 'cell')} of {name}" for name, count in counts if count]
    return f"; not compared, without a partner in the other: {' and '.join(said)}" if said else ""


def found(table: pd.DataFrame, whole: Overall) -> str:
    """The result and its uncertainty, in words that follow what is compared."""
    if not whole.cells:
        text = f": no mean over cells, since no cell has all of {counted(whole.draws, 'shared draw')} in both sweeps"
    elif whole.mean == whole.low == whole.high == 0 and (table[["difference", "low", "high"]] == 0).all(axis=None):
        return f", is 0 in every draw of {counted(len(table), 'cell')}"
    elif whole.mean == whole.low == whole.high:
        text = f", is {number(whole.mean)} on average in every draw"
    else:
        sure = np.isfinite(whole.low)
        known = interval(whole.mean, whole.low, whole.high) if sure else number(whole.mean)
        text = f", is {known} on average over {counted(whole.cells, 'cell')} "
        text += f"({PERCENT if sure else 'no interval'}, {counted(whole.draws, 'shared draw')})"
    tested = table[table["status"] != UNTESTED]
    if not len(tested):
        return text
    counts = ", ".join(f"{word} in {int((tested['status'] == word).sum())}" for word in (HIGHER, LOWER))
    return f"{text}; clearly {counts} of {counted(len(tested), 'cell')} (Holm)"


def shown_row(metric: str, name: str, table: pd.DataFrame, whole: Overall, several: bool) -> dict[str, str]:
    """One metric as a row of formatted text."""
    return {
        "metric": metric,
        **({"sweep": name} if several else {}),
        "cells": f"{len(table):,}",
        "draws": number(table["draws"].max()),
        f"mean difference [{PERCENT}]": interval(whole.mean, whole.low, whole.high) if whole.cells else "–",
        "smallest": number(table["difference"].min(), 3),
        "largest": number(table["difference"].max(), 3),
        "clearly higher": str(int((table["status"] == HIGHER).sum())),
        "clearly lower": str(int((table["status"] == LOWER).sum())),
    }


def difference_figure(
    table: pd.DataFrame, x: str, keys: list[str], metric: str, design: Design, workload: Workload
) -> tuple[Figure, str]:
    """The figure of the differences over x: a line per value of the first key, a panel per setting of the others. And
    the sentences on what is drawn in it."""
    table, at, categories = places_on(table, x, workload, design)

    def line(where: Where, rows: pd.DataFrame) -> Series:
        rows = rows.sort_values(at)
        low, high = (rows[end].fillna(rows["difference"]).to_numpy(float) for end in ("low", "high"))
        nowhere = np.zeros(len(rows), dtype=bool)
        means = CellMeans(rows[at].to_numpy(float), rows["difference"].to_numpy(float), low, high, median=nowhere)
        return Series(where, means)

    panels = laid_out(by_panel(table, keys), keys[:1], keys[1:], line)
    return curves_figure(panels, x, metric, workload, categories, difference=True)
