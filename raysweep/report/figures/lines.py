"""The figure of a metric over one axis: points with error bars, and the closed form as a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from raysweep.analyses.finding import Finding
from raysweep.analyses.rows import CellMeans, signs_of
from raysweep.analyses.series import CurvesPlot, Panel, Place, Series
from raysweep.fits.draws import log_axis, not_zero
from raysweep.numbers import NOTHING
from raysweep.phrases import counted
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.style import BASE, THEORY
from raysweep.report.names import axis_label, called, plain
from raysweep.report.phrases import DODGED, ERR_ALIKE, LOG_LOG, MEDIANS, OPEN_POINTS, POINTS, QUANTITIES
from raysweep.workloads.declaration import Workload

LONG = 40  # letters of a label of an axis from which on what its values mean stands in the caption
APART: dict[str, Any] = {"color": BASE["color"], "linestyle": "none", "marker": "_", "markersize": 26}
BESIDE: dict[str, Any] = {"linestyle": (0, (5, 2)), "linewidth": 1.3, "marker": "x", "markersize": 4}
FITTED: dict[str, Any] = {"linestyle": "--", "linewidth": 1.2}
PLACE: dict[str, Any] = {"marker": "D", "markersize": 6}
THEORY_APART: dict[str, Any] = {"linestyle": "none", "marker": "_", "markersize": 15, "markeredgewidth": 1.6}


def points_in_words(panels: Sequence[Panel[Series]], finding: Finding, hidden: bool) -> tuple[str, str]:
    """What the points show, and what their bars do. hidden: whether marks hide these."""
    facts, what = finding.facts, POINTS.get(finding.kind, "mean over draws")
    bars = "quartiles" if finding.kind == "engines" else f"{100 * finding.level:g} % intervals"
    over = f" over {counted(facts['units'], plain(facts['unit']))}" if "units" in facts else ""
    means = [line.means for panel in panels for line in panel.lines]
    low, high = (np.concatenate([each.bars[end] for each in means]) for end in (0, 1))
    centre = np.concatenate([each.centre for each in means])
    given = any(each.given_errors for each in means)
    if not given and not (high - low > NOTHING * np.abs(centre)).any():
        return "value of every draw", "Points: every draw, without error bars."
    behind = drawing.BEHIND if hidden else ""
    single = given or (finding.kind == "power_law" and facts.get("method") == "run_errors")
    what = "single runs" if single else what
    return what, f"Points: {what}; bars: {bars}{over}{' of the given errors' * given}{behind}."


@drawing.draw.register(CurvesPlot)
def draw_curves(plot: CurvesPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """A metric over an axis, and the caption: points with error bars, the closed form as a line, marks at the fitted
    places, zeros at 0 and others on the mean curve.

    x = inf (converged) is drawn separately at the right, with its own tick. The points of categories are not joined,
    because these have no order.
    """
    x, metric, categories = plot.x, plot.metric, plot.categories
    both_log, share = finding.kind in LOG_LOG, finding.kind == "r_squared"
    sheet = drawing.sheet(plot.panels, workload)
    every = sheet.every
    at = np.concatenate([line.means.x for line in every])
    finite = np.unique(at[np.isfinite(at)])
    logarithmic = bool(len(not_zero(finite))) and (both_log or log_axis(not_zero(finite), workload.logarithmic(x)))
    logarithmic &= not scales.even_from(finite, [line.place for line in every if line.place])
    far = scales.beyond(finite, logarithmic)
    drawn = [means for line in every for means in (line.means, line.beside) if means is not None]
    bars = np.concatenate([end for means in drawn for end in means.bars])
    centres = np.concatenate([means.centre[np.isfinite(means.centre)] for means in drawn])
    theory = min((line.theory.min() for line in every if len(line.theory)), default=np.inf)
    on_log = both_log or (scales.spans_decades(centres) and theory > 0 and not share)
    constants = {name: value for name, value in plot.constants.items() if value > 0 or not on_log}
    references: list[Line2D] = []
    spots = np.arange(2.0) if categories else finite if finding.kind in DODGED else np.empty(0)
    aside = drawing.dodge(spots, sheet.count, logarithmic and not categories)
    for panel, lines in sheet.panels:
        if categories:
            set_categories(panel, categories)
        else:
            scales.set_scale(panel.xaxis, finite, logarithmic)
        if on_log:
            scales.set_log(panel.yaxis)
        elif (width := scales.asinh_width(bars)) and not share:
            scales.set_asinh(panel.yaxis, bars, width)
        if finding.kind == "comparison" or not (np.nanmin(bars, initial=np.inf) > 0 or on_log):
            drawing.zero_rule(panel)
        references = drawing.reference_lines(panel.axhline, constants, metric, workload, 1.5)
        bases: list[np.ndarray] = []
        for line in lines:
            base, shift = line.data.base, float(aside[line.index])
            if base is not None and not any(np.array_equal(base.centre, seen) for seen in bases):
                bases.append(base.centre)  # the lines usually share one base model
                panel.plot(*finite_part(base), **(APART if categories else BASE), zorder=2)
            draw_theory(panel, line, shift, far, bool(categories), line.colour if sheet.count > 1 else THEORY)
            if line.data.beside is not None:
                draw_beside(panel, line.data.beside, line.colour, shift, bool(categories))
            draw_means(panel, line, shift, far, logarithmic)
        if on_log:  # when everything is drawn: setting one end of an axis fixes the other one where it is
            both = (means for line in lines for means in (line.data.means, line.data.beside) if means is not None)
            lowest = min(np.nanmin(means.centre) for means in both)
            theory = min((line.data.theory.min() for line in lines if len(line.data.theory)), default=np.inf)
            panel.set_ylim(bottom=0.5 * min(lowest, max(theory, 0.01 * lowest)))
        for line in lines:
            if place := line.data.place:
                on_curve = plot.placed != "zero"
                height = height_at(panel, place[0], line.data.means) if on_curve else 0.0
                draw_place(panel, line, place, height)
        if np.isinf(at).any():
            scales.show_infinity(panel, finite, far, logarithmic)
    drawing.level(sheet.axes)
    form, reference = QUANTITIES.get(finding.kind, "{metric}"), str(finding.facts.get("reference", ""))
    y, means = form.format(metric=axis_label(metric, workload), reference=reference), meaning(metric, bars, workload)
    y, means = (y, f" {means}" * bool(means)) if len(y) > LONG else (f"{y}\n{means}".strip(), "")
    measurable = len(sheet.axes) == 1 and not categories and np.isfinite(at).all()
    apart = measurable and draw_distances(sheet, axis_label(x, workload), logarithmic)
    sheet.label(axis_label(x, workload) * (not apart), y, end_of, markersize=5.5)
    places = [(line, line.place) for line in every if line.place]
    first = f"{called(metric, workload)}: " if plot.beside else ""
    hidden = not apart and all(
        drawing.hidden(panel.yaxis, *line.data.means.bars, line.size) for panel, lines in sheet.panels for line in lines
    )
    points, in_caption = points_in_words(plot.panels, finding, hidden)
    open_points = OPEN_POINTS.get(finding.kind, MEDIANS)
    placed = {"zero": "sign change", "": "place"}.get(plot.placed, plot.placed)
    shade = {} if sheet.count > 1 else {"color": THEORY}
    entries = [
        any((~line.means.median).any() for line in every)
        and (drawing.mark(f"{first}{points}", marker="o", markersize=5), in_caption),
        any(line.means.median.any() for line in every)
        and (drawing.mark(open_points[0], marker="o", markersize=5, markerfacecolor="white"), open_points[1]),
        any(line.has_theory for line in every)
        and (
            drawing.mark("theory", **{"linestyle": "-", **(THEORY_APART if categories else {}), **shade}),
            ERR_ALIKE * apart,
        ),
        bool(aside.any() or (apart and sheet.count > 1)) and (False, drawing.SIDE_BY_SIDE),
        any(len(line.fitted) for line in every) and drawing.mark("fitted power law", **FITTED),
        any(line.base is not None for line in every) and drawing.mark("base model", **(APART if categories else BASE)),
        any(line.beside is not None for line in every) and drawing.mark(called(plot.beside, workload), **BESIDE),
        *references,
        places
        and drawing.mark(
            f"{placed} with its {100 * finding.level:g} % interval", **PLACE, linestyle="-", markerfacecolor="white"
        ),
        any(np.isfinite(place[3]) and len(line.theory) for line, place in places)
        and drawing.mark("theory's place", color=THEORY, marker="|", markersize=15, markeredgewidth=2.0),
    ]
    quantity = form.format(metric=called(metric, workload), reference=reference)
    caption = f"{quantity} against {called(x, workload)}{means}."
    text = drawing.sentences(caption, drawing.legend_below(sheet.figure, entries))
    return sheet.figure, text + drawing.left_out(len(sheet.every), plot.every)


def meaning(metric: str, values: np.ndarray, workload: Workload) -> str:
    """What values above 0 mean, in brackets; empty if the metric declares nothing or has no values on both sides."""
    positive, _ = signs_of(metric, workload)
    return f"(above 0: {positive})" if positive and np.nanmin(values) < 0 < np.nanmax(values) else ""


def draw_theory(panel: Axes, line: drawing.Drawn[Series], shift: float, far: float, apart: bool, shade: Any) -> None:
    """Draw the closed form of a line in a shade. Without one, join the points of the line instead."""
    series, look = line.data, {"color": shade if line.data.has_theory else line.colour, "zorder": 2}
    if apart:
        panel.plot(series.theory_x + shift, series.theory, **look, **THEORY_APART)
    else:
        panel.plot(series.theory_x, series.theory, linewidth=1.4, alpha=0.85, **look)
        if len(series.fitted):
            panel.plot(series.means.x, series.fitted, **look, **FITTED)
        elif not len(series.theory):
            panel.plot(*finite_part(series.means), linewidth=0.9, alpha=0.6, **look)
    if np.isfinite(series.theory_at_infinity):
        panel.plot([far], [series.theory_at_infinity], marker="_", markersize=15, **look)


def draw_beside(panel: Axes, beside: CellMeans, shade: Any, shift: float, apart: bool) -> None:
    """Draw the other metric of a line."""
    part, look = beside.part(np.isfinite(beside.x)), {"fmt": "x", "linestyle": "none" if apart else BESIDE["linestyle"]}
    drawing.points(panel, part.x + shift, part.centre, part.bars, shade, 4, 0.8, 0, zorder=2, **look)


def draw_distances(sheet: drawing.Sheet[Series], x: str, logarithmic: bool) -> bool:
    """Draw how far the points of the only panel lie above theory, or the fitted power law, in a panel below it; false
    without either, or with values that are not positive."""
    expected = [expected_at(line) for line in sheet.every]
    if not all(len(one) and (one > 0).all() for one in expected):
        return False
    spots = np.unique(np.concatenate([line.means.x for line in sheet.every]))
    aside, lower = drawing.dodge(spots, sheet.count, logarithmic), drawing.below(sheet.figure, sheet.axes[0])
    lower.set_xlabel(x)
    drawing.zero_rule(lower)
    for line, one in zip(sheet.lines[0], expected, strict=True):
        centre, low, high = (100 * (end / one - 1) for end in (line.data.means.centre, *line.data.means.bars))
        at = scales.shifted(line.data.means.x, float(aside[line.index]), logarithmic)
        line.points(lower, at, centre, (low, high), 1.1, 1.8)
    lower.set_ylabel("above the\nlaw (%)" if len(sheet.every[0].fitted) else "above\ntheory (%)")
    return True


def expected_at(line: Series) -> np.ndarray:
    """The fitted power law, or else the closed form, at the points of a line; empty without either."""
    return (
        line.fitted if len(line.fitted) or not len(line.theory) else np.interp(line.means.x, line.theory_x, line.theory)
    )


def end_of(line: Series) -> float:
    """The height of a line at its right end; NaN if it has no point, as of a predictor that is constant."""
    return float(line.means.centre[np.argmax(line.means.x)]) if len(line.means.x) else np.nan


def draw_means(panel: Axes, line: drawing.Drawn[Series], shift: float, far: float, logarithmic: bool) -> None:
    """Draw the points of a line with their error bars; medians are open. far: where x = inf is drawn."""
    means = line.data.means
    at = scales.shifted(np.where(np.isfinite(means.x), means.x, far), shift, logarithmic)
    line.points(panel, at, means.centre, means.bars, 1.1, 1.8, means.median)


def draw_place(panel: Axes, line: drawing.Drawn[Series], place: Place, height: float) -> None:
    """Mark the fitted place and its interval at a height, and the closed form's place on the closed form."""
    at, low, high, expected = (np.array([value]) for value in place)
    look: dict[str, Any] = {"fmt": "D", "zorder": 5, "markerfacecolor": "white", "markeredgewidth": 1.6}
    drawing.points(panel, at, np.array([height]), (low, high), line.colour, 7, 1.2, 4, across=True, **look)
    if np.isfinite(place[3]) and len(line.data.theory):
        look = {"marker": "|", "markersize": 14, "color": THEORY, "markeredgewidth": 1.8, "linestyle": "none"}
        panel.plot(expected, np.interp(expected, line.data.theory_x, line.data.theory), **look, zorder=6)


def set_categories(panel: Any, categories: Sequence[str]) -> None:
    """Set a tick for each category; long names are rotated."""
    crowded = sum(map(len, categories)) > 30
    look: dict[str, Any] = {"rotation": 30, "ha": "right"} if crowded else {}
    panel.set_xticks(range(len(categories)), categories, **look)
    panel.set_xlim(-0.6, len(categories) - 0.4)


def finite_part(means: CellMeans) -> tuple[np.ndarray, np.ndarray]:
    finite = np.isfinite(means.x)
    return means.x[finite], means.centre[finite]


def height_at(panel: Axes, place: float, means: CellMeans) -> float:
    """The height of the line that joins the points, at a place between them."""
    (x, y), across, up = finite_part(means), panel.xaxis.get_transform(), panel.yaxis.get_transform()
    height = np.interp(across.transform(np.array([place])), across.transform(x), up.transform(y))
    return float(up.inverted().transform(height)[0])
