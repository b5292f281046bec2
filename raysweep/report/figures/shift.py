"""The figure of shifts: one factor with its interval per setting."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.shift import ShiftPlot
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.style import FAINT, FIT
from raysweep.report.names import called, settings
from raysweep.workloads.declaration import Workload

OPEN: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 5, "markerfacecolor": "white"}


@drawing.draw.register(ShiftPlot)
def draw_shifts(plot: ShiftPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """One line per setting, the first at the top, and the caption. A factor without an interval is an open point."""
    base, rows = finding.facts["base"], finding.table[np.isfinite(finding.table["estimate"])]
    wheres = [{key: row[key] for key in base if row[key] != base[key]} for row in rows.to_dict("records")]
    labels = [drawing.in_lines(settings(where, workload)) for where in wheres]
    figure, (panel,) = drawing.panels(1, 1.0 + 0.45 * len(labels))
    at = np.arange(len(labels))[::-1].astype(float)
    scales.set_log(panel.xaxis)
    panel.axvline(1, color=FAINT, linewidth=0.9, zorder=1)
    factor, low, high = rows[["estimate", "low", "high"]].to_numpy(float).T
    bounded, unclear = np.isfinite(low) & np.isfinite(high), (low <= 1) & (high >= 1)
    for colour, some in ((FIT, bounded & ~unclear), (FAINT, bounded & unclear)):
        drawing.points(panel, factor[some], at[some], (low[some], high[some]), colour, 5, 1.5, 3, across=True)
    panel.plot(factor[~bounded], at[~bounded], color=FIT, **OPEN)
    panel.set_yticks(at, labels)
    panel.set_ylim(-0.6, len(labels) - 0.4)
    x = called(finding.x, workload)
    panel.set_xlabel(f"best {x}, as a factor")
    open_points = drawing.mark("interval not known", **OPEN), "Open points: their interval is not known."
    caption = (
        f"The best {x} for {called(finding.metric, workload)}, divided by that of {settings(base, workload)}: "
        f"geometric mean over {called(finding.facts['over'], workload)}, with its {100 * finding.level:g} % interval."
    )
    caption += " Grey: no clear difference." if (bounded & unclear).any() else ""
    return figure, drawing.sentences(caption, drawing.legend_below(figure, [not bounded.all() and open_points]))
