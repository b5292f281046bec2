"""A fitted place in x against another axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import decades, log_axis
from raysweep.fits.result import Status
from raysweep.reporting.figures.style import (
    REFERENCE,
    REFERENCES,
    colours,
    legend_below,
    legend_right,
    mark,
    panels,
    set_log,
    whole_ticks,
)
from raysweep.reporting.words import axis_label, line_label
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def places_figure(
    parts: list[tuple[Any, str, pd.DataFrame, np.ndarray, np.ndarray]],
    x: str,
    along: str,
    workload: Workload,
    level: float,
    what: str,
    lines: Mapping[str, float] | None = None,
) -> Figure:
    """A fitted place in x against another axis, one line per part: (key, label, table, fine axis, closed form's place).

    Censored places are triangles at the bound that is known, pointing to where the place lies. lines: named constants
    in x to hold the places against.
    """
    from matplotlib.lines import Line2D

    figure, (panel,) = panels(1, width=6.4, height=4.2)
    shades = colours([part[0] for part in parts])
    censored = theory = False
    columns = [part[2] for part in parts]
    spots = np.unique(np.concatenate([t[along].to_numpy(float) for t in columns]))
    spots = spots[np.isfinite(spots)]
    smooth = any(np.isfinite(part[4]).any() and len(part[3]) > len(spots) for part in parts)
    logarithmic = log_axis(spots, workload.logarithmic(along))
    # beside a curve, a shifted point misleads
    nudge = np.zeros(len(parts)) if smooth else dodge(spots, len(parts), logarithmic)
    estimates = np.concatenate([t.loc[t["status"] == Status.LOCATED, "estimate"].to_numpy(float) for t in columns])
    if logarithmic:
        set_log(panel.xaxis)
    else:
        whole_ticks(panel.xaxis, spots)
    wanted = workload.logarithmic(x)
    if decades(estimates) if wanted is None else wanted:
        set_log(panel.yaxis)
    for value, dashes in zip((lines or {}).values(), REFERENCES, strict=False):
        panel.axhline(value, color=REFERENCE, linewidth=1.5, linestyle=dashes, zorder=2.5)
    for (_, _, table, fine, expected), shade, shift in zip(parts, shades, nudge, strict=True):
        known = np.isfinite(expected)
        theory |= bool(known.any())
        panel.plot(
            fine,
            np.where(known, expected, np.nan),
            color=shade,
            linewidth=1.4,
            zorder=2,
            marker="." if len(fine) <= len(spots) else "",
            linestyle="--" if len(fine) <= len(spots) else "-",
        )
        found = table[table["status"] == Status.LOCATED]
        place, at = found["estimate"].to_numpy(float), found[along].to_numpy(float)
        at = at * np.exp(shift) if logarithmic else at + shift
        low, high = found["low"].to_numpy(float), found["high"].to_numpy(float)
        if len(found):
            panel.errorbar(
                at,
                place,
                yerr=[np.maximum(place - low, 0), np.maximum(high - place, 0)],
                fmt="o",
                color=shade,
                markersize=5,
                elinewidth=1.5,
                capsize=2.5,
                zorder=3,
                markeredgecolor="white",
                markeredgewidth=0.6,
            )
        for status, bound, marker in ((Status.CENSORED_HIGH, "low", "^"), (Status.CENSORED_LOW, "high", "v")):
            beyond_grid = table[table["status"] == status]
            if len(beyond_grid):
                censored = True
                spot = beyond_grid[along].to_numpy(float)
                panel.plot(
                    spot * np.exp(shift) if logarithmic else spot + shift,
                    beyond_grid[bound].astype(float),
                    marker,
                    color=shade,
                    markerfacecolor="none",
                    markersize=6,
                    zorder=3,
                )
    panel.set_xlabel(axis_label(along, workload))
    panel.set_ylabel(f"{what}\nin {axis_label(x, workload)}")
    if len(parts) > 1:
        legend_right(
            [panel],
            [
                Line2D([], [], color=shade, marker="o", markersize=5, label=part[1])
                for part, shade in zip(parts, shades, strict=True)
            ],
        )
    kinds = [mark(f"fitted, {100 * level:g} % interval", marker="o", markersize=5)]
    if theory:
        at_spots = all(len(part[3]) <= len(spots) for part in parts)
        look: dict[str, Any] = {"linestyle": "--", "marker": "."} if at_spots else {"linestyle": "-"}
        kinds.append(mark("closed form", linewidth=1.4, **look))
    if censored:
        kinds.append(mark("beyond this bound (censored)", marker="^", markerfacecolor="none"))
    for (name, value), dashes in zip((lines or {}).items(), REFERENCES, strict=False):
        kinds.append(
            Line2D([], [], color=REFERENCE, linewidth=1.5, linestyle=dashes, label=line_label(name, value, x, workload))
        )
    legend_below(figure, kinds, 3)
    return figure


def dodge(spots: np.ndarray, count: int, logarithmic: bool) -> np.ndarray:
    """Small sideways shifts, so that error bars of several lines do not cover each other."""
    if len(spots) < 2 or count < 2:
        return np.zeros(count)
    step = np.min(np.diff(np.log(spots) if logarithmic else spots))
    return np.linspace(-1, 1, count) * min(0.12, 0.04 * count) * step
