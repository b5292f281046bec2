"""The mirror of a sweep in MLflow, read back by MLflow's own client (and by sqlite3), never by the code under test."""

import math
import shutil
import statistics
import time
from collections import Counter

import pytest
from conftest import TESTS, Outcome, nobody_else_writes, python, sql, until
from spaces import space_over
from sqlalchemy import Engine, event

from raysweep.storage.signs import Mirrored
from raysweep.tracking import cell_run, mirror, runs, server
from raysweep.tracking.runs import SweepRun
from tests.chaos.waiting import PATIENCE

AXES, FIXED = {"overlap_angle": [4.5, 45.0], "depth": [2]}, {"dim": 100, "pretrain_length": math.inf}
SPACE = space_over("linear_transfer", AXES, name="mirror-test", fixed=FIXED)
SWEEP = SweepRun(SPACE, "sweep", "id-1", "code-1")


def drawn(seed, metrics, status="ok", **more):
    """The row of one draw."""
    return {"seed": seed, "status": status, "seconds": 0.25, "metrics": metrics, **more}


def rows(cell, seeds):
    values = ((cell + math.sin(seed + cell), 1.0 + seed / 7) for seed in range(seeds))
    return [drawn(n, {"transferability_finetune": one, "risk_scratch": other}) for n, (one, other) in enumerate(values)]


def parameters(cell):
    return {"overlap_angle": 4.5 + 40.5 * cell, "depth": 2, "dim": 100, "pretrain_length": math.inf, "engine": "limit"}


class Sweep:
    """A sweep as the driver would mirror it."""

    def __init__(self, uri, room):
        self.uri, self.room = uri, room

    def start(self):
        return mirror.Mirror(self.uri, SweepRun(SPACE, "sweep", "id-1", "code-1", self.room / "mlflow-artifacts"))

    def replay(self, cells, status="FINISHED", **artifacts):
        writer = self.start()
        for index, cell in enumerate(cells):
            writer.cell(f"cell-{index}", parameters(index), cell, [f"stage-{index}", "stage"])
        return writer.finish(status, artifacts, {"rows": sum(map(len, cells)), "headline": "tips at 60 degrees"})

    def client(self):
        return server.connect(self.uri)

    def runs(self):
        client = self.client()
        experiment = client.get_experiment_by_name("mirror-test")
        return list(client.search_runs([experiment.experiment_id], max_results=1000))

    def parent(self):
        (run,) = [run for run in self.runs() if "mlflow.parentRunId" not in run.data.tags]
        return run

    def children(self):
        """The children by cell; fails if a cell has two."""
        results = [run for run in self.runs() if "mlflow.parentRunId" in run.data.tags]
        by_cell = {run.data.tags["raysweep.cell"]: run for run in results}
        assert len(by_cell) == len(results)
        assert {run.data.tags["mlflow.parentRunId"] for run in results} <= {self.parent().info.run_id}
        return by_cell


@pytest.fixture
def sweep(tmp_path, template):
    shutil.copy(template, tmp_path / "mlflow.db")
    return Sweep(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path)


def test_a_cell_is_one_child_with_means_errors_draws_params_and_tags(sweep):
    assert sweep.replay([rows(0, 5), rows(1, 1)]) is None
    child, single = sweep.children()["cell-0"], sweep.children()["cell-1"]
    values = [row["metrics"]["transferability_finetune"] for row in rows(0, 5)]
    metrics = child.data.metrics
    assert metrics["transferability_finetune"] == pytest.approx(statistics.fmean(values), rel=1e-12)
    assert metrics["transferability_finetune_se"] == pytest.approx(statistics.stdev(values) / math.sqrt(5), rel=1e-12)
    assert metrics["draws_ok"] == 5
    assert len(sweep.client().get_metric_history(child.info.run_id, "transferability_finetune")) == 1
    assert "transferability_finetune_se" not in single.data.metrics
    assert child.info.run_name == "overlap_angle=4.5 depth=2"
    assert child.info.status == "FINISHED"
    assert child.data.params == {name: str(value) for name, value in parameters(0).items()}
    expected = {
        "raysweep.sweep": "sweep",
        "raysweep.sweep_id": "id-1",
        "raysweep.cell": "cell-0",
        "raysweep.stage_ids": "stage-0 stage",
        "raysweep.code_version": "code-1",
    }
    assert expected.items() <= child.data.tags.items()


