"""The figure of a fitted place in x over another axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.outcomes import AT as PLACES
from raysweep.analyses.places import PlaceLine, PlacesPlot
from raysweep.fits.draws import decades, log_axis
from raysweep.fits.result import without_chance
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.style import FAINT
from raysweep.report.names import axis_label, called, unit_of
from raysweep.report.phrases import LAWS, MOVED, OUTCOMES, SPREAD
from raysweep.workloads.declaration import Workload

AT = {**PLACES, Outcome.IMPROVES: "low", Outcome.DEGRADES: "high"}
"""Of outcomes with a place or a bound, the column that has it."""
MARKERS = {"low": "^", "high": "v"}
"""The marker of a bound, by the column that has it."""
ROOM, MOST = 0.1, 3  # of the height of a panel, for marks of curves without a place; the most that a legend lists
DOTTED: dict[str, Any] = {"linestyle": (0, (1, 1.5)), "linewidth": 1.1, "alpha": 0.6}
"""Where a place may lie that is not located."""
MOST_BARS = 16
"""Bars of such places that a figure can hold."""
MANY = 3
"""Lines from which on two panels stand one above the other, because their points take width."""


@drawing.draw.register(PlacesPlot)
def draw_places(plot: PlacesPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """A fitted place in x over another axis, and the caption.

    Places at neighbouring values are joined. A censored place is a triangle at its bound; it points in the direction of
    the place. A dotted bar shows where such a place, or one that is not decided, may lie. A cross below all of them
    stands for a curve without a place (`draw_missing`).
    """
    x = plot.x
    is_law, form = finding.kind in LAWS, LAWS.get(finding.kind, ("theory", ""))
    many = len(plot.panels) == 2 and max(len(panel.lines) for panel in plot.panels) > MANY
    alongs = list(dict.fromkeys(line.along for panel in plot.panels for line in panel.lines))
    sheet = drawing.sheet(plot.panels, workload, columns=1 if many else 2 if len(alongs) == 3 else 0)
    every = sheet.every
    shown = [line.table.loc[line.table["outcome"] == one, at] for line in every for one, at in AT.items()]
    ends = np.concatenate([line.table[["estimate", "low", "high"]].to_numpy(float).ravel() for line in every])
    ends = np.concatenate([ends, *(np.ravel(line.expected) for line in every)])
    reach = float(ends[np.isfinite(ends)].min()), float(ends[np.isfinite(ends)].max())
    declared, angle = workload.logarithmic(x), unit_of(x, workload) == "°"
    with_theory = [line for line in every if np.isfinite(line.expected).any()]
    references: list[Any] = []
    outcomes, dodged = [one for line in every for one in line.table["outcome"]], False
    with_bars = sum(one != Outcome.LOCATED and not has_none(one) for one in outcomes) <= MOST_BARS
    for panel, lines in sheet.panels:
        spots, logarithmic = axis_of(every, lines[0].data.along, is_law, workload)
        # Points are not shifted if the closed form is a curve, because they would seem to disagree with it.
        smooth = any(len(line.fine) > len(spots) for line in with_theory) and not is_law
        shifts = np.zeros(sheet.count) if smooth else drawing.dodge(spots, sheet.count, logarithmic)
        dodged |= bool(shifts.any())
        scales.set_scale(panel.xaxis, spots, logarithmic)
        if is_law or (decades(np.concatenate(shown)) and not angle if declared is None else declared):
            scales.set_log(panel.yaxis)
        references = drawing.reference_lines(panel.axhline, plot.constants, x, workload, 1.5)
        if one := shared_form([line.data for line in lines]):  # not once more for each line, in the colour of the last
            look = {"color": FAINT, "linewidth": 1.5, **theory_look([one], spots, is_law)}
            panel.plot(one.fine, one.expected, zorder=2, **look)
        for line in lines:
            shift = float(shifts[line.index])
            if not one:
                look = {"color": line.colour, "linewidth": 1.3, **theory_look([line.data], spots, is_law)}
                aside = 0.0 if is_law else shift
                panel.plot(scales.shifted(line.data.fine, aside, logarithmic), line.data.expected, zorder=2, **look)
            if line.data.band.size:
                low, high = line.data.band
                alpha = 0.05 if len(lines) > 2 else 0.15
                panel.fill_between(line.data.fine, low, high, color=line.colour, alpha=alpha, linewidth=0)
            draw_line(panel, line, shift, logarithmic, reach if with_bars else None)
        panel.plot(spots[[0, -1]], np.full(2, np.median(reach)), linestyle="none")  # equal ends, whatever is drawn
    drawing.level(sheet.axes)
    draw_missing(sheet, is_law, workload)
    kept = [line.table[line.table["outcome"] == Outcome.LOCATED] for line in every]
    low, high = (np.concatenate([table[end].to_numpy(float) for table in kept]) for end in ("low", "high"))
    best = plot.placed == "optimum"
    where = (
        f"for {called(plot.metric, workload)}" if best else f"at the {plot.placed} of {called(plot.metric, workload)}"
    )
    label = f"{'best ' * best}{axis_label(x, workload)}\n{where}"

    def end_of(line: PlaceLine) -> float:
        return float(line.table.sort_values(line.along)["estimate"].iloc[-1])

    sheet.label(axis_label(every[0].along, workload), label, end_of, linestyle="-", markersize=6)
    for panel, lines in sheet.panels if len(alongs) > 1 else ():
        panel.set_xlabel(axis_label(lines[0].data.along, workload))
    outcomes = list(dict.fromkeys(outcomes))
    joined = any((line.table["outcome"] == Outcome.LOCATED).sum() > 1 for line in every)
    look = {"linestyle": "-" if joined else "none"}
    located = [without_chance(line.table)[line.table["outcome"] == Outcome.LOCATED] for line in every]
    bars = SPREAD if all(map(np.all, located)) else f"{100 * finding.level:g} % intervals"
    nothing = list(dict.fromkeys(OUTCOMES[one] for one in outcomes if has_none(one)))
    entries = [
        Outcome.LOCATED in outcomes
        and (
            drawing.mark("fitted", marker="o", markersize=5, **look),
            f"Bars: {bars}{drawing.BEHIND if drawing.hidden(sheet.axes[0].yaxis, low, high, 5) else ''}.",
        ),
        with_theory and (drawing.mark(form[0], linewidth=1.3, **theory_look(every, spots, is_law)), form[1]),
        {*outcomes} & {*AT} - {Outcome.LOCATED}
        and (
            drawing.mark("only a bound", marker="^", markerfacecolor="none"),
            "Triangles point from a bound to where the value lies.",
        ),
        with_bars
        and Outcome.UNDECIDED in outcomes
        and (drawing.mark("undecided", **DOTTED), "Dotted: where it may lie."),
        dodged and (False, drawing.SIDE_BY_SIDE),
        nothing and drawing.mark(" or ".join(nothing) if len(nothing) < MOST else "no place", marker="x"),
        *references,
    ]
    text = drawing.legend_below(sheet.figure, entries)
    if not with_bars and Outcome.UNDECIDED in outcomes:
        text += " Undecided settings are not drawn."
    if at_best := finding.facts.get("at_best"):
        text += f" Each is at its best {called(at_best, workload)}."
    text += MOVED * (is_law and len(alongs) > 1)
    against = " and ".join(called(along, workload) for along in alongs)
    caption = f"{'best ' * best}{called(x, workload)} {where} against {against}. {text}"
    return sheet.figure, caption + drawing.left_out(len(sheet.every), plot.every)


def has_none(outcome: Outcome) -> bool:
    """Whether it is decided that a curve has no place."""
    return outcome not in AT and outcome != Outcome.UNDECIDED


def axis_of(lines: Sequence[PlaceLine], along: str, is_law: bool, workload: Workload) -> tuple[np.ndarray, bool]:
    """(the finite values of an axis over which lines have places, whether it is logarithmic)."""
    spots = np.unique(np.concatenate([line.table[along].to_numpy(float) for line in lines if line.along == along]))
    spots = spots[np.isfinite(spots)]
    return spots, is_law or log_axis(spots, workload.logarithmic(along))


def draw_missing(sheet: drawing.Sheet[PlaceLine], is_law: bool, workload: Workload) -> None:
    """Draw a cross below all places where there is none."""
    if not any(map(has_none, (outcome for line in sheet.every for outcome in line.table["outcome"]))):
        return
    for panel, lines in sheet.panels:
        if all(has_none(outcome) for line in lines for outcome in line.data.table["outcome"]):
            panel.set_yticks([])  # there is nothing to read
        scales.strips(panel, below=ROOM)
        spots, logarithmic = axis_of(sheet.every, lines[0].data.along, is_law, workload)
        shifts = drawing.dodge(spots, sheet.count, logarithmic)
        for line in lines:
            at = line.data.table.loc[line.data.table["outcome"].map(has_none), line.data.along].to_numpy(float)
            at, up = scales.shifted(at, float(shifts[line.index]), logarithmic), panel.get_xaxis_transform()
            panel.plot(at, np.full(len(at), ROOM / 2), "x", color=line.colour, markersize=6, transform=up)


def draw_line(
    panel: Axes, line: drawing.Drawn[PlaceLine], shift: float, logarithmic: bool, reach: tuple[float, float] | None
) -> None:
    """Draw the places of one line: joined points with intervals, triangles at bounds, and dotted bars. Points that
    share a value are not joined.

    shift: how far to the right; a share on a logarithmic axis. reach: where bars without an end stop; None for no bars.
    """
    along, table = line.data.along, line.data.table.sort_values(line.data.along)
    table = table.assign(_at=scales.shifted(table[along].to_numpy(float), shift, logarithmic))
    there = (table["outcome"] == Outcome.LOCATED).to_numpy()
    width, alpha = (0.9, 0.5) if np.isfinite(line.data.expected).any() else (1.2, 1.0)  # of a line next to theory's
    if table[along].is_unique:
        places = table["estimate"].where(there)
        panel.plot(table["_at"], places, color=line.colour, linewidth=width, alpha=alpha, zorder=2.5)
    some = table[[not there and not has_none(one) for there, one in zip(there, table["outcome"], strict=True)]]
    if reach:
        low, high = some["low"].fillna(-np.inf).clip(*reach), some["high"].fillna(np.inf).clip(*reach)
        panel.vlines(some["_at"], low, high, colors=line.colour, **DOTTED)
    for outcome, bound in AT.items():
        rows = table[table["outcome"] == outcome]
        at, place, low, high = (rows[name].to_numpy(float) for name in ("_at", bound, "low", "high"))
        look: dict[str, Any] = {"markerfacecolor": "none", "markersize": 6, "zorder": 3, "linestyle": "none"}
        if outcome != Outcome.LOCATED and len(rows):
            panel.plot(at, place, marker=MARKERS[bound], color=line.colour, **look)
        elif len(rows):
            look = {"markeredgecolor": "white", "markeredgewidth": 0.5, "markersize": line.size + 1.6, "zorder": 3}
            line.points(panel, at, place, (low, high), 1.4, 2.5, **look)


def shared_form(lines: Sequence[PlaceLine]) -> PlaceLine | None:
    """One of several lines if all have the same closed form, which then knows nothing of what they differ in."""
    first = lines[0]
    same = all(
        np.array_equal(line.fine, first.fine) and np.allclose(line.expected, first.expected, equal_nan=True)
        for line in lines
    )
    return first if same and len(lines) > 1 else None


def theory_look(parts: Sequence[PlaceLine], spots: np.ndarray, is_law: bool) -> dict[str, Any]:
    """The style of the closed form, or of a law: dashes, with dots if the former is at the places' values only."""
    at_spots = not is_law and all(len(part.fine) <= len(spots) for part in parts)
    return {"linestyle": "--", "marker": "." if at_spots else ""}
