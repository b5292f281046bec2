"""The curves analysis: means with error bars over an axis, the closed form as a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.reporting.figures_lines import Series, curves_figure
from raysweep.reporting.section import Drawing, Section
from raysweep.reporting.selection import all_keys, cell_means, groups
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
    if curve is None:
        return Series(key, label, means)
    at = smooth(part, x, workload, 241)
    at_infinity = float(curve(np.array([np.inf]))[0]) if np.isinf(means.x).any() else np.nan
    return Series(key, label, means, at, curve(at), theory_at_infinity=at_infinity)


def curves_section(frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload, name: str) -> Section:
    """Figures and tables of one `curves` entry."""
    x, metrics = options["x"], metrics_of(options)
    keys = all_keys(frame, workload, x, list(options.get("by", [])))
    series_key, panel_keys = keys[:1], keys[1:]
    drawings, tables, largest = [], {}, []
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
                f"{metric} against {plain(x)}: mean over ok draws ± one standard error between "
                "draws; lines: closed form."
            )
            drawings.append(Drawing(f"{name}_{metric}", caption, curves_figure(panels, x, metric, workload)))
        if len(table) and table["mean"].notna().any():
            best = table.loc[table["mean"].idxmax()]
            where = ", ".join(setting(key, best[key], workload) for key in [*keys, x])
            largest.append(
                f"{metric} is largest at {where} ({with_error(best['mean'], best['standard_error'])}, "
                f"{counted(int(best['draws']), 'draw')})"
            )
    headline = "; ".join(largest) if largest else f"no usable rows for {', '.join(metrics)}"
    return Section(f"Curves over {plain(x)}", headline, [], drawings, [], tables)


def means_table(frame: pd.DataFrame, keys: list[str], metric: str, workload: Workload) -> pd.DataFrame:
    """Mean, standard error, median, number of draws and closed form of every cell."""
    import pandas as pd

    good = frame[(frame["status"] == "ok") & np.isfinite(frame[metric].astype(float))]
    names = [*keys, "mean", "standard_error", "median", "draws"]
    if not len(good):
        return pd.DataFrame(columns=names)
    grouped = good.groupby(keys, dropna=False)
    table = grouped[metric].agg(mean="mean", standard_error="sem", median="median", draws="count").reset_index()
    if f"{metric}_theory" in good.columns:
        table["theory"] = grouped[f"{metric}_theory"].first().to_numpy()
    return table