def test_cells_sort_by_an_axis_as_numbers(sweep):
    """MLflow sorts parameters as text: 13.5 would come before 4.5."""
    writer = sweep.start()
    angles = [90.0, 4.5, 13.5, 9.0]
    for angle in angles:
        writer.cell(f"cell-{angle}", {**parameters(0), "overlap_angle": angle}, rows(0, 1), [])
    assert writer.finish("FINISHED", {}, {}) is None
    experiment = sweep.client().get_experiment_by_name("mirror-test").experiment_id
    result = sweep.client().search_runs(
        [experiment], "tags.`raysweep.kind` = 'cell'", order_by=["metrics.overlap_angle ASC"]
    )
    assert [float(run.data.params["overlap_angle"]) for run in result] == sorted(angles)


def test_the_parent_carries_artifacts_summary_and_status(sweep, tmp_path):
    report = tmp_path / "made"
    (report / "inner").mkdir(parents=True)
    (report / "report.md").write_text("# found")
    (report / "inner" / "a.png").write_bytes(b"png")
    table = tmp_path / "table-of-another-name.csv"
    table.write_text("cell,seed\n")
    assert sweep.replay([rows(0, 2)], **{"report": report, "results.csv": table, "absent": tmp_path / "none"}) is None
    parent = sweep.parent()
    assert (parent.info.status, parent.info.run_name) == ("FINISHED", "sweep")
    listed = {entry.path for entry in sweep.client().list_artifacts(parent.info.run_id)}
    assert listed == {"report", "results.csv"}
    assert (tmp_path / "mlflow-artifacts" / parent.info.run_id / "artifacts" / "report" / "inner" / "a.png").is_file()
    assert parent.data.metrics["rows"] == 2
    assert parent.data.tags["raysweep.headline"] == "tips at 60 degrees"
    assert not (tmp_path / "mlruns").exists()


@pytest.mark.parametrize("method", ["client", "database", "parameter"])
def test_a_run_that_was_changed_is_written_again_and_no_other(method, sweep):
    cells = [rows(0, 3), rows(1, 3)]
    sweep.replay(cells)
    changed, other = (sweep.children()[f"cell-{number}"] for number in range(2))
    sweep.client().set_tag(other.info.run_id, "note", "mine")
    sweep.client().log_metric(other.info.run_id, "my_metric", 1.0)
    if method == "client":
        sweep.client().log_metric(changed.info.run_id, "risk_scratch", 999.0)
    else:
        table, key = ("latest_metrics", "risk_scratch") if method == "database" else ("params", "engine")
        where = f"key = '{key}' AND run_uuid = '{changed.info.run_id}'"
        sql(sweep.room / "mlflow.db", f"UPDATE {table} SET value = 999 WHERE {where}")
    assert sweep.replay(cells) is None
    after = sweep.children()
    assert after["cell-1"].info.run_id == other.info.run_id
    assert after["cell-0"].info.run_id != changed.info.run_id
    assert after["cell-0"].data.metrics == changed.data.metrics
    assert after["cell-0"].data.params == changed.data.params


def test_replay_mends_what_a_killed_driver_left(sweep):
    """A half-written child, a double of a whole one, a parent left RUNNING; a run that a user nested stays."""
    cells = [rows(index, 3) for index in range(3)]
    sweep.replay(cells[:2])
    client, parent, whole = sweep.client(), sweep.parent(), sweep.children()["cell-0"]
    client.update_run(parent.info.run_id, status="RUNNING")
    nested = {"mlflow.parentRunId": parent.info.run_id}
    half = client.create_run(parent.info.experiment_id, tags=nested | {"raysweep.cell": "cell-2"})
    double = client.create_run(parent.info.experiment_id, tags=dict(whole.data.tags))
    client.set_terminated(double.info.run_id, "FINISHED")
    reference = client.create_run(parent.info.experiment_id, tags=nested | {"note": "mine"})
    assert sweep.replay(cells) is None
    client.delete_run(reference.info.run_id)  # still there to delete, and out of the way of children()
    children = sweep.children()
    assert set(children) == {"cell-0", "cell-1", "cell-2"}
    assert half.info.run_id not in {run.info.run_id for run in children.values()}
    assert {run.info.status for run in children.values()} == {"FINISHED"}
    assert sweep.parent().info.status == "FINISHED"


def test_an_experiment_is_marked_as_model_training_unless_its_user_marked_it_otherwise(sweep):
    key, client = "mlflow.experimentKind", sweep.client()

    def marked():
        return client.get_experiment_by_name("mirror-test").tags.get(key)

    assert sweep.replay([rows(0, 1)]) is None
    assert marked() == "custom_model_development"
    experiment = sweep.parent().info.experiment_id
    client.delete_experiment_tag(experiment, key)  # one of before
    assert sweep.replay([rows(0, 1)]) is None
    assert marked() == "custom_model_development"
    client.set_experiment_tag(experiment, key, "genai_development")
    assert sweep.replay([rows(0, 1)]) is None
    assert marked() == "genai_development"


