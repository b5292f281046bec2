"""The figure of a metric over one axis: points with error bars, and the closed form as a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.finding import Finding
from raysweep.analyses.rows import CellMeans
from raysweep.analyses.series import CurvesPlot, Panel, Place, Series
from raysweep.fits.draws import log_axis, not_zero
from raysweep.fits.statistics import LEVEL
from raysweep.numbers import NOTHING
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.draw import draw
from raysweep.report.figures.style import BASE, FIT, THEORY
from raysweep.report.names import BARS, axis_label, called, plain
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

APART: dict[str, Any] = {"color": BASE["color"], "linestyle": "none", "marker": "_", "markersize": 26}
BESIDE: dict[str, Any] = {"linestyle": (0, (5, 2)), "linewidth": 1.3, "marker": "x", "markersize": 4}
PLACE: dict[str, Any] = {"color": FIT, "marker": "D", "markersize": 5}
THEORY_APART: dict[str, Any] = {"linestyle": "none", "marker": "_", "markersize": 15, "markeredgewidth": 1.6}


def points_in_words(panels: Sequence[Panel[Series]]) -> str:
    """What the points of lines show, for a caption and the legend."""
    means = [line.means for panel in panels for line in panel.lines]
    low, high = (np.concatenate([each.bars[end] for each in means]) for end in (0, 1))
    centre = np.concatenate([each.centre for each in means])
    if any(each.given_errors for each in means):
        return f"value of every run, {BARS} of its known error"
    spread = (high - low > NOTHING * np.abs(centre)).any()
    return f"mean over draws, {BARS}" if spread else "value of every draw, without spread"


@draw.register(CurvesPlot)
def draw_curves(plot: CurvesPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The figure of a metric over an axis, and its caption."""
    figure, said = curves_figure(
        plot.panels,
        plot.x,
        plot.metric,
        workload,
        plot.categories,
        plot.beside,
        plot.placed,
        plot.constants,
        plot.difference,
        finding.level,
    )
    shown = sum(len(panel.lines) for panel in plot.panels)
    caption = f"{called(plot.metric, workload)} against {plain(plot.x)}: {points_in_words(plot.panels)}. {said}".strip()
    return figure, caption + drawing.left_out_words(shown, plot.every)


