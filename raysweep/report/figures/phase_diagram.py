"""The figure of a metric over two axes, with the fitted zero line, its interval and the closed form's zero line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
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
from raysweep.report.names import axis_label, called, setting
from raysweep.workloads.declaration import Workload


@drawing.draw.register(MapsPlot)
def draw_maps(plot: MapsPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The phase diagrams of a metric over two axes, one panel per map with the words of its regions; the caption."""
    maps, x, y, metric, lines = plot.maps, plot.x, plot.y, plot.metric, plot.constants
    percent, positive, negative = f"{100 * finding.level:g} %", *regions.region_words(metric, workload)
    grids = [mean_grid(one.rows, x, y, metric, workload, finding.level) for one in maps]
    every = np.abs(np.concatenate([grid.centre.ravel() for grid in grids]))
    norm, over_decades = colour_scale(every[np.isfinite(every)])
    titles = [drawing.in_full(one.where, workload) for one in maps]
    figure, axes = drawing.panels(len(grids), 4.0, titles)
    (width, height), columns = figure.get_size_inches(), drawing.columns_of_panels(axes)
    inches = width / columns, height / -(-len(axes) // columns)
    references: list[Any] = []
    tested, hidden, gaps, written = list[bool](), list[bool](), False, set[int]()
    for panel, one, whole in zip(axes, maps, grids, strict=True):
        panel.grid(False)
        panel.set_facecolor(MISSING)
        logs = log_axis(whole.x, workload.logarithmic(x)), log_axis(whole.y, workload.logarithmic(y))
        for axis, values, logarithmic in zip((panel.xaxis, panel.yaxis), (whole.x, whole.y), logs, strict=True):
            if logarithmic:
                scales.set_scale(axis, values, True)
        grid, words = whole.cut(logs[1]), [(1, positive), (-1, negative), (0, "zero effect")]
        if len(grid.y) < len(whole.y):
            words[2] = 0, f"zero effect up to {setting(y, whole.y[-1], workload)}"
        signs = grid.signs
        cells = edges(grid.x, logs[0]), edges(grid.y, logs[1])
        values = np.full((2 * len(grid.y) - 1, 2 * len(grid.x) - 1), np.nan)  # between cells that do not touch: nothing
        values[::2, ::2] = grid.centre
        panel.pcolormesh(*(ends.ravel() for ends in cells), values, cmap=DIVERGING, norm=norm, rasterized=True)
        regions.hatch(panel, *cells, signs == -1)
        missing = bool(np.isnan(grid.centre).any())
        gaps |= missing or any((ends[1:, 0] > ends[:-1, 1] * (1 + 1e-9)).any() for ends in cells)
        limits = (grid.x[0], grid.x[-1]) if missing else cells[0].ravel()[[0, -1]], cells[1].ravel()[[0, -1]]
        panel.set(xlim=limits[0], ylim=limits[1])
        located = one.table.loc[one.table["outcome"] == Outcome.LOCATED, y]
        joints = segments(one.fine, one.roots, grid.x[-1] - grid.x[0])
        between = np.array([located.min() <= ys.min() and ys.max() <= located.max() for _, ys in joints], dtype=bool)
        for look, chosen in ((TESTED, joints[between]), (UNTESTED, joints[~between][::2])):
            panel.add_collection(LineCollection(chosen.swapaxes(1, 2), **{**look, "linestyle": "-"}, zorder=3))
        tested += between.tolist()
        hidden.append(draw_zeros(panel, one.table, y, (grid.x[0], grid.x[-1]), joined=not len(joints)))
        references = drawing.reference_lines(panel.axvline, lines, x, workload, 1.3)
        written |= regions.write_regions(panel, inches, grid.x, grid.y, signs, words)
    drawing.label_panels(axes, axis_label(x, workload), axis_label(y, workload))
    look = {"pad": 0.015, "aspect": 28, "extend": "both" if over_decades else "neither"}
    label = "mean " + axis_label(metric, workload)
    bar = figure.colorbar(ScalarMappable(norm, DIVERGING), ax=axes, label=label, **look)
    if over_decades:
        ends = np.array([norm.vmin, norm.vmax])
        bar.set_ticks(scales.asinh_ticks(ends, norm.linear_width))
        bar.ax.yaxis.set_major_formatter("{x:g}")
        bar.minorticks_off()
    outcomes = {outcome for one in maps for outcome in one.table["outcome"]}
    there = {sign for grid in grids for sign in (1, -1) if (grid.signs == sign).any()}
    spread = any((grid.high > grid.low).any() for grid in grids)
    entries = [
        1 in there - written and Patch(facecolor="#4393C3", label=positive),
        -1 in there
        and (
            -1 not in written
            and Patch(facecolor="#D6604D", edgecolor=regions.HATCHING, label=negative, **regions.HATCH),
            f"Hatched: {f'the {percent} interval of the mean lies ' if spread else ''}below 0.",
        ),
        Outcome.LOCATED in outcomes
        and (
            drawing.mark("measured", color=FIT, linestyle="-", marker="o", markersize=5),
            f"Bars: {percent} intervals{drawing.BEHIND if all(hidden) else ''}.",
        ),
        outcomes & {*AT} - {Outcome.LOCATED}
        and drawing.mark("sign change beyond", color=FIT, marker=">", markerfacecolor="white", markersize=6),
        any(tested) and drawing.mark("theory", **TESTED),
        not all(tested) and drawing.mark("theory, not tested" if any(tested) else "theory", **UNTESTED),
        *references,
        gaps and Patch(color=MISSING, label="not computed"),
    ]
    about = f"{called(metric, workload)} over {called(x, workload)} and {called(y, workload)}."
    more = f"{len(maps)} of {plot.every} maps." if len(maps) < plot.every else ""
    return figure, drawing.sentences(about, drawing.legend_below(figure, entries), more)


TESTED: dict[str, Any] = {"color": THEORY, "linewidth": 2.4, "linestyle": "-"}
UNTESTED: dict[str, Any] = {"color": THEORY, "linewidth": 1.2, "linestyle": "--"}
"""The closed form's zeros between fitted ones, and elsewhere."""
EMPTY = 0.25
"""How high rows without effect at the ends of a map are drawn, in heights of the others."""
BEYOND = {"low": ">", "high": "<"}
"""The marker of a bound, by the column that has it."""

OPEN: dict[str, Any] = {"color": FIT, "markerfacecolor": "white", "markersize": 6, "zorder": 4, "clip_on": False}


def draw_zeros(panel: Axes, table: pd.DataFrame, y: str, reach: tuple[float, float], joined: bool) -> bool:
    """Draw the fitted zeros, perhaps joined, with their intervals and a band between neighbouring slices, cut at the
    map's edges; and the slices whose zero lies beyond a value as open triangles at it. Whether marks hide intervals."""
    located = (table["outcome"] == Outcome.LOCATED).to_numpy()
    place, at = table["estimate"].to_numpy(float), table[y].to_numpy(float)
    low, high = (np.where(located, np.clip(table[end].to_numpy(float), *reach), np.nan) for end in ("low", "high"))
    if located.sum() > 2:
        panel.fill_betweenx(at, low, high, color=FIT, alpha=0.16, linewidth=0, zorder=2)
    if located.any():
        if joined:
            panel.plot(np.where(located, place, np.nan), at, color=FIT, linewidth=1.1, zorder=3.5)
        interval = low[located], high[located]
        look = {"ecolor": FIT, "zorder": 4, "markeredgecolor": "white", "markeredgewidth": 0.6}
        drawing.points(panel, place[located], at[located], interval, FIT, 5, 1.3, 2, across=True, **look)
    for bound, marker in BEYOND.items():
        rows = table[table["outcome"].map(AT) == bound]
        if len(rows):  # an empty line that is not clipped would count as a mark at the corner of the figure
            there = np.clip(rows[bound].to_numpy(float), *reach)
            panel.plot(there, rows[y], marker, **OPEN)
    return drawing.hidden(panel.xaxis, low[located], high[located], 5)


@dataclass(frozen=True)
class Grid:
    """The means on a map and their intervals, each of shape (y, x); NaN without a usable row, or a second one."""

    x: np.ndarray
    y: np.ndarray
    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def signs(self) -> np.ndarray:
        """Those of `regions`."""
        return regions.signs(self.centre, self.low, self.high)

    def cut(self, logarithmic: bool) -> Grid:
        """The map without most of the rows at its ends in which nothing has an effect."""
        effect = np.flatnonzero((self.signs != 0).any(axis=1))
        if not len(effect):
            return self
        low, high = (np.log(ends) if logarithmic else ends for ends in edges(self.y, logarithmic).T)
        room = EMPTY * (high[effect[-1]] - low[effect[0]])
        shown = (low < high[effect[-1]] + room) & (high > low[effect[0]] - room)
        return Grid(self.x, self.y[shown], self.centre[shown], self.low[shown], self.high[shown])


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


def edges(centres: np.ndarray, logarithmic: bool) -> np.ndarray:
    """Where cells begin and end, shape (cells, 2): half way to the nearer neighbour (in the logarithm on a logarithmic
    axis), so that nothing has a colour far from where it was computed."""
    u = np.log(centres) if logarithmic else centres
    steps = np.diff(u, prepend=-np.inf, append=np.inf)
    half = np.minimum(steps[1:], steps[:-1]) / 2 if len(u) > 1 else np.array([0.5])
    out = np.column_stack([u - half, u + half])
    return np.exp(out) if logarithmic else out


def segments(at: np.ndarray, roots: Sequence[np.ndarray], width: float) -> np.ndarray:
    """The joints (x, y) of each zero with the nearest one at the next y, if it is near enough, shape (joints, 2, 2)."""
    out = [
        ((root, next_root), (place, next_place))
        for (place, here), (next_place, there) in pairwise(zip(at, roots, strict=True))
        for root in here
        if len(there) and abs((next_root := there[np.abs(there - root).argmin()]) - root) < 0.15 * width
    ]
    return np.reshape(out, (-1, 2, 2))