def test_draws_that_are_not_ok_or_not_finite_make_no_mean(sweep):
    draws = [
        drawn(0, {"a": 1.0, "b": math.inf, "c": math.nan, "d": None}),
        drawn(1, {"a": 3.0, "b": 2.0, "c": math.nan, "d": None}),
        drawn(2, {"a": 99.0, "b": 99.0, "c": 9.0, "d": 9.0}, "not_converged"),
    ]
    assert sweep.replay([draws, [drawn(0, {}, "failed")]]) is None
    child, broken = sweep.children()["cell-0"], sweep.children()["cell-1"]
    metrics = child.data.metrics
    assert (metrics["a"], metrics["a_se"], metrics["draws_ok"]) == (2.0, 1.0, 2)
    assert not {"b", "b_se", "c", "d"} & set(metrics)
    assert child.data.tags["raysweep.not_finite"] == "b"
    assert child.data.tags["raysweep.draws"] == "1 not_converged, 2 ok"
    assert (child.info.status, broken.info.status, broken.data.metrics["draws_ok"]) == ("FINISHED", "FAILED", 0)


def test_a_metric_keeps_its_name_where_an_added_one_would_have_the_same():
    reference = ("acc", "acc_se", "draws_ok", "fit/loss")
    values = [{name: float(10 * place + seed) for place, name in enumerate(reference)} for seed in (0, 2)]
    draws = [drawn(seed, each, curves={"fit": {"step": [0], "loss": [7.0]}}) for seed, each in enumerate(values)]
    points = cell_run.of_cell("c", ["acc_se_se"], {"acc_se_se": 5.0}, draws, ()).metrics
    assert all(count == 1 for count in Counter((key, step) for key, _, step in points).values())
    result = {key: value for key, value, step in points if step == 0}
    assert {name: result[name] for name in reference} == {name: 10 * place + 1 for place, name in enumerate(reference)}
    assert (result["raysweep.acc_se"], result["raysweep.draws_ok"], result["raysweep.fit/loss"]) == (1.0, 2.0, 7.0)
    assert (result["acc_se_se"], result["raysweep.acc_se_se"]) == (5.0, 1.0)
    assert ("acc_se", 11.0, 3) in cell_run.of_pack("p", ["acc_se_se"], [(3, {"acc_se_se": 5.0}, draws)]).metrics


def test_a_cell_that_mlflow_refuses_holds_up_no_other(sweep, monkeypatch):
    monkeypatch.setattr(mirror, "PATIENCE", PATIENCE)  # however long writing takes on a busy machine, it is no wait
    writer = sweep.start()
    for index, draws in enumerate(([drawn(0, {"not a name!": 1.0})], rows(1, 2), rows(2, 2))):
        writer.cell(f"cell-{index}", parameters(index), draws, [])
    started = time.monotonic()
    warning = writer.finish("FINISHED", {}, {})
    assert time.monotonic() - started < mirror.PATIENCE
    assert warning.startswith("mirror incomplete: 1 cell not written (of 3; ")
    assert set(sweep.children()) == {"cell-1", "cell-2"}
    assert sweep.parent().info.status == "FINISHED"
    assert writer.pending == 1


def test_what_is_written_is_kept_once_a_second_and_at_the_end(sweep):
    """It is the whole of it each time: not after every cell, however soon each is written."""
    kept = []

    def opened():
        return mirror.Mirror(sweep.uri, SWEEP, keep=lambda expected: kept.append((len(expected.runs), expected.status)))

    started, writer = time.monotonic(), opened()
    for index in range(20):
        writer.cell(f"cell-{index}", parameters(index), rows(index, 1), [], f"mark-{index}")
        until(lambda: writer.pending == 0)  # it keeps up
    assert len(kept) <= 1 + (time.monotonic() - started) / mirror.KEEP_EVERY
    assert writer.finish("FINISHED", {}, {}) is None
    assert kept[0] == (0, None)
    assert kept[-2:] == [(20, None), (20, "FINISHED")]
    kept.clear()
    writer = opened()
    writer.cell("cell-20", parameters(20), rows(20, 1), [], "mark-20")
    until(lambda: (1, None) in kept)  # nothing more comes, and nobody ends it
    assert writer.finish("KILLED", {}, {}) is None


def test_a_cell_that_is_handed_over_twice_counts_once(sweep):
    with nobody_else_writes(sweep.room / "mlflow.db"):
        writer = sweep.start()
        for attempt in range(2):
            writer.cell("cell-0", parameters(0), rows(attempt, 2), [], f"mark-{attempt}")
        assert (writer.handed, writer.pending, writer.missing) == (1, 1, 1)
    assert writer.finish("FINISHED", {}, {}) is None
    assert (writer.handed, writer.pending, writer.missing) == (1, 0, 0)


