"""The surface of a metric over two axes, with the fitted zero line, its band and the closed form's line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import log_axis
from raysweep.fits.result import Status
from raysweep.reporting.figures.style import (
    DIVERGING,
    FIT,
    MISSING,
    REFERENCE,
    REFERENCES,
    THEORY,
    label_panels,
    legend_below,
    panels,
    set_log,
)
from raysweep.reporting.selection import cell_means
from raysweep.reporting.words import axis_label, line_label
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def surface_figure(
    parts: list[tuple[str, pd.DataFrame, pd.DataFrame, np.ndarray, list[np.ndarray]]],
    x: str,
    y: str,
    metric: str,
    workload: Workload,
    level: float,
    lines: Mapping[str, float] | None = None,
) -> Figure:
    """One panel per part: (title, rows, table of the fit with a column y, fine values of y, closed form's zeros
    there)."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    grids = [mean_grid(rows, x, y, metric, workload) for _, rows, *_ in parts]
    every = np.abs(np.concatenate([grid[2].ravel() for grid in grids]))
    norm, bent = colour_scale(every[np.isfinite(every)])
    figure, axes = panels(len(grids), width=5.0, height=4.1)
    drawn: dict[str, bool] = {}
    for panel, (title, _, table, at, roots), (xs, ys, means) in zip(axes, parts, grids, strict=True):
        panel.grid(False)
        panel.set_facecolor(MISSING)
        logs = log_axis(xs, workload.logarithmic(x)), log_axis(ys, workload.logarithmic(y))
        if logs[0]:
            set_log(panel.xaxis)
        if logs[1]:
            set_log(panel.yaxis)
        drawn["missing"] = drawn.get("missing", False) or bool(np.isnan(means).any())
        panel.pcolormesh(edges(xs, logs[0]), edges(ys, logs[1]), means, cmap=DIVERGING, norm=norm, rasterized=True)
        limits = (xs[0], xs[-1]) if np.isnan(means).any() else panel.get_xlim(), panel.get_ylim()
        for xs_line, ys_line in branches(at, roots, xs[-1] - xs[0]):
            panel.plot(xs_line, ys_line, color=THEORY, linewidth=2.2, zorder=3)
            drawn["theory"] = True
        found = table[table["status"] == Status.LOCATED]
        low = np.clip(found["low"].to_numpy(float), xs[0], xs[-1])
        high = np.clip(found["high"].to_numpy(float), xs[0], xs[-1])
        place, slices = found["estimate"].to_numpy(float), found[y].to_numpy(float)
        if len(found) > 2:
            located = (table["status"] == Status.LOCATED).to_numpy()
            band = [
                np.where(located, np.clip(table[end].to_numpy(float), xs[0], xs[-1]), np.nan) for end in ("low", "high")
            ]
            slice_values = table[y].to_numpy(float)
            panel.fill_betweenx(slice_values, band[0], band[1], color=FIT, alpha=0.16, linewidth=0, zorder=2)
        if len(found):
            panel.errorbar(
                place,
                slices,
                xerr=[np.maximum(place - low, 0), np.maximum(high - place, 0)],
                fmt="o",
                color=FIT,
                ecolor=FIT,
                markersize=4,
                elinewidth=1.3,
                capsize=2,
                zorder=4,
                markeredgecolor="white",
                markeredgewidth=0.6,
            )
            drawn["fit"] = True
        for value, dashes in zip((lines or {}).values(), REFERENCES, strict=False):
            panel.axvline(value, color=REFERENCE, linewidth=1.3, linestyle=dashes, zorder=2.5)
        panel.set_xlim(*limits[0])
        panel.set_ylim(*limits[1])
        panel.set_title(title)
    label_panels(axes, axis_label(x, workload), axis_label(y, workload))
    bar = figure.colorbar(
        ScalarMappable(norm, DIVERGING),
        ax=axes,
        label="mean " + axis_label(metric, workload),
        pad=0.015,
        aspect=28,
        extend="both" if bent else "neither",
    )
    if bent:
        ticks = asinh_ticks(float(norm.vmax), float(norm.linear_width))
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        bar.minorticks_off()
    handles: list[Any] = []
    if drawn.get("fit"):
        handles.append(
            Line2D(
                [],
                [],
                color=FIT,
                marker="o",
                markersize=4,
                label=f"fitted zero, {100 * level:g} % interval of each slice (shaded between)",
            )
        )
    if drawn.get("theory"):
        handles.append(Line2D([], [], color=THEORY, linewidth=2.2, label="closed form's zero"))
    for (name, value), dashes in zip((lines or {}).items(), REFERENCES, strict=False):
        label = line_label(name, value, x, workload)
        handles.append(Line2D([], [], color=REFERENCE, linewidth=1.3, linestyle=dashes, label=label))
    if drawn.get("missing"):
        handles.append(Patch(color=MISSING, label="not computed, or no row ok"))
    if handles:
        legend_below(figure, handles)
    return figure


def mean_grid(
    rows: pd.DataFrame, x: str, y: str, metric: str, workload: Workload
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, y, means (y, x)); NaN where no row is usable; medians where draws have no variance."""
    xs = np.sort(rows[x].unique().astype(float))
    xs = xs[np.isfinite(xs)]
    ys = np.sort(rows[y].unique().astype(float))
    ys = ys[np.isfinite(ys)]
    means = np.full((len(ys), len(xs)), np.nan)
    for k, at in enumerate(ys):
        cell = cell_means(rows[rows[y] == at], x, metric, workload)
        where = np.searchsorted(xs, cell.x[np.isfinite(cell.x)])
        means[k, where] = cell.centre[np.isfinite(cell.x)]
    return xs, ys, means


def colour_scale(sizes: np.ndarray) -> tuple[Any, bool]:
    """A scale symmetric about zero, and whether it is bent (asinh) because the surface runs over decades."""
    from matplotlib.colors import AsinhNorm, Normalize

    sizes = sizes[sizes > 0]
    top = float(sizes.max()) if len(sizes) else 1.0
    typical = float(np.median(sizes)) if len(sizes) else 1.0
    if top > 10 * typical:  # what lies beyond 10 typical values has the last colour
        return AsinhNorm(linear_width=typical, vmin=-10 * typical, vmax=10 * typical), True
    return Normalize(-top, top), False


def asinh_ticks(top: float, typical: float) -> list[float]:
    """Zero and, on both sides of it, the ones and threes that are neither crowded at zero nor beyond the scale."""
    first, last = int(np.floor(np.log10(typical))), int(np.floor(np.log10(top)))
    sizes = [digit * 10.0**k for k in range(first, last + 1) for digit in (1, 3)]
    sizes = [size for size in sizes if 0.6 * typical <= size <= top]
    return [-size for size in reversed(sizes)] + [0.0] + sizes


def edges(centres: np.ndarray, logarithmic: bool) -> np.ndarray:
    """Cell edges half way between the centres (in the logarithm on a logarithmic axis)."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    u = np.log(centres) if logarithmic else centres
    middle = (u[1:] + u[:-1]) / 2
    out = np.concatenate([[2 * u[0] - middle[0]], middle, [2 * u[-1] - middle[-1]]])
    return np.exp(out) if logarithmic else out


def branches(at: np.ndarray, roots: list[np.ndarray], width: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Zeros joined to lines (x, y) along y: each root continues the nearest line, if it is near."""
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
