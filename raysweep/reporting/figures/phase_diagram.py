"""The figure of a metric over two axes, with the fitted zero line, its interval and the closed form's zero line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import log_axis
from raysweep.fits.result import Status
from raysweep.reporting.figures import drawing
from raysweep.reporting.figures.style import DIVERGING, FIT, MISSING, THEORY
from raysweep.reporting.selection import cell_means, finite_values
from raysweep.reporting.words import axis_label
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Map:
    """One panel: the rows, the table of their fit (with a column y), and the closed form's zeros.

    roots: the zeros of the closed form in x, one array for each value in `fine`.
    fine: values of y.
    """

    title: str
    rows: pd.DataFrame
    table: pd.DataFrame
    fine: np.ndarray
    roots: list[np.ndarray]


def surface_figure(
    maps: Sequence[Map], x: str, y: str, metric: str, workload: Workload, level: float, lines: Mapping[str, float]
) -> Figure:
    """Draw one panel per map. lines: named constants in x, drawn as reference lines."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.patches import Patch

    grids = [mean_grid(one.rows, x, y, metric, workload) for one in maps]
    every = np.abs(np.concatenate([means.ravel() for _, _, means in grids]))
    norm, over_decades = colour_scale(every[np.isfinite(every)])
    figure, axes = drawing.panels(len(grids), width=5.0, height=4.1)
    references: list[Any] = []
    curves = [branches(one.fine, one.roots, xs[-1] - xs[0]) for one, (xs, _, _) in zip(maps, grids, strict=True)]
    for panel, one, curve, (xs, ys, means) in zip(axes, maps, curves, grids, strict=True):
        panel.grid(False)
        panel.set_facecolor(MISSING)
        logs = log_axis(xs, workload.logarithmic(x)), log_axis(ys, workload.logarithmic(y))
        for axis, logarithmic in zip((panel.xaxis, panel.yaxis), logs, strict=True):
            if logarithmic:
                drawing.set_log(axis)
        panel.pcolormesh(edges(xs, logs[0]), edges(ys, logs[1]), means, cmap=DIVERGING, norm=norm, rasterized=True)
        limits = (xs[0], xs[-1]) if np.isnan(means).any() else panel.get_xlim(), panel.get_ylim()
        for xs_line, ys_line in curve:
            panel.plot(xs_line, ys_line, color=THEORY, linewidth=2.2, zorder=3)
        draw_zeros(panel, one.table, y, (xs[0], xs[-1]))
        references = drawing.reference_lines(panel.axvline, lines, x, workload, 1.3)
        panel.set(xlim=limits[0], ylim=limits[1], title=one.title)
    drawing.label_panels(axes, axis_label(x, workload), axis_label(y, workload))
    look: dict[str, Any] = {"pad": 0.015, "aspect": 28, "extend": "both" if over_decades else "neither"}
    label = "mean " + axis_label(metric, workload)
    bar = figure.colorbar(ScalarMappable(norm, DIVERGING), ax=axes, label=label, **look)
    if over_decades:
        ticks = asinh_ticks(float(norm.vmax), float(norm.linear_width))
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        bar.minorticks_off()
    fitted = f"fitted zero, {100 * level:g} % interval of each slice (shaded between)"
    handles = [
        any((one.table["status"] == Status.LOCATED).any() for one in maps)
        and drawing.mark(fitted, color=FIT, linestyle="-", marker="o", markersize=4),
        any(curves) and drawing.mark("closed form's zero", color=THEORY, linestyle="-", linewidth=2.2),
        *references,
        any(np.isnan(means).any() for _, _, means in grids)
        and Patch(color=MISSING, label="not computed, or no row ok"),
    ]
    drawing.legend_below(figure, handles)
    return figure


def draw_zeros(panel: Axes, table: pd.DataFrame, y: str, reach: tuple[float, float]) -> None:
    """Draw the fitted zeros with their intervals and a band between neighbouring slices, cut at the map's edges."""
    located = (table["status"] == Status.LOCATED).to_numpy()
    place, at = table["estimate"].to_numpy(float), table[y].to_numpy(float)
    low, high = (np.where(located, np.clip(table[end].to_numpy(float), *reach), np.nan) for end in ("low", "high"))
    if located.sum() > 2:
        panel.fill_betweenx(at, low, high, color=FIT, alpha=0.16, linewidth=0, zorder=2)
    if located.any():
        ends = low[located], high[located]
        look = {"ecolor": FIT, "zorder": 4, "markeredgecolor": "white", "markeredgewidth": 0.6}
        drawing.points(panel, place[located], at[located], ends, FIT, 4, 1.3, 2, across=True, **look)


def mean_grid(
    rows: pd.DataFrame, x: str, y: str, metric: str, workload: Workload
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, y, means of shape (y, x)); NaN without a usable row; the median if draws have no variance."""
    xs, ys = finite_values(rows, x), finite_values(rows, y)
    means = np.full((len(ys), len(xs)), np.nan)
    for k, at in enumerate(ys):
        cell = cell_means(rows[rows[y] == at], x, metric, workload)
        where = np.searchsorted(xs, cell.x[np.isfinite(cell.x)])
        means[k, where] = cell.centre[np.isfinite(cell.x)]
    return xs, ys, means


def colour_scale(sizes: np.ndarray) -> tuple[Any, bool]:
    """(a colour scale symmetric about zero, whether it is an asinh scale because the surface spans decades)."""
    from matplotlib.colors import AsinhNorm, Normalize

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
