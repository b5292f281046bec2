"""What figures show: the order of lines, scales that show every curve, cells where something was computed."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from raysweep.analyses.rows import CellMeans
from raysweep.analyses.series import laid_out
from raysweep.report.figures.drawing import by_numbers, hidden, level
from raysweep.report.figures.lines import height_at
from raysweep.report.figures.phase_diagram import Grid, edges


def test_names_stand_in_the_order_of_their_numbers():
    models = ["model pythia-160m", "model pythia-410m", "model pythia-70m"]
    assert sorted(models, key=by_numbers) == [models[2], models[0], models[1]]
    assert sorted(["b", 10.0, 9.0, "a"], key=by_numbers) == [9.0, 10.0, "a", "b"]


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