def test_a_run_keeps_its_stages_where_they_cannot_be_told_any_more(sweep):
    for each, stages in (({}, ["stage-0"]), ({"cell-0": "mark"}, None)):
        writer = mirror.Mirror(sweep.uri, SWEEP, Mirrored("id-1", sweep.uri, each))
        writer.cell("cell-0", parameters(0), rows(0, 2), stages, "mark")
        writer.cell("cell-1", parameters(1), rows(1, 2), None, "mark")
        assert writer.finish("FINISHED", {}, {}) is None
        assert sweep.children()["cell-0"].data.tags["raysweep.stage_ids"] == "stage-0"
        assert "raysweep.stage_ids" not in sweep.children()["cell-1"].data.tags


def test_forget_deletes_this_sweep_only(sweep):
    sweep.replay([rows(0, 2), rows(1, 2)])
    other = mirror.Mirror(sweep.uri, SweepRun(SPACE, "other", "id-2", "code-1"))
    other.cell("cell-0", parameters(0), rows(0, 2), [])
    assert other.finish("FINISHED", {}, {}) is None
    runs.forget(sweep.uri, "mirror-test", "id-1")
    assert {run.data.tags["raysweep.sweep_id"] for run in sweep.runs()} == {"id-2"}
    assert len(sweep.runs()) == 2
    absent = sweep.room / "absent.db"
    runs.forget(f"sqlite:///{absent}", "mirror-test", "id-1")
    assert not absent.exists()


def test_nothing_is_said_on_stdout_and_stderr_and_the_database_appears_whole(tmp_path):
    """A first sweep in a process of its own: MLflow's migrations and links are chatty, and `results` owns stdout."""
    program = (
        "import sys; from raysweep.tracking import mirror, runs\n"
        "m = mirror.Mirror(sys.argv[1], runs.SweepRun({'name': 's', 'axes': {}}, 'sweep', 'id', 'code'))\n"
        "m.cell('c', {}, [{'seed': 0, 'status': 'ok', 'metrics': {'a': 1.0}, 'seconds': 1}], [])\n"
        "assert m.finish('FINISHED', {}, {}) is None\n"
    )
    path = tmp_path / "new" / "folder" / "mlflow.db"
    done = python(program, f"sqlite:///{path}", cwd=tmp_path, env={"PYTHONPATH": str(TESTS.parent)})
    assert done == Outcome(0, "", "")
    assert [entry.name for entry in path.parent.iterdir()] == ["mlflow.db"]
    assert sql(path, "SELECT status FROM runs") == [("FINISHED",), ("FINISHED",)]
    assert {entry.name for entry in tmp_path.iterdir()} == {"new"}


def test_the_tables_of_a_new_database_are_made_once_without_waiting_for_the_disk(tmp_path, monkeypatch):
    """MLflow makes them in hundreds of steps, and waiting for the disk after each takes longer than the steps."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # in which no template is yet
    seen = {}

    def look(connection, record, proxy):
        (_, _, file), *_ = connection.execute("PRAGMA database_list").fetchall()
        seen.setdefault(file, set()).update(connection.execute("PRAGMA synchronous").fetchone())

    event.listen(Engine, "checkout", look)
    try:
        sweep = Sweep(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path)
        assert sweep.replay([rows(0, 1)]) is None
    finally:
        event.remove(Engine, "checkout", look)
    off = {0}
    assert list(seen.values()) == [off]
    (kept,) = (tmp_path / "cache" / "raysweep").iterdir()
    before = kept.read_bytes()
    assert Sweep(f"sqlite:///{tmp_path / 'second.db'}", tmp_path).replay([rows(0, 1)]) is None
    assert kept.read_bytes() == before


def test_a_server_that_loses_answers_or_never_answers_costs_a_warning_and_no_run_twice(server, tmp_path, monkeypatch):
    monkeypatch.setattr(mirror, "PATIENCE", 1.0)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    sweep, cells = Sweep(server.uri, tmp_path), [rows(index, 2) for index in range(4)]
    with server.unwell("loses"):  # each run is begun, but its writer never learns of it
        assert sweep.replay(cells) is not None
    with server.unwell("loses", 0.3):
        sweep.replay(cells)
    with server.unwell("hangs"):
        started = time.monotonic()
        assert sweep.replay(cells) is not None
        assert time.monotonic() - started < 10
    monkeypatch.setattr(mirror, "PATIENCE", PATIENCE)  # a busy machine is slower than that, though its server is well
    assert sweep.replay(cells) is None
    assert {run.info.status for run in sweep.runs()} == {"FINISHED"}
    assert set(sweep.children()) == {f"cell-{index}" for index in range(4)}
    assert sweep.parent().info.status == "FINISHED"
