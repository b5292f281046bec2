"""The figure of a metric over two axes, with the fitted zero line, its interval and the closed form's zero line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import AsinhNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.kinds.boundary import MapsPlot
from raysweep.analyses.outcomes import AT
from raysweep.analyses.rows import cell_means, finite_values
from raysweep.fits.draws import log_axis
from raysweep.report.figures import drawing, regions, scales
from raysweep.report.figures.style import DIVERGING, FIT, MISSING, THEORY
from raysweep.report.names import axis_label, called, settings
from raysweep.workloads.declaration import Workload


@drawing.draw.register(MapsPlot)
def draw_maps(plot: MapsPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The phase diagrams of a metric over two axes, one panel per map with the words of its regions; the caption."""
    maps, x, y, metric, level, lines = plot.maps, plot.x, plot.y, plot.metric, finding.level, plot.constants
    grids = [mean_grid(one.rows, x, y, metric, workload, level) for one in maps]
    every = np.abs(np.concatenate([grid.centre.ravel() for grid in grids]))
    norm, over_decades = colour_scale(every[np.isfinite(every)])
    titles = [settings(one.where, workload) for one in maps]
    figure, axes = drawing.panels(len(grids), 5.0, 4.1, titles)
    references: list[Any] = []
    curves = [branches(one.fine, one.roots, grid.x[-1] - grid.x[0]) for one, grid in zip(maps, grids, strict=True)]
    cells = [regions.signs(grid.centre, grid.low, grid.high) for grid in grids]
    for panel, title, one, curve, grid, signs in zip(axes, titles, maps, curves, grids, cells, strict=True):
        panel.grid(False)
        panel.set_facecolor(MISSING)
        logs = log_axis(grid.x, workload.logarithmic(x)), log_axis(grid.y, workload.logarithmic(y))
        for axis, values, logarithmic in zip((panel.xaxis, panel.yaxis), (grid.x, grid.y), logs, strict=True):
            if logarithmic:
                scales.set_scale(axis, values, True)
        borders = edges(grid.x, logs[0]), edges(grid.y, logs[1])
        panel.pcolormesh(*borders, grid.centre, cmap=DIVERGING, norm=norm, rasterized=True)
        regions.hatch(panel, *borders, signs == -1)
        missing = np.isnan(grid.centre).any()
        limits = (grid.x[0], grid.x[-1]) if missing else panel.get_xlim(), panel.get_ylim()
        for xs_line, ys_line in curve:
            panel.plot(xs_line, ys_line, color=THEORY, linewidth=2.2, zorder=3)
        draw_zeros(panel, one.table, y, (grid.x[0], grid.x[-1]), joined=not curve)
        references = drawing.reference_lines(panel.axvline, lines, x, workload, 1.3)
        panel.set(xlim=limits[0], ylim=limits[1], title=title)
    drawing.label_panels(axes, axis_label(x, workload), axis_label(y, workload))
    look: dict[str, Any] = {"pad": 0.015, "aspect": 28, "extend": "both" if over_decades else "neither"}
    label = "mean " + axis_label(metric, workload)
    bar = figure.colorbar(ScalarMappable(norm, DIVERGING), ax=axes, label=label, **look)
    if over_decades:
        ticks = asinh_ticks(float(norm.vmax), float(norm.linear_width))
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        bar.minorticks_off()
    positive, negative = regions.region_words(metric, workload)
    colours = {1: "#4393C3", -1: "#D6604D"}
    outcomes = {outcome for one in maps for outcome in one.table["outcome"]}
    several = not any(curves) and any((one.table["outcome"] == Outcome.LOCATED).sum() > 1 for one in maps)
    shared = f"with its {100 * level:g} % interval, each slice alone"
    entries = [
        any((signs == 1).any() for signs in cells) and Patch(facecolor=colours[1], label=positive),
        any((signs == -1).any() for signs in cells)
        and (
            Patch(facecolor=colours[-1], edgecolor=regions.HATCHING, label=negative, **regions.HATCH),
            f"Hatched: the {100 * level:g} % interval of the mean lies below 0."
            if any((grid.high > grid.low).any() for grid in grids)
            else "Hatched: below 0.",
        ),
        Outcome.LOCATED in outcomes
        and (
            drawing.mark(f"fitted zero, {100 * level:g} %", color=FIT, linestyle="-", marker="o", markersize=4),
            f"Points{', joined' if several else ''}: fitted zero of each slice {shared}.",
        ),
        outcomes & {*AT} - {Outcome.LOCATED}
        and (
            drawing.mark("zero beyond this value", color=FIT, marker=">", markerfacecolor="white", markersize=6),
            "Open triangles: the zero lies beyond this value.",
        ),
        any(curves)
        and (
            drawing.mark("closed form's zero", color=THEORY, linestyle="-", linewidth=2.2),
            "Orange line without points: the closed form's zero, found on the formula, not on the grid.",
        ),
        *references,
        any(np.isnan(grid.centre).any() for grid in grids)
        and (Patch(color=MISSING, label="not computed"), "Grey: not computed, or no row is ok."),
    ]
    text = drawing.legend_below(figure, entries, 3)
    words = [(1, positive), (-1, negative), (0, "no effect")]
    (width, height), columns = figure.get_size_inches(), drawing.columns_of_panels(axes)
    inches = width / columns, height / -(-len(axes) // columns)
    for panel, grid, signs in zip(axes, grids, cells, strict=True):
        regions.write_regions(panel, inches, grid.x, grid.y, signs, words)
    caption = (
        f"{called(metric, workload)} (mean over draws) over {called(x, workload)} and {called(y, workload)}. {text}"
    )
    return figure, caption + (f" {len(maps)} of {plot.every} maps." if len(maps) < plot.every else "")


BEYOND = {"low": ">", "high": "<"}
"""The marker of a bound, by the column that has it."""

OPEN: dict[str, Any] = {"color": FIT, "markerfacecolor": "white", "markersize": 6, "zorder": 4, "clip_on": False}


def draw_zeros(panel: Axes, table: pd.DataFrame, y: str, reach: tuple[float, float], joined: bool) -> None:
    """Draw the fitted zeros, perhaps joined, with their intervals and a band between neighbouring slices, cut at the
    map's edges; and the slices whose zero lies beyond a value as open triangles at it."""
    located = (table["outcome"] == Outcome.LOCATED).to_numpy()
    place, at = table["estimate"].to_numpy(float), table[y].to_numpy(float)
    low, high = (np.where(located, np.clip(table[end].to_numpy(float), *reach), np.nan) for end in ("low", "high"))
    if located.sum() > 2:
        panel.fill_betweenx(at, low, high, color=FIT, alpha=0.16, linewidth=0, zorder=2)
    if located.any():
        if joined:
            panel.plot(*drawing.joined_lines(place, at, located), color=FIT, linewidth=1.1, zorder=3.5)
        interval = low[located], high[located]
        look = {"ecolor": FIT, "zorder": 4, "markeredgecolor": "white", "markeredgewidth": 0.6}
        drawing.points(panel, place[located], at[located], interval, FIT, 4, 1.3, 2, across=True, **look)
    for bound, marker in BEYOND.items():
        rows = table[table["outcome"].map(AT) == bound]
        if len(rows):  # an empty line that is not clipped would count as a mark at the corner of the figure
            there = np.clip(rows[bound].to_numpy(float), *reach)
            panel.plot(there, rows[y], marker, **OPEN)


@dataclass(frozen=True)
class Grid:
    """The means on a map and their intervals, each of shape (y, x); NaN without a usable row, or a second one."""

    x: np.ndarray
    y: np.ndarray
    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray


def mean_grid(rows: pd.DataFrame, x: str, y: str, metric: str, workload: Workload, level: float) -> Grid:
    """The mean of each cell of a map, with its Student's interval, of no width for a single draw; the median if draws
    have no variance."""
    xs, ys = finite_values(rows, x), finite_values(rows, y)
    centre, low, high = (np.full((len(ys), len(xs)), np.nan) for _ in range(3))
    for k, at in enumerate(ys):
        cell = cell_means(rows[rows[y] == at], x, metric, workload, level)
        use = np.isfinite(cell.x)
        where = np.searchsorted(xs, cell.x[use])
        centre[k, where], low[k, where], high[k, where] = cell.centre[use], cell.low[use], cell.high[use]
    return Grid(xs, ys, centre, low, high)


def colour_scale(sizes: np.ndarray) -> tuple[Any, bool]:
    """(a colour scale symmetric about zero, whether it is an asinh scale because the surface spans decades)."""
    sizes = sizes[sizes > 0]
    top = float(sizes.max()) if len(sizes) else 1.0
    typical = float(np.median(sizes)) if len(sizes) else 1.0
    if top > 10 * typical:  # values above 10 typical values get the last colour
        return AsinhNorm(linear_width=typical, vmin=-10 * typical, vmax=10 * typical), True
    return Normalize(-top, top), False


def asinh_ticks(top: float, typical: float) -> list[float]:
    """The ticks: zero and, on both sides, 1 and 3 times powers of ten that are not too close to zero and within the
    scale."""
    first, last = int(np.floor(np.log10(typical))), int(np.floor(np.log10(top)))
    sizes = [digit * 10.0**k for k in range(first, last + 1) for digit in (1, 3)]
    sizes = [size for size in sizes if 0.6 * typical <= size <= top]
    return [-size for size in reversed(sizes)] + [0.0] + sizes


def edges(centres: np.ndarray, logarithmic: bool) -> np.ndarray:
    """The cell edges, half way between the centres (in the logarithm on a logarithmic axis)."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    u = np.log(centres) if logarithmic else centres
    middle = (u[1:] + u[:-1]) / 2
    out = np.concatenate([[2 * u[0] - middle[0]], middle, [2 * u[-1] - middle[-1]]])
    return np.exp(out) if logarithmic else out


def branches(at: np.ndarray, roots: list[np.ndarray], width: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Join zeros to lines (x, y) along y. A line continues with the nearest root if it is near enough, else it ends."""
    open_lines: list[list[tuple[float, float]]] = []
    closed: list[list[tuple[float, float]]] = []
    for place, here in zip(at, roots, strict=True):
        free = list(here)
        kept = []
        for line in open_lines:
            if free:
                nearest = min(free, key=lambda root: abs(root - line[-1][0]))
                if abs(nearest - line[-1][0]) < 0.15 * width:
                    line.append((float(nearest), float(place)))
                    free.remove(nearest)
                    kept.append(line)
                    continue
            closed.append(line)
        open_lines = kept + [[(float(root), float(place))] for root in free]
    lines = [np.array(line) for line in [*closed, *open_lines] if len(line) > 1]
    return [(line[:, 0], line[:, 1]) for line in lines]