def curves_figure(
    panels: Sequence[Panel[Series]],
    x: str,
    metric: str,
    workload: Workload,
    categories: Sequence[str] = (),
    beside: str = "",
    placed: str = "",
    constants: Mapping[str, float] | None = None,
    difference: bool = False,
    level: float = LEVEL,
) -> tuple[Figure, str]:
    """Draw the panels: points with error bars, the closed form as a line, marks at the fitted places.

    x = inf (converged) is drawn separately at the right, with its own tick; so is x = 0 at the left of a logarithmic
    axis.

    categories: the names of the categories at x = 0, 1, ...; their points are not joined, because they have no order.
    beside, placed, constants, difference: as in `CurvesPlot`. Zeros are marked at 0, other places on the mean curve.
    level: of the intervals of fitted places.

    Returns the figure and the sentences on what is drawn in it.
    """
    figure, axes = drawing.panels(len(panels), 4.6, 3.7, [title for title, _ in drawing.titled(panels, workload)])
    references: list[Line2D] = []
    at = np.concatenate([line.means.x for panel in panels for line in panel.lines])
    finite = np.unique(at[np.isfinite(at)])
    logarithmic = bool(len(not_zero(finite))) and log_axis(not_zero(finite), workload.logarithmic(x))
    apart = logarithmic and not categories and bool((finite == 0).any())
    if apart:
        panels = [replace(panel, lines=[without_zero(line) for line in panel.lines]) for panel in panels]
        finite = not_zero(finite)
    near, far = scales.before(finite) if apart else np.nan, scales.beyond(finite, logarithmic)
    every_line = [line for panel in panels for line in panel.lines]
    parts = drawing.titled(panels, workload)
    colour = drawing.shades(parts)
    marker = drawing.marker_of(list(colour))
    drawn = [means for line in every_line for means in (line.means, line.beside) if means is not None]
    ends = np.concatenate([end for means in drawn for end in means.bars])
    centres = np.concatenate([means.centre[np.isfinite(means.centre)] for means in drawn])
    theory = min((line.theory.min() for line in every_line if len(line.theory)), default=np.inf)
    on_log = scales.spans_decades(centres) and theory > 0
    shown_constants = {name: value for name, value in (constants or {}).items() if value > 0 or not on_log}
    aside = beside_each_other(list(colour)) if categories else dict.fromkeys(colour, 0.0)
    for panel, (title, lines) in zip(axes, parts, strict=True):
        if categories:
            set_categories(panel, categories)
        else:
            scales.set_scale(panel.xaxis, finite, logarithmic)
        if on_log:
            scales.set_log(panel.yaxis)
        elif width := scales.asinh_width(ends):
            scales.set_asinh(panel.yaxis, ends, width)
        if difference or not (np.nanmin(ends) > 0 or on_log):
            drawing.zero_rule(panel)
        references = drawing.reference_lines(panel.axhline, shown_constants, metric, workload, 1.5)
        bases: list[np.ndarray] = []
        for one in lines:
            line, shade, shift = one.data, colour[one.key], aside[one.key]
            if line.base is not None and not any(np.array_equal(line.base.centre, seen) for seen in bases):
                bases.append(line.base.centre)  # the lines usually share one base model
                panel.plot(*finite_part(line.base), **(APART if categories else BASE), zorder=2)
            draw_theory(panel, line, shade, shift, far, bool(categories))
            if line.beside is not None:
                draw_beside(panel, line.beside, shade, shift, bool(categories))
            draw_means(panel, line.means, shade, marker[one.key], shift, near, far)
        for one in lines:
            if place := one.data.place:
                height = 0.0 if placed == "zero" else height_at(place[0], one.data.means, workload.logarithmic(x))
                draw_place(panel, one.data, place, colour[one.key], height)
        if apart:
            scales.show_zero(panel, finite, near)
        if np.isinf(at).any():
            scales.show_infinity(panel, finite, far, logarithmic)
        panel.set_title(drawing.in_lines(title) if len(axes) > 1 else title)
    if on_log:  # when everything is drawn: setting one end of an axis fixes the other one where it is
        axes[0].set_ylim(bottom=0.5 * min(centres.min(), max(theory, 0.01 * centres.min())))
    drawing.label_panels(
        axes,
        axis_label(x, workload),
        "difference in " * difference + axis_label(metric, workload) + meaning(metric, ends, workload),
    )
    drawing.legend_of_lines(axes, parts, colour, marker, markersize=5.5)
    found = [(line, line.place) for line in every_line if line.place]
    theory_look = THEORY_APART if categories else {"linestyle": "-", "linewidth": 1.4}
    base_look = APART if categories else BASE
    own = f"{called(metric, workload)}: " if beside else ""
    marks = f"mean difference, {BARS}" if difference else points_in_words(panels)
    placed = f"fitted {placed}, {100 * level:g} %" if placed else "fitted place"
    said = drawing.legend_below(
        figure,
        [
            any((~line.means.median).any() for line in every_line)
            and drawing.mark(f"{own}{marks}", marker="o", markersize=4),
            any(line.means.median.any() for line in every_line)
            and (
                drawing.mark("median (draws have no variance)", marker="o", markersize=5, markerfacecolor="white"),
                "Open markers: medians, because draws have no variance, with the interval of a sign test.",
            ),
            any(line.has_theory for line in every_line)
            and (
                drawing.mark("closed form", **theory_look),
                f"{'Dashes' if categories else 'Lines'}: the closed form.",
            ),
            any(line.base is not None for line in every_line)
            and (
                drawing.mark("base model", **base_look),
                f"{'Long dashes' if categories else 'Dashed'}: the base model.",
            ),
            any(line.beside is not None for line in every_line)
            and (
                drawing.mark(called(beside, workload), **BESIDE),
                f"{'Crosses' if categories else 'Dashes with crosses'}: {called(beside, workload)}.",
            ),
            *((reference, f"{reference.get_label()}: the line across.") for reference in references),
            found
            and (
                drawing.mark(placed, **PLACE, linestyle="-", markerfacecolor="white"),
                f"Diamonds: {placed} interval.",
            ),
            any(np.isfinite(place[3]) and len(line.theory) for line, place in found)
            and (
                drawing.mark("closed form's place", color=THEORY, marker="|", markersize=15, markeredgewidth=2.0),
                "Orange ticks: the closed form's place.",
            ),
        ],
    )
    return figure, said


def meaning(metric: str, values: np.ndarray, workload: Workload) -> str:
    """What values above 0 mean, to add to the label of the axis; empty if the metric declares nothing or has no such
    values on both sides."""
    known = next((one for one in workload.metrics if one.name == metric), None)
    if known is None or not known.positive or not (np.nanmin(values) < 0 < np.nanmax(values)):
        return ""
    return f"\n(above 0: {known.positive})"


