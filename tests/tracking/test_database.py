"""Runs that are written into MLflow's SQLite database directly are those that MLflow's own client writes; an address of
MLflow is looked at before anything is computed, and shows no credentials."""

import contextlib
import dataclasses
import math
import re
import shutil
import socket
import sqlite3
import threading
import time
from pathlib import Path

import mlflow
import pytest
from conftest import sql
from test_mirror import drawn

from raysweep.redaction import without_credentials
from raysweep.tracking import client, database, server
from raysweep.tracking.cell_run import Content
from raysweep.tracking.mirror import Mirror
from raysweep.tracking.runs import SweepRun
from raysweep.tracking.server import Unreachable, check

SPACE = {"name": "written", "workload": "linear_transfer", "axes": {"depth": [1, 2, 3]}, "fixed": {"dim": 100}}
CONTENT = Content("a", "FINISHED", [("loss", 1.0, 0)], {"depth": "1"}, {"raysweep.cell": "a"}, "digest")


def rows(cell, seeds):
    curve = {"step": [0, 10, 20], "loss": [3.0, 2.0 + cell, 1.0]}
    values = [{"loss": cell + seed / 7, "odd": math.inf if seed else 1.0} for seed in range(seeds)]
    return [drawn(seed, each, curves={"compute": curve}) for seed, each in enumerate(values)]


def mirrored(uri, room, status, seeds):
    """Mirror three cells, each of which replaces one that has fewer seeds."""
    mirror = Mirror(uri, SweepRun(SPACE, "sweep", "id-1", "code-1", room / "artifacts"))
    for cell in range(3):
        mirror.cell(f"cell-{cell}", {"depth": cell + 1, "dim": 100}, rows(cell, seeds), ["stage"])
    artifacts = {"report": room / "report", "results.csv": room / "table"}
    assert mirror.finish(status, artifacts, {f"rows_{status}": seeds, f"finding.{status}": "yes"}) is None


def tables(path, room):
    """Every table, with run ids replaced by the order of the runs, and times by a letter."""
    with contextlib.closing(sqlite3.connect(path)) as opened:
        order = "SELECT run_uuid FROM runs ORDER BY lifecycle_stage, name, start_time"
        ids = {run_id: f"run {place}" for place, (run_id,) in enumerate(opened.execute(order))}
        names = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        result = {name: opened.execute(f"SELECT * FROM {name}").fetchall() for name in sorted(names)}

    def plain(value):
        if isinstance(value, int) and value > 1e12:
            return "time"
        text = re.sub("[0-9a-f]{32}", lambda match: ids.get(match[0], match[0]), value) if isinstance(value, str) else 0
        return text.replace(str(room), "ROOM") if isinstance(text, str) and text else value

    return {name: sorted(tuple(map(plain, row)) for row in each) for name, each in result.items()}


def files(room):
    return sorted(re.sub("[0-9a-f]{32}", "RUN", str(path.relative_to(room))) for path in room.rglob("*"))


def test_what_is_written_directly_is_what_the_client_writes(tmp_path, template, monkeypatch):
    result = {}
    for kind, revisions in ((database.Database, database.REVISIONS), (client.Client, frozenset())):
        monkeypatch.setattr(database, "REVISIONS", revisions)
        room = tmp_path / kind.__name__
        (room / "report" / "figures").mkdir(parents=True)
        (room / "report" / "figures" / "one.svg").write_text("<svg/>")
        (room / "table").write_text("cell,seed\n")
        path = Path(shutil.copy(template, room / "mlflow.db"))
        uri = f"sqlite:///{path}"
        assert type(database.tracking_store(uri)) is kind, "MLflow's tables are new: compare them, and add the revision"
        mirrored(uri, room, "KILLED", 2)
        mirrored(uri, room, "FINISHED", 3)
        mirrored(uri, room, "FINISHED", 3)
        result[kind] = (tables(path, room), files(room / "artifacts"))
    direct, written = result[database.Database]
    assert (direct, written) == result[client.Client]
    assert len(direct["runs"]) == 1 + 3 + 3
    assert "RUN/artifacts/report/figures/one.svg" in written
    ended = {row[:2] for table in ("metrics", "tags") for row in direct[table] if re.match(r"rows_|.*find", row[0])}
    assert ended == {("rows_KILLED", 2), ("rows_KILLED", 0), ("rows_FINISHED", 3), ("raysweep.finding.FINISHED", "yes")}


