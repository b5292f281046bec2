"""What is drawn lies within the axes, however large or small it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from raysweep.analyses.kinds.regime import RegimeLine
from raysweep.analyses.rows import CellMeans
from raysweep.analyses.series import Panel, Series
from raysweep.report.figures.lines import curves_figure
from raysweep.report.figures.regime import at_best_lr_figure
from raysweep.workloads import get

X = np.array([1.0, 2.0, 4.0, 8.0])


def means_of(centre: np.ndarray) -> CellMeans:
    return CellMeans(X, centre, centre * 0.9, centre * 1.1, np.zeros(len(X), bool))


def heights(panels: Any) -> np.ndarray:
    """The heights of all points that are drawn in some panels."""
    lines = [line for panel in panels for line in panel.get_lines()]
    every = np.concatenate([np.asarray(line.get_ydata(), float) for line in lines if len(line.get_xdata()) > 2])
    return every[np.isfinite(every)]


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e5])
def test_curves_over_decades_are_drawn_in_full_and_fill_their_panels(size: float) -> None:
    rising = size * np.array([0.01, 0.1, 1.0, 8.0])
    parts = [Panel({"noise": k}, [Series({}, means_of(10.0**k * rising))]) for k in (0, 1)]
    figure, _ = curves_figure(parts, "gamma", "risk_finetune", get("linear_transfer"))
    every = heights(figure.axes)
    assert every.max() == pytest.approx(88 * size)  # the end of the highest error bar
    for panel in figure.axes:
        low, high = panel.get_ylim()
        assert low < every.min()
        assert every.max() < high < 10 * every.max()


def tuned(key: str, heights: np.ndarray) -> Any:
    """A setting with these means at the best rates."""
    table = pd.DataFrame({"pretrain_length": X, "mean": heights, "low": heights, "high": heights, "censored": False})
    regime: Any = SimpleNamespace(
        optimum=SimpleNamespace(table=table), at_best_lr=SimpleNamespace(table=table), beside={}
    )
    return RegimeLine({"source": key}, regime, {}, {})


def test_losses_at_the_best_rates_are_drawn_in_full_in_every_panel() -> None:
    small, large = np.geomspace(1e-3, 1.0, 4), np.geomspace(0.01, 300.0, 4)
    parts = [Panel({"target": "a"}, [tuned("a", small)]), Panel({"target": "b"}, [tuned("a", large)])]
    figure, _ = at_best_lr_figure(parts, "source_loss_after", "pretrain_length", get("language"))
    for panel in figure.axes:
        low, high = panel.get_ylim()
        assert low < 1e-3
        assert 300 < high < 3000


def test_a_zero_beside_values_over_decades_is_drawn_apart_to_the_left() -> None:
    x = np.array([0.0, 1e-4, 1e-3, 1e-2, 1e-1, np.inf])
    centre = np.array([5.0, 4.0, 2.0, 1.0, 3.0, 6.0])
    means = CellMeans(x, centre, centre - 0.1, centre + 0.1, np.zeros(len(x), bool))
    figure, _ = curves_figure([Panel({}, [Series({}, means)])], "noise", "risk_finetune", get("linear_transfer"))
    (panel,) = figure.axes
    assert panel.get_xscale() == "log"
    points = max(
        (line for line in panel.get_lines() if line.get_marker() == "o"), key=lambda line: len(line.get_xdata())
    )
    at = dict(zip(points.get_ydata(), points.get_xdata(), strict=True))
    left, right = panel.get_xlim()
    assert left < at[5.0] < 1e-4
    assert 1e-1 < at[6.0] < right
    assert {text.get_text() for text in panel.texts} >= {"0", "∞"}
    joined = [list(line.get_ydata()) for line in panel.get_lines() if line.get_marker() in ("None", "", None)]
    assert [4.0, 2.0, 1.0, 3.0] in joined
