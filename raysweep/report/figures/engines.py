"""The figure of the differences between engines over a step size, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.rows import spread
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.style import GREY, QUALITATIVE
from raysweep.report.names import axis_label, settings
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DASHES = ("-", "--", ":", "-.")
SLOPE_ONE: dict[str, Any] = {"color": "#999999", "linestyle": "-", "linewidth": 1}


def engines_figure(
    table: pd.DataFrame,
    differences: Sequence[Any],
    by: list[str],
    x: str,
    reference: str,
    metrics: list[str],
    workload: Workload,
) -> tuple[Figure, str]:
    """Draw one panel per metric, a colour and marker per engine and dashes per group (at most four, evenly spaced).

    Engines that are equal to the reference up to rounding are named in the title and not drawn. Returns the figure and
    the sentences on what is drawn in it.
    """
    figure, axes = drawing.panels(len(metrics))
    seen = [one for one in differences if one.kind != "equal"]
    engines = list(dict.fromkeys(one.engine for one in seen))
    shade = {engine: QUALITATIVE[k % len(QUALITATIVE)] for k, engine in enumerate(engines)}
    marker = drawing.marker_of(engines)
    shown = spread(sorted({one.group for one in seen}), len(DASHES))
    dashes = dict(zip(shown, DASHES, strict=False))
    lines = [(engine, group) for engine in engines for group in shown]
    aside = dict(zip(lines, drawing.dodge(np.unique(table[x].to_numpy(float)), len(lines), True) / 2, strict=True))
    sloped = False
    for panel, metric in zip(axes, metrics, strict=True):
        scales.set_log(panel.xaxis)
        scales.set_log(panel.yaxis)
        mine = [one for one in differences if one.metric == metric]
        top, ends = 0.0, (float(table[x].min()), float(table[x].max()))
        for one in mine:
            if one.kind == "equal" or one.group not in dashes:
                continue
            part = table[(table["engine"] == one.engine) & (table["metric"] == metric) & (table["median"] > 0)]
            for key, value in zip(by, one.group, strict=True):
                part = part[part[key] == value]
            middle = part["median"]
            top = max(top, float(middle.max()))
            quartiles = part["quarter"], part["three_quarters"]
            at, own = part[x] * np.exp(aside[one.engine, one.group]), marker[one.engine]
            look = {"fmt": own, "linestyle": dashes[one.group]}
            drawing.points(panel, at, middle, quartiles, shade[one.engine], drawing.SIZES[own], 1, 2, **look)
        if any(one.kind == "order" for one in mine) and 0 < ends[0] < ends[1]:
            panel.plot(ends, [top * ends[0] / ends[1], top], **SLOPE_ONE, zorder=1)
            sloped = True
        equal = sorted({one.engine for one in mine if one.kind == "equal"})
        panel.set_title(metric + (f"\n{', '.join(equal)}: equal to rounding" if equal else ""))
    drawing.label_panels(axes, axis_label(x, workload), f"|difference to {reference}|")
    handles: list[Any] = [
        drawing.mark(name, color=shade[name], marker=marker[name], markersize=5.5) for name in engines
    ]
    if by and engines:
        handles += [
            drawing.mark(settings(by, group, workload), color=GREY, linestyle=look) for group, look in dashes.items()
        ]
    handles.append(sloped and (drawing.mark("slope 1", **SLOPE_ONE), "The grey line has slope 1."))
    said = drawing.legend_below(figure, handles)
    if len(seen) < len(differences):
        said = f"{said} Engines equal to rounding are not drawn.".strip()
    return figure, said
