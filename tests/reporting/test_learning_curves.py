"""Learning curves in a report: means over ok draws, with a band that holds as often as it says."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Outcome, refused
from scipy.stats import t
from spaces import logging_space, written

import raysweep
from raysweep import workloads
from raysweep.analyses.kinds.learning_curves import learned
from raysweep.analyses.question import Question
from raysweep.reporting.analyses.learning_curves import learning_curves_section
from raysweep.reporting.analyses.section import Section

Call = Callable[..., Outcome]
INLINE = ("--executor", "inline", "--tracking-uri", "none")


def points_of(draws: np.ndarray, rate: float = 0.5, status: str = "ok", first: int = 0) -> pd.DataFrame:
    """The table of curves whose losses are draws[seed, step]; steps count from 0."""
    seeds, steps = draws.shape
    return pd.DataFrame(
        {
            "sweep": "s",
            "cell": f"c{rate:g}",
            "seed": np.repeat(np.arange(first, first + seeds), steps),
            "status": status,
            "stage": "tune",
            "step": np.tile(np.arange(steps), seeds),
            "loss": draws.ravel(),
            "rate": rate,
        }
    )


def question(points: pd.DataFrame, **options: Any) -> Question:
    rows = points.drop_duplicates(["cell", "seed"])[["sweep", "cell", "seed", "status", "rate"]]
    rows = rows.assign(epochs=2).reset_index(drop=True)
    given = {"x": "step", "metric": "loss", "stage": "tune", **options}
    curves = points.drop(columns=["status", "rate"])
    return Question(rows, given, workloads.get("logging"), "curves", curves=lambda: curves)


def section(points: pd.DataFrame, **options: Any) -> Section:
    return learning_curves_section(question(points, **options))


def test_the_band_holds_the_expected_curve_in_95_of_100_sweeps_of_any_size_and_diverged_draws_do_not_enter(
    sandbox: Path,
) -> None:
    rng = np.random.default_rng(5)
    truth = 2 * np.exp(-np.arange(8) / 3)
    for draws in (2, 4, 10):
        inside = np.zeros(8)
        for _ in range(250):
            noise = 0.3 * rng.standard_normal((draws, 1)) + np.cumsum(0.1 * rng.standard_normal((draws, 8)), axis=1)
            wild = points_of(np.full((1, 8), 50.0), status="diverged", first=draws)
            asked = question(pd.concat([points_of(truth + noise), wild], ignore_index=True))
            assert asked.curves is not None
            (one,) = learned(asked.rows, asked.curves(), [], "loss", asked)
            inside += (one.low <= truth) & (truth <= one.high)
        covered = inside / 250
        print(f"{draws} draws: covered {covered.mean():.3f}, least {covered.min():.3f}")
        assert 0.92 <= covered.mean() <= 0.98  # points of a draw move together, so as of some 400 independent ones
        assert covered.min() >= 0.90  # 250 sweeps: 0.95 ± 0.014


def test_steps_that_are_something_else_are_called_so(sandbox: Path) -> None:
    found = section(points_of(np.random.default_rng(1).standard_normal((3, 4))), called="layer")
    assert found.title == "What tune logged, by layer"
    (drawing,) = found.drawings
    assert drawing.figure.axes[0].get_xlabel() == "layer"
    assert "loss of tune against layer" in drawing.caption
    assert found.shown[0]["layer"] == "0 to 3"
    assert " at layer 3 " in found.headline


def test_the_table_has_the_mean_and_students_interval_of_every_point(sandbox: Path) -> None:
    draws = np.random.default_rng(1).standard_normal((5, 7))
    whole = section(points_of(draws)).tables["curves_loss"]
    assert whole["step"].tolist() == list(range(7))
    low, high = t.interval(0.95, 4, draws.mean(axis=0), draws.std(axis=0, ddof=1) / math.sqrt(5))
    for name, known in (("mean", draws.mean(axis=0)), ("low", low), ("high", high)):
        assert whole[name].to_numpy() == pytest.approx(known, rel=1e-12)
    assert set(whole["draws"]) == {5}


def test_points_that_only_some_draws_logged_are_in_no_mean(sandbox: Path) -> None:
    draws = np.array([[1.0, math.nan, 3.0, 4.0], [2.0, 2.0, 5.0, math.inf]])
    whole = section(points_of(draws)).tables["curves_loss"]
    assert whole[["step", "mean"]].to_numpy().tolist() == [[0.0, 1.5], [2.0, 4.0]]


def test_a_setting_of_survivors_does_not_end_lowest(sandbox: Path) -> None:
    draws = np.ones((10, 3))
    parts = [points_of(draws, rate=0.1), points_of(2 * draws, rate=0.2), points_of(0.5 * draws[:1], rate=0.3)]
    parts.append(points_of(0.5 * draws[1:], rate=0.3, status="failed", first=1))
    asked = question(pd.concat(parts, ignore_index=True))
    silent = asked.rows[(asked.rows["rate"] < 0.3) | (asked.rows["status"] == "ok")]
    logged = asked.curves() if asked.curves else pd.DataFrame()
    nothing = replace(
        asked, curves=lambda: logged.merge(silent[["cell", "seed"]])
    )  # draws that fail at once log nothing
    for each in (asked, nothing):
        found = learning_curves_section(each)
        assert found.headline.startswith("loss of tune ends lowest with rate = 0.1")
        assert "(1 of 10 draws ok)" in found.shown[-1]["last mean [95 %]"]
    alone = parts[2:]
    assert "most draws" in section(pd.concat(alone, ignore_index=True)).headline


def test_a_single_draw_is_a_line_without_a_band(sandbox: Path) -> None:
    found = section(points_of(np.array([[3.0, 2.0, 1.0]])))
    assert found.headline == ("loss of tune goes from 3 at step 0 to 1 (a single draw) at step 2 (95 % over draws)")
    assert found.tables["curves_loss"]["low"].isna().all()
    assert "band" not in [text.get_text() for text in found.drawings[0].figure.legends[0].get_texts()]


def test_a_share_brings_stages_of_all_lengths_to_one_end(sandbox: Path) -> None:
    short, long = np.array([[4.0, 3.0, 2.0]] * 2), np.array([[4.0, 3.0, 2.0, 1.0, 0.0]] * 2)
    both = pd.concat([points_of(short, 0.5), points_of(long, 1.0)], ignore_index=True)
    whole = section(both, x="share", by=["rate"]).tables["curves_loss"]
    assert whole.groupby("rate")["share"].apply(list).to_dict() == {0.5: [0, 0.5, 1], 1.0: [0, 0.25, 0.5, 0.75, 1]}


def test_a_step_axis_may_be_log_and_says_what_it_leaves_out(sandbox: Path) -> None:
    points = points_of(np.ones((2, 30)) + np.arange(30))
    (plain,), (log,) = section(points).drawings, section(points, scale="log").drawings
    assert [one.figure.axes[0].get_xscale() for one in (plain, log)] == ["linear", "log"]
    assert "leaves out 0" in log.caption
    assert "leaves out" not in plain.caption
    assert min(log.figure.axes[0].lines[0].get_xdata()) == 1


def test_diverged_draws_are_drawn_as_such_and_never_decide_the_scale(sandbox: Path) -> None:
    good = points_of(np.linspace(2, 1, 6) + np.array([[0.0], [0.1], [0.2]]))
    wild = points_of(np.array([[2.0, 1e3, 1e9, math.inf, math.nan, math.nan]]), status="diverged", first=3)
    found = section(pd.concat([good, wild], ignore_index=True))
    (panel,) = [panel for panel in found.drawings[0].figure.axes if panel.lines]
    dashed = [line for line in panel.lines if line.get_linestyle() == "--"]
    assert [line.get_xdata().tolist() for line in dashed] == [[0.0, 1.0, 2.0]]
    assert panel.get_ylim()[1] < 4
    assert "diverged draw" in [text.get_text() for text in found.drawings[0].figure.legends[0].get_texts()]
    assert "1 of 4 draws left out" in found.headline
    assert found.shown[0]["left out"] == "1 diverged"
    assert found.tables["curves_loss"]["mean"].iloc[-1] == pytest.approx(1.1)


def test_without_an_ok_draw_the_diverged_ones_are_shown(sandbox: Path) -> None:
    found = section(points_of(np.array([[2.0, 9.0, math.inf]]), status="diverged"))
    assert found.headline == "no draw with loss of tune is ok"
    assert len(found.drawings) == 1


def test_a_report_of_a_sweep_has_the_curves_of_each_stage(
    call: Call, sandbox: Path, storage: Path, tmp_path: Path
) -> None:
    """The first stage is ok, and one curve, though a later stage of some of its rows diverged."""
    space = logging_space(
        axes={"epochs": [2, 3], "rate": [0.5, 1.0, 1000.0]},
        analysis=[
            {"curves": {"x": "step", "metric": "loss", "stage": stage, "by": ["epochs"]}} for stage in ("warm", "tune")
        ],
    )
    ran = call("run", written(tmp_path, space), *INLINE, "--storage", storage)
    assert ran.code == 0, ran.err
    folder = storage / "logged" / "report"
    warm = pd.read_csv(folder / "tables" / "curves_loss.csv")
    known = [(step, 1 / step + 0.5, 2, 0) for step in range(1, 7)]  # two epochs are a part of three
    found = list(warm[["step", "mean", "draws", "draws_left_out"]].itertuples(index=False, name=None))
    assert np.array(found) == pytest.approx(np.array(known))
    tune = pd.read_csv(folder / "tables" / "curves_2_loss.csv")
    settings = list(itertools.product((2, 3), (0.5, 1.0)))
    for epochs, rate in settings:
        part = tune[(tune["epochs"] == epochs) & (tune["rate"] == rate)]
        assert part["mean"].to_numpy() == pytest.approx(np.exp(-rate * np.arange(4)) + 0.05)
    assert len(tune) == 4 * len(settings)
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "- **Loss of warm goes from 1.5 at step 1 to" in text
    assert "Epochs only says how far warm goes: rows that differ in it have one curve" in text
    assert "Warm does not depend on rate" in text
    assert "In no mean of loss: 4 draws (4 diverged)" in text
    assert "diverged draw" in (folder / "figures" / "curves_2_loss.svg").read_text(encoding="utf-8")


def test_a_metric_that_the_stage_did_not_log_is_named_in_one_line(
    call: Call, sandbox: Path, storage: Path, tmp_path: Path
) -> None:
    space = logging_space(analysis=[{"curves": {"x": "step", "metric": "los", "stage": "tune"}}])
    ran = call("run", written(tmp_path, space), *INLINE, "--storage", storage)
    line = "analysis.curves.metric: unknown metric that tune logged 'los'; did you mean loss? Known: loss, rate"
    assert (ran.code, line in ran.err) == (2, True), ran.err
    refused(call("report", "logged", "--storage", storage), f"{line}\n")
    assert len(raysweep.open("logged", storage).results()) == 8  # the rows are there, and another entry will do
    space["analysis"][0]["curves"]["metric"] = "loss"
    assert call("run", written(tmp_path, space), *INLINE, "--storage", storage).code == 0


def test_a_metric_may_have_the_name_of_a_parameter(sandbox: Path) -> None:
    points = points_of(np.array([[4.0, 2.0]] * 2), 0.5)
    both = pd.concat([points, points_of(np.array([[8.0, 1.0]] * 2), 1.0)], ignore_index=True)
    asked = question(both, metric="rate")
    curves = both.drop(columns=["status", "rate"]).rename(columns={"loss": "rate"})
    whole = learning_curves_section(replace(asked, curves=lambda: curves)).tables["curves_rate"]
    assert whole[["rate", "mean"]].to_numpy().tolist() == [[0.5, 4.0], [0.5, 2.0], [1.0, 8.0], [1.0, 1.0]]


def test_rows_without_curves_have_a_section_that_says_so(sandbox: Path) -> None:
    found = section(points_of(np.ones((2, 3))), stage="warm")
    assert found.headline == "warm logged nothing in these rows, so there are no learning curves to show"


def test_every_setting_and_seed_can_be_explored_in_the_page(sandbox: Path) -> None:
    slow, fast = (np.arange(400.0).reshape(2, 200) / 100 + start for start in (0.0, 4.0))
    points = pd.concat([points_of(slow), points_of(fast, rate=1.0)], ignore_index=True)
    whole = section(points)
    (made,) = [one() for one in whole.explored]
    assert json.loads(json.dumps(made)) == made
    assert (made["metric"], made["x"], [key["number"] for key in made["keys"]]) == ("loss", "step", [True])
    first, second = made["settings"]
    assert (first["said"], first["at"], second["at"]) == ("rate = 0.5", [0.5], [1])
    assert (first["x"][0], first["x"][-1], len(first["x"]), len(first["mean"])) == (0, 199, 60, 60)
    assert first["seeds"] == second["seeds"] == [0, 1]
    assert first["draws"][1][-1] == pytest.approx(3.99, abs=0.01)  # the last value of the second draw
    assert second["mean"][0] == pytest.approx(5.0, abs=0.01)  # of draws that begin at 4 and 6
    assert not section(points[points["step"] < 0]).explored
