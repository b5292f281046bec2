"""Regions in which a metric is above or below 0: their words, where to write them, hatching with the colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke
from scipy.ndimage import binary_erosion, distance_transform_edt

from raysweep.analyses.rows import signs_of
from raysweep.report.names import plain
from raysweep.workloads.declaration import Workload

SIZE = 9.5  # of words, in points
RASTER = (72, 72)  # rows and columns of the raster on which a free place for a label is looked for
HATCH: dict[str, Any] = {"hatch": "////", "linewidth": 0.0}
HATCHING = (0.15, 0.15, 0.15, 0.45)


def region_words(metric: str, workload: Workload) -> tuple[str, str]:
    """What a positive and what a negative value of a metric means: as declared, else "X > 0" and "X < 0"."""
    signs = signs_of(metric, workload)
    return signs if all(signs) else (f"{plain(metric)} > 0", f"{plain(metric)} < 0")


def signs(centre: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """1 or -1 where the interval of a mean lies above or below 0, 0 where the mean is 0, NaN where it is open.

    low, high: the ends of the intervals, of the same shape.
    """
    out = np.full(np.shape(centre), np.nan)
    out[low > 0] = 1
    out[high < 0] = -1
    size = np.nanmax(np.abs(centre), initial=0.0)
    out[np.abs(centre) <= 1e-9 * size] = 0
    return out


def hatch(panel: Axes, x: np.ndarray, y: np.ndarray, chosen: np.ndarray) -> None:
    """Hatch the chosen cells of a map. x, y: the edges of its columns and rows. chosen: shape (rows, columns)."""
    corners = [[(x[j], y[i]), (x[j + 1], y[i]), (x[j + 1], y[i + 1]), (x[j], y[i + 1])] for i, j in np.argwhere(chosen)]
    if corners:
        look = {**HATCH, "facecolor": "none", "edgecolor": HATCHING}
        together = Path.make_compound_path_from_polys(np.array(corners))  # hatched once instead of cell by cell
        panel.add_artist(PathPatch(together, **look, zorder=1.5))


def write_regions(
    panel: Axes,
    places: tuple[np.ndarray, np.ndarray],
    signs: np.ndarray,
    words: Sequence[tuple[int, str]],
    taken: Sequence[tuple[np.ndarray, np.ndarray]],
) -> list[str]:
    """Write the words of each sign into its region, at the place with the most room, if there is any. Call it when
    scales, limits and the size of the figure are final.

    places: the edges of the columns and rows of the map.
    signs: of each cell, shape (rows, columns).
    words: (sign, words) of each region.
    taken: (x, y) of the lines that labels must not cover.

    Returns the words that were written.
    """
    rows, columns = RASTER
    box = panel.get_window_extent()
    across, along = (np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows
    x, y = (_shares(panel, edges, axis) for edges, axis in zip(places, (0, 1), strict=True))
    which = np.ix_(*(np.searchsorted(edges, at) - 1 for edges, at in ((y, along), (x, across))))
    inside = np.outer((along > y[0]) & (along < y[-1]), (across > x[0]) & (across < x[-1]))
    padded = np.pad(signs, 1, constant_values=np.nan)[1:, 1:]  # a place beyond the map has no sign
    cells = np.where(inside, padded[which], np.nan)
    blocked = np.zeros(RASTER, dtype=bool)
    for line_x, line_y in taken:
        at, up = _shares(panel, line_x, 0), _shares(panel, line_y, 1)
        if len(at) > 1:
            steps = np.linspace(0, len(at) - 1, 40 * len(at))
            at, up = (np.interp(steps, np.arange(len(at)), values) for values in (at, up))
        seen = np.isfinite(at) & np.isfinite(up) & (at >= 0) & (at < 1) & (up >= 0) & (up < 1)
        blocked[(up[seen] * rows).astype(int), (at[seen] * columns).astype(int)] = True
    written = []
    for sign, text in words:
        free = (cells == sign) & ~blocked
        for label in (text, _two_lines(text)):
            lines = label.split("\n")
            wide = 0.68 * SIZE * max(map(len, lines)) * panel.figure.dpi / 72 / box.width
            high = 1.5 * SIZE * len(lines) * panel.figure.dpi / 72 / box.height
            needed = np.ones((max(1, round(high * rows)) | 1, max(1, round(wide * columns)) | 1), dtype=bool)
            room = binary_erosion(np.pad(free, 1), needed)[1:-1, 1:-1] if needed.size < free.size else free & False
            if not room.any():
                continue
            row, column = np.unravel_index(int(distance_transform_edt(np.pad(room, 1))[1:-1, 1:-1].argmax()), RASTER)
            look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SIZE, "fontweight": "bold", "zorder": 6}
            look |= {"color": "#111111", "path_effects": [withStroke(linewidth=3, foreground="white")]}
            panel.text(across[column], along[row], label, transform=panel.transAxes, **look).set_in_layout(False)
            written.append(text)
            break
    return written


def _shares(panel: Axes, values: np.ndarray, axis: int) -> np.ndarray:
    """Positions along an axis of the panel as shares of its length."""
    points = np.full((len(values), 2), np.nan)
    points[:, axis] = values
    points[:, 1 - axis] = panel.get_ylim()[0] if axis == 0 else panel.get_xlim()[0]
    return np.asarray((panel.transData - panel.transAxes).transform(points)[:, axis])


def _two_lines(text: str) -> str:
    """The text in two lines, broken at the space nearest to its middle."""
    spaces = [k for k, letter in enumerate(text) if letter == " "]
    if not spaces:
        return text
    middle = min(spaces, key=lambda k: abs(k - len(text) / 2))
    return f"{text[:middle]}\n{text[middle + 1 :]}"
