"""The error bars of figures and the intervals beside means are 95 % intervals; a few settings share one panel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from test_report import TRANSFER

from raysweep.analyses.rows import cell_means
from raysweep.analyses.series import by_panel, series_panels
from raysweep.fits.result import Status
from raysweep.report.figures import scales
from raysweep.report.figures.drawing import titled
from raysweep.report.figures.fitted_places import PlaceLine, places_figure
from raysweep.report.figures.lines import curves_figure
from raysweep.report.names import mean_of

METRIC = "risk_finetune"
UNSCALED = replace(TRANSFER, parameters=tuple(replace(each, scale="") for each in TRANSFER.parameters))


def rows(values: np.ndarray, **columns: object) -> pd.DataFrame:
    """Rows of one cell, a value a draw."""
    return pd.DataFrame({METRIC: values, "seed": range(len(values)), "gamma": 0.5, "status": "ok", **columns})


@pytest.mark.parametrize("draws", [3, 8, 20])
@pytest.mark.parametrize("heavy", [False, True])
def test_error_bars_hold_the_mean_or_the_median_in_95_percent_of_sweeps(draws: int, heavy: bool) -> None:
    workload = replace(TRANSFER, heavy_tailed=lambda metric, columns: np.full(len(columns["gamma"]), heavy))
    random, turns, held, wide = np.random.default_rng(0), 400, 0, 0
    for _ in range(turns):
        values = random.standard_cauchy(draws) if heavy else random.normal(size=draws)
        means = cell_means(rows(values), "gamma", METRIC, workload)
        held += bool(means.low[0] <= 0 <= means.high[0])
        wide += not np.isfinite(means.low[0])
    if heavy and draws == 3:  # no interval of a sign test: nothing is drawn
        assert wide == turns
        assert means.bars[0] == means.bars[1] == means.centre
    elif heavy:  # a sign test cannot have exactly this level
        assert 0.945 - 0.02 <= held / turns <= 0.995
    else:
        assert abs(held / turns - 0.95) <= 3 * np.sqrt(0.95 * 0.05 / turns)


def test_a_single_draw_has_no_error_bar_and_no_interval() -> None:
    means = cell_means(rows(np.array([2.0])), "gamma", METRIC, TRANSFER)
    assert means.low == means.high == means.centre == 2.0
    assert mean_of({"mean": 2.0, "standard_error": np.nan, "draws": 1}) == "2"
    assert mean_of({"mean": 2.0, "standard_error": 0.1, "draws": 4}) == "2.00 [1.68, 2.32]"  # 3.18 standard errors


def arms(settings: list[dict[str, object]]) -> pd.DataFrame:
    """Rows of several settings over three ratios, four draws each."""
    random = np.random.default_rng(0)
    return pd.concat(
        [
            rows(random.normal(k, 0.1, 4), **setting).assign(gamma=gamma)
            for k, setting in enumerate(settings)
            for gamma in (0.2, 0.5, 1.0)
        ]
    )


def panels(frame: pd.DataFrame, keys: list[str]) -> list[tuple[str, list[str]]]:
    """(title, labels) of each panel of a figure of means over gamma."""
    parts = by_panel(frame, keys)
    found = series_panels(parts, keys, "gamma", METRIC, TRANSFER)
    figure, _ = curves_figure(found, "gamma", METRIC, TRANSFER)
    assert sum(axes.get_visible() for axes in figure.axes) == len(found)
    return [(title, [line.label for line in lines]) for title, lines in titled(found, TRANSFER)]


def test_a_few_arms_that_are_no_grid_share_a_panel_and_say_in_what_they_differ() -> None:
    base = {"depth": 2, "noise": 0.0, "dim": 20}
    frame = arms([base, base | {"depth": 3}, base | {"noise": 0.2}, base | {"dim": 40}])
    assert panels(frame, ["depth", "noise", "dim"]) == [("", ["L = 2, σ = 0, d = 20", "L = 3", "d = 40", "σ = 0.2"])]
    apart = arms([base, base | {"depth": 3, "noise": 0.2}, base | {"noise": 0.4, "dim": 40}])
    ((_, labels),) = panels(apart, ["depth", "noise", "dim"])
    assert labels[0] == "L = 2, σ = 0, d = 20"
    assert labels[1] == "L = 3, σ = 0.2, d = 20"


def test_a_grid_and_many_arms_keep_their_panels() -> None:
    grid = arms([{"depth": depth, "noise": noise} for depth in (2, 3) for noise in (0.0, 0.2, 0.4)])
    assert [title for title, _ in panels(grid, ["depth", "noise"])] == ["σ = 0", "σ = 0.2", "σ = 0.4"]
    many = arms([{"depth": depth, "noise": depth / 10} for depth in range(1, 10)])
    assert len(panels(many, ["depth", "noise"])) > 1


def test_a_bound_that_is_decades_away_makes_the_axis_logarithmic() -> None:
    statuses = [Status.LOCATED, Status.LOCATED, Status.CENSORED_HIGH]
    for bound, scale in ((40.0, "linear"), (4000.0, "log")):
        ends = np.array([20.0, 30.0, bound])
        columns = {"gamma": [1.0, 2.0, 3.0], "status": statuses, "estimate": [20.0, 30.0, np.nan], "low": ends}
        line = PlaceLine(1, "depth 1", pd.DataFrame(columns).assign(high=ends), np.arange(3.0), np.full(3, np.nan))
        figure, _ = places_figure([("", [line])], "pretrain_length", "gamma", UNSCALED, 0.95, "zero", {})
        assert figure.axes[0].get_yscale() == scale


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([2, 3], ["2", "3"]),
        ([80, 160, 320, 640, 1280], ["80", "160", "320", "640", "1280"]),
        ([1, 2, 3, 4, 100], None),  # 3 and 4 are too near
        ([0.5, 1], None),
        ([1000, 32768], None),
    ],
)
def test_a_few_whole_numbers_are_the_ticks_of_a_logarithmic_axis(values: list[float], ticks: list[str] | None) -> None:
    panel = Figure().subplots()
    panel.plot(values, values)
    scales.set_scale(panel.xaxis, np.array(values, dtype=float), True)
    panel.figure.canvas.draw()
    shown = [label.get_text() for label in panel.get_xticklabels()]
    assert (shown == ticks) == (ticks is not None)
    assert len(panel.get_xticks(minor=True)) == 0 or ticks is None


@pytest.mark.parametrize("ends", [(70, 180), (0.001, 0.0035), (12, 90), (3, 280), (1, 1e5)])
def test_a_logarithmic_axis_has_at_least_two_labels_and_no_crowd(ends: tuple[float, float]) -> None:
    panel = Figure().subplots()
    scales.set_log(panel.yaxis)
    panel.set_ylim(*ends)
    panel.figure.canvas.draw()
    inside = [tick for tick in panel.get_yticks() if ends[0] <= tick <= ends[1]]
    assert 2 <= len(inside) <= 7
