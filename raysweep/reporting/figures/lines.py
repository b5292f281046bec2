"""Lines: a metric over one axis, with error bars over its closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import log_axis
from raysweep.reporting.figures.style import (
    BASE,
    FIT,
    THEORY,
    label_panels,
    legend_below,
    legend_right,
    mark,
    panels,
    set_bent,
    set_log,
    shades,
    whole_ticks,
    zero_rule,
)
from raysweep.reporting.selection import CellMeans
from raysweep.reporting.words import axis_label
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

APART: dict[str, Any] = {"color": BASE["color"], "linestyle": "none", "marker": "_", "markersize": 26}
THEORY_APART: dict[str, Any] = {"linestyle": "none", "marker": "_", "markersize": 15, "markeredgewidth": 1.6}


@dataclass(frozen=True)
class Series:
    """One line of a panel. marks: places to show, each (x, low, high, closed form's x or NaN). base: the same metric of
    the base model, before anything was done to it."""

    key: Any
    label: str
    means: CellMeans
    theory_x: np.ndarray = field(default_factory=lambda: np.empty(0))
    theory: np.ndarray = field(default_factory=lambda: np.empty(0))
    marks: Sequence[tuple[float, float, float, float]] = ()
    theory_at_infinity: float = np.nan
    base: CellMeans | None = None


def curves_figure(
    parts: list[tuple[str, list[Series]]],
    x: str,
    metric: str,
    workload: Workload,
    categories: Sequence[str] = (),
    marks: str = "mean ± standard error",
    of: str = "",
) -> Figure:
    """One panel per part (title, series): points with error bars, the closed form as a line, marks at the fitted
    places.

    x = inf (converged) stands apart at the right, under its own tick. categories: what stands at x = 0, 1, ...; no line
    then joins what has no order. marks: what points and bars are. of: what is drawn of the metric, if not itself but
    something that is held against zero.
    """
    figure, axes = panels(len(parts), width=4.6, height=3.7)
    colour = shades(parts)
    labels = {series.key: series.label for _, lines in parts for series in lines}
    every = np.concatenate([series.means.x for _, lines in parts for series in lines])
    finite = np.unique(every[np.isfinite(every)])
    logarithmic = log_axis(finite, workload.logarithmic(x)) if len(finite) else False
    aside = beside_each_other(parts) if categories else {}
    far = beyond(finite, logarithmic)
    ends = np.concatenate([np.concatenate([s.means.low, s.means.high]) for _, lines in parts for s in lines])
    bent = needs_bending(ends)
    any_theory = any(len(s.theory) or np.isfinite(s.theory_at_infinity) for _, lines in parts for s in lines)
    any_median = any(s.means.median.any() for _, lines in parts for s in lines)
    any_mark = any(s.marks for _, lines in parts for s in lines)
    for panel, (title, lines) in zip(axes, parts, strict=True):
        if categories:
            set_categories(panel, categories)
        elif not logarithmic:
            whole_ticks(panel.xaxis, finite)
        else:
            set_log(panel.xaxis)
        if bent:
            set_bent(panel.yaxis, ends, bent)
        if of or not np.nanmin(ends) > 0:
            zero_rule(panel)
        bases: list[np.ndarray] = []
        for series in lines:
            shade, means = colour[series.key], series.means
            if series.base is not None and not any(np.array_equal(series.base.centre, seen) for seen in bases):
                bases.append(series.base.centre)  # most often the lines share their base model
                panel.plot(*finite_line(series.base), **(APART if categories else BASE), zorder=2)
            at = np.where(np.isfinite(means.x), means.x, far) + aside.get(series.key, 0.0)
            if categories:
                panel.plot(series.theory_x + aside[series.key], series.theory, color=shade, **THEORY_APART, zorder=2)
            else:
                panel.plot(series.theory_x, series.theory, color=shade, linewidth=1.4, alpha=0.85, zorder=2)
                if not len(series.theory):  # what belongs together must be seen without a closed form, too
                    panel.plot(*finite_line(means), color=shade, linewidth=0.9, alpha=0.6, zorder=2)
            if np.isfinite(series.theory_at_infinity):
                panel.plot([far], [series.theory_at_infinity], marker="_", markersize=15, color=shade, zorder=2)
            for heavy, marker in ((False, "o"), (True, "s")):
                use = means.median == heavy
                if use.any():
                    panel.errorbar(
                        at[use],
                        means.centre[use],
                        yerr=[(means.centre - means.low)[use], (means.high - means.centre)[use]],
                        fmt=marker,
                        color=shade,
                        markersize=3.8,
                        elinewidth=1.1,
                        capsize=1.8,
                        zorder=3,
                        markerfacecolor="white" if heavy else shade,
                    )
            for place, low, high, expected in series.marks:
                height = height_at(place, means, workload.logarithmic(x))
                panel.errorbar(
                    [place],
                    [height],
                    xerr=[[max(place - low, 0)], [max(high - place, 0)]],
                    fmt="D",
                    color=FIT,
                    markersize=6,
                    elinewidth=1.8,
                    capsize=3.5,
                    zorder=5,
                    markerfacecolor=shade,
                    markeredgewidth=1.2,
                )
                if np.isfinite(expected) and len(series.theory):
                    panel.plot(
                        [expected],
                        [np.interp(expected, series.theory_x, series.theory)],
                        marker="|",
                        markersize=20,
                        color=THEORY,
                        markeredgewidth=2.0,
                        zorder=6,
                        linestyle="none",
                    )
        if np.isinf(every).any():
            show_infinity(panel, finite, far, logarithmic)
        panel.set_title(in_lines(title, len(axes)))
    label_panels(axes, axis_label(x, workload), of + axis_label(metric, workload))
    handles = [mark(labels[key], color=shade, marker="o", markersize=4) for key, shade in colour.items()]
    kinds = [mark(marks, marker="o", markersize=4)]
    if any_median:
        kinds.append(mark("median (draws have no variance)", marker="s", markersize=4, markerfacecolor="white"))
    if any_theory:
        kinds.append(mark("closed form", **(THEORY_APART if categories else {"linestyle": "-", "linewidth": 1.4})))
    if any(s.base is not None for _, lines in parts for s in lines):
        kinds.append(mark("base model", **(APART if categories else BASE)))
    if any_mark:
        kinds.append(
            mark(
                "fitted place with interval",
                color=FIT,
                linestyle="-",
                marker="D",
                markersize=6,
                markerfacecolor="white",
            )
        )
        if any(np.isfinite(place[3]) for _, lines in parts for s in lines for place in s.marks):
            kinds.append(mark("closed form's place", color=THEORY, marker="|", markersize=15, markeredgewidth=2.0))
    if len(colour) > 1:
        legend_right(axes, handles)
    legend_below(figure, kinds)
    return figure


def beside_each_other(parts: list[tuple[str, list[Series]]]) -> dict[Any, float]:
    """How far each line's points stand beside their category, so that error bars do not cover each other."""
    keys = list(dict.fromkeys(series.key for _, lines in parts for series in lines))
    return dict(zip(keys, np.linspace(-0.5, 0.5, len(keys)) * min(0.5, 0.1 * (len(keys) - 1)), strict=True))


def set_categories(panel: Any, categories: Sequence[str]) -> None:
    """A tick for each category; long names lean."""
    crowded = sum(map(len, categories)) > 30
    look: dict[str, Any] = {"rotation": 30, "ha": "right"} if crowded else {}
    panel.set_xticks(range(len(categories)), categories, **look)
    panel.set_xlim(-0.6, len(categories) - 0.4)


def finite_line(means: CellMeans) -> tuple[np.ndarray, np.ndarray]:
    """The means at finite x."""
    finite = np.isfinite(means.x)
    return means.x[finite], means.centre[finite]


def in_lines(title: str, panels_beside: int) -> str:
    """A long title of several settings on two lines, where panels stand side by side."""
    parts = title.split(", ")
    if panels_beside == 1 or len(title) < 26 or len(parts) < 2:
        return title
    half = (len(parts) + 1) // 2
    return ", ".join(parts[:half]) + ",\n" + ", ".join(parts[half:])


def height_at(place: float, means: CellMeans, logarithmic: bool | None) -> float:
    """The mean curve at a place between its points."""
    from scipy.interpolate import Akima1DInterpolator

    known = np.isfinite(means.x)
    x, centre = means.x[known], means.centre[known]
    if len(x) < 3:
        return float(np.interp(place, x, centre))
    u, at = (np.log(x), np.log(place)) if log_axis(x, logarithmic) else (x, place)
    return float(Akima1DInterpolator(u, centre, method="makima")(at))


def beyond(finite: np.ndarray, logarithmic: bool) -> float:
    """A place to the right of the grid for x = inf."""
    if len(finite) < 2:
        return float(finite[0] * 2 + 1) if len(finite) else 1.0
    if logarithmic:
        return float(finite[-1] * (finite[-1] / finite[0]) ** 0.12)
    return float(finite[-1] + 0.12 * (finite[-1] - finite[0]))


def show_infinity(panel: Any, finite: np.ndarray, far: float, logarithmic: bool) -> None:
    """The tick of x = inf, set apart by a dotted line."""
    if len(finite):
        between = np.sqrt(finite[-1] * far) if logarithmic else (finite[-1] + far) / 2
        panel.axvline(between, color="#888888", linewidth=0.9, linestyle=":")
    panel.text(far, -0.015, "∞", transform=panel.get_xaxis_transform(), ha="center", va="top", fontsize=13)
    panel.set_xlim(right=far * (far / finite[-1]) ** 0.5 if logarithmic and len(finite) else None)


def needs_bending(values: np.ndarray) -> float:
    """The linear width of a bent (asinh) axis if the values run over decades; 0 for a straight axis."""
    sizes = np.abs(values[np.isfinite(values)])
    sizes = sizes[sizes > 0]
    if not len(sizes) or sizes.max() < 12 * np.quantile(sizes, 0.75):
        return 0.0
    return float(np.quantile(sizes, 0.5))
