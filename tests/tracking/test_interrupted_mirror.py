"""A server that goes away, comes back or is locked, and Ctrl-C while the last cells go there: no row waits for it, no
run is lost, left running or there twice, and `sync` writes the rest."""

import re
import shutil
import signal

import pytest
from conftest import QUIET, driving, nobody_else_writes, ok, sql, until
from driven import run_statuses, values
from servers import hurry
from spaces import small_space, written

from raysweep.query.sweep import open_sweep
from raysweep.storage import signs
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


TOLD = r"not written \(of 160\); run `raysweep sync small"
STATUSES = "SELECT status, lifecycle_stage, COUNT(*) FROM runs GROUP BY status, lifecycle_stage"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_end_that_is_cut_short_leaves_no_run_running_and_says_how_many_cells_are_missing(
    number, storage, slow_database, tmp_path, call
):
    """One that is killed says nothing and leaves its runs; `status` never says that a cell is there that is not."""

    def runs():
        return sql(slow_database, STATUSES)

    def finished():
        return sum(count for status, stage, count in runs() if (status, stage) == ("FINISHED", "active"))

    space = small_space(axes={"overlap_angle": list(range(1, 41)), "gamma": [0.2, 0.4, 0.6, 0.8]}, seeds=2)
    asked = ("run", written(tmp_path, space), "--storage", storage, "--executor", "inline", "--no-report")
    with driving(*asked) as driver:
        assert any(line.startswith("writing the last") for line in driver.stderr)
        # importing MLflow alone may take as long as an interrupted mirror has
        until(lambda: (there := signs.mirrored(storage / "small")) and there.runs, driver)
        driver.send_signal(number)
        output = driver.stderr.read()
        assert driver.wait(timeout=PATIENCE) == (-number if number == signal.SIGKILL else 130)
    if number != signal.SIGKILL:
        assert "interrupted: all 320 rows are kept; go on with: raysweep resume small" in output
        assert "RUNNING" not in {status for status, _, _ in runs()}
        missing = re.search(rf"mirror incomplete: (\d+) cells {TOLD} --storage {storage}`", output)
        assert finished() == 160 - (int(missing[1]) if missing else 0), output
    hurry(slow_database)
    said = call("status", "small", "--storage", storage).out
    assert "small: finished, 320 of 320 rows (320 ok)" in said
    missing = re.search(
        rf"  (\d+) of 160 cells not yet in MLflow .*sync small --storage {storage}` writes them\n", said
    )
    assert missing, said
    assert 160 - finished() <= int(missing[1]) < 160
    ok(call("sync", "small", "--storage", storage))
    assert finished() == 161
    assert ": all 160 cells\n" in call("status", "small", "--storage", storage).out
