"""The figures of a search: the metric run by run, over each axis, and each configuration across all axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.search import LOST, SHOWN, HistoryPlot, ImportancePlot, Runs, SlicesPlot, StoppedPlot
from raysweep.analyses.searched import Axis
from raysweep.numbers import number
from raysweep.phrases import counted
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.style import FIT, QUALITATIVE
from raysweep.report.names import axis_label, called, settings
from raysweep.workloads.declaration import OK, STOPPED, Workload

RUN, STOP, FIRST, GONE = QUALITATIVE[4], QUALITATIVE[5], QUALITATIVE[1], QUALITATIVE[6]
ORDERS = {
    "finished": "configuration, in the order in which they finished",
    "asked": "configuration, in the order of the search",
    "listed": "configuration, in the order of the table",
}
STRIP = 0.09
"""Of the height of a panel, for the runs without a value."""
NAMED = 10
"""Bars of importance."""
LOOKS: dict[str, dict[str, Any]] = {
    "run": {
        "marker": "o",
        "alpha": 0.85,
        "color": RUN,
        "markersize": 4.2,
        "markeredgecolor": "white",
        "markeredgewidth": 0.4,
    },
    "first": {"marker": "o", "color": FIRST, "markersize": 6.2, "markeredgecolor": FIT, "markeredgewidth": 0.7},
    "stopped": {"marker": "o", "color": STOP, "markersize": 4.2, "markerfacecolor": "white"},
    "lost": {"marker": "x", "color": GONE, "markersize": 4.5},
}


Told = Sequence[tuple[str, np.ndarray]]
"""Kinds of runs: (label, which runs)."""


@drawing.draw.register(HistoryPlot)
def draw_history(plot: HistoryPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The metric of each run with the best mean so far."""
    figure, (panel,) = drawing.panels(1)
    _set_scale(panel, plot.runs)
    panel.step([*plot.at, plot.runs.at.max() + 0.5], [*plot.best, plot.best[-1]], where="post", color=FIT, zorder=4)
    handles = _draw_runs(panel, plot.runs.at.astype(float), plot.runs)
    panel.set_xlabel(ORDERS[plot.order])
    panel.set_ylabel(axis_label(plot.metric, workload))
    best = drawing.mark(
        "best mean so far" if len(plot.at) < len(plot.runs.at) else "best so far", color=FIT, linestyle="-"
    )
    drawing.legend_below(figure, [best, *handles])
    runs = counted(len(plot.runs.at), "run")
    return figure, f"{called(plot.metric, workload)} of {runs}; the line is the best so far."


