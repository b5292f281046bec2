"""The figure of a fitted place in x over another axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.finding import Finding
from raysweep.analyses.places import PlacesPlot
from raysweep.fits.draws import decades, log_axis
from raysweep.fits.result import Status, without_chance
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.draw import draw
from raysweep.report.figures.missing_places import draw_missing, missing_legend
from raysweep.report.figures.style import FAINT
from raysweep.report.names import axis_label, called, plain, unit_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SHOWN = (  # a status, the column with the position of its marker, and the marker
    (Status.LOCATED, "estimate", "o"),
    (Status.CENSORED_HIGH, "low", "^"),
    (Status.CENSORED_LOW, "high", "v"),
)


@dataclass(frozen=True)
class PlaceLine:
    """The places of one line.

    table: one row per value of the axis.
    fine: values of the axis at which the closed form is drawn.
    expected: the places of the closed form at `fine`; NaN where it has none.
    """

    key: Any
    label: str
    table: pd.DataFrame
    fine: np.ndarray
    expected: np.ndarray


@draw.register(PlacesPlot)
def draw_places(plot: PlacesPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The figure of places over another axis, and its caption."""
    parts = [
        (title, [PlaceLine(one.key, one.label, one.data.table, one.data.fine, one.data.expected) for one in lines])
        for title, lines in drawing.titled(plot.panels, workload)
    ]
    what = f"{plot.placed} of {called(plot.metric, workload)}"
    figure, said = places_figure(parts, plot.x, plot.along, workload, finding.level, f"at the {what}", plot.constants)
    caption = f"The {what} in {plain(plot.x)} against {plain(plot.along)}. {said}"
    return figure, caption + drawing.left_out_words(sum(len(lines) for _, lines in parts), plot.every)


def places_figure(
    parts: Sequence[tuple[str, Sequence[PlaceLine]]],
    x: str,
    along: str,
    workload: Workload,
    level: float,
    what: str,
    lines: Mapping[str, float],
) -> tuple[Figure, str]:
    """Draw a fitted place in x over another axis, `along`: one panel per part (title, lines).

    Places at neighbouring values are joined. A censored place is a triangle at its known bound; it points in the
    direction of the place. Where no place was found, a mark stands above or below all of them (`missing_places`).

    lines: named constants in x, drawn as reference lines.

    Returns the figure and the sentences on what is drawn in it.
    """
    figure, axes = drawing.panels(len(parts), 4.4, 3.8, [title for title, _ in parts])
    every = [line for _, inside in parts for line in inside]
    spots = np.unique(np.concatenate([line.table[along].to_numpy(float) for line in every]))
    spots = spots[np.isfinite(spots)]
    logarithmic = log_axis(spots, workload.logarithmic(along))
    shown = [line.table.loc[line.table["status"] == status, at] for line in every for status, at, _ in SHOWN]
    wanted, angle = workload.logarithmic(x), unit_of(x, workload) == "°"
    with_theory = [line for line in every if np.isfinite(line.expected).any()]
    shades = drawing.shades(parts)
    marker = drawing.marker_of(list(shades))
    # Points are not shifted if the closed form is a curve, because they would seem to disagree with it.
    smooth = any(len(line.fine) > len(spots) for line in with_theory)
    aside = np.zeros(len(shades)) if smooth else drawing.dodge(spots, len(shades), logarithmic)
    shifts = dict(zip(shades, aside, strict=True))
    references: list[Any] = []
    for panel, (title, inside) in zip(axes, parts, strict=True):
        scales.set_scale(panel.xaxis, spots, logarithmic)
        if decades(np.concatenate(shown)) and not angle if wanted is None else wanted:
            scales.set_log(panel.yaxis)
        references = drawing.reference_lines(panel.axhline, lines, x, workload, 1.5)
        if one := shared_form(inside):  # not once more for each line, in the colour of the last
            look = {"color": FAINT, "linewidth": 1.5, **theory_look([one], spots)}
            panel.plot(one.fine, one.expected, zorder=2, **look)
        for line in inside:
            if not one:
                look = {"color": shades[line.key], "linewidth": 1.3, **theory_look([line], spots)}
                panel.plot(moved(line.fine, shifts[line.key], logarithmic), line.expected, zorder=2, **look)
            draw_line(panel, line, along, shades[line.key], marker[line.key], (shifts[line.key], logarithmic))
        panel.set_title(drawing.in_lines(title) if len(axes) > 1 else title)
    draw_missing(axes, [[(line.table, shades[line.key]) for line in inside] for _, inside in parts], along)
    drawing.label_panels(axes, axis_label(along, workload), f"{axis_label(x, workload)}\n{what}")
    drawing.legend_of_lines(axes, parts, shades, marker, linestyle="-", markersize=6)
    statuses = {status for line in every for status in line.table["status"]}
    joined = any((line.table["status"] == Status.LOCATED).sum() > 1 for line in every)
    look = {"linestyle": "-" if joined else "none"}
    located = [without_chance(line.table)[line.table["status"] == Status.LOCATED] for line in every]
    bars = "spread of interpolations" if all(map(np.all, located)) else f"{100 * level:g} % interval"
    entries = [
        Status.LOCATED in statuses
        and (
            drawing.mark(f"fitted, {bars}", marker="o", markersize=5, **look),
            f"Points{', joined' if joined else ''}: fitted, each with its own {bars}.",
        ),
        with_theory
        and (drawing.mark("closed form", linewidth=1.3, **theory_look(every, spots)), "Dashed: the closed form."),
        bool(statuses & {Status.CENSORED_LOW, Status.CENSORED_HIGH})
        and (
            drawing.mark("beyond this value", marker="^", markerfacecolor="none"),
            "Open triangles: it lies beyond this value, in the direction in which the triangle points.",
        ),
        *missing_legend([line.table for line in every]),
        *((reference, f"{reference.get_label()}: the line across.") for reference in references),
    ]
    return figure, drawing.legend_below(figure, entries, 4 if len(axes) > 1 else 3)


