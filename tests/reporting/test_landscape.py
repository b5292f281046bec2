"""Landscapes in a report: values that a stage logged on a grid, as panels on one scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from logging_workload import WORKLOAD

from raysweep.analyses.question import Question
from raysweep.errors import InputError
from raysweep.reporting.analyses.landscape import landscape_section
from raysweep.reporting.analyses.section import Section
from raysweep.reporting.report import write_report

PLACES = np.linspace(-1, 1, 5)


def bowls(rates: dict[float, float], seeds: int = 3) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(rows, logged points) of surfaces seed + height · (x² + y²), x and y from -1 to 1, a height for each rate."""
    rows, points = [], []
    for rate, height in rates.items():
        for seed in range(seeds):
            own = {"sweep": "s", "cell": f"c{rate:g}", "seed": seed}
            rows.append({**own, "status": "ok", "rate": rate, "epochs": 2})
            points += [
                {
                    **own,
                    "stage": "tune",
                    "step": 5 * i + j,
                    "east": x,
                    "north": y,
                    "loss": seed + height * (x**2 + y**2),
                }
                for i, y in enumerate(PLACES)
                for j, x in enumerate(PLACES)
            ]
            points.append({**own, "stage": "tune", "step": 99, "other": 1.0})  # what else the stage logged
    return pd.DataFrame(rows), pd.DataFrame(points)


def section(rows: pd.DataFrame, points: pd.DataFrame, **options: Any) -> Section:
    given = {"x": "east", "y": "north", "metric": "loss", "stage": "tune", **options}
    return landscape_section(Question(rows, given, WORKLOAD, "landscape", curves=lambda: points))


def test_each_setting_has_its_middle_and_how_much_higher_the_rest_is() -> None:
    found = section(*bowls({0.5: 1.0, 1.0: 8.0}))
    flat, steep = found.shown
    assert flat["in the middle [95 %]"].startswith("1.0 [-1.5, 3.5]")  # 0, 1 and 2 over draws
    assert steep["in the middle [95 %]"] == flat["in the middle [95 %]"]
    assert (flat["above it on average [95 %]"], steep["above it on average [95 %]"]) == ("1 (exact)", "8 (exact)")
    assert found.headline == "loss rises less with rate = 0.5 than with rate = 1"
    assert found.detail == (
        "1 (exact) against 8 (exact) above the middle on average, difference 7 (exact) (95 %, same draws)"
    )
    table = found.tables["landscape_values"]
    assert len(table) == 2 * 3 * 25
    corner = table[(table["rate"] == 1.0) & (table["seed"] == 2) & (table["east"] == 1) & (table["north"] == -1)]
    assert corner["value"].tolist() == [18.0]


def test_panels_show_one_draw_on_one_scale_with_the_lowest_point_marked() -> None:
    rows, points = bowls({0.5: 1.0, 1.0: 8.0})
    points["loss"] = points["loss"] - 3 * points["east"]  # lowest at the right
    points["also"] = points["loss"]
    found = section(rows, points, metric=None, metrics=["loss", "also"])
    (drawing,) = found.drawings
    assert "in draw 0" in drawing.caption
    *panels, _ = [panel for panel in drawing.figure.axes if panel.get_visible()]
    assert len(panels) == 4
    scales = {
        tuple(mappable.levels) for panel in panels for mappable in panel.collections if hasattr(mappable, "levels")
    }
    assert len(scales) == 1
    (levels,) = scales
    assert (levels[0], levels[-1]) == pytest.approx((1 / 4 + 1 - 3 - 0.25, 8 * 2 + 3))  # of both settings
    marks = {line.get_marker(): (line.get_xdata()[0], line.get_ydata()[0]) for line in panels[0].lines}
    assert marks == {"+": (0, 0), "x": (1.0, 0.0)}


def test_draws_without_a_whole_finite_grid_are_left_out() -> None:
    rows, points = bowls({0.5: 1.0})
    points.loc[points["seed"] == 0, "loss"] = np.nan
    points = points.drop(points.index[(points["seed"] == 1) & (points["step"] == 7)])
    found = section(rows, points)
    assert found.shown[0]["draws"] == "1 draw"
    assert "in draw 2" in found.drawings[0].caption
    rows["status"] = "diverged"
    assert "no row with a landscape of tune is ok" in section(rows, points).headline


def test_a_report_of_rows_without_landscapes_says_so(sandbox: Path, tmp_path: Path) -> None:
    rows, points = bowls({0.5: 1.0})
    assert section(rows, points[points["step"] == 99]).headline == "tune logged no landscape in these rows"
    entry = {"landscape": {"x": "east", "y": "nrth", "metric": "loss", "stage": "tune"}}
    space = {"name": "s", "workload": "logging", "axes": {"rate": [0.5]}, "seeds": [0, 1, 2], "analysis": [entry]}
    with pytest.raises(InputError, match="analysis.landscape.y: unknown metric that tune logged 'nrth'"):
        write_report(rows.assign(final=0.0), space, tmp_path, sweep="s", curves=lambda: points)
    entry["landscape"]["y"] = "north"
    report = write_report(rows.assign(final=0.0), space, tmp_path, sweep="s", curves=lambda: points)
    assert "above its middle" in report.headline[0]
    assert (tmp_path / "figures" / "landscape.png").exists()
