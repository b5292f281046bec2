"""Differences between engines against a step size, log-log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raysweep.reporting.figures.style import GREY, QUALITATIVE, label_panels, legend_below, panels, picked, set_log
from raysweep.reporting.words import axis_label, settings
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MARKS = ("o-", "s--", "^:", "D-.")


def engines_figure(
    table: pd.DataFrame,
    trends: Sequence[Any],
    by: list[str],
    x: str,
    reference: str,
    metrics: list[str],
    workload: Workload,
) -> Figure:
    """One panel per metric; colour: engine, marker: group (at most four, spread evenly). Engines equal to rounding are
    named in the title and not drawn."""
    from matplotlib.lines import Line2D

    figure, axes = panels(len(metrics))
    engines = list(dict.fromkeys(one.engine for one in trends))
    shade = {engine: QUALITATIVE[k % len(QUALITATIVE)] for k, engine in enumerate(engines)}
    every = sorted({one.group for one in trends})
    mark = {every[k]: MARKS[j] for j, k in enumerate(picked(len(every), len(MARKS)))}
    for panel, metric in zip(axes, metrics, strict=True):
        set_log(panel.xaxis)
        set_log(panel.yaxis)
        mine = [one for one in trends if one.metric == metric]
        top, ends = 0.0, (float(table[x].min()), float(table[x].max()))
        for one in mine:
            if one.kind == "equal" or one.group not in mark:
                continue
            part = table[(table["engine"] == one.engine) & (table["metric"] == metric) & (table["median"] > 0)]
            for key, value in zip(by, one.group, strict=True):
                part = part[part[key] == value]
            middle = part["median"]
            top = max(top, float(middle.max()))
            panel.errorbar(
                part[x],
                middle,
                yerr=[(middle - part["quarter"]).clip(lower=0), (part["three_quarters"] - middle).clip(lower=0)],
                fmt=mark[one.group],
                color=shade[one.engine],
                markersize=4.5,
                elinewidth=1,
                capsize=2,
            )
        if any(one.kind == "order" for one in mine) and 0 < ends[0] < ends[1]:
            panel.plot(ends, [top * ends[0] / ends[1], top], color="#999999", linewidth=1, zorder=1)
        equal = sorted({one.engine for one in mine if one.kind == "equal"})
        panel.set_title(metric + (f"\n{', '.join(equal)}: equal to rounding" if equal else ""))
    label_panels(axes, axis_label(x, workload), f"|difference to {reference}|")
    handles = [Line2D([], [], color=shade[engine], linewidth=2, label=engine) for engine in engines]
    if by:
        handles += [
            Line2D([], [], color=GREY, marker=fmt[0], linestyle=fmt[1:], markersize=4.5, label=label)
            for label, fmt in ((settings(by, group, workload), fmt) for group, fmt in mark.items())
        ]
    handles.append(Line2D([], [], color="#999999", linewidth=1, label="slope 1"))
    legend_below(figure, handles)
    return figure
