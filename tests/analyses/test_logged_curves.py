"""What a stage logged: means over ok draws with bands, where they end, and what is in no mean."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from raysweep import workloads
from raysweep.analyses.finding import NOTHING, Needed, Nothing, Outcome
from raysweep.analyses.kinds.learning_curves import run
from raysweep.analyses.question import Question
from raysweep.errors import InputError


def points_of(draws, rate=0.5, status="ok", first=0):
    """The table of curves whose losses are draws[seed, step]; steps count from 0."""
    seeds, steps = draws.shape
    columns = {"seed": np.repeat(np.arange(first, first + seeds), steps), "step": np.tile(np.arange(steps), seeds)}
    points = pd.DataFrame({**columns, "loss": draws.ravel()})
    return points.assign(sweep="s", cell=f"c{rate:g}", status=status, stage="tune", rate=rate)


def finding_of(*parts, **options):
    points = pd.concat(parts, ignore_index=True)
    rows = points.drop_duplicates(["cell", "seed"])[["sweep", "cell", "seed", "status", "rate"]].assign(epochs=2)
    curves = points.drop(columns=["status", "rate"])
    given = {"x": "step", "metric": "loss", "stage": "tune", **options}
    return run(Question(rows, given, workloads.get("logging"), "curves", curves=lambda: curves))


@pytest.fixture(autouse=True)
def _sandbox(sandbox):
    """The workload `logging` is installed."""


def test_a_setting_ends_at_the_mean_of_its_last_step_with_students_interval():
    draws = np.random.default_rng(1).standard_normal((5, 7))
    one = finding_of(points_of(draws))
    (row,) = one.table.to_dict("records")
    low, high = t.interval(0.95, 4, draws.mean(axis=0), draws.std(axis=0, ddof=1) / math.sqrt(5))
    assert (row["estimate"], row["low"], row["high"]) == pytest.approx((draws[:, -1].mean(), low[-1], high[-1]))
    assert (row["outcome"], row["draws"], row["first_mean"]) == (Outcome.MEASURED, 5, pytest.approx(draws[:, 0].mean()))
    assert one.tables["curves_loss"]["low"].to_numpy() == pytest.approx(low, rel=1e-12)


def test_a_setting_most_of_whose_draws_failed_is_undecided():
    draws = np.ones((10, 3))
    failed = points_of(draws[1:], rate=0.3, status="failed", first=1)
    one = finding_of(points_of(draws), points_of(0.5 * draws[:1], rate=0.3), failed)
    assert one.table["rate"].tolist() == [0.3, 0.5]
    assert one.table["outcome"].tolist() == [Outcome.UNDECIDED, Outcome.MEASURED]
    assert one.table["needed"].tolist() == [Needed.OK_ROWS, ""]
    assert one.table["left_out"].tolist() == [9, 0]


def test_a_setting_without_a_value_is_undecided():
    one = finding_of(points_of(np.ones((3, 4))), points_of(np.full((3, 4), math.nan), rate=0.3))
    assert one.table["rate"].tolist() == [0.3, 0.5]
    assert one.table["outcome"].tolist() == [Outcome.UNDECIDED, Outcome.MEASURED]
    assert one.tables["curves_loss"]["rate"].unique().tolist() == [0.5]


def test_a_setting_whose_draws_are_ok_but_logged_nothing_is_undecided_and_counted():
    points = points_of(np.ones((3, 4)))
    rows = points.drop_duplicates("seed")[["sweep", "cell", "seed", "status", "rate"]].assign(epochs=2)
    rows = pd.concat([rows, rows.assign(cell="c0.7", rate=0.7)])
    given = {"x": "step", "metric": "loss", "stage": "tune"}
    one = run(Question(rows, given, workloads.get("logging"), "curves", curves=lambda: points.drop(columns="rate")))
    assert one.table["rate"].tolist() == [0.5, 0.7]
    assert one.table["outcome"].tolist() == [Outcome.MEASURED, Outcome.UNDECIDED]
    assert one.table["needed"].tolist() == ["", ""]  # more rows that are ok would log nothing either
    assert one.facts["silent"] == 1


def test_figures_have_the_means_and_the_draws_that_are_in_none():
    wild = points_of(np.array([[2.0, 1e3, math.inf]]), status="diverged", first=3)
    (plot,) = finding_of(points_of(np.arange(9.0).reshape(3, 3)), wild, called="layer").plots()
    assert (plot.name, plot.steps, plot.logarithmic, plot.every) == ("curves_loss", "layer", False, 1)
    (line,) = plot.panels[0].lines
    assert line.mean.tolist() == [3.0, 4.0, 5.0]
    ((status, x, values),) = line.left_out
    assert (status, x.tolist(), values.tolist()) == ("diverged", [0.0, 1.0, 2.0], [2.0, 1e3, math.inf])


def test_a_share_brings_curves_of_all_lengths_to_one_end():
    one = finding_of(points_of(np.ones((2, 3))), points_of(np.ones((2, 5)), rate=1.0), x="share")
    shares = one.tables["curves_loss"].groupby("rate")["share"].apply(list).to_dict()
    assert shares == {0.5: [0, 0.5, 1], 1.0: [0, 0.25, 0.5, 0.75, 1]}


def test_a_stage_that_logged_nothing_says_so_and_an_unknown_metric_is_refused():
    assert finding_of(points_of(np.ones((2, 3))), stage="warm").facts[NOTHING] == Nothing.NOTHING_LOGGED
    with pytest.raises(InputError, match=r"analysis\.curves\.metric"):
        finding_of(points_of(np.ones((2, 3))), metric="los")


def test_a_page_has_every_setting_and_seed_at_few_steps():
    one = finding_of(points_of(np.arange(400.0).reshape(2, 200) / 100), points_of(np.ones((2, 200)), rate=1.0))
    (made,) = [make() for make in one.explored]
    first, second = made["settings"]
    assert (first["values"], second["values"], len(first["x"])) == ([0.5], [1.0], 60)
    assert first["draws"][1][-1] == pytest.approx(3.99, abs=0.01)