def draw_theory(panel: Axes, line: Series, shade: Any, shift: float, far: float, apart: bool) -> None:
    """Draw the closed form of a line. Without one, join the points of the line instead."""
    if apart:
        panel.plot(line.theory_x + shift, line.theory, color=shade, **THEORY_APART, zorder=2)
    else:
        panel.plot(line.theory_x, line.theory, color=shade, linewidth=1.4, alpha=0.85, zorder=2)
        if not len(line.theory):
            panel.plot(*finite_part(line.means), color=shade, linewidth=0.9, alpha=0.6, zorder=2)
    if np.isfinite(line.theory_at_infinity):
        panel.plot([far], [line.theory_at_infinity], marker="_", markersize=15, color=shade, zorder=2)


def draw_beside(panel: Axes, beside: CellMeans, shade: Any, shift: float, apart: bool) -> None:
    """Draw the means of the other metric with thin error bars. apart: whether no line joins them."""
    at, centre = finite_part(beside)
    panel.plot(at + shift, centre, color=shade, **({**BESIDE, "linestyle": "none"} if apart else BESIDE), zorder=2)
    low, high = (end[np.isfinite(beside.x)] for end in beside.bars)
    panel.vlines(at + shift, low, high, colors=[shade], linewidth=0.8, alpha=0.7)


def without_zero(line: Series) -> Series:
    """The line with x = 0 at -inf: left of all others on a logarithmic axis, and not joined with them."""

    def moved(x: np.ndarray) -> np.ndarray:
        return np.where(x == 0, -np.inf, x)

    base, beside = (each and replace(each, x=moved(each.x)) for each in (line.base, line.beside))
    means = replace(line.means, x=moved(line.means.x))
    return replace(line, means=means, theory_x=moved(line.theory_x), base=base, beside=beside)


def draw_means(panel: Axes, means: CellMeans, shade: Any, marker: str, shift: float, near: float, far: float) -> None:
    """Draw the points of a line with their error bars; medians are open.

    near, far: where x = -inf and x = inf are drawn.
    """
    at = np.where(np.isfinite(means.x), means.x, np.where(means.x < 0, near, far)) + shift
    low, high = means.bars
    for heavy in (False, True):
        use = means.median == heavy
        if use.any():
            look = {"fmt": marker, "zorder": 3, "markerfacecolor": "white" if heavy else shade}
            drawing.points(
                panel, at[use], means.centre[use], (low[use], high[use]), shade, drawing.SIZES[marker], 1.1, 1.8, **look
            )


def draw_place(panel: Axes, line: Series, place: Place, shade: Any, height: float) -> None:
    """Mark the fitted place and its interval at a height, and the closed form's place on the closed form."""
    at, low, high, expected = (np.array([value]) for value in place)
    look = {"fmt": "D", "zorder": 5, "markerfacecolor": shade, "markeredgewidth": 1.2}
    drawing.points(panel, at, np.array([height]), (low, high), FIT, 5, 1.6, 3, across=True, **look)
    if np.isfinite(place[3]) and len(line.theory):
        look = {"marker": "|", "markersize": 14, "color": THEORY, "markeredgewidth": 1.8, "linestyle": "none"}
        panel.plot(expected, np.interp(expected, line.theory_x, line.theory), **look, zorder=6)


def beside_each_other(keys: Sequence[Any]) -> dict[Any, float]:
    """The horizontal shift of each line's points from their category, so that error bars do not overlap."""
    return dict(zip(keys, np.linspace(-0.5, 0.5, len(keys)) * min(0.5, 0.1 * (len(keys) - 1)), strict=True))


def set_categories(panel: Any, categories: Sequence[str]) -> None:
    """Set a tick for each category; long names are rotated."""
    crowded = sum(map(len, categories)) > 30
    look: dict[str, Any] = {"rotation": 30, "ha": "right"} if crowded else {}
    panel.set_xticks(range(len(categories)), categories, **look)
    panel.set_xlim(-0.6, len(categories) - 0.4)


def finite_part(means: CellMeans) -> tuple[np.ndarray, np.ndarray]:
    """The means at finite x."""
    finite = np.isfinite(means.x)
    return means.x[finite], means.centre[finite]


def height_at(place: float, means: CellMeans, logarithmic: bool | None) -> float:
    """The mean curve, interpolated at a place between its points."""
    from scipy.interpolate import Akima1DInterpolator

    x, centre = finite_part(means)
    if len(x) < 3:
        return float(np.interp(place, x, centre))
    u, at = (np.log(x), np.log(place)) if log_axis(x, logarithmic) else (x, place)
    return float(Akima1DInterpolator(u, centre, method="makima")(at))
