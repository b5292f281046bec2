"""Values on a grid: how much higher they are than in the middle, beside the setting in which they rise least."""

import numpy as np
import pandas as pd
import pytest
from logging_workload import WORKLOAD

from raysweep.analyses.finding import NOTHING, Nothing, Outcome
from raysweep.analyses.kinds.landscape import run
from raysweep.analyses.question import Question
from raysweep.errors import InputError

PLACES = np.linspace(-1, 1, 5)


def finding_of(heights, seeds=3, **options):
    """Surfaces seed + (height + seed / 10) · (x² + y²), a height for each rate. Their mean is the height."""
    rows, points = [], []
    for rate, height in heights.items():
        for seed in range(seeds):
            row, rise = {"sweep": "s", "cell": f"c{rate:g}", "seed": seed}, height + seed / 10
            rows.append({**row, "status": "ok", "rate": rate, "epochs": 2})
            points += [
                {**row, "stage": "tune", "step": 5 * i + j, "east": x, "north": y, "loss": seed + rise * (x**2 + y**2)}
                for i, y in enumerate(PLACES)
                for j, x in enumerate(PLACES)
            ]
    table = pd.DataFrame(points)
    given = {"x": "east", "y": "north", "metric": "loss", "stage": "tune", **options}
    return run(Question(pd.DataFrame(rows), given, WORKLOAD, "landscape", curves=lambda: table))


def test_each_setting_has_its_rise_over_the_middle_and_how_much_more_it_is_in_equal_draws():
    flat, steep = finding_of({0.5: 1.0, 1.0: 8.0}).table.to_dict("records")
    assert (flat["outcome"], flat["metric"], flat["draws"]) == (Outcome.MEASURED, "loss", 3)
    half = 4.302653 * 0.1 / np.sqrt(3)  # Student's t of two degrees
    assert (flat["estimate"], flat["low"], flat["high"]) == pytest.approx((1.1, 1.1 - half, 1.1 + half), rel=1e-6)
    assert (flat["middle"], steep["middle"]) == pytest.approx((1.0, 1.0))
    assert (steep["more"], steep["more_low"], steep["more_high"]) == pytest.approx((7.0, 7.0, 7.0))  # seeds cancel
    assert flat["more"] == 0


def test_the_figure_has_one_draw_of_each_setting_and_the_table_every_value():
    one = finding_of({0.5: 1.0, 1.0: 8.0})
    (plot,) = one.plots()
    assert (plot.seed, plot.every, [surface.where for surface in plot.surfaces]) == (0, 2, [{"rate": 0.5}, {"rate": 1}])
    assert plot.surfaces[1].draws[0][2, 2] == 0
    table = one.tables["landscape_values"]
    corner = table[(table["rate"] == 1.0) & (table["seed"] == 2) & (table["east"] == 1) & (table["north"] == -1)]
    assert (len(table), corner["value"].tolist()) == (2 * 3 * 25, [pytest.approx(2 + 8.2 * 2)])


def test_a_single_draw_has_no_interval():
    (row,) = finding_of({0.5: 1.0}, seeds=1).table.to_dict("records")
    assert row["estimate"] == pytest.approx(1)
    assert np.isnan([row["low"], row["high"]]).all()


def test_a_stage_without_a_landscape_says_so_and_an_unknown_metric_is_refused():
    assert finding_of({0.5: 1.0}, stage="warm").facts[NOTHING] == Nothing.NOTHING_LOGGED
    with pytest.raises(InputError, match=r"analysis\.landscape\.metrics"):
        finding_of({0.5: 1.0}, metric="los")