@drawing.draw.register(ImportancePlot)
def draw_importance(plot: ImportancePlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The metric of each run over the most important axis, and bars of the share of the variance of each axis."""
    figure = Figure(figsize=(drawing.WIDE, 3.6), layout="constrained")
    panel, bars = figure.subplots(1, 2, width_ratios=(1.75, 1))
    _set_scale(panel, plot.runs)
    values = list(dict.fromkeys(sorted((one for one in plot.kinds if one is not None), key=str)))
    kinds = [(settings({plot.kind: one}, workload), np.array([one == it for it in plot.kinds])) for one in values]
    handles = _draw_over(panel, plot.axis, plot.column, plot.runs, kinds)
    panel.set_xlabel(axis_label(plot.axis.name, workload))
    panel.set_ylabel(axis_label(plot.metric, workload))
    _draw_shares(bars, plot, workload)
    drawing.legend_below(figure, handles)
    scale = " on the scale of the figure" if panel.get_yscale() != "linear" else ""
    shares = f"Right: the share of its variance over ok configurations that each axis carries alone{scale}."
    about = f"{called(plot.metric, workload)} of each run over the most important axis."
    return figure, f"{about} {shares}"


def _draw_shares(panel: Axes, plot: ImportancePlot, workload: Workload) -> None:
    few = list(plot.shares.items())[:NAMED]
    names = [*(called(name, workload) for name, _ in few), "several together,\nor chance"]
    sizes = [100 * share for share in (*(share for _, share in few), plot.rest)]
    places = np.arange(len(names))[::-1]
    panel.barh(places, sizes, color=[QUALITATIVE[0]] * len(few) + ["#BBBBBB"], height=0.66)
    for place, size in zip(places, sizes, strict=True):
        panel.text(size + 1.5, place, "< 1 %" if 0 < size < 0.5 else f"{size:.0f} %", va="center", fontsize=9)
    panel.set_yticks(places, names)
    panel.tick_params(axis="y", length=0)
    panel.grid(visible=False)
    panel.set_xlim(0, max(sizes) * 1.2)
    panel.set_xticks([])
    panel.spines["bottom"].set_visible(False)
    panel.set_title("share of the variance of ok runs", loc="left")


@drawing.draw.register(SlicesPlot)
def draw_slices(plot: SlicesPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The metric of each run over each axis, on the axis' own scale; runs in which it is inactive are left out."""
    figure, panels = drawing.panels(len(plot.axes))
    handles: list[Any] = []
    for panel, axis in zip(panels, plot.axes, strict=True):
        _set_scale(panel, plot.runs)
        handles = _draw_over(panel, axis, plot.columns[axis.name], plot.runs) or handles
        panel.set_xlabel(axis_label(axis.name, workload))
    for panel in panels[:: drawing.columns_of_panels(panels)]:
        panel.set_ylabel(axis_label(plot.metric, workload))
    drawing.legend_below(figure, handles)
    caption = f"{called(plot.metric, workload)} of each run over each axis, the most important axis first."
    if len(plot.axes) < plot.every:
        caption += f" {len(plot.axes)} of {plot.every} axes are shown."
    if any(value is None for column in plot.columns.values() for value in column):
        caption += " Runs in which an axis is inactive are not in its panel."
    return figure, caption


@drawing.draw.register(StoppedPlot)
def draw_stopped(plot: StoppedPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The learning curve of each run; those that were stopped early end in a mark."""
    figure, (panel,) = drawing.panels(1)
    heights = np.concatenate([values for state, _, values in plot.curves if state != LOST] or [np.zeros(1)])
    if width := scales.asinh_width(heights):
        scales.set_asinh(panel.yaxis, heights, width)
    limits = scales_around(heights, panel.get_yscale())
    faint = float(np.clip(60 / len(plot.curves), 0.12, 0.6))
    looks = {
        str(OK): ("to the end", "", QUALITATIVE[0], faint),
        str(STOPPED): ("stopped early", "o", STOP, 0.8),
        LOST: ("not ok", "x", GONE, 0.6),
    }
    hollow: dict[str, Any] = {"markerfacecolor": "white", "markersize": 4.5}
    for state, x, values in plot.curves:
        (_, mark, colour, alpha), values = looks[state], np.clip(values, *limits)
        panel.plot(x, values, color=colour, linewidth=0.9, alpha=alpha, zorder=2 + (state != OK))
        panel.plot(x[-1:], values[-1:], marker=mark, color=colour, zorder=4, **hollow)
    panel.set_ylim(*limits)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("step")
    panel.set_ylabel(axis_label(plot.metric, workload))
    states = [state for state, _, _ in plot.curves]
    entries = [
        drawing.mark(f"{states.count(state)} {words}", color=colour, linestyle="-", marker=mark, **hollow)
        for state, (words, mark, colour, _) in looks.items()
        if state in states
    ]
    drawing.legend_below(figure, entries)
    stopped = counted(states.count(STOPPED), "run")
    return figure, f"{called(plot.metric, workload)} of {plot.stage} in each run; {stopped} stopped early."


def scales_around(values: np.ndarray, scale: str) -> tuple[float, float]:
    """Limits around values, so that runs on their way to infinity do not decide the scale."""
    low, high = float(np.min(values)), float(np.max(values))
    if scale == "log":
        return low / 1.15, high * 1.15
    room = 0.05 * (high - low) or 0.5
    return low - room, high + room


def _set_scale(panel: Axes, runs: Runs) -> None:
    finite = runs.value[np.isfinite(runs.value)]
    if width := scales.asinh_width(finite):
        scales.set_asinh(panel.yaxis, finite, width)
    panel.set_ylim(*scales_around(finite, panel.get_yscale()))
    if (runs.state == LOST).any():
        scales.strips(panel, *((0.0, STRIP) if runs.turn == "max" else (STRIP, 0.0)))


def _draw_over(panel: Axes, axis: Axis, column: Sequence[Any], runs: Runs, told: Told = ()) -> list[Any]:
    """Draw the runs over an axis; returns legend entries."""
    if axis.values:
        golden = (np.arange(len(column)) * 0.6180339887) % 1  # lies evenly, so that points of one value do not overlap
        x = len(axis.values) * axis.places(column) - 0.5 + 0.22 * (2 * golden - 1)
        shown = axis.ticks()
        texts = [drawing.in_lines(number(value)) for _, value in shown]
        turn = 30 if sum(map(len, texts)) > 36 else 0
        panel.set_xticks([len(axis.values) * at - 0.5 for at, _ in shown], texts, rotation=turn)
        panel.set_xlim(-0.6, len(axis.values) - 0.4)
    else:
        x = np.array([np.nan if value is None else value for value in column], dtype=float)
        if axis.log:
            scales.set_log(panel.xaxis)
    there = np.array([value is not None for value in column])
    return _draw_runs(panel, np.where(there, x, np.nan), runs, told)


def _draw_runs(panel: Axes, x: np.ndarray, runs: Runs, told: Told = ()) -> list[Any]:
    """Draw each run as a point, those without a number as crosses in a strip beyond the worst values; returns legend
    entries. told: kinds of runs that colours tell apart."""
    good = runs.state == "ok"
    shades = dict(zip((label for label, _ in told), QUALITATIVE[:3] + QUALITATIVE[5:], strict=False))
    ring = {"markerfacecolor": "none"} if told else {}
    groups: Sequence[tuple[str, str, np.ndarray, dict[str, Any]]] = (
        ("lost", "diverged or failed", runs.state == LOST, {}),
        ("stopped", "stopped early", runs.state == "stopped", {}),
        *(
            ("run", label, good & kind, {"color": shades.get(label, RUN)})
            for label, kind in told or [("run", good & ~runs.first)]
        ),
        ("first", f"run of the {SHOWN} best", good & runs.first, ring),
    )
    handles = list[Any]()
    for place, (look, label, chosen, more) in enumerate(groups):
        if chosen.any():
            height, transform = runs.value[chosen], panel.transData
            if look == "lost":
                strip = STRIP / 2 if runs.turn == "max" else 1 - STRIP / 2
                height, transform = np.full(chosen.sum(), strip), panel.get_xaxis_transform()
            style = {"linestyle": "none", "transform": transform, "zorder": 2.2 + place / 2, **LOOKS[look], **more}
            handles += panel.plot(x[chosen], height, label=label, **style)
    return handles[::-1]
