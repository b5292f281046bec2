"""The colours and settings of all figures; the colours are safe for colour-blind readers and for print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.figure import Figure

GREY = "#555555"  # legend entries that explain a kind of mark
FAINT = "#888888"  # auxiliary lines: zero, a fixed rate, the border before infinity
FIT = "#111111"  # measured and fitted values
THEORY = "#D55E00"  # vermilion of the Okabe-Ito palette
# In an order in which neighbours differ in lightness, so that they differ in grey print too.
QUALITATIVE = ("#0072B2", "#E69F00", "#009E73", "#8C6D31", "#56B4E9", "#CC79A7", "#D55E00", "#000000")
DIVERGING = "RdBu"  # blue is positive; distinguishable with the common kinds of colour blindness
BASE: dict[str, Any] = {"color": "#333333", "linestyle": (0, (4, 2)), "linewidth": 1.3}  # the base model, as in O
MISSING = "#D9D9D9"
REFERENCE = "#D81B60"  # named reference lines; visible on every map and line
REFERENCES = ((0, (6, 3)), (0, (1.5, 2)), (0, (6, 2, 1.5, 2)))  # dashes of named reference lines

SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10.5,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "legend.handlelength": 1.5,
    "legend.handletextpad": 0.4,
    "legend.columnspacing": 1.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "figure.dpi": 160,  # as in the PNG, so that what is placed for one fits in the other
    "savefig.dpi": 160,
    "figure.autolayout": False,
    "figure.constrained_layout.use": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "raysweep",
}


@contextmanager
def styled() -> Iterator[None]:
    """A context in which figures get this style. Other figures do not change, and no display is needed."""
    with matplotlib.rc_context(SETTINGS):
        yield


def placed(figure: Figure) -> None:
    """Place the panels of a figure, once for all files and labels: that takes as long as drawing it."""
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
        figure.set_layout_engine()
