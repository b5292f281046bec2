"""The curves analysis: means with error bars over an axis, and the closed form as a line."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from raysweep.phrases import counted
from raysweep.reporting.analyses.explored import explored
from raysweep.reporting.analyses.section import Drawing, Question, Section
from raysweep.reporting.analyses.series import by_panel, series_panels
from raysweep.reporting.figures.lines import curves_figure
from raysweep.reporting.selection import better_extremum, means_table, places_on
from raysweep.reporting.words import plain, setting, with_error
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


def curves_section(asked: Question) -> Section:
    """Figures and tables of one `curves` entry."""
    x, metrics, workload, frame = asked.x, metrics_of(asked.options), asked.workload, asked.rows
    keys, beside = asked.keys(x), str(asked.options.get("beside") or "")
    places, at, categories = places_on(frame, x, workload, asked.design)
    parts = by_panel(places, keys)
    drawings, tables = [], {}
    found: list[str] = []
    notes: list[str] = []
    for metric in metrics:
        name = f"{asked.name}_{metric}"
        tables[name] = means_table(frame, [*keys, x], metric, workload)
        panels = series_panels(parts, keys[:1], keys[1:], at, metric, workload, beside=beside)
        if panels:
            caption = f"{metric} against {plain(x)}: mean over ok draws ± one standard error between draws."
            figure, said = curves_figure(panels, x, metric, workload, categories, beside=beside)
            drawings.append(Drawing(name, f"{caption} {said}".strip(), figure))
        best, left_out = extreme(tables[name], [*keys, x], metric, workload)
        found += [best] if best else []
        if left_out:
            notes.append(
                f"{counted(left_out, 'cell')} of {metric} have draws without a variance: their means mean nothing, the "
                "figure shows their medians, and none of them can be the best."
            )
    if beside:
        tables[f"{asked.name}_{beside}"] = means_table(frame, [*keys, x], beside, workload)
    if frame[x].nunique() > 1 and keys and not frame.groupby(keys, dropna=False)[x].nunique().gt(1).any():
        notes.append(
            f"No two cells differ in {plain(x)} alone, so no points are joined: rows differ in "
            f"{', '.join(map(plain, keys))} too."
        )
    headline = "; ".join(found) or f"no usable rows for {', '.join(metrics)}"
    headline += " (± one standard error)" if "±" in headline else ""
    return Section(
        f"Curves: {', '.join(metrics)} over {plain(x)}",
        headline,
        notes,
        drawings,
        [],
        tables,
        means_only=True,
        explored=[partial(explored, asked, frame, metric, keys) for metric in metrics],
    )


def extreme(table: pd.DataFrame, keys: list[str], metric: str, workload: Workload) -> tuple[str, int]:
    """(where the mean is best, in words; how many cells were left out because their draws have no variance).

    For a metric without a direction, the largest mean is the best.
    """
    if not len(table) or not table["mean"].notna().any():
        return "", 0
    heavy = table["no_variance"].to_numpy(bool)
    usable = table[~heavy & table["mean"].notna()]
    if not len(usable):
        return f"{metric}: no cell whose draws have a variance", int(heavy.sum())
    smallest = better_extremum(metric, workload, otherwise="max") == "min"
    best = usable.loc[usable["mean"].idxmin() if smallest else usable["mean"].idxmax()]
    where = ", ".join(setting(key, best[key], workload) for key in keys)
    tied = int((usable["mean"] == best["mean"]).sum()) - 1
    more = f" and {counted(tied, 'more cell')}" if tied else ""
    value = with_error(best["mean"], best["standard_error"])
    return f"{metric} is {'smallest' if smallest else 'largest'} at {where}{more}: {value}", int(heavy.sum())
