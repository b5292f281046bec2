"""Figures of surfaces, R², engines, shifts, power laws and agreement: cues beside colour, nothing that is not there."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from raysweep.analyses.finding import Finding, Outcome, as_table
from raysweep.analyses.kinds.engines import EnginesPlot
from raysweep.analyses.kinds.landscape import Surfaces
from raysweep.analyses.kinds.power_law import Law
from raysweep.analyses.kinds.r_squared import Line
from raysweep.analyses.series import Panel
from raysweep.fits.comparison import Joint
from raysweep.report.figures import drawing
from raysweep.report.figures.agreement import agreement_figure
from raysweep.report.figures.engines import draw_engines
from raysweep.report.figures.landscape import landscape_figure
from raysweep.report.figures.power_law import power_law_figure
from raysweep.report.figures.r_squared import r_squared_figure
from raysweep.report.figures.shift import shift_figure
from raysweep.report.figures.style import DIVERGING, FIT, QUALITATIVE, THEORY
from raysweep.workloads import get
from raysweep.workloads.declaration import Workload

PLACES = np.array([10.0, 20.0, 30.0])


@pytest.fixture
def workload() -> Workload:
    return get("linear_transfer")


def entries(figure: Any) -> list[str]:
    """What the legends below the panels name."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_titles_leave_out_the_settings_that_all_panels_have() -> None:
    assert drawing.without_shared(["a = 1, b = 2", "a = 3, b = 2"]) == (["a = 1", "a = 3"], "b = 2")
    assert drawing.without_shared(["a = 1, b = 2", "a = 2, b = 1"]) == (["a = 1, b = 2", "a = 2, b = 1"], "")
    assert drawing.without_shared(["a = 1, b = 2"]) == (["a = 1, b = 2"], "")


def test_surfaces_have_the_same_levels_and_name_once_what_they_share(workload: Workload) -> None:
    across = np.linspace(-1, 1, 7)
    bowl = across[:, None] ** 2 + across**2 + 0.01
    surfaces = [Surfaces({"depth": k, "dim": 9}, "loss", across, across, {0: k * bowl}) for k in (1, 30)]
    figure, said = landscape_figure(surfaces, ["loss"], "u", "v", 0, workload)
    panels = [panel for panel in figure.axes if panel.get_title()]
    assert [panel.get_title() for panel in panels] == ["L = 1", "L = 30"]
    assert panels[0].get_subplotspec().rowspan == panels[1].get_subplotspec().rowspan  # side by side
    filled = [next(one for one in panel.collections if one.get_cmap() is not None).levels for panel in panels]
    np.testing.assert_array_equal(*filled)
    assert filled[0][0] == pytest.approx(bowl.min())
    assert filled[0][-1] == pytest.approx(30 * bowl.max())
    assert "Everywhere: d = 9." in said
    figure.draw_without_rendering()
    assert all(panel.title.get_window_extent().y1 <= figure.bbox.y1 for panel in panels)


def test_lines_of_r_squared_differ_in_markers_too(workload: Workload) -> None:
    lines = [
        Line({"predictor": name}, PLACES, PLACES / 50, PLACES / 60, PLACES / 40) for name in ("one", "two", "three")
    ]
    panels = [Panel({"depth": depth, "dim": 3}, lines) for depth in (1, 2)]
    figure, said = r_squared_figure(panels, "dim", "risk_finetune", workload, "mean")
    legend = figure.axes[1].get_legend()
    assert len({handle.get_marker() for handle in legend.legend_handles}) == 3
    assert [panel.get_title() for panel in figure.axes] == ["L = 1", "L = 2"]
    assert said == "Everywhere: d = 3."
    joined = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 3 and line.get_linestyle() == "-"]
    assert len(joined) == 3


def of_engines(kinds: dict[str, Outcome], workload: Workload) -> tuple[Any, str]:
    rates = [0.01, 0.02, 0.04]
    table = pd.DataFrame(
        [
            {"engine": name, "depth": 2, "finetune_lr": rate, "metric": "risk_scratch", "median": rate}
            for name, rate in itertools.product(kinds, rates)
        ]
    )
    table = table.assign(quarter=0.9 * table["median"], three_quarters=1.1 * table["median"])
    keys = ["engine", "depth", "metric"]
    rows = [
        {"engine": name, "depth": 2, "metric": "risk_scratch", "outcome": outcome} for name, outcome in kinds.items()
    ]
    finding = Finding("engines", "engines", as_table(rows, keys), x="finetune_lr", keys=keys)
    figure, caption = draw_engines(EnginesPlot("engines", table, ["risk_scratch"], "limit"), finding, workload)
    return figure, caption.partition("quartile. ")[2]


