"""What figures show: the order of lines, scales that show every curve, cells where something was computed."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from transfer_rows import TRANSFER

from raysweep.analyses.finding import Finding, Outcome, as_table
from raysweep.analyses.places import PlaceLine, PlacesPlot
from raysweep.analyses.rows import CellMeans, in_order
from raysweep.analyses.series import CurvesPlot, Panel, Series, laid_out
from raysweep.report.figures.drawing import hidden, level
from raysweep.report.figures.fitted_places import draw_places
from raysweep.report.figures.lines import draw_curves, height_at
from raysweep.report.figures.phase_diagram import Grid, edges, segments
from raysweep.report.figures.scales import even_from, set_scale
from raysweep.report.figures.style import styled


def test_names_stand_in_the_order_of_their_numbers():
    models = ["model pythia-160m", "model pythia-410m", "model pythia-70m"]
    assert sorted(models, key=in_order) == [models[2], models[0], models[1]]
    assert sorted(["b", 10.0, 9.0, "a"], key=in_order) == [9.0, 10.0, "a", "b"]


def test_a_figure_has_at_most_four_panels_of_six_lines_and_of_more_lines_five_with_both_ends():
    def shown(panels, lines):
        parts = [({"line": x, "panel": y}, x) for y in range(panels) for x in range(lines)]
        return laid_out(parts, ["line"], ["panel"], lambda where, rows: float(rows))

    assert [panel.where["panel"] for panel in shown(7, 2)] == [0, 2, 4, 6]
    assert [list(panel.lines) for panel in (shown(2, 6)[0], shown(2, 7)[0])] == [[*range(6)], [0, 2, 3, 4, 6]]


@pytest.mark.parametrize(("top", "limits"), [(1.0, [(0, 1.5), (0, 1.5)]), (0.1, [(0, 1.5), (0, 0.1)])])
def test_panels_share_a_scale_unless_it_flattens_one(top, limits):
    panels = Figure().subplots(1, 2)
    for panel, high in zip(panels, (1.5, top), strict=True):
        panel.set_ylim(0, high)
    level(panels)
    assert [panel.get_ylim() for panel in panels] == limits


def test_an_axis_is_linear_where_values_from_the_first_turn_on_are_evenly_spaced():
    steps, turn = np.array([0, *2.0 ** np.arange(10), *np.arange(1e4, 1e5, 1e4)]), (2e4, 1e4, 5e4, np.nan)
    assert even_from(steps, [turn, turn])
    assert not even_from(steps, [])
    assert not even_from(steps, [turn, (2e4, 500, 5e4, np.nan)])
    assert not even_from(np.arange(10.0) ** 2, [(9, 4, 16, np.nan)])


def test_marks_hide_an_interval_that_is_shorter_than_they_are():
    panel = Figure(figsize=(4, 4)).add_axes((0, 0, 1, 0.5))  # 144 points high
    panel.set_ylim(0, 144)
    assert hidden(panel.yaxis, np.array([70.0, np.nan]), np.array([75.0, 1.0]), 5)
    assert not hidden(panel.yaxis, np.array([70.0, 70.0]), np.array([75.0, 80.0]), 5)


def test_a_cell_of_a_map_ends_half_way_to_its_nearer_neighbour():
    assert edges(np.array([0.2, 0.4, 1.2]), False) == pytest.approx(np.array([[0.1, 0.3], [0.3, 0.5], [0.8, 1.6]]))
    assert edges(np.array([1.0, 100.0]), True) == pytest.approx(np.array([[0.1, 10.0], [10.0, 1000.0]]))


def test_a_map_ends_soon_after_the_last_row_with_an_effect():
    y = np.arange(1.0, 11.0)
    centre = np.where(y <= 4, 1.0, 0.0)[:, None] * np.ones(3)
    grid = Grid(np.arange(3.0), y, centre, centre, centre)
    assert grid.cut(False).y.tolist() == [1, 2, 3, 4, 5]
    assert Grid(grid.x, y, 0 * centre, 0 * centre, 0 * centre).cut(False).y.tolist() == y.tolist()


def test_a_fitted_place_stands_on_the_drawn_line():
    panel = Figure().subplots()
    panel.set(xscale="log", yscale="log")
    x = np.array([1.0, 100.0])
    means = CellMeans(x, x**2, x**2, x**2, x < 0)
    assert height_at(panel, 10.0, means) == pytest.approx(100)


def curves(*lines):
    """The figure of measured lines: (where, theory as a multiple of what is measured)."""
    x = np.array([1.0, 2.0, 4.0])
    made = [
        Series(where, CellMeans(x, height * x, 0.9 * height * x, 1.1 * height * x, x < 0), x, share * height * x)
        for where, height, share in lines
    ]
    plot = CurvesPlot("c", [Panel({}, made)], "gamma", "risk_finetune", len(made))
    table = as_table([{**where, "outcome": Outcome.MEASURED} for where, *_ in lines], ["depth"])
    with styled():
        return draw_curves(plot, Finding("curves", "c", table, "risk_finetune", "gamma", ["depth"]), TRANSFER)[0]


def test_a_lower_panel_shows_how_far_points_lie_above_theory_in_percent():
    upper, lower = curves(({"depth": 1}, 1.0, 0.8)).axes
    assert lower.get_ylabel().split() == ["above", "theory", "(%)"]
    assert lower.lines[1].get_ydata() == pytest.approx([25, 25, 25])
    assert (upper.get_xlabel(), lower.get_xlabel()) == ("", "target samples per dimension γ")


def test_few_lines_have_their_names_at_their_ends_and_names_do_not_overlap():
    figure = curves(*(({"depth": k}, 1 + 0.001 * k, 1.0) for k in (1, 2, 3)))
    names = figure.axes[0].texts
    assert [one.get_text() for one in names] == ["L = 1", "L = 2", "L = 3"]
    figure.draw_without_rendering()
    boxes = sorted((one.get_window_extent() for one in names), key=lambda box: box.y0)
    assert all(low.y1 < high.y0 + 3 for low, high in itertools.pairwise(boxes))
    assert [len(one.texts) for one in curves(*(({"depth": k}, k, 1.0) for k in range(1, 6))).axes[:1]] == [0]


def test_zero_stands_left_of_the_least_value_of_a_logarithmic_axis():
    panel = Figure().subplots()
    set_scale(panel.xaxis, np.array([0.0, 1.0, 10.0, 1000.0]), True)
    places = panel.xaxis.get_transform().transform(np.array([0.0, 1.0, 10.0, 100.0]))
    assert places[2] - places[1] == pytest.approx(places[3] - places[2])
    assert places[0] < places[1]
    assert panel.get_xticks()[:2].tolist() == [0.0, 1.0]


def test_a_place_that_is_not_located_has_a_dotted_bar_where_it_may_lie():
    table = pd.DataFrame(
        {
            "depth": [1, 2, 3, 4],
            "outcome": [Outcome.LOCATED, Outcome.UNDECIDED, Outcome.BOUND_HIGH, Outcome.UNDECIDED],
            "estimate": [20.0, np.nan, np.nan, np.nan],
            "low": [10.0, 15.0, 25.0, np.nan],
            "high": [30.0, 40.0, np.inf, np.nan],
            "method_spread": np.nan,
            "draws": 4,
        }
    )
    line = PlaceLine({}, "depth", table, table["depth"].to_numpy(float), np.full(4, np.nan))
    plot = PlacesPlot("p", [Panel({}, [line])], "overlap_angle", "risk_finetune", "zero", 1)
    finding = Finding("boundary", "b", as_table(table.to_dict("records"), ["depth"]), "risk_finetune", "overlap_angle")
    with styled():
        figure, caption = draw_places(plot, finding, TRANSFER)
    bars = [one for one in figure.axes[0].collections if one.get_linestyle()[0][1]]
    dotted = [bar.tolist() for one in bars for bar in one.get_segments()]
    assert dotted == [[[2, 15], [2, 40]], [[3, 25], [3, 40]], [[4, 10], [4, 40]]]
    assert caption.endswith("Dotted: where it may lie.")


def test_zeros_of_a_closed_form_join_the_nearest_ones_and_none_that_are_far():
    roots = [np.array([10.0, 50.0]), np.array([12.0]), np.array([80.0])]
    assert segments(np.array([1.0, 2.0, 3.0]), roots, 90.0).tolist() == [[[10, 12], [1, 2]]]
    assert segments(np.array([1.0, 2.0]), [np.empty(0)] * 2, 90.0).shape == (0, 2, 2)
