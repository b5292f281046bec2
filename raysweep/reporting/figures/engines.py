"""The figure of the differences between engines over a step size, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raysweep.reporting.figures import drawing, scales
from raysweep.reporting.figures.style import GREY, QUALITATIVE
from raysweep.reporting.selection import spread
from raysweep.reporting.words import axis_label, settings
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MARKS = ("o-", "s--", "^:", "D-.")
SLOPE_ONE: dict[str, Any] = {"color": "#999999", "linestyle": "-", "linewidth": 1}


def engines_figure(
    table: pd.DataFrame,
    differences: Sequence[Any],
    by: list[str],
    x: str,
    reference: str,
    metrics: list[str],
    workload: Workload,
) -> Figure:
    """Draw one panel per metric, with a colour per engine and a marker per group (at most four, evenly spaced).

    Engines that are equal to the reference up to rounding are named in the title and not drawn.
    """
    figure, axes = drawing.panels(len(metrics))
    engines = list(dict.fromkeys(one.engine for one in differences))
    shade = {engine: QUALITATIVE[k % len(QUALITATIVE)] for k, engine in enumerate(engines)}
    shown = spread(sorted({one.group for one in differences}), len(MARKS))
    marks = dict(zip(shown, MARKS, strict=False))
    for panel, metric in zip(axes, metrics, strict=True):
        scales.set_log(panel.xaxis)
        scales.set_log(panel.yaxis)
        mine = [one for one in differences if one.metric == metric]
        top, ends = 0.0, (float(table[x].min()), float(table[x].max()))
        for one in mine:
            if one.kind == "equal" or one.group not in marks:
                continue
            part = table[(table["engine"] == one.engine) & (table["metric"] == metric) & (table["median"] > 0)]
            for key, value in zip(by, one.group, strict=True):
                part = part[part[key] == value]
            middle = part["median"]
            top = max(top, float(middle.max()))
            quartiles = part["quarter"], part["three_quarters"]
            drawing.points(panel, part[x], middle, quartiles, shade[one.engine], 4.5, 1, 2, fmt=marks[one.group])
        if any(one.kind == "order" for one in mine) and 0 < ends[0] < ends[1]:
            panel.plot(ends, [top * ends[0] / ends[1], top], **SLOPE_ONE, zorder=1)
        equal = sorted({one.engine for one in mine if one.kind == "equal"})
        panel.set_title(metric + (f"\n{', '.join(equal)}: equal to rounding" if equal else ""))
    drawing.label_panels(axes, axis_label(x, workload), f"|difference to {reference}|")
    handles = [drawing.mark(engine, color=shade[engine], linestyle="-", linewidth=2) for engine in engines]
    if by:
        handles += [
            drawing.mark(settings(by, group, workload), color=GREY, marker=look[0], linestyle=look[1:], markersize=4.5)
            for group, look in marks.items()
        ]
    drawing.legend_below(figure, [*handles, drawing.mark("slope 1", **SLOPE_ONE)])
    return figure
