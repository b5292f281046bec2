"""The figure of the differences between engines over a step size, on logarithmic axes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.kinds.engines import EnginesPlot
from raysweep.analyses.rows import spread
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.style import GREY, QUALITATIVE
from raysweep.report.names import axis_label, called, settings
from raysweep.workloads.declaration import Workload

DASHES = ("-", "--", ":", "-.")
SLOPE_ONE: dict[str, Any] = {"color": "#999999", "linestyle": "-", "linewidth": 1}


class Difference(NamedTuple):
    """How the difference of one engine depends on x, in one group and metric."""

    engine: str
    group: tuple[Any, ...]
    metric: str
    outcome: Outcome


@drawing.draw.register(EnginesPlot)
def draw_engines(plot: EnginesPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """Draw one panel per metric, a colour and marker per engine and dashes per group (at most four, evenly spaced).

    Engines that are equal to the reference up to rounding are named in the title and not drawn. Returns the figure and
    its caption.
    """
    table, x, by = plot.table, finding.x, [key for key in finding.keys if key not in ("engine", "metric")]
    differences = [
        Difference(row["engine"], tuple(row[key] for key in by), row["metric"], row["outcome"])
        for row in finding.table.to_dict("records")
    ]
    figure, axes = drawing.panels(len(plot.metrics))
    seen = [one for one in differences if one.outcome != Outcome.NO_EFFECT]
    engines = list(dict.fromkeys(one.engine for one in seen))
    shade = {engine: QUALITATIVE[k % len(QUALITATIVE)] for k, engine in enumerate(engines)}
    marker = drawing.marker_of(engines)
    shown = spread(sorted({one.group for one in seen}), len(DASHES))
    dashes = dict(zip(shown, DASHES, strict=False))
    lines = [(engine, group) for engine in engines for group in shown]
    aside = dict(zip(lines, drawing.dodge(np.unique(table[x].to_numpy(float)), len(lines), True) / 2, strict=True))
    sloped = False
    for panel, metric in zip(axes, plot.metrics, strict=True):
        scales.set_log(panel.xaxis)
        scales.set_log(panel.yaxis)
        mine = [one for one in differences if one.metric == metric]
        top, edges = 0.0, (float(table[x].min()), float(table[x].max()))
        for one in mine:
            if one.outcome == Outcome.NO_EFFECT or one.group not in dashes:
                continue
            part = table[(table["engine"] == one.engine) & (table["metric"] == metric) & (table["median"] > 0)]
            for key, value in zip(by, one.group, strict=True):
                part = part[part[key] == value]
            middle = part["median"]
            top = max(top, float(middle.max()))
            quartiles = part["quarter"], part["three_quarters"]
            at, mark = part[x] * np.exp(aside[one.engine, one.group]), marker[one.engine]
            look = {"fmt": mark, "linestyle": dashes[one.group]}
            drawing.points(panel, at, middle, quartiles, shade[one.engine], drawing.SIZES[mark], 1, 2, **look)
        if any(one.outcome in (Outcome.INCREASING, Outcome.DECREASING) for one in mine) and 0 < edges[0] < edges[1]:
            panel.plot(edges, [top * edges[0] / edges[1], top], **SLOPE_ONE, zorder=1)
            sloped = True
        equal = sorted({one.engine for one in mine if one.outcome == Outcome.NO_EFFECT})
        panel.set_title(called(metric, workload) + (f"\n{', '.join(equal)}: equal to rounding" if equal else ""))
    drawing.label_panels(axes, axis_label(x, workload), f"|difference to {plot.reference}|")
    handles: list[Any] = [
        drawing.mark(name, color=shade[name], marker=marker[name], markersize=5.5) for name in engines
    ]
    if by and engines:
        handles += [
            drawing.mark(settings(dict(zip(by, group, strict=True)), workload), color=GREY, linestyle=look)
            for group, look in dashes.items()
        ]
    handles.append(sloped and (drawing.mark("slope 1", **SLOPE_ONE), "The grey line has slope 1."))
    text = drawing.legend_below(figure, handles)
    if len(seen) < len(differences):
        text = f"{text} Engines equal to rounding are not drawn.".strip()
    caption = (
        f"|difference to {plot.reference}| on the same draws against {called(x, workload)}: median over rows, bars "
        f"from the lower to the upper quartile. {text}"
    )
    return figure, caption.strip()
