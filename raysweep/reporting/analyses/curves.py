"""The curves analysis: means with error bars over an axis, the closed form as a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.reporting.design import NOTHING_DECLARED, Design
from raysweep.reporting.figures.lines import curves_figure
from raysweep.reporting.figures.series import one_series
from raysweep.reporting.figures.style import picked
from raysweep.reporting.selection import all_keys, groups, means_table, places_on
from raysweep.reporting.words import counted, plain, setting, settings, with_error
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


def curves_section(
    frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload, name: str, design: Design = NOTHING_DECLARED
) -> Section:
    """Figures and tables of one `curves` entry."""
    x, metrics = options["x"], metrics_of(options)
    keys = all_keys(frame, workload, x, list(options.get("by", [])), design)
    series_key, panel_keys = keys[:1], keys[1:]
    drawings, tables = [], {}
    every_row, at, categories = places_on(frame, x, workload, design)
    found: list[str] = []
    notes: list[str] = []
    for metric in metrics:
        panels = []
        every = list(groups(every_row, panel_keys))
        for index in picked(len(every), 9):
            values, rows = every[index]
            lines = []
            slices = list(groups(rows, series_key))
            for k in picked(len(slices), 8):
                label, part = slices[k]
                one = one_series(
                    part, at, metric, workload, label[0] if label else "", settings(series_key, label, workload)
                )
                if one is not None:
                    lines.append(one)
            if lines:
                panels.append((settings(panel_keys, values, workload), lines))
        table = means_table(frame, [*keys, x], metric, workload)
        tables[f"{name}_{metric}"] = table
        if panels:
            drawn = [one for _, lines in panels for one in lines]
            caption = f"{metric} against {plain(x)}: mean over ok draws ± one standard error between draws"
            if any(len(one.theory) for one in drawn):
                caption += f"; {'dashes' if categories else 'lines'}: closed form"
            if any(one.base for one in drawn):
                caption += f"; {'long dashes' if categories else 'dashed'}: base model"
            figure = curves_figure(panels, x, metric, workload, categories)
            drawings.append(Drawing(f"{name}_{metric}", f"{caption}.", figure))
        best, left_out = extreme(table, [*keys, x], metric, workload)
        if best:
            found.append(best)
        if left_out:
            notes.append(
                f"{counted(left_out, 'cell')} of {metric} have draws without a variance: their means mean nothing, the "
                "figure shows their medians, and none of them can be the best."
            )
    if frame[x].nunique() > 1 and keys and not frame.groupby(keys, dropna=False)[x].nunique().gt(1).any():
        notes.append(
            f"No two cells differ in {plain(x)} alone, so no points are joined: rows differ in "
            f"{', '.join(map(plain, keys))} too."
        )
    headline = "; ".join(found) + " (± one standard error)" if found else f"no usable rows for {', '.join(metrics)}"
    return Section(f"Curves over {plain(x)}", headline, notes, drawings, [], tables)


def extreme(table: pd.DataFrame, keys: list[str], metric: str, workload: Workload) -> tuple[str, int]:
    """Where the mean is best (largest, for a metric without a direction), in words, and how many cells were left out
    because their draws have no variance."""
    direction = next(m.direction for m in workload.metrics if m.name == metric)
    if not len(table) or not table["mean"].notna().any():
        return "", 0
    heavy = table["no_variance"].to_numpy(bool)
    usable = table[~heavy & table["mean"].notna()]
    if not len(usable):
        return f"{metric}: no cell whose draws have a variance", int(heavy.sum())
    best = usable.loc[usable["mean"].idxmin() if direction == "minimize" else usable["mean"].idxmax()]
    where = ", ".join(setting(key, best[key], workload) for key in keys)
    tied = int((usable["mean"] == best["mean"]).sum()) - 1
    more = f" and {counted(tied, 'more cell')}" if tied else ""
    word = "smallest" if direction == "minimize" else "largest"
    return f"{metric} is {word}, {with_error(best['mean'], best['standard_error'])}, at {where}{more}", int(heavy.sum())
