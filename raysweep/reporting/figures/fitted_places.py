"""The figure of a fitted place in x over another axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import decades, log_axis
from raysweep.fits.result import Status
from raysweep.reporting.figures import drawing
from raysweep.reporting.words import axis_label
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd
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


def places_figure(
    parts: Sequence[PlaceLine],
    x: str,
    along: str,
    workload: Workload,
    level: float,
    what: str,
    lines: Mapping[str, float],
) -> Figure:
    """Draw a fitted place in x over another axis, `along`, one line per part.

    A censored place is a triangle at its known bound; it points in the direction of the place.

    lines: named constants in x, drawn as reference lines.
    """
    figure, (panel,) = drawing.panels(1, width=6.4, height=4.2)
    spots = np.unique(np.concatenate([part.table[along].to_numpy(float) for part in parts]))
    spots = spots[np.isfinite(spots)]
    logarithmic = log_axis(spots, workload.logarithmic(along))
    drawing.set_scale(panel.xaxis, spots, logarithmic)
    estimates = np.concatenate([part.table.loc[part.table["status"] == Status.LOCATED, "estimate"] for part in parts])
    wanted = workload.logarithmic(x)
    if decades(estimates) if wanted is None else wanted:
        drawing.set_log(panel.yaxis)
    references = drawing.reference_lines(panel.axhline, lines, x, workload, 1.5)
    with_theory = [part for part in parts if np.isfinite(part.expected).any()]
    smooth = any(len(part.fine) > len(spots) for part in with_theory)
    # Points are not shifted if the closed form is a curve, because they would seem to disagree with it.
    shifts = np.zeros(len(parts)) if smooth else dodge(spots, len(parts), logarithmic)
    shades = drawing.colours([part.key for part in parts])
    censored = False
    for part, shade, shift in zip(parts, shades, shifts, strict=True):
        known = np.where(np.isfinite(part.expected), part.expected, np.nan)
        panel.plot(part.fine, known, color=shade, linewidth=1.4, zorder=2, **theory_look([part], spots))
        for status, bound, marker in SHOWN:
            rows = part.table[part.table["status"] == status]
            at, place, low, high = (rows[name].to_numpy(float) for name in (along, bound, "low", "high"))
            at = at * np.exp(shift) if logarithmic else at + shift
            if status != Status.LOCATED and len(rows):
                censored = True
                panel.plot(at, place, marker, color=shade, markerfacecolor="none", markersize=6, zorder=3)
            elif len(rows):
                edge = {"markeredgecolor": "white", "markeredgewidth": 0.6}
                drawing.points(panel, at, place, (low, high), shade, 5, 1.5, 2.5, zorder=3, **edge)
    panel.set_xlabel(axis_label(along, workload))
    panel.set_ylabel(f"{what}\nin {axis_label(x, workload)}")
    named = zip(parts, shades, strict=True)
    drawing.legend_right(
        [panel], [drawing.mark(one.label, color=own, linestyle="-", marker="o", markersize=5) for one, own in named]
    )
    kinds = [
        drawing.mark(f"fitted, {100 * level:g} % interval", marker="o", markersize=5),
        with_theory and drawing.mark("closed form", linewidth=1.4, **theory_look(parts, spots)),
        censored and drawing.mark("beyond this bound (censored)", marker="^", markerfacecolor="none"),
        *references,
    ]
    drawing.legend_below(figure, kinds, 3)
    return figure


def theory_look(parts: Sequence[PlaceLine], spots: np.ndarray) -> dict[str, Any]:
    """The style of the closed form: a line, or dots joined by dashes if it is known only at the places' own values."""
    at_spots = all(len(part.fine) <= len(spots) for part in parts)
    return {"linestyle": "--", "marker": "."} if at_spots else {"linestyle": "-"}


def dodge(spots: np.ndarray, count: int, logarithmic: bool) -> np.ndarray:
    """Small horizontal shifts, so that error bars of several lines do not overlap."""
    if len(spots) < 2 or count < 2:
        return np.zeros(count)
    step = np.min(np.diff(np.log(spots) if logarithmic else spots))
    return np.linspace(-1, 1, count) * min(0.12, 0.04 * count) * step
