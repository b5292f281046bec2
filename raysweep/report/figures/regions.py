"""Regions in which a metric is above or below 0: their words, where to write them, hatching with the colour."""

from __future__ import annotations

import textwrap
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
LINE, LETTER = 0.27, 0.115  # inches of a panel, with its margins, that they take
FINE = 9  # places for them along each side of a cell
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
    """Hatch the chosen cells of a map. x, y: where columns and rows begin and end. chosen: shape (rows, columns)."""
    corners = [[(x[j, a], y[i, b]) for a, b in ((0, 0), (1, 0), (1, 1), (0, 1))] for i, j in np.argwhere(chosen)]
    if corners:
        look = {**HATCH, "facecolor": "none", "edgecolor": HATCHING}
        together = Path.make_compound_path_from_polys(np.array(corners))  # hatched once instead of cell by cell
        panel.add_artist(PathPatch(together, **look, zorder=1.5))


def write_regions(
    panel: Axes,
    inches: tuple[float, float],
    x: np.ndarray,
    y: np.ndarray,
    signs: np.ndarray,
    words: Sequence[tuple[int, str]],
) -> set[int]:
    """Write the words of each sign into its region, where they have the most room; the signs that have any.

    inches: the width and the height of a panel with its margins.
    x, y: the centres of columns and rows. signs: of each cell, shape (rows, columns). words: (sign, words) each.
    """
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SIZE, "fontweight": "bold", "zorder": 6}
    look |= {"color": "#111111", "path_effects": [withStroke(linewidth=3, foreground="white")]}
    written, cells = set[int](), np.repeat(np.repeat(signs, FINE, axis=0), FINE, axis=1)
    for sign, text in words:
        for label in (text, textwrap.fill(text, 2 + len(text) // 2)):
            lines = label.split("\n")
            shares = LINE * len(lines) / inches[1], LETTER * max(map(len, lines)) / inches[0]
            needed = [int(np.ceil(share * count)) | 1 for share, count in zip(shares, cells.shape, strict=True)]
            room = binary_erosion(np.pad(cells == sign, 1), np.ones(needed))[1:-1, 1:-1]
            if room.any():
                place = np.unravel_index(int(distance_transform_edt(np.pad(room, 1))[1:-1, 1:-1].argmax()), room.shape)
                at = [(one + 0.5) / FINE - 0.5 for one in place]
                up, across = (
                    float(np.interp(one, range(len(axis)), axis)) for one, axis in zip(at, (y, x), strict=True)
                )
                panel.text(across, up, label, **look).set_in_layout(False)
                written.add(sign)
                break
    return written
