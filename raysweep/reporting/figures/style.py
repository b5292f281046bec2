"""One look for all figures: readable, colour-blind-safe, and the same in print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

GREY = "#555555"  # of legends that explain a kind of mark and not a line
FIT = "#111111"  # what was measured and fitted
THEORY = "#D55E00"  # vermilion of the Okabe-Ito palette
QUALITATIVE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6D31", "#000000")
DIVERGING = "RdBu"  # blue: positive; told apart in the common kinds of colour blindness
BASE: dict[str, Any] = {"color": "#333333", "linestyle": (0, (4, 2)), "linewidth": 1.3}  # the base model, as in O
MISSING = "#D9D9D9"
REFERENCE = "#D81B60"  # a named constant to hold results against; seen on every map and line
REFERENCES = ((0, (6, 3)), (0, (1.5, 2)), (0, (6, 2, 1.5, 2)))  # dashes of named reference lines

SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10.5,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "svg.fonttype": "none",
    "svg.hashsalt": "raysweep",
}


@contextmanager
def styled() -> Iterator[None]:
    """Figures made inside have the style; nothing outside changes, and no display is needed."""
    import matplotlib

    with matplotlib.rc_context(SETTINGS):
        yield


def panels(count: int, width: float = 4.4, height: float = 3.7) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels in rows of at most three, sharing scales."""
    from matplotlib.figure import Figure

    columns = 2 if count == 4 else min(count, 3)
    if columns > 2:  # a wide figure is shown smaller: with less room for each panel, letters stay readable
        width, height = 0.78 * width, 0.84 * height
    rows = -(-count // columns)
    wide = max(width * columns, 6.4) if count == 1 else width * columns
    figure = Figure(figsize=(wide, height * rows + 0.3), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    axes = list(grid.flat)
    for spare in axes[count:]:
        spare.set_visible(False)
    for above in axes[max(count - columns, 0) : count]:  # the lowest visible panel of each column keeps its labels
        above.tick_params(labelbottom=True)
    return figure, axes[:count]


def columns_of_panels(axes: list[Axes]) -> int:
    """Panels in a row."""
    grid = axes[0].get_gridspec()
    return grid.ncols if grid is not None else 1


def label_panels(axes: list[Axes], x: str, y: str) -> None:
    """Axis labels at the left and under the lowest panel of each column."""
    columns = columns_of_panels(axes)
    for k, panel in enumerate(axes):
        if k % columns == 0:
            panel.set_ylabel(y)
        if k + columns >= len(axes):
            panel.set_xlabel(x)


def colours(values: list[Any]) -> list[Any]:
    """One colour per value: ordered shades for more than three numbers, else the qualitative palette."""
    import matplotlib

    numeric = all(isinstance(value, (int, float, np.number)) for value in values)
    if numeric and len(values) > 3:
        return [matplotlib.colormaps["viridis"](0.82 * k / (len(values) - 1)) for k in range(len(values))]
    return [QUALITATIVE[k % len(QUALITATIVE)] for k in range(len(values))]


def shades(parts: Sequence[tuple[str, Sequence[Any]]]) -> dict[Any, Any]:
    """A colour for every `key` of the lines of all panels (title, lines)."""
    keys = sorted({line.key for _, lines in parts for line in lines}, key=lambda key: (isinstance(key, str), key))
    return dict(zip(keys, colours(keys), strict=True))


def mark(label: str, **look: Any) -> Line2D:
    """An entry of a legend that explains a kind of mark: grey and without a line unless `look` says otherwise."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **{"color": GREY, "linestyle": "none", **look}, label=label)


def legend_right(axes: list[Axes], handles: list[Any]) -> None:
    """A legend beside the first row of panels, where it cannot cover data."""
    last = axes[min(len(axes), columns_of_panels(axes)) - 1]
    last.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)


def legend_below(figure: Figure, handles: list[Any], columns: int = 4) -> None:
    """A legend under all panels."""
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), columns))


def zero_rule(axes: Axes) -> None:
    """The line at zero."""
    axes.axhline(0, color="#888888", linewidth=0.9, zorder=1)


def set_log(axis: Any) -> None:
    """A logarithmic axis whose labels stay apart: ones, twos and fives on a short axis, decades on a long one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    class Apart(LogLocator):
        def tick_values(self, vmin: float, vmax: float) -> Any:
            short = 0 < vmin < vmax < 100 * vmin
            self.set_params(subs=(1.0, 2.0, 5.0) if short else (1.0,), numticks=8)
            return super().tick_values(vmin, vmax)

    def written(value: float, position: int | None) -> str:
        for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
            if value >= size and value >= 1e4:  # 50k, 100k, 1M: of tokens, most often
                return f"{value / size:g}{letter}"
        exponent = round(float(np.log10(value))) if value > 0 else 0
        if value >= 1e-4 or abs(value / 10.0**exponent - 1) > 1e-6:
            return f"{value:g}"
        return f"$10^{{{exponent}}}$"

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(Apart())
    axis.set_major_formatter(FuncFormatter(written))
    axis.set_minor_formatter(NullFormatter())


def set_bent(axis: Any, values: np.ndarray, width: float) -> None:
    """An axis for values over decades (linear below `width`): logarithmic if all are positive, else asinh."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if np.nanmin(values) > 0:
        set_log(axis)
        return
    set_scale = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
    set_scale("asinh", linear_width=width)
    top = float(np.nanmax(np.abs(values)))
    powers = np.arange(np.ceil(np.log10(width)), np.floor(np.log10(max(top, width * 10))) + 1)
    sizes = 10.0 ** powers[:: max(1, -(-len(powers) // 4))]
    ticks = [*(-sizes[::-1] if np.nanmin(values) < 0 else []), 0.0, *sizes]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))


def whole_ticks(axis: Any, values: np.ndarray) -> None:
    """Ticks on the values themselves where a few whole numbers are all there is (there is no half layer)."""
    values = np.unique(values)
    if len(values) <= 8 and np.all(values == np.round(values)) and np.abs(values).max(initial=0) < 1e4:
        span = values[-1] - values[0]
        if len(values) < 2 or np.diff(values).min() >= 0.04 * span:
            axis.set_ticks(values)


def picked(count: int, most: int) -> list[int]:
    """At most `most` indices spread evenly over `count`, ends included."""
    if count <= most:
        return list(range(count))
    return sorted({round(k * (count - 1) / (most - 1)) for k in range(most)})