def test_engines_name_only_what_is_drawn(workload: Workload) -> None:
    figure, said = of_engines({"flow": Outcome.NO_EFFECT, "network": Outcome.CONSTANT}, workload)
    assert entries(figure) == ["network", "L = 2"]
    assert said == "Engines equal to rounding are not drawn."
    figure, said = of_engines(dict.fromkeys(("flow", "network"), Outcome.INCREASING), workload)
    assert entries(figure) == ["flow", "network", "L = 2", "slope 1"]
    assert said == "The grey line has slope 1."
    assert len({handle.get_marker() for handle in figure.legends[0].legend_handles[:2]}) == 2
    points = [line.get_xdata() for line in figure.axes[0].lines if line.get_marker() in "os"]
    assert not set(points[0]) & set(points[1])  # equal differences do not cover each other


def test_a_shift_without_an_interval_is_open_and_said_so() -> None:
    factor, low, high = np.array([0.5, 2.0]), np.array([0.4, np.nan]), np.array([0.6, np.nan])
    figure, said = shift_figure(["a", "b"], factor, low, high, "best rate")
    assert entries(figure) == ["interval not known"]
    assert said == "Open points: their interval is not known."
    assert [line.get_xdata().tolist() for line in figure.axes[0].lines if line.get_markerfacecolor() == "white"] == [
        [2.0]
    ]
    figure, said = shift_figure(["a"], factor[:1], low[:1], high[:1], "best rate")
    assert (entries(figure), said) == ([], "")


@pytest.mark.parametrize("theory", [False, True])
def test_power_laws_speak_of_a_closed_form_where_there_is_one(theory: bool, workload: Workload) -> None:
    form = PLACES if theory else np.empty(0)
    laws = [Law({"depth": k}, PLACES, k * PLACES, PLACES, 9 * PLACES, PLACES, form, form) for k in (1, 2)]
    figure, said = power_law_figure([Panel({}, laws)], "dim", "risk_finetune", workload, "95 %")
    assert ("closed form" in entries(figure)) == theory
    assert (said == "Dotted: the closed form.") == theory
    markers = [handle.get_marker() for handle in figure.axes[0].get_legend().legend_handles]
    assert len(set(markers)) == 2


def test_the_closed_form_of_the_agreement_differs_from_the_mean_in_print(workload: Workload) -> None:
    table = pd.DataFrame({"theory": [1.0, 2.0], "mean": [1.1, 2.0], "standard_error": [0.1, 0.1], "draws": [3, 3]})
    averages = np.array([-0.5, 0.1, 0.4])
    test = Joint(float(averages.mean()), 0.2, 0.0, 3, 0.0, averages)
    figure = agreement_figure(table, test, "risk_finetune", workload)
    for panel in figure.axes:
        (line,) = [line for line in panel.lines if line.get_color() == THEORY]
        assert line.is_dashed()


MACHADO = {  # Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    "grey": [[0.2126, 0.7152, 0.0722]] * 3,
}
JUST_SEEN = 5.0  # in CIELAB, where 2.3 is just noticeable side by side
SPLIT = 20.0


def lab(colour: Any, seen: str) -> np.ndarray:
    """A colour in CIELAB (D65), as it is seen so; None is normal sight."""
    srgb = np.array(to_rgb(colour))
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(MACHADO[seen]) @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    x, y, z = (
        value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in xyz / [0.95047, 1, 1.08883]
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def apart(one: Any, other: Any, seen: str) -> float:
    """The distance of two colours in CIELAB."""
    return float(np.linalg.norm(lab(one, seen) - lab(other, seen)))


@pytest.mark.parametrize("seen", MACHADO)
def test_neighbouring_colours_stay_apart_for_colour_blind_readers_and_in_grey(seen: str) -> None:
    for one, other in itertools.pairwise(QUALITATIVE):
        assert apart(one, other, seen) > JUST_SEEN, (one, other)
    for one, other in itertools.pairwise(drawing.colours([1, 2, 3, 4, 5, 6])):
        assert lab(other, seen)[0] - lab(one, seen)[0] > JUST_SEEN  # ordered shades get lighter
    assert apart(THEORY, FIT, seen) > SPLIT


@pytest.mark.parametrize("seen", ["protanopia", "deuteranopia", "tritanopia"])
def test_the_signs_of_maps_stay_apart_for_colour_blind_readers(seen: str) -> None:
    import matplotlib

    scale = matplotlib.colormaps[DIVERGING]
    assert apart(scale(0.1), scale(0.9), seen) > SPLIT


def test_colours_that_come_again_have_another_marker() -> None:
    keys = [f"key {k}" for k in range(len(drawing.MARKERS))]
    looks = list(zip(drawing.colours(keys), drawing.marker_of(keys).values(), strict=True))
    assert len(set(looks)) == len(keys)
    assert len({marker for _, marker in looks}) == len(keys)


@pytest.mark.parametrize("length", [4, 60])
def test_the_legend_below_is_no_wider_than_the_figure(length: int) -> None:
    figure, _ = drawing.panels(1, 4.4, 3.8, [""])
    drawing.legend_below(figure, [drawing.mark("a" * length, marker="o") for _ in range(3)])
    FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    assert legend.get_window_extent().width <= figure.bbox.width
    assert len({text.get_window_extent().y0 for text in legend.get_texts()}) == (1 if length == 4 else 3)