def test_runs_are_read_as_the_client_reads_them(tmp_path, template):
    uri = f"sqlite:///{shutil.copy(template, tmp_path / 'mlflow.db')}"
    store, by_client = database.Database(uri), client.Client(uri)
    assert store.find_experiment("e") is None
    experiment = store.experiment("e", tmp_path.as_uri())
    assert by_client.find_experiment("e") == store.find_experiment("e") == experiment
    first, second, trash = store.add(experiment, [dataclasses.replace(CONTENT, name=name) for name in "abc"])
    store.delete(trash)
    users = mlflow.MlflowClient(uri)
    users.log_metric(first, "loss", math.nan, step=3)
    users.log_metric(second, "loss", 0.5, step=0)
    users.set_tag(second, "mine", "yes")
    for tags in ({"raysweep.cell": "a"}, {"raysweep.cell": "a", "mine": "yes"}, {"mine": "no"}):
        assert repr(store.runs(experiment, tags)) == repr(by_client.runs(experiment, tags))
    assert [run.metrics["loss"] for run in store.runs(experiment, {"mine": "yes"})] == [0.5]


def test_runs_that_are_written_together_are_there_all_or_none(tmp_path, template):
    path = Path(shutil.copy(template, tmp_path / "mlflow.db"))
    store = database.Database(f"sqlite:///{path}")
    experiment = store.experiment("e", tmp_path.as_uri())
    with pytest.raises(ValueError, match="not a name!"):
        list(store.add(experiment, [CONTENT, dataclasses.replace(CONTENT, metrics=[("not a name!", 1.0, 0)])]))
    assert tables(path, tmp_path)["runs"] == tables(path, tmp_path)["tags"] == []


def test_two_that_write_at_once_into_a_new_database_lose_and_double_nothing(tmp_path):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    mirrors = [Mirror(uri, SweepRun(SPACE, str(one), f"id-{one}", "code", tmp_path / "artifacts")) for one in range(3)]
    for cell in range(60):
        for mirror in mirrors:
            mirror.cell(f"cell-{cell}", {"depth": 1}, rows(cell, 2), [])
    edges = [threading.Thread(target=mirror.finish, args=("FINISHED", {}, {})) for mirror in mirrors]
    for end in edges:
        end.start()
    for end in edges:
        end.join()
    runs = mlflow.MlflowClient(uri).search_runs(["1"], max_results=1000)
    assert len(runs) == 3 * (1 + 60)
    assert len({(run.data.tags["raysweep.sweep"], run.data.tags.get("raysweep.cell")) for run in runs}) == len(runs)
    assert {run.info.status for run in runs} == {"FINISHED"}


def test_a_database_that_mlflow_has_not_migrated_is_left_to_the_client(tmp_path):
    (tmp_path / "empty.db").touch()
    assert isinstance(database.tracking_store(f"sqlite:///{tmp_path / 'empty.db'}"), client.Client)


def test_check_accepts_what_can_be_and_creates_nothing(tmp_path, template):
    check(f"sqlite:///{tmp_path / 'new' / 'mlflow.db'}")
    check(f"sqlite:///{template}")
    (tmp_path / "empty.db").touch()
    check(f"sqlite:///{tmp_path / 'empty.db'}")
    assert [entry.name for entry in tmp_path.iterdir()] == ["empty.db"]


def refused(uri):
    started = time.monotonic()
    with pytest.raises(Unreachable) as raised:
        check(uri)
    assert time.monotonic() - started < 10
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_check_refuses_what_cannot_be_reached_in_one_line_without_credentials(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "text.db").write_text("this is no database, but long enough to have a header " * 9)
    sql(tmp_path / "other.db", "CREATE TABLE studies (study_id INTEGER)")
    before = sorted(entry.name for entry in tmp_path.iterdir())
    assert "not a folder" in refused(f"sqlite:///{tmp_path / 'file' / 'mlflow.db'}")
    assert "not a database" in refused(f"sqlite:///{tmp_path / 'text.db'}")
    assert "something else" in refused(f"sqlite:///{tmp_path / 'other.db'}")
    assert "is a folder" in refused(f"sqlite:///{tmp_path}")
    assert "names no file" in refused("sqlite://")
    assert "expected sqlite:///FILE" in refused(str(tmp_path / "mlruns"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # bound but not listening: refused
        port = probe.getsockname()[1]
        message = refused(f"http://ada:s3cret/pw@127.0.0.1:{port}")
        assert "s3cret" not in message
        assert "ada" not in message
        assert "refused" in refused(f"http://127.0.0.1:{port}").lower()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # takes the connection and never answers
        monkeypatch.setattr(server, "PATIENCE", 0.5)
        assert "timed out" in refused(f"http://ada:s3cret@127.0.0.1:{silent.getsockname()[1]}")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == before


def test_an_address_can_be_kept_without_its_credentials():
    assert without_credentials("https://ada:pw@host:5000/x") == "https://host:5000/x"
    for query in ("password=x&sslmode=require", "sslmode=require&password=x"):
        assert without_credentials(f"postgresql://host/db?{query}") == "postgresql://host/db?sslmode=require"
    assert without_credentials("sqlite:////a/b@c.db") == "sqlite:////a/b@c.db"
