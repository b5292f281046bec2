"""A metric against another, cell by cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import decades
from raysweep.reporting.figures.lines import beyond, needs_bending, show_infinity
from raysweep.reporting.figures.style import (
    colours,
    legend_below,
    legend_right,
    mark,
    panels,
    picked,
    set_bent,
    set_log,
    zero_rule,
)
from raysweep.reporting.words import axis_label
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Cloud:
    """Cells of one group: means, standard errors, and where the centre is a median because draws have no variance."""

    key: Any
    label: str
    x: np.ndarray
    y: np.ndarray
    x_error: np.ndarray
    y_error: np.ndarray
    median: np.ndarray


def relation_figure(clouds: list[Cloud], x: str, y: str, workload: Workload) -> Figure:
    """All groups in one panel, a colour each; infinite x under its own tick at the right."""
    figure, (panel,) = panels(1, width=6.4, height=4.2)
    shades = colours([one.key for one in clouds])
    every = np.concatenate([one.x for one in clouds])
    finite = np.unique(every[np.isfinite(every)])
    logarithmic = decades(finite)
    far = beyond(finite, logarithmic)
    heights = np.concatenate([one.y for one in clouds])
    bent = needs_bending(heights)
    if logarithmic:
        set_log(panel.xaxis)
    if bent:
        set_bent(panel.yaxis, heights, bent)
    if not (bent and np.nanmin(heights) > 0):
        zero_rule(panel)
    for one, shade in zip(clouds, shades, strict=True):
        at = np.where(np.isfinite(one.x), one.x, far)
        for median in (False, True):
            use = one.median == median
            if use.any():
                panel.errorbar(
                    at[use],
                    one.y[use],
                    xerr=np.where(np.isfinite(one.x_error), one.x_error, 0.0)[use],
                    yerr=one.y_error[use],
                    fmt="s" if median else "o",
                    color=shade,
                    markersize=4.5,
                    elinewidth=0.7,
                    markerfacecolor="white" if median else shade,
                )
    if np.isinf(every).any():
        show_infinity(panel, finite, far, logarithmic)
    panel.set_xlabel(axis_label(x, workload))
    panel.set_ylabel(axis_label(y, workload))
    if len(clouds) > 1:
        shown = picked(len(clouds), 12)
        handles = [mark(clouds[k].label, color=shades[k], marker="o", markersize=4.5) for k in shown]
        legend_right([panel], handles)
    kinds = [mark("cell: mean ± standard error", marker="o", markersize=4.5)]
    if any(one.median.any() for one in clouds):
        kinds.append(mark("median (draws have no variance)", marker="s", markersize=4.5, markerfacecolor="white"))
    legend_below(figure, kinds)
    return figure
