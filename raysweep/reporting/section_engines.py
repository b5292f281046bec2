"""The engines analysis: every engine against a reference on the same draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.reporting.section import Drawing, Section
from raysweep.reporting.section_curves import metrics_of
from raysweep.reporting.selection import parameters_of
from raysweep.reporting.style import QUALITATIVE, label_panels, legend_below, panels, set_log
from raysweep.reporting.words import axis_label, counted, number, plain
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def engines_section(frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload, name: str) -> Section:
    """Figures and tables of one `engines` entry; by default every metric with a closed form."""
    reference, x = options.get("reference", "limit"), options.get("x", "finetune_lr")
    metrics = metrics_of(options) or [m.name for m in workload.metrics if f"{m.name}_theory" in frame.columns]
    good = frame[frame["status"] == "ok"]
    pairs = paired(good, reference, x, metrics, workload)
    if not len(pairs):
        return Section("Engines on the same draws", f"no ok rows to pair with engine {reference}")
    table = (
        pairs.groupby(["engine", x, "metric"], sort=True)["difference"]
        .agg(
            median=lambda d: d.abs().median(),
            quarter=lambda d: d.abs().quantile(0.25),
            three_quarters=lambda d: d.abs().quantile(0.75),
            largest=lambda d: d.abs().max(),
            rows="count",
        )
        .reset_index()
    )
    slopes = {}
    for (engine, metric), part in table.groupby(["engine", "metric"]):
        usable = part[(part["median"] > 0) & (part[x] > 0) & np.isfinite(part[x])]
        slopes[engine, metric] = log_slope(usable[x].to_numpy(float), usable["median"].to_numpy(float))
    shown = []
    for (engine, metric), part in table.groupby(["engine", "metric"]):
        best = part.loc[part[x].idxmin()]
        shown.append(
            {
                "engine": engine,
                "metric": metric,
                f"smallest {plain(x)}": number(best[x]),
                "median |difference| there": number(best["median"], 2),
                "largest there": number(best["largest"], 2),
                "slope (log-log)": number(slopes[engine, metric], 3),
                "pairs": f"{int(part['rows'].sum()):,}",
            }
        )
    lines = []
    for engine in sorted(set(table["engine"])):
        part = table[table["engine"] == engine]
        smallest = part[part[x] == part[x].min()]
        mine = [
            slopes[engine, metric]
            for metric in metrics
            if (engine, metric) in slopes and np.isfinite(slopes[engine, metric])
        ]
        slope = (
            f", slope {min(mine):.2f}" + (f" to {max(mine):.2f}" if len(mine) > 1 else "") + f" in {plain(x)}"
            if mine
            else ""
        )
        lines.append(
            f"{engine} is within {number(smallest['median'].max(), 2)} of {reference} at {plain(x)} "
            f"{number(part[x].min())} (median over rows){slope}"
        )
    text = [
        f"{counted(len(pairs), 'pair')}: rows of one seed and equal parameters, so the difference carries no "
        f"noise between draws. "
        "Only rows that are ok enter."
    ]
    caption = (
        f"|difference to engine {reference}| on the same draws against {plain(x)}: median over rows, bars from "
        f"the lower to the upper quartile. "
        "The grey line has slope 1."
    )
    return Section(
        f"Engines against {reference} on the same draws",
        "; ".join(lines),
        text,
        [Drawing(name, caption, engines_figure(table, slopes, x, reference, metrics, workload))],
        shown,
        {f"{name}_differences": table},
    )


def paired(good: pd.DataFrame, reference: str, x: str, metrics: list[str], workload: Workload) -> pd.DataFrame:
    """One row per (row, metric) with its difference to the reference on the same seed and parameters.

    Parameters of which the reference knows no value in common with the others (a budget of steps, say) are not matched.
    """
    import pandas as pd

    is_reference = good["engine"] == reference
    known, others = good[is_reference], good[~is_reference]
    keys = ["seed"]
    for key in parameters_of(good, workload):
        if key not in ("engine", x) and good[key].nunique(dropna=False) > 1 and set(known[key]) & set(others[key]):
            keys.append(key)
    pieces = []
    for metric in metrics:
        right = known.groupby(keys, as_index=False)[metric].mean().rename(columns={metric: "reference"})
        columns = list(dict.fromkeys([*keys, "engine", x, metric]))
        both = others[columns].merge(right, on=keys, how="inner")
        both = both.assign(metric=metric, difference=both[metric] - both["reference"]).dropna(subset=["difference"])
        pieces.append(both[list(dict.fromkeys([*keys, "engine", x, "metric", "difference"]))])
    return pd.concat(pieces, ignore_index=True) if pieces else pd.DataFrame()


def log_slope(x: np.ndarray, y: np.ndarray) -> float:
    """Least-squares slope of log y over log x; NaN for fewer than two different x."""
    if len(np.unique(x)) < 2:
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def engines_figure(
    table: pd.DataFrame, slopes: Mapping[Any, float], x: str, reference: str, metrics: list[str], workload: Workload
) -> Figure:
    """One panel per metric, one line per engine, log-log."""
    from matplotlib.lines import Line2D

    figure, axes = panels(len(metrics))
    engines = sorted(set(table["engine"]))
    for panel, metric in zip(axes, metrics, strict=True):
        set_log(panel.xaxis)
        set_log(panel.yaxis)
        notes = []
        for engine, shade in zip(engines, QUALITATIVE, strict=False):
            part = table[(table["engine"] == engine) & (table["metric"] == metric) & (table["median"] > 0)]
            if not len(part):
                continue
            middle = part["median"]
            panel.errorbar(
                part[x],
                middle,
                yerr=[(middle - part["quarter"]).clip(lower=0), (part["three_quarters"] - middle).clip(lower=0)],
                fmt="o-",
                color=shade,
                markersize=4.5,
                elinewidth=1,
                capsize=2,
            )
            if np.isfinite(slopes.get((engine, metric), np.nan)):
                notes.append(f"{engine}: slope {slopes[engine, metric]:.2f}")
        sloped = table[(table["metric"] == metric) & (table["median"] > 0)]
        if sloped[x].nunique() > 1:
            ends = np.array([sloped[x].min(), sloped[x].max()])
            panel.plot(
                ends, sloped["median"].max() * ends / ends[1], color="#999999", linewidth=1, linestyle="--", zorder=1
            )
        panel.set_title(metric + (f"\n{', '.join(notes)}" if notes else ""))
    label_panels(axes, axis_label(x, workload), f"|difference to {reference}|")
    handles = [
        Line2D([], [], color=shade, marker="o", markersize=4.5, label=engine)
        for engine, shade in zip(engines, QUALITATIVE, strict=False)
    ]
    handles.append(Line2D([], [], color="#999999", linewidth=1, linestyle="--", label="slope 1"))
    legend_below(figure, handles)
    return figure
