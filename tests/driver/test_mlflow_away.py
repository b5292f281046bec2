"""A tracking server that goes away, comes back or is locked: no row waits for it, no run is lost and none is twice."""

import shutil

import pytest
from conftest import QUIET, nobody_else_writes, ok, sql
from driven import run_statuses, values
from spaces import small_space, written

from raysweep.query.sweep import open_sweep
from raysweep.tracking import database as mlflow_database
from raysweep.tracking import mirror
from tests.chaos.waiting import PATIENCE


@pytest.mark.long
def test_a_server_that_goes_and_comes_back_has_every_run_once(
    server, sandbox, drive, storage, tmp_path, call, monkeypatch
):
    """Killed in mid-run and restarted; then away for a whole extension of the sweep, and back later."""

    def status():
        return call("status", "sandy", "--storage", storage).out

    driven = drive("--executor", "inline", "--tracking-uri", server.uri)
    server.kill()
    server.start()
    (tmp_path / "go").touch()
    _, err = driven.communicate(timeout=PATIENCE)
    assert driven.returncode == 0, err
    assert "mirror incomplete" not in err
    assert run_statuses(server.database) == {"sweep": {"FINISHED": 1}, "cell": {"FINISHED": 4}}

    server.kill()
    monkeypatch.setattr(mirror, "PATIENCE", 1.0)
    extended = ok(call("run", tmp_path / "space.yaml", "--set", "seeds=2", "--storage", storage, "--no-report"))
    assert extended.err.startswith("--tracking-uri: ")
    assert "raysweep sync sandy" in extended.err.splitlines()[0]
    assert "4 cells not written (of 4; " in extended.err.splitlines()[-1]
    assert f"  4 of 4 cells not yet in MLflow ({server.uri}); `raysweep sync sandy" in status()
    ok(call("resume", "sandy", "--storage", storage, "--no-report"))
    assert call("sync", "sandy", "--storage", storage).code == 2

    server.start()
    ok(call("sync", "sandy", "--storage", storage))
    assert f"  mirrored to {server.uri}: all 4 cells\n  runs: {server.uri}/#/experiments/1?workflowType=" in status()
    assert run_statuses(server.database) == {"sweep": {"FINISHED": 1}, "cell": {"FINISHED": 4}}
    active = "SELECT value FROM latest_metrics JOIN runs USING (run_uuid) WHERE lifecycle_stage = 'active'"
    assert sql(server.database, f"{active} AND key = 'draws_ok'") == [(2.0,)] * 4
    assert values(storage) == [0, 1, 1, 2, 2, 3, 3, 4]


def test_a_sweep_mirrored_nowhere_is_mirrored_later_and_from_then_on(call, storage, tmp_path, template):
    written(tmp_path, small_space())
    ok(call("run", tmp_path / "space.yaml", "--storage", storage, *QUIET))
    assert call("sync", "small", "--storage", storage).code == 2  # where to?
    database = shutil.copy(template, tmp_path / "elsewhere.db")
    uri = f"sqlite:///{database}"
    ok(call("sync", "small", "--storage", storage, "--tracking-uri", uri))
    assert open_sweep("small", storage).record.tracking_uri == uri
    assert call("resume", "small", "--storage", storage, *QUIET).code == 0  # `none` is for this once
    assert open_sweep("small", storage).record.tracking_uri == uri
    wider = ("--set", "axes.gamma=[0.3, 0.5, 0.7, 1.0]")
    ok(call("run", tmp_path / "space.yaml", *wider, "--storage", storage, "--no-report"))
    assert run_statuses(database) == {"sweep": {"FINISHED": 1}, "cell": {"FINISHED": 8}}
    assert not (storage / "mlflow.db").exists()


def test_a_locked_database_costs_a_warning_and_sync_writes_what_is_missing(
    call, storage, database, tmp_path, monkeypatch
):
    written(tmp_path, small_space())
    from sqlalchemy import sql

    usual = sql.text
    monkeypatch.setattr(sql, "text", lambda text: usual(text.replace("20000", "100")))  # ms MLflow waits for a lock
    ok(call("run", tmp_path / "space.yaml", "--set", "seeds=1", "--storage", storage, "--no-report"))
    monkeypatch.setattr(mirror, "PATIENCE", 1.0)
    monkeypatch.setattr(mlflow_database, "PATIENCE", 0.1)
    with nobody_else_writes(database):
        outcome = ok(call("run", tmp_path / "space.yaml", "--storage", storage, "--no-report"))
        assert "6 cells not written" in outcome.err
        assert "raysweep sync small" in outcome.err
        result = call("status", "small", "--storage", storage)
        assert (result.code, result.err) == (0, "")  # it asks nobody
    ok(call("sync", "small", "--storage", storage))
    assert run_statuses(database) == {"sweep": {"FINISHED": 1}, "cell": {"FINISHED": 6}}
