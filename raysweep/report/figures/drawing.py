"""The common parts of all figures: panels, points with intervals, colours and markers, legends."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Generic, Protocol, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from raysweep.analyses.finding import Finding, Plot
from raysweep.analyses.rows import Where, in_order, spread
from raysweep.analyses.series import Panel
from raysweep.report.figures.style import FAINT, GREY, QUALITATIVE, REFERENCE, REFERENCES
from raysweep.report.names import axis_label, called, line_label, settings, short
from raysweep.workloads.declaration import Workload


@singledispatch
def draw(plot: Plot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The figure of a plot and its caption. Each type of plot registers what draws it, `@draw.register(CurvesPlot)`;
    raises TypeError for another one."""
    raise TypeError(f"no function draws {type(plot).__name__}")


class Distinguished(Protocol):
    """A line that says which values of axes distinguish it."""

    @property
    def where(self) -> Where: ...


Line = TypeVar("Line", bound=Distinguished)
Interval = tuple[np.ndarray, np.ndarray]

SIZES = {"o": 4.6, "s": 4.4, "P": 5.8, "X": 5.8, "*": 7.4, "<": 5.6, ">": 5.6, "p": 5.8}
"""The markers of lines, and how large they must be to look alike."""
MARKERS = tuple(SIZES)
WIDE, NARROW = 12.4, 6.4
"""Inches of a figure that takes the width of a page, of one that stands next to text: on a page both have type that one
reads. The former has three panels in a row."""
LONGEST = 36
"""Characters in a line of the label next to a panel; more do not fit its height."""
NAMED, NAMED_AT_END = 14, 4
"""Lines that a legend names at most, and lines that have their names at their right ends."""
APART, SHORT = 12, 16
"""Points between such names, and the most letters of one."""
MARK, LETTERS, ROW = 5, 15, 0.19  # room of a mark in a legend, in letters, letters in an inch, inches of a row
LONGEST_SETTING = 30
"""Characters of a line in the title of one of several panels side by side."""
BEHIND = ", smaller than the marks"
"""What a caption says of error bars that are `hidden`."""
SIDE_BY_SIDE, SHIFT = "Points at the same x stand side by side.", 0.015
"""What a caption says of points that are moved by `dodge`, and how far from one line to the next."""
FLAT = 0.3
"""Of the height of a panel: curves that would be lower on a scale of y shared by all panels get one of their own."""


