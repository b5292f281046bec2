"""The figure of shifts: one factor with its interval per setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.shift import ShiftPlot
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.draw import draw
from raysweep.report.figures.style import FAINT, FIT
from raysweep.report.names import called, settings
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPEN: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 5, "markerfacecolor": "white"}
NAME = 60  # letters in a line of the label of the factors


@draw.register(ShiftPlot)
def draw_shifts(plot: ShiftPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The figure of factors and its caption."""
    labels = [settings(where, where.values(), workload) for where in plot.wheres]
    beside = settings(plot.base, plot.base.values(), workload)
    name = drawing.in_lines(f"best {called(plot.x, workload)} ÷ that of {beside}", NAME)
    figure, said = shift_figure(labels, plot.factor, plot.low, plot.high, name)
    caption = (
        f"The best {called(plot.x, workload)} for {called(plot.metric, workload)}, divided by that of {beside}: "
        f"geometric mean over {called(plot.over, workload)}, with its {100 * finding.level:g} % interval. {said}"
    )
    return figure, caption.strip()


def shift_figure(
    labels: Sequence[str], factor: np.ndarray, low: np.ndarray, high: np.ndarray, name: str
) -> tuple[Figure, str]:
    """Draw one line per setting, the first at the top. labels: of the settings. name: of the axis of the factors.

    A factor without an interval is an open point. Returns the figure and the sentences on what is drawn in it.
    """
    figure, (panel,) = drawing.panels(1, width=6.4, height=1.0 + 0.45 * len(labels))
    at = np.arange(len(labels))[::-1].astype(float)
    scales.set_log(panel.xaxis)
    panel.axvline(1, color=FAINT, linewidth=0.9, zorder=1)
    known = np.isfinite(low) & np.isfinite(high)
    drawing.points(panel, factor[known], at[known], (low[known], high[known]), FIT, 5, 1.5, 3, across=True)
    panel.plot(factor[~known], at[~known], color=FIT, **OPEN)
    panel.set_yticks(at, [drawing.in_lines(label) for label in labels])
    panel.set_ylim(-0.6, len(labels) - 0.4)
    panel.set_xlabel(name)
    said = drawing.legend_below(
        figure,
        [not known.all() and (drawing.mark("interval not known", **OPEN), "Open points: their interval is not known.")],
    )
    return figure, said
