"""What figures show: the words of regions, the same levels in every panel, a legend and a caption of what is drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from raysweep.analyses.maps import Map
from raysweep.analyses.question import Question
from raysweep.analyses.rows import comparable
from raysweep.fits.boundary import fit_boundary
from raysweep.fits.result import Status
from raysweep.report.figures.fitted_places import PlaceLine, places_figure
from raysweep.report.figures.phase_diagram import surface_figure
from raysweep.report.figures.regions import region_words, signs
from raysweep.reporting.analyses.between import of_difference
from raysweep.reporting.analyses.boundary import boundary_section
from raysweep.reporting.analyses.inflection import inflection_section
from raysweep.reporting.analyses.optimum import optimum_section
from raysweep.workloads import get
from raysweep.workloads.declaration import Workload

ANGLES, SIZES = np.linspace(10.0, 90.0, 9), np.linspace(0.1, 0.9, 5)


@pytest.fixture
def workload() -> Workload:
    return get("linear_transfer")


def field(edge: Any, metric: str = "transferability_finetune") -> pd.DataFrame:
    """Rows of a metric that falls through 0 at `edge(gamma)`, the same but for little noise in six draws."""
    noise = np.random.default_rng(0).normal(0, 0.01, (len(SIZES), len(ANGLES), 6))
    return pd.DataFrame(
        [
            {
                "status": "ok",
                "overlap_angle": angle,
                "gamma": size,
                "seed": seed,
                metric: (edge(size) - angle) / 60 + noise[i, j, seed],
            }
            for i, size in enumerate(SIZES)
            for j, angle in enumerate(ANGLES)
            for seed in range(6)
        ]
    )


def map_of(rows: pd.DataFrame, metric: str = "transferability_finetune", roots: float | None = None) -> Map:
    table = fit_boundary(rows, "overlap_angle", "gamma", metric, "seed", 0.95).table
    known = [np.array([roots] if roots else []) for _ in SIZES]
    return Map({}, rows, table, SIZES, known)


def drawn(one: Map, workload: Workload, metric: str = "transferability_finetune") -> tuple[list[str], list[str], str]:
    """(the words in the panel, the entries of the legend, the caption's sentences) of a map."""
    figure, said = surface_figure([one], "overlap_angle", "gamma", metric, workload, 0.95, {})
    return (
        [text.get_text().replace("\n", " ") for text in figure.axes[0].texts],
        [text.get_text() for text in figure.legends[0].get_texts()],
        said,
    )


def test_regions_have_the_words_of_the_metric_where_it_has_that_sign(workload: Workload) -> None:
    one = map_of(field(lambda size: 55.0))
    figure, _ = surface_figure([one], "overlap_angle", "gamma", "transferability_finetune", workload, 0.95, {})
    panel = figure.axes[0]
    to_data = panel.transAxes + panel.transData.inverted()
    places = {text.get_text(): to_data.transform(text.get_position())[0] for text in panel.texts}
    assert places.keys() == {"transfer helps", "transfer hurts"}
    assert places["transfer helps"] < 55 < places["transfer hurts"]


def test_a_region_that_is_not_there_has_no_words_and_no_entry_in_the_legend(workload: Workload) -> None:
    words, entries, said = drawn(map_of(field(lambda size: 300.0)), workload)
    assert words == ["transfer helps"]
    assert "transfer hurts" not in entries
    assert "Hatched" not in said


def test_a_metric_without_words_of_its_own_is_above_or_below_0(workload: Workload) -> None:
    assert region_words("pretrain_scale", workload) == ("pretrain scale > 0", "pretrain scale < 0")
    metric = "wasserstein_1"
    words, _, _ = drawn(map_of(field(lambda size: 50.0, metric), metric), workload, metric)
    assert sorted(words) == ["wasserstein 1 < 0", "wasserstein 1 > 0"]


def test_a_crossing_says_which_of_the_two_is_better(workload: Workload) -> None:
    rows = field(lambda size: 50.0, "risk_finetune").assign(depth=1, cell="c")
    both = pd.concat([rows, rows.assign(depth=2)])
    options = {"metric": "risk_finetune", "x": "overlap_angle", "between": {"depth": [1, 2]}}
    asked = of_difference(Question(both, options, workload, "boundary"))
    assert region_words(asked.metric, asked.workload) == ("L = 2 is better", "L = 1 is better")


def test_the_sign_of_a_cell_is_open_where_its_interval_holds_0() -> None:
    centre = np.array([1.0, 1.0, -1.0, 0.0, np.nan])
    low, high = np.array([0.5, -0.1, -1.2, 0.0, np.nan]), np.array([1.5, 2.1, -0.8, 0.0, np.nan])
    np.testing.assert_array_equal(signs(centre, low, high), [1, np.nan, -1, 0, np.nan])


@pytest.mark.parametrize("theory", [False, True])
@pytest.mark.parametrize("beyond", [False, True])
def test_the_caption_of_a_map_names_a_mark_exactly_if_it_is_drawn(
    workload: Workload, theory: bool, beyond: bool
) -> None:
    one = map_of(field(lambda size: 300.0 if beyond and size > 0.8 else 55.0), roots=55.0 if theory else None)
    assert (one.table["status"] == Status.CENSORED_HIGH).any() == beyond
    _, entries, said = drawn(one, workload)
    assert ("closed form's zero" in entries) == ("closed form" in said) == theory
    assert ("zero beyond this value" in entries) == ("triangles" in said) == beyond
    assert "Points, joined" in said


def valley(rates: dict[tuple[int, float], float]) -> pd.DataFrame:
    """Rows of a metric with its minimum over pretrain_length at a place for each (depth, rate); none at place 0."""
    lengths = np.geomspace(0.5, 8, 9)
    noise = np.random.default_rng(1).normal(0, 0.01, (len(rates), len(lengths), 6))
    return pd.DataFrame(
        [
            {
                "status": "ok",
                "depth": depth,
                "finetune_lr": rate,
                "overlap_angle": 45.0,
                "pretrain_length": length,
                "seed": seed,
                "risk_finetune": (np.log(length / place) ** 2 if place else 1.0) + noise[k, i, seed],
            }
            for k, ((depth, rate), place) in enumerate(rates.items())
            for i, length in enumerate(lengths)
            for seed in range(6)
        ]
    )


def lines_of(figure: Any) -> list[set[str]]:
    """The colours of the points in each panel, which stand for the levels of its lines; not the fitted places."""
    return [
        {str(to_hex(bar.lines[0].get_color())) for bar in panel.containers if bar.lines[0].get_marker() != "D"}
        for panel in figure.axes
    ]


def test_every_panel_shows_the_same_levels_those_where_something_is_located(workload: Workload) -> None:
    """Ten rates are too many for one panel. The optimum is located at five of them, others at each depth."""
    rates = [round(0.001 * 2**k, 6) for k in range(10)]
    located = {1: rates[2:5], 2: rates[4:7]}
    rows = valley({(depth, rate): 2.0 if rate in located[depth] else 0.0 for depth in (1, 2) for rate in rates})
    asked = Question(rows, {"metric": "risk_finetune", "x": "pretrain_length"}, workload, "inflection")
    (curves,) = [one for one in inflection_section(asked).drawings if one.name.endswith("curves")]
    first, second = lines_of(curves.figure)
    assert first == second
    assert len(first) == 5
    shown = [text.get_text() for text in legend_beside(curves.figure)]
    assert shown == [f"η = {rate:g}" for rate in rates[2:7]]


def legend_beside(figure: Any) -> list[Any]:
    (legend,) = [panel.get_legend() for panel in figure.axes if panel.get_legend()]
    return list(legend.get_texts())


def test_values_of_an_axis_without_anything_located_give_way_to_others() -> None:
    grid = [(length, angle) for length in range(10) for angle in range(2)]
    located = [place for place, (length, _) in enumerate(grid) if 3 <= length <= 7]
    chosen = [grid[place] for place in comparable(grid, 6, located)]
    assert chosen == [(length, angle) for length in (3, 5, 7) for angle in (0, 1)]
    assert len(comparable(grid, 6)) == 6


def place_line(statuses: list[str], theory: bool) -> PlaceLine:
    at = np.arange(1.0, len(statuses) + 1)
    estimate = np.where([status == Status.LOCATED for status in statuses], 10 * at, np.nan)
    table = pd.DataFrame({"gamma": at, "status": statuses, "estimate": estimate})
    table = table.assign(low=10 * at - 2, high=10 * at + 2)
    return PlaceLine(1, "depth 1", table, at, 10 * at if theory else np.full(len(at), np.nan))


@pytest.mark.parametrize("theory", [False, True])
@pytest.mark.parametrize("other", [None, Status.CENSORED_HIGH, Status.UNDETERMINED])
def test_the_caption_of_a_line_names_a_mark_exactly_if_it_is_drawn(
    workload: Workload, other: Status | None, theory: bool
) -> None:
    statuses = [Status.LOCATED, Status.LOCATED, other or Status.LOCATED]
    parts = [("", [place_line(list(statuses), theory)])]
    figure, said = places_figure(parts, "overlap_angle", "gamma", workload, 0.95, "zero", {})
    entries = [text.get_text() for text in figure.legends[0].get_texts()]
    drawn = {line.get_marker() for line in figure.axes[0].lines if len(line.get_xdata())}
    assert ("beyond this value" in entries) == ("triangles" in said) == ("^" in drawn) == (other == "censored_high")
    assert ("not decided" in entries) == ("Question marks" in said) == ("$?$" in drawn) == (other == "undetermined")
    assert "Crosses" not in said
    assert "x" not in drawn
    assert ("closed form" in entries) == ("closed form" in said) == theory
    joined = [line for line in figure.axes[0].lines if line.get_linestyle() == "-" and line.get_marker() == "None"]
    assert [int(np.isfinite(line.get_xdata()).sum()) for line in joined] == [3 - bool(other)]


LARGEST, SMALLEST, OPEN = "best at the largest value", "best at the smallest value", "not decided"
REASONS = {LARGEST: "improves_throughout", SMALLEST: "degrades", OPEN: "no_clear_change"}
SENTENCES = {
    LARGEST: "Crosses above the dotted line: best at the largest value.",
    SMALLEST: "Crosses below the dotted line: best at the smallest value.",
    OPEN: "Question marks below the dotted line: not decided.",
}


def line_without_places(words: list[str], key: int = 1) -> PlaceLine:
    """Two places at gamma 1 and 2, and at further values what curves do that have none."""
    statuses = [Status.UNDETERMINED if word == OPEN else Status.MONOTONE for word in words]
    line = place_line([Status.LOCATED, Status.LOCATED, *statuses], False)
    line.table["reason"] = ["", "", *map(REASONS.__getitem__, words)]
    return replace(line, key=key, label=f"depth {key}")


def marks_of(panel: Any) -> list[tuple[str, float, float]]:
    """(the mark, its gamma, its height as a share of the panel) of what stands for curves without a place."""
    return [
        (line.get_marker(), x, height)
        for line in panel.lines
        if line.get_marker() in ("x", "$?$")
        for x, height in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]


@pytest.mark.parametrize("words", [[LARGEST], [SMALLEST], [OPEN], [SMALLEST, OPEN, LARGEST], [OPEN, LARGEST, OPEN]])
def test_a_curve_without_a_place_has_its_mark_on_the_side_on_which_it_is_best(
    workload: Workload, words: list[str]
) -> None:
    figure, said = places_figure(
        [("", [line_without_places(words)])], "overlap_angle", "gamma", workload, 0.95, "best", {}
    )
    panel = figure.axes[0]
    low, high = (panel.transAxes.inverted().transform(panel.transData.transform((1, end)))[1] for end in (8, 22))
    found = {gamma: (mark, height) for mark, gamma, height in marks_of(panel)}
    assert sorted(found) == [3 + k for k in range(len(words))]
    for gamma, word in enumerate(words, start=3):
        mark, height = found[gamma]
        assert mark == ("$?$" if word == OPEN else "x")
        assert high < height < 1 if word == LARGEST else 0 < height < low
    entries = [text.get_text() for text in figure.legends[0].get_texts()]
    for word, sentence in SENTENCES.items():
        assert (word in entries) == (sentence in said) == (word in words)
    dotted = [line.get_ydata()[0] for line in panel.lines if line.get_linestyle() == ":"]
    sides = {word == LARGEST for word in words}
    assert len(dotted) == len(sides)
    assert all(low > edge or high < edge for edge in dotted)


def test_lines_without_places_have_rows_of_their_own(workload: Workload) -> None:
    lines = [line_without_places([LARGEST, OPEN], key) for key in (1, 2)]
    figure, _ = places_figure([("", lines)], "overlap_angle", "gamma", workload, 0.95, "best", {})
    heights = [height for _, _, height in marks_of(figure.axes[0])]
    assert len(set(heights)) == len(heights) == 4


def test_lines_differ_in_their_marker_too(workload: Workload) -> None:
    parts = [("", [replace(place_line(3 * [Status.LOCATED], False), key=key, label=str(key)) for key in range(6)])]
    figure, _ = places_figure(parts, "overlap_angle", "gamma", workload, 0.95, "zero", {})
    markers = [bar.lines[0].get_marker() for bar in figure.axes[0].containers]
    assert len(set(markers)) == len(markers) == 6


@pytest.mark.parametrize("located", [1, 2])
def test_one_place_alone_is_no_figure_of_places(workload: Workload, located: int) -> None:
    rates = [0.001, 0.002, 0.004]
    rows = valley({(1, rate): 2.0 if k < located else 0.0 for k, rate in enumerate(rates)})
    asked = Question(rows, {"metric": "risk_finetune", "x": "pretrain_length"}, workload, "inflection")
    names = [one.name for one in inflection_section(asked).drawings]
    assert names == [*(["inflection_line"] if located > 1 else []), "inflection_curves"]


@pytest.mark.parametrize(("kind", "section"), [("inflection", inflection_section), ("optimum", optimum_section)])
@pytest.mark.parametrize(("every", "few"), [(9, True), (8, False)])
def test_where_less_than_a_quarter_has_a_place_the_curves_are_shown_first(
    workload: Workload, kind: str, section: Any, every: int, few: bool
) -> None:
    rows = valley({(1, 0.001 * 2**k): 2.0 if k < 2 else 0.0 for k in range(every)})
    asked = Question(rows, {"metric": "risk_finetune", "x": "pretrain_length"}, workload, kind)
    names = [one.name for one in section(asked).drawings]
    assert names == [f"{kind}_curves", f"{kind}_line"][:: 1 if few else -1]


@pytest.mark.parametrize(("located", "few"), [(1, True), (2, False)])
def test_where_few_slices_have_a_zero_they_are_shown_before_the_map(
    workload: Workload, located: int, few: bool
) -> None:
    rows = field(lambda size: 55.0 if size < SIZES[located] - 0.01 else 300.0)
    options = {"metric": "transferability_finetune", "x": "overlap_angle", "y": "gamma"}
    names = [one.name for one in boundary_section(Question(rows, options, workload, "boundary")).drawings]
    assert names == ["boundary_slices", "boundary_surface"][:: 1 if few else -1]


def test_a_fitted_zero_is_marked_at_0(workload: Workload) -> None:
    """The curve between the points is no straight line: its interpolation need not be 0 at the fitted zero."""
    rows = field(lambda size: 52.0)
    rows["transferability_finetune"] = np.sinh(20 * rows["transferability_finetune"])
    options = {"metric": "transferability_finetune", "x": "overlap_angle", "y": "gamma"}
    (slices,) = [
        one
        for one in boundary_section(Question(rows, options, workload, "boundary")).drawings
        if one.name.endswith("slices")
    ]
    diamonds = [line for line in slices.figure.axes[0].lines if line.get_marker() == "D"]
    assert len(diamonds) == len(SIZES)
    assert [line.get_ydata()[0] for line in diamonds] == len(SIZES) * [0.0]
    assert "Diamonds: fitted zero, 95 % interval." in slices.caption


def test_a_closed_form_that_all_lines_share_is_drawn_once(workload: Workload) -> None:
    lines = [replace(place_line(3 * [Status.LOCATED], True), key=key, label=str(key)) for key in (1, 2)]
    apart = replace(lines[1], expected=lines[1].expected + 1)
    for second, drawn in ((lines[1], 1), (apart, 2)):
        parts = [("", [lines[0], second])]
        figure, _ = places_figure(parts, "overlap_angle", "gamma", workload, 0.95, "zero", {})
        assert sum(line.get_linestyle() == "--" for line in figure.axes[0].lines) == drawn