def draw_line(panel: Axes, line: PlaceLine, along: str, shade: Any, marker: str, aside: tuple[float, bool]) -> None:
    """Draw the places of one line: joined points with intervals, and triangles at bounds.

    aside: (how far to the right, whether this is a share on a logarithmic axis).
    """
    shift, logarithmic = aside
    table = line.table.sort_values(along)
    table = table.assign(_at=moved(table[along].to_numpy(float), shift, logarithmic))
    there = (table["status"] == Status.LOCATED).to_numpy()
    beside_theory = bool(np.isfinite(line.expected).any())
    panel.plot(
        *drawing.joined_lines(table["_at"].to_numpy(float), table["estimate"].to_numpy(float), there),
        color=shade,
        linewidth=0.9 if beside_theory else 1.2,
        alpha=0.5 if beside_theory else 1.0,
        zorder=2.5,
    )
    for status, bound, direction in SHOWN:
        rows = table[table["status"] == status]
        at, place, low, high = (rows[name].to_numpy(float) for name in ("_at", bound, "low", "high"))
        if status != Status.LOCATED and len(rows):
            look: dict[str, Any] = {"markerfacecolor": "none", "markersize": 6, "zorder": 3, "linestyle": "none"}
            panel.plot(at, place, marker=direction, color=shade, **look)
        elif len(rows):
            edge = {"markeredgecolor": "white", "markeredgewidth": 0.5, "fmt": marker}
            drawing.points(
                panel, at, place, (low, high), shade, drawing.SIZES[marker] + 1.6, 1.4, 2.5, zorder=3, **edge
            )


def shared_form(lines: Sequence[PlaceLine]) -> PlaceLine | None:
    """One of several lines if all have the same closed form, which then knows nothing of what they differ in."""
    first = lines[0]
    same = all(
        np.array_equal(line.fine, first.fine) and np.allclose(line.expected, first.expected, equal_nan=True)
        for line in lines
    )
    return first if same and len(lines) > 1 else None


def theory_look(parts: Sequence[PlaceLine], spots: np.ndarray) -> dict[str, Any]:
    """The style of the closed form: dashes, with dots if it is known only at the places' own values."""
    at_spots = all(len(part.fine) <= len(spots) for part in parts)
    return {"linestyle": "--", "marker": "." if at_spots else ""}


def moved(at: np.ndarray, shift: float, logarithmic: bool) -> np.ndarray:
    """Positions moved to the right; on a logarithmic axis, by a share."""
    return np.asarray(at * np.exp(shift) if logarithmic else at + shift)
