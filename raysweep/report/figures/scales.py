"""The scales of axes: logarithmic, asinh or linear with whole ticks; the places of 0 and infinity next to a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.scale import AsinhScale, SymmetricalLogScale
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from raysweep.analyses.explored import asinh_width as asinh_width
from raysweep.analyses.series import Place
from raysweep.numbers import NOTHING
from raysweep.report.figures.style import FAINT
from raysweep.report.names import LETTERS

LATER = 6  # the fewest values of which it matters that they are evenly spaced
SPAN = 30  # the ratio of the largest to the smallest positive value from which on an axis is logarithmic


def set_scale(axis: Any, values: np.ndarray, logarithmic: bool) -> None:
    """Make an axis logarithmic or linear, with ticks at the values if these are a few whole numbers, far enough apart
    for their labels (for example layers: there is no half layer)."""
    values = np.unique(values)
    if logarithmic and values[0] == 0:
        set_log_from_zero(axis, values)
    elif logarithmic:
        set_log(axis)
    elif len(values) and np.abs(values).max() >= 1e5:
        axis.set_major_formatter(written)  # else long labels overlap
    whole = 0 < len(values) <= 8 and bool(np.all(values == np.round(values)))
    if whole and (values[0] > 0 and values[-1] <= 2000 if logarithmic else np.abs(values).max() < 1e4):
        spots, least = (np.log(values), 0.08) if logarithmic else (values, 0.04)
        if (np.diff(spots) >= least * (spots[-1] - spots[0])).all():
            axis.set_ticks(values)
            if logarithmic:
                axis.set_minor_locator(NullLocator())


def set_log(axis: Any) -> None:
    """Make an axis logarithmic, with labels that do not overlap: 1, 2 and 5 on a short axis, decades on a long one, and
    more of them within a decade."""

    class Apart(LogLocator):
        def tick_values(self, vmin: float, vmax: float) -> Any:
            ratio = vmax / vmin if 0 < vmin < vmax else np.inf
            some = (1.0, 2.0, 5.0) if axis.get_tick_space() > 6 else (1.0, 3.0)
            subs = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0) if ratio < 5 else some if ratio < 100 else (1.0,)
            self.set_params(subs=subs, numticks=8)
            return super().tick_values(vmin, vmax)

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(Apart())
    axis.set_major_formatter(FuncFormatter(written))
    axis.set_minor_formatter(NullFormatter())


def set_log_from_zero(axis: Any, values: np.ndarray) -> None:
    """Make an axis for 0 and positive values: logarithmic from the least of these, and 0 to their left."""
    axis.axes.set(**{f"{axis.axis_name}scale": SymmetricalLogScale(axis, linthresh=values[1], linscale=0.5)})
    ticks = LogLocator(subs=(1.0, 3.0) if values[-1] < 100 * values[1] else (1.0,)).tick_values(values[1], values[-1])
    axis.set_ticks([0.0, *ticks[(ticks >= values[1]) & (ticks <= values[-1])]])
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(written))


def written(value: float, position: int | None = None) -> str:
    """The label of a tick: 50k, 100k, 1M, usually numbers of tokens or steps."""
    for size, letter in LETTERS:
        if size <= value < 1e15 and value >= 1e4:
            return f"{value / size:g}{letter}"
    exponent = round(float(np.log10(value))) if value > 0 else 0
    if 1e-4 <= value < 1e15 or abs(value / 10.0**exponent - 1) > 1e-6:
        return f"{value:g}"
    return f"$10^{{{exponent}}}$"


def set_asinh(axis: Any, values: np.ndarray, width: float) -> None:
    """Make an axis for values that span decades: logarithmic if all are positive, else asinh (linear below `width`)."""
    if np.nanmin(values) > 0:
        set_log(axis)
        return
    axis.axes.set(**{f"{axis.axis_name}scale": AsinhScale(axis, linear_width=width)})
    axis.set_ticks(asinh_ticks(values, width))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def asinh_ticks(values: np.ndarray, width: float) -> list[float]:
    """0 and at most four powers of ten on each side on which there are values, none of them below `width`."""
    top = max(float(np.nanmax(np.abs(values))), 10 * width)
    powers = np.arange(np.ceil(np.log10(width)), np.floor(np.log10(top)) + 1)
    sizes = 10.0 ** powers[:: -(-len(powers) // 4)]
    return [*(-sizes[::-1] if np.nanmin(values) < 0 else []), 0.0, *sizes]


def even_from(values: np.ndarray, places: Sequence[Place]) -> bool:
    """Whether values from the lowest end of the places' intervals on are evenly spaced but for the last, as late
    checkpoints are: a logarithmic axis would crowd them."""
    later = values[values >= min((low for _, low, *_ in places if np.isfinite(low)), default=np.inf)]
    return len(later) >= LATER and float(np.abs(np.diff(later[:-1], 2)).max()) <= NOTHING * float(np.ptp(later))


def strips(panel: Any, above: float = 0.0, below: float = 0.0) -> None:
    """Widen the y axis by shares of its height, behind dotted lines; no ticks stand there."""
    scale = panel.yaxis.get_transform()
    low, high = scale.transform(np.array(panel.get_ylim()))
    ticks = [tick for tick in panel.get_yticks() if low <= scale.transform(np.array([tick]))[0] <= high]
    if panel.get_yscale() == "linear" and above + below:
        panel.set_yticks(ticks)
    whole = (high - low) / (1 - above - below)
    limits = np.array([low - whole * below, high + whole * above])
    panel.set_ylim(*map(float, scale.inverted().transform(limits)))
    for edge in (1 - above, below):
        if 0 < edge < 1:
            panel.plot([0, 1], [edge, edge], color=FAINT, linewidth=0.8, linestyle=":", transform=panel.transAxes)


def spans_decades(values: np.ndarray) -> bool:
    """Whether positive values lie so far apart that a linear axis would show the small ones as one."""
    return bool(len(values)) and values.min() > 0 and values.max() >= SPAN * values.min()


def beyond(finite: np.ndarray, logarithmic: bool) -> float:
    """The position to the right of the grid at which x = inf is drawn."""
    finite = finite[finite > 0] if logarithmic else finite
    if len(finite) < 2:
        return float(finite[0] * 2 + 1) if len(finite) else 1.0
    u = np.log(finite) if logarithmic else finite
    at = float(u[-1] + 0.2 * (u[-1] - u[0]))
    return float(np.exp(at)) if logarithmic else at


def shifted(at: np.ndarray, shift: float, logarithmic: bool) -> np.ndarray:
    """Positions moved to the right; on a logarithmic axis, by a share."""
    return np.asarray(at * np.exp(shift) if logarithmic else at + shift)


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
