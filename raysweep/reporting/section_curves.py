"""The curves analysis: means with error bars over an axis, the closed form as a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.reporting.figures_lines import Series, curves_figure
from raysweep.reporting.section import Drawing, Section
from raysweep.reporting.selection import CellMeans, all_keys, cell_means, groups, heavy_rows
from raysweep.reporting.style import picked
from raysweep.reporting.theory_lines import closed_form_curve, smooth
from raysweep.reporting.words import counted, plain, setting, settings, with_error
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


def metrics_of(options: Mapping[str, Any]) -> list[str]:
    """The metrics an entry names, under either key."""
    value = options.get("metrics") or options.get("metric") or []
    return [value] if isinstance(value, str) else list(value)


def one_series(part: pd.DataFrame, x: str, metric: str, workload: Workload, key: Any, label: str) -> Series | None:
    """The rows of one line, with the closed form on a fine grid; None if no row is usable."""
    means = cell_means(part, x, metric, workload)
    if not len(means.x):
        return None
    curve = closed_form_curve(part, x, metric, workload)
    base = base_means(part, x, metric, workload)
    if curve is None:  # along zipped axes only the grid itself has a closed form
        return Series(key, label, means, *grid_theory(part, x, metric), base=base)
    at = smooth(part, x, workload, 241)
    at_infinity = float(curve(np.array([np.inf]))[0]) if np.isinf(means.x).any() else np.nan
    return Series(key, label, means, at, curve(at), theory_at_infinity=at_infinity, base=base)


def base_metric(metric: str, workload: Workload) -> str:
    """What METRIC_after was for the base model, before anything was done to it: METRIC; empty if there is none."""
    before = metric.removesuffix("_after")
    return before if before != metric and any(before == known.name for known in workload.metrics) else ""


def base_means(part: pd.DataFrame, x: str, metric: str, workload: Workload) -> CellMeans | None:
    """The base model's own metric over x."""
    before = base_metric(metric, workload)
    if not before or before not in part.columns:
        return None
    means = cell_means(part, x, before, workload)
    return means if len(means.x) else None


def grid_theory(part: pd.DataFrame, x: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows' own closed form at each finite x; empty without one, or if it is not one number there."""
    theory = f"{metric}_theory"
    if theory not in part.columns:
        return np.empty(0), np.empty(0)
    known = part[np.isfinite(part[x].astype(float)) & np.isfinite(part[theory].astype(float))]
    by_x = known.groupby(x)[theory]
    if not len(known) or (by_x.nunique() > 1).any():
        return np.empty(0), np.empty(0)
    return by_x.first().index.to_numpy(float), by_x.first().to_numpy(float)


def curves_section(frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload, name: str) -> Section:
    """Figures and tables of one `curves` entry."""
    x, metrics = options["x"], metrics_of(options)
    keys = all_keys(frame, workload, x, list(options.get("by", [])))
    series_key, panel_keys = keys[:1], keys[1:]
    drawings, tables = [], {}
    found: list[str] = []
    notes: list[str] = []
    for metric in metrics:
        panels = []
        every = list(groups(frame, panel_keys))
        for index in picked(len(every), 9):
            values, rows = every[index]
            lines = []
            slices = list(groups(rows, series_key))
            for k in picked(len(slices), 8):
                label, part = slices[k]
                one = one_series(
                    part, x, metric, workload, label[0] if label else "", settings(series_key, label, workload)
                )
                if one is not None:
                    lines.append(one)
            if lines:
                panels.append((settings(panel_keys, values, workload), lines))
        table = means_table(frame, [*keys, x], metric, workload)
        tables[f"{name}_{metric}"] = table
        if panels:
            caption = (
                f"{metric} against {plain(x)}: mean over ok draws ± one standard error between draws"
                + ("; lines: closed form" if any(len(one.theory) for _, lines in panels for one in lines) else "")
                + ("; dashed: base model." if any(one.base for _, lines in panels for one in lines) else ".")
            )
            drawings.append(Drawing(f"{name}_{metric}", caption, curves_figure(panels, x, metric, workload)))
        best, left_out = extreme(table, [*keys, x], metric, workload)
        if best:
            found.append(best)
        if left_out:
            notes.append(
                f"{counted(left_out, 'cell')} of {metric} have draws without a variance: their means mean nothing, the "
                "figure shows their medians, and none of them can be the best."
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


def means_table(frame: pd.DataFrame, keys: list[str], metric: str, workload: Workload) -> pd.DataFrame:
    """Mean, standard error, median, number of draws and closed form of every cell, and whether its draws are known to
    have no variance (then only the median means something)."""
    import pandas as pd

    good = frame[(frame["status"] == "ok") & np.isfinite(frame[metric].astype(float))]
    names = [*keys, "mean", "standard_error", "median", "draws", "no_variance"]
    if not len(good):
        return pd.DataFrame(columns=names)
    good = good.assign(no_variance=heavy_rows(good, metric, workload))
    grouped = good.groupby(keys, dropna=False)
    table = grouped[metric].agg(mean="mean", standard_error="sem", median="median", draws="count").reset_index()
    table["no_variance"] = grouped["no_variance"].any().to_numpy()
    if f"{metric}_theory" in good.columns:
        table["theory"] = grouped[f"{metric}_theory"].first().to_numpy()
    return table
