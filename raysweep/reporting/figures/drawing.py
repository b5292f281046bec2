"""The common parts of all figures: panels, points with intervals, axis scales, legends."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.reporting.figures.style import FAINT, GREY, QUALITATIVE, REFERENCE, REFERENCES
from raysweep.reporting.words import line_label
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

SIZES = {"o": 4.2, "s": 4.0, "P": 5.4, "X": 5.4, "*": 7.0, "<": 5.2, ">": 5.2, "p": 5.4}
"""The markers of lines, and how large they must be to look alike."""
MARKERS = tuple(SIZES)
LONGEST = 40
"""Characters in a line of the label beside a panel; more do not fit its height."""


def panels(
    count: int, width: float = 4.4, height: float = 3.7, titles: Sequence[str] = ()
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels in rows of at most three, sharing scales.

    titles: of the panels: settings separated by commas. If they are all combinations of some settings with at most
        three last ones, each of these gets a column.
    """
    from matplotlib.figure import Figure

    columns = 2 if count == 4 else min(count, 3)
    last = list(dict.fromkeys(title.rpartition(", ")[2] for title in titles))
    first = list(dict.fromkeys(title.rpartition(", ")[0] for title in titles))
    if len(first) > 1 and 1 < len(last) <= 3 and len(first) * len(last) == count:
        columns = len(last)
    if columns > 2:  # a wide figure is shown smaller, so smaller panels keep its text readable
        width, height = 0.72 * width, 0.8 * height
    rows = -(-count // columns)
    wide = max(width * columns, 7.4) if count == 1 else width * columns
    figure = Figure(figsize=(wide, height * rows + 0.3), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat)
    for spare in axes[count:]:
        spare.set_visible(False)
    for above in axes[max(count - columns, 0) : count]:  # the lowest visible panel of each column keeps its labels
        above.tick_params(labelbottom=True)
    return figure, axes[:count]


def columns_of_panels(axes: Sequence[Axes]) -> int:
    """The number of panels in a row."""
    grid = axes[0].get_gridspec()
    return grid.ncols if grid is not None else 1


def label_panels(axes: Sequence[Axes], x: str, y: str) -> None:
    """Add axis labels at the left panels, in several lines if long, and under the lowest panel of each column."""
    columns = columns_of_panels(axes)
    for k, panel in enumerate(axes):
        if k % columns == 0:
            lines = [textwrap.fill(line, LONGEST, break_long_words=False) for line in y.split("\n")]
            panel.set_ylabel("\n".join(lines))
        if k + columns >= len(axes):
            panel.set_xlabel(x)


def points(
    panel: Axes,
    x: np.ndarray,
    y: np.ndarray,
    interval: tuple[np.ndarray, np.ndarray],
    colour: Any,
    size: float,
    width: float | None,
    cap: float | None = None,
    **look: Any,
) -> None:
    """Draw points with error bars.

    interval: (low, high) in y; in x if `look` has `across`=True.
    size: of the marker.
    width: of the bar.
    cap: the size of the caps at the ends of the bar.
    look: other arguments for matplotlib's errorbar; fmt is "o" by default.
    """
    across = look.pop("across", False)
    centre, (low, high) = x if across else y, interval
    ends: dict[str, Any] = {"xerr" if across else "yerr": [np.maximum(centre - low, 0), np.maximum(high - centre, 0)]}
    shape = {"fmt": "o", "color": colour, "markersize": size, "elinewidth": width, "capsize": cap}
    panel.errorbar(x, y, **ends, **{**shape, **look})


def marker_of(keys: Sequence[Any]) -> dict[Any, str]:
    """A marker for every key, so that lines differ in more than their colour.

    None is a triangle that points up or down, a diamond or a thin cross: these say how a place was found.
    """
    return {key: MARKERS[k % len(MARKERS)] for k, key in enumerate(keys)}


def dodge(spots: np.ndarray, count: int, logarithmic: bool) -> np.ndarray:
    """Small horizontal shifts, so that error bars of several lines do not overlap."""
    if len(spots) < 2 or count < 2:
        return np.zeros(count)
    step = np.min(np.diff(np.log(spots) if logarithmic else spots))
    return np.linspace(-1, 1, count) * min(0.12, 0.04 * count) * step


def joined_lines(x: np.ndarray, y: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The line (x, y) that joins neighbouring points, with gaps where `there` is false."""
    return np.where(there, x, np.nan), np.where(there, y, np.nan)


def colours(values: Sequence[Any]) -> list[Any]:
    """One colour per value: ordered shades for more than three numbers, otherwise distinct colours."""
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
    """A legend entry that explains a kind of mark; grey and without a line by default."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **{"color": GREY, "linestyle": "none", **look}, label=label)


def in_lines(text: str, longest: int = 30) -> str:
    """Break a long text of several settings into lines of at most `longest` letters, where there are commas."""
    lines: list[str] = []
    for part in text.split(", "):
        if lines and len(lines[-1]) + 2 + len(part) <= longest:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return ",\n".join(lines)


def legend_right(axes: Sequence[Axes], handles: Sequence[Any]) -> None:
    """Add a legend beside the first row of panels, where it covers no data. A single line gets no legend."""
    if len(handles) > 1:
        for handle in handles:
            handle.set_label(in_lines(handle.get_label()))
        last = axes[min(len(axes), columns_of_panels(axes)) - 1]
        last.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)


def legend_of_lines(
    axes: Sequence[Axes],
    parts: Sequence[tuple[str, Sequence[Any]]],
    shade: Mapping[Any, Any],
    marker: Mapping[Any, str],
    **look: Any,
) -> None:
    """Add a legend of the colours and markers of lines beside the panels. parts: (title, lines) of each panel."""
    labels = {line.key: line.label for _, lines in parts for line in lines}
    legend_right(axes, [mark(labels[key], color=shade[key], marker=marker[key], **look) for key in shade])


def legend_below(figure: Figure, entries: Sequence[Any], columns: int = 4) -> str:
    """Add a legend under all panels, and return the sentences of its entries for the caption, so that both name the
    same marks.

    entries: handles, (handle, sentence) for marks that the caption explains, or False or None for what is not drawn.
    """
    shown = [entry if isinstance(entry, tuple) else (entry, "") for entry in entries if entry]
    if shown:
        handles = [handle for handle, _ in shown]
        figure.legend(handles=handles, loc="outside lower center", ncols=min(len(shown), columns))
    return " ".join(sentence for _, sentence in shown if sentence)


def reference_lines(draw: Any, lines: Mapping[str, float], x: str, workload: Workload, width: float) -> list[Line2D]:
    """Draw reference lines at named constants in x and return their legend entries.

    draw: panel.axvline or panel.axhline.
    """
    handles = []
    for (name, value), dashes in zip(lines.items(), REFERENCES, strict=False):
        look: dict[str, Any] = {"color": REFERENCE, "linewidth": width, "linestyle": dashes}
        draw(value, **look, zorder=2.5)
        handles.append(mark(line_label(name, value, x, workload), **look))
    return handles


def zero_rule(axes: Axes) -> None:
    """Draw the line at zero."""
    axes.axhline(0, color=FAINT, linewidth=0.9, zorder=1)


def set_scale(axis: Any, values: np.ndarray, logarithmic: bool) -> None:
    """Make an axis logarithmic, or linear with ticks at the values if these are a few whole numbers."""
    if logarithmic:
        set_log(axis)
    else:
        whole_ticks(axis, values)


def set_log(axis: Any) -> None:
    """Make an axis logarithmic, with labels that do not overlap: 1, 2 and 5 on a short axis, decades on a long one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    class Apart(LogLocator):
        def tick_values(self, vmin: float, vmax: float) -> Any:
            short = 0 < vmin < vmax < 100 * vmin
            self.set_params(subs=(1.0, 2.0, 5.0) if short else (1.0,), numticks=8)
            return super().tick_values(vmin, vmax)

    def written(value: float, position: int | None) -> str:
        for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
            if size <= value < 1e15 and value >= 1e4:  # 50k, 100k, 1M, usually numbers of tokens
                return f"{value / size:g}{letter}"
        exponent = round(float(np.log10(value))) if value > 0 else 0
        if 1e-4 <= value < 1e15 or abs(value / 10.0**exponent - 1) > 1e-6:
            return f"{value:g}"
        return f"$10^{{{exponent}}}$"

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(Apart())
    axis.set_major_formatter(FuncFormatter(written))
    axis.set_minor_formatter(NullFormatter())


def set_asinh(axis: Any, values: np.ndarray, width: float) -> None:
    """Make an axis for values that span decades: logarithmic if all are positive, else asinh (linear below `width`)."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if np.nanmin(values) > 0:
        set_log(axis)
        return
    scale_of = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
    scale_of("asinh", linear_width=width)
    top = float(np.nanmax(np.abs(values)))
    powers = np.arange(np.ceil(np.log10(width)), np.floor(np.log10(max(top, width * 10))) + 1)
    sizes = 10.0 ** powers[:: max(1, -(-len(powers) // 4))]
    ticks = [*(-sizes[::-1] if np.nanmin(values) < 0 else []), 0.0, *sizes]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))


def whole_ticks(axis: Any, values: np.ndarray) -> None:
    """Put the ticks at the values if these are a few whole numbers (for example layers: there is no half layer)."""
    values = np.unique(values)
    if 0 < len(values) <= 8 and np.all(values == np.round(values)) and np.abs(values).max(initial=0) < 1e4:
        span = values[-1] - values[0]
        if len(values) < 2 or np.diff(values).min() >= 0.04 * span:
            axis.set_ticks(values)


def asinh_width(values: np.ndarray) -> float:
    """The width of the linear part of an asinh axis if the values span decades; 0 for a linear axis."""
    sizes = np.abs(values[np.isfinite(values)])
    sizes = sizes[sizes > 0]
    if not len(sizes) or sizes.max() < 12 * np.quantile(sizes, 0.75):
        return 0.0
    return float(np.quantile(sizes, 0.5))


def beyond(finite: np.ndarray, logarithmic: bool) -> float:
    """The position to the right of the grid at which x = inf is drawn."""
    if len(finite) < 2:
        return float(finite[0] * 2 + 1) if len(finite) else 1.0
    if logarithmic:
        return float(finite[-1] * (finite[-1] / finite[0]) ** 0.12)
    return float(finite[-1] + 0.12 * (finite[-1] - finite[0]))


def show_infinity(panel: Any, finite: np.ndarray, far: float, logarithmic: bool) -> None:
    """Draw the tick of x = inf and a dotted line that separates it from the grid."""
    if len(finite):
        between = np.sqrt(finite[-1] * far) if logarithmic else (finite[-1] + far) / 2
        panel.axvline(between, color=FAINT, linewidth=0.9, linestyle=":")
        if logarithmic:  # the axis goes on beyond the grid, but means nothing there
            written, last = panel.xaxis.get_major_formatter(), 1.001 * finite[-1]
            panel.xaxis.set_major_formatter(lambda value, position: "" if value > last else written(value, position))
    panel.text(far, -0.015, "∞", transform=panel.get_xaxis_transform(), ha="center", va="top", fontsize=13)
    panel.set_xlim(right=far * (far / finite[-1]) ** 0.5 if logarithmic and len(finite) else None)
