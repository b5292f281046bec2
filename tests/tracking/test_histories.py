"""Learning curves are histories of a cell's run in MLflow, written once; the answers of a report are tags."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from conftest import ok, sql
from servers import runs_of
from spaces import logging_space, written
from test_mirror import Sweep, rows

import raysweep
from raysweep.tracking import cell_run, server


@pytest.fixture
def sweep(tmp_path, template):
    (tmp_path / "mlflow.db").write_bytes(template.read_bytes())
    return Sweep(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path)


def points(database):
    return int(sql(database, "SELECT COUNT(*) FROM metrics WHERE key LIKE '%/%'")[0][0])


def test_a_cell_has_the_mean_curve_of_each_stage_and_a_replay_adds_nothing(call, sandbox, storage, database, tmp_path):
    space = written(tmp_path, logging_space())
    ok(call("run", space, "--executor", "inline", "--no-report", "--storage", storage))
    client, runs = server.connect(f"sqlite:///{database}"), runs_of(database, "logged", "cell")
    assert len(runs) == 4
    for run in runs:
        epochs, rate = int(run.data.params["epochs"]), float(run.data.params["rate"])
        warm, tune = (client.get_metric_history(run.info.run_id, f"{stage}/loss") for stage in ("warm", "tune"))
        assert {point.step: point.value for point in warm} == pytest.approx(
            {step: 1 / step + 0.5 for step in range(1, 2 * epochs + 1)}
        )
        assert {point.step: point.value for point in tune} == pytest.approx(
            {step: math.exp(-rate * step) + 0.05 for step in range(4)}
        )
        assert "means over the ok draws" in run.data.tags["mlflow.note.content"]
    before = points(database)
    for command in ("sync", "resume"):
        ok(call(command, "logged", "--storage", storage))
        assert points(database) == before


def test_a_cell_without_curves_is_written_as_before(sweep):
    assert sweep.replay([rows(0, 2)]) is None
    child = sweep.children()["cell-0"]
    assert "mlflow.note.content" not in child.data.tags
    assert not [name for name in child.data.metrics if "/" in name]
    assert child.data.tags["raysweep.rows"] == "48107b7eb2a6c05a0aaeb30e46145482"  # so that a replay leaves it


def test_more_points_than_mlflow_takes_at_once_arrive(sweep):
    curve = {"step": list(range(90)), **{f"m{number}": [0.25] * 90 for number in range(20)}}
    assert sweep.replay([[{**row, "curves": {"tune": curve}} for row in rows(0, 2)]]) is None
    child = sweep.children()["cell-0"]
    assert sum(len(sweep.client().get_metric_history(child.info.run_id, f"tune/m{k}")) for k in range(20)) == 1800


def test_a_diverged_draw_is_in_no_mean(sweep):
    good, bad = rows(0, 2)
    curves = [{"tune": {"step": [1, 2], "loss": [loss, loss]}} for loss in (3.0, 1e9)]
    cell = [{**good, "curves": curves[0]}, {**bad, "status": "diverged", "curves": curves[1]}]
    assert sweep.replay([cell]) is None
    history = sweep.client().get_metric_history(sweep.children()["cell-0"].info.run_id, "tune/loss")
    assert [(point.step, point.value) for point in history] == [(1, 3.0), (2, 3.0)]


def of(*draws, stage="s"):
    return cell_run.histories([{stage: draw} for draw in draws])


def test_a_mean_is_over_all_ok_draws_at_whole_steps_or_not_there():
    one = {"step": [1.0, 2.0, 3.0], "y": [1.0, math.nan, 3.0]}
    other = {"step": [1.0, 2.0, 3.0, 4.0], "y": [2.0, 2.0, 4.0, 9.0]}
    assert of(one, other) == [("s/y", 1.5, 1), ("s/y", 3.5, 3)]
    assert of(one, {"step": [1.0], "z": [0.0]}) == []
    assert of(one, {"step": [1.0, 3.0], "y": [math.inf, 5.0]}) == [("s/y", 4.0, 3)]
    assert of(*[{"step": [1.0], "y": [1.5e308]}] * 2) == [("s/y", 1.5e308, 1)]
    assert cell_run.histories([]) == []
    for steps in ([0.5, 1.0], [1.0, 1e20]):  # not whole, and no integer of MLflow: they are numbered
        assert of({"step": steps, "y": [1.0, 2.0]}) == [("s/y", 1.0, 0), ("s/y", 2.0, 1)]


def test_a_long_history_is_thinned_and_keeps_both_ends():
    steps = np.arange(1.0, 513.0)
    result = of({"step": steps, "y": 2 * steps})
    assert len(result) == cell_run.MOST_POINTS
    assert result[0] == ("s/y", 2.0, 1)
    assert result[-1] == ("s/y", 1024.0, 512)
    assert all(value == 2 * step for _, value, step in result)
    assert np.ptp(np.diff([step for *_, step in result])) <= 1


def test_names_that_differ_have_histories_of_their_own(sweep):
    """Also those of a ledger from before names were checked."""
    taken = ["top_5", "val/top 5", "top.5-"]
    others = ["top@5", "top#5", "top,5", "top//5", "top/../5", "/top", "größe", "x" * 250, "x" * 251, "\ud800"]
    curve = {"step": [1], **{name: [number] for number, name in enumerate([*taken, *others])}}
    assert sweep.replay([[{**rows(0, 1)[0], "curves": {"tune": curve}}]]) is None
    result = {
        name: value for name, value in sweep.children()["cell-0"].data.metrics.items() if name.startswith("tune/")
    }
    assert sorted(result.values()) == list(range(len(taken + others)))
    assert [result[f"tune/{name}"] for name in taken] == [0, 1, 2]


AXES = {"overlap_angle": [30.0, 50.0, 70.0, 90.0], "gamma": [0.2, 0.4]}


def test_the_sweep_s_own_run_has_a_tag_for_each_answer_of_the_report(tmp_path):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    sweep = raysweep.run(
        "quickstart", storage=tmp_path, tracking_uri=uri, executor="inline", seeds=3, axes=AXES, say=lambda line: None
    )
    (parent,) = runs_of(tmp_path / "mlflow.db", "quickstart", "sweep")
    tags = {key: value for key, value in parent.data.tags.items() if key.startswith("raysweep.finding.")}
    report = json.loads((Path(str(sweep.folder)) / "report" / "report.json").read_text())
    assert tags == {f"raysweep.finding.{one['name']}": one["answer"] for one in report["findings"]}
    assert len(tags) == len(sweep.findings()) >= 1