def panels(count: int, height: float = 3.7, titles: Sequence[str] = (), columns: int = 0) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels, each with its own ticks. height: of a single panel. titles: of the panels. columns:
    in a row; 0 for at most three of them, and two of four."""
    columns = columns or (2 if count == 4 else min(count, 3))
    rows = -(-count // columns)
    size = WIDE if columns > 2 else NARROW, height * (1 if count == 1 else 0.72 * rows if rows > 1 else 0.9)
    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[count:]:
        spare.remove()
    for panel, title in zip(axes, titles, strict=False):
        panel.set_title(in_lines(title) if count > 1 else title)
    return figure, axes[:count]


def level(axes: Sequence[Axes]) -> None:
    """Give panels whose y has the same kind of scale the same limits, unless that would make one of them flat."""
    limits = np.array([panel.get_ylim() for panel in axes])
    low, high = axes[0].yaxis.get_transform().transform(limits.ravel()).reshape(limits.shape).T
    same = (high - low >= FLAT * (high.max() - low.min())).all()
    for panel, own in zip(axes, limits, strict=True):
        panel.set_ylim(*((limits[:, 0].min(), limits[:, 1].max()) if same else own))


def below(figure: Figure, panel: Axes) -> Axes:
    """A lower panel with the same x axis, under the only panel of a figure."""
    figure.set_figheight(1.25 * figure.get_figheight())
    grid = figure.add_gridspec(2, 1, height_ratios=(2.4, 1))
    panel.set_subplotspec(grid[0])
    panel.tick_params(labelbottom=False)
    return figure.add_subplot(grid[1], sharex=panel)


def columns_of_panels(axes: Sequence[Axes]) -> int:
    """The number of panels in a row."""
    grid = axes[0].get_gridspec()
    return grid.ncols if grid is not None else 1


def label_panels(axes: Sequence[Axes], x: str, y: str) -> None:
    """Add axis labels at the left panels, in several lines if long, and under the lowest panel of each column."""
    columns = columns_of_panels(axes)
    longest = LONGEST if len(axes) == 1 else LONGEST - 8  # panels side by side are lower
    for k, panel in enumerate(axes):
        if k % columns == 0:
            lines = [textwrap.fill(line, longest, break_long_words=False) for line in y.split("\n")]
            panel.set_ylabel("\n".join(lines))
        if k + columns >= len(axes):
            panel.set_xlabel(x)


def points(
    panel: Axes, x: Any, y: Any, interval: Interval, colour: Any, size: float, width: float, cap: float, **look: Any
) -> None:
    """Draw points with error bars: of this width, with caps of this size at their ends.

    interval: (low, high) in y; in x if `look` has `across`=True. size: of the marker.
    look: other arguments for matplotlib's errorbar; fmt is "o" by default.
    """
    across = look.pop("across", False)
    centre, (low, high) = x if across else y, interval
    lengths: dict[str, Any] = {
        "xerr" if across else "yerr": [np.maximum(centre - low, 0), np.maximum(high - centre, 0)]
    }
    look = {"fmt": "o", "color": colour, "markersize": size, "elinewidth": width, "capsize": cap, **look}
    panel.errorbar(x, y, **lengths, **look)


def hidden(axis: Any, low: np.ndarray, high: np.ndarray, size: float) -> bool:
    """Whether marks of this size hide their error bars along an axis of a panel, whose limits are set."""
    scale, box = axis.get_transform(), axis.axes.get_position()
    ends = scale.transform(np.array(axis.get_view_interval()))
    share = box.width if axis.axis_name == "x" else box.height
    points = 72 * share * axis.figure.get_size_inches()["xy".index(axis.axis_name)] / abs(ends[1] - ends[0])
    with np.errstate(invalid="ignore"):
        return not (points * (scale.transform(high) - scale.transform(low)) > 1.2 * size).any()


def dodge(spots: np.ndarray, count: int, logarithmic: bool) -> np.ndarray:
    """Small horizontal shifts, so that error bars of several lines do not overlap: at most `SHIFT` of the axis from one
    line to the next."""
    if len(spots) < 2 or count < 2:
        return np.zeros(count)
    steps = np.diff(np.log(spots) if logarithmic else spots)
    return np.linspace(-1, 1, count) * min(min(0.25, 0.04 * count) * steps.min(), SHIFT / 2 * (count - 1) * steps.sum())


def colours(values: Sequence[Any]) -> list[Any]:
    """One colour per value: ordered shades for more than three numbers, otherwise distinct colours."""
    numeric = all(isinstance(value, (int, float, np.number)) for value in values)
    if numeric and len(values) > 3:
        return [matplotlib.colormaps["viridis"](0.82 * k / (len(values) - 1)) for k in range(len(values))]
    return [QUALITATIVE[k % len(QUALITATIVE)] for k in range(len(values))]


@dataclass(frozen=True)
class Drawn(Generic[Line]):
    """A line to draw. index: of its colour and marker among all lines that differ. label: in a legend whose title may
    name the axis. name: by itself."""

    index: int
    label: str
    name: str
    colour: Any
    marker: str
    data: Line

    @property
    def size(self) -> float:
        """That of its marker."""
        return SIZES[self.marker]

    def points(
        self,
        panel: Axes,
        x: Any,
        y: Any,
        interval: Interval,
        width: float,
        cap: float,
        median: Any = False,
        **look: Any,
    ) -> None:
        """Draw points of this line with error bars; arguments as of `points`. median: which points are open."""
        points(panel, x, y, interval, self.colour, self.size, width, cap, **{"fmt": self.marker, "zorder": 3, **look})
        if np.any(median):
            face: dict[str, Any] = {"markerfacecolor": "white", "markersize": self.size, "zorder": 3.1}
            panel.plot(x[median], y[median], self.marker, color=self.colour, **face)


@dataclass(frozen=True)
class Sheet(Generic[Line]):
    """A figure of panels with lines of points. lines: of each panel. count: how many differ in colour and marker.
    title: of their legend."""

    figure: Figure
    axes: list[Axes]
    lines: list[list[Drawn[Line]]]
    count: int
    title: str

    @property
    def panels(self) -> list[tuple[Axes, list[Drawn[Line]]]]:
        """The axes of each panel, and its lines."""
        return list(zip(self.axes, self.lines, strict=True))

    @property
    def every(self) -> list[Line]:
        """What all lines show."""
        return [line.data for lines in self.lines for line in lines]

    def label(self, x: str, y: str, end_of: Callable[[Line], float] | None = None, **look: Any) -> None:
        """Add axis labels, and the names of lines: at their right ends if they are few and short, else in a
        legend above the panels. One line gets none. end_of: the height of a line at its right end."""
        label_panels(self.axes, x, y)
        lines = {line.index: line for lines in self.lines for line in lines}
        panel, corner = self.panels[columns_of_panels(self.axes) - 1]
        ends = [end_of(one.data) for one in corner] if end_of else [np.nan]
        short = max(len(one.name) for one in corner) <= SHORT
        if 1 < len(lines) == len(corner) <= NAMED_AT_END and short and np.isfinite(ends).all():
            label_ends(self.figure, panel, corner, ends)
        elif len(lines) > 1:
            named = spread([lines[index] for index in sorted(lines)], NAMED)
            marks = [mark(one.label, color=one.colour, marker=one.marker, **look) for one in named]
            legend(self.figure, marks, "upper", title=self.title)


def sheet(panels_of: Sequence[Panel[Line]], workload: Workload, columns: int = 0) -> Sheet[Line]:
    """A figure for these panels. If all lines differ in one axis, its values have the colours, else the labels.
    columns: of `panels`."""
    wheres = [line.where for panel in panels_of for line in panel.lines]
    names = {tuple(where) for where in wheres}
    single = next(iter(names))[0] if len(names) == 1 and len(wheres[0]) == 1 else ""

    def key(where: Where) -> Any:
        return where[single] if single else settings(where, workload)

    keys = sorted({key(where) for where in wheres}, key=in_order)
    shades, index = colours(keys), {one: k for k, one in enumerate(keys)}

    def drawn(line: Line) -> Drawn[Line]:
        k = index[key(line.where)]
        label = short(single, line.where[single], workload) if single else settings(line.where, workload)
        name = label if isinstance(line.where.get(single), str) else settings(line.where, workload)
        return Drawn(k, label, name, shades[k], MARKERS[k % len(MARKERS)], line)

    titles = [in_full(panel.where, workload) for panel in panels_of]
    figure, axes = panels(len(titles), 3.8, titles, columns)
    lines = [[drawn(line) for line in panel.lines] for panel in panels_of]
    return Sheet(figure, axes, lines, len(keys), axis_label(single, workload) if single else "")


def in_full(where: Where, workload: Workload) -> str:
    """Settings, separated by commas; a single symbol with its meaning: "depth L = 2"."""
    text = settings(where, workload)
    name = next(iter(where)) if len(where) == 1 else ""
    return f"{called(name, workload)} {text}" if name and text.startswith(f"{workload.symbol(name)} =") else text


def sentences(*texts: str) -> str:
    """The texts that are there, one after the other."""
    return " ".join(filter(None, texts))


def left_out(shown: int, every: int) -> str:
    """The sentence that a figure shows fewer lines than there are, after a space; empty if it shows all."""
    return f" {shown} of {every} lines are shown; all are in the CSV." if shown < every else ""


def mark(label: str, **look: Any) -> Line2D:
    """A legend entry that explains a kind of mark; grey and without a line by default."""
    return Line2D([], [], **{"color": GREY, "linestyle": "none", **look}, label=label)


def in_lines(text: str) -> str:
    """Break a long text of several settings into lines where there are commas."""
    parts = text.replace(" ", "\xa0").replace(",\xa0", ", ")
    return textwrap.fill(parts, LONGEST_SETTING, break_long_words=False, break_on_hyphens=False).replace("\xa0", " ")


def legend(figure: Figure, handles: Sequence[Any], side: str, **look: Any) -> None:
    """Add a legend above ("upper") or below ("lower") all panels, with as many columns as fit. Rows make it higher."""
    longest = max(len(str(handle.get_label())) for handle in handles) + MARK
    ncols = min(len(handles), max(1, int(figure.get_size_inches()[0] * LETTERS // longest)))
    figure.legend(handles=handles, loc=f"outside {side} center", ncols=ncols, **look)
    figure.set_figheight(figure.get_figheight() + ROW * (-(-len(handles) // ncols) - 1))


def legend_below(figure: Figure, entries: Sequence[Any]) -> str:
    """Add a legend under all panels, and return the sentences of its entries for the caption. A single mark that the
    caption explains gets no legend.

    entries: handles, (handle or False, sentence) for what the caption explains, or False or None for what is not drawn.
    """
    shown = [entry if isinstance(entry, tuple) else (entry, "") for entry in entries if entry]
    marks = [entry for entry in shown if entry[0]]
    if len(marks) > 1 or any(not sentence for _, sentence in marks):
        legend(figure, [handle for handle, _ in marks], "lower")
    return " ".join(sentence for _, sentence in shown if sentence)


def label_ends(figure: Figure, panel: Axes, lines: Sequence[Drawn[Any]], ends: Sequence[float]) -> None:
    """Write the name of each line next to its right end, whose heights are `ends`, without overlaps."""
    heights = panel.transData.transform([(0.5, end) for end in ends])[:, 1] * 72 / figure.dpi
    order, step = np.argsort(heights), APART * np.arange(len(lines))
    apart = np.maximum.accumulate(heights[order] - step) + step
    look: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "fontsize": 9.5}
    for k, shift in zip(order, apart - heights[order] - (apart - heights[order]).mean(), strict=True):
        dark = tuple(0.7 * part for part in to_rgb(lines[k].colour))
        panel.annotate(lines[k].name, (1, ends[k]), xytext=(4, shift), va="center", color=dark, **look)


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
