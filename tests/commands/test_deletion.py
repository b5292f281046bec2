"""A deletion has its sweep for itself from first to last; one that is cut short is finished by the next."""

import signal

import pytest
from auditing import listening
from conftest import QUIET, driving, files_of, nobody_else_writes, ok, process, refused, run, sql, until

from raysweep.query.sweep import open_sweep
from raysweep.storage import driver_lock
from tests.chaos.waiting import PATIENCE


def test_nobody_begins_to_drive_a_sweep_that_is_being_deleted(storage, space, database, call):
    there = ["--storage", storage]
    ok(call("run", space, *there, "--no-report"))
    with driving("delete", "small", "--yes", *there) as deleting:
        with nobody_else_writes(database):  # what the deletion waits for: its runs in MLflow
            until(lambda: "is being deleted" in call("list", *there).out, deleting)
            for words in (
                ["run", space, *QUIET],
                ["run", space, "--set", "seeds=5", *QUIET],
                ["resume", "small", *QUIET],
                ["delete", "small", "--yes"],
                ["results", "small"],
                ["sync", "small"],
            ):
                refused(call(*words, *there), "small: is being deleted")
            ok(call("list", *there))
            assert deleting.poll() is None
        assert deleting.wait(timeout=PATIENCE) == 0
    assert not (storage / "small").exists()
    assert len(run(storage).results()) == 18


def test_nothing_is_deleted_that_nobody_confirms(storage, space, call):
    ok(call("run", space, "--storage", storage, *QUIET))
    before = files_of(storage)
    refused(call("delete", "small", "--storage", storage), "--yes: ", "delete small (18 rows)?")
    assert files_of(storage) == before


def test_a_deletion_that_mlflow_refuses_leaves_the_sweep_whole(storage, space, database, call):
    ok(call("run", space, "--storage", storage, "--no-report"))
    before = files_of(storage / "small")
    sql(database, "CREATE TRIGGER kept BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'runs are kept'); END")
    refused(call("delete", "small", "--yes", "--storage", storage), "--tracking-uri: ")
    assert files_of(storage / "small") == before
    assert len(open_sweep("small", storage).results()) == 18


KILLED = """
import os, signal, sys
begun = []
def hear(event, arguments):
    if event == "shutil.rmtree":  # the second of its folders is about to be deleted
        if begun:
            os.kill(os.getpid(), signal.SIGKILL)
        begun.append(arguments)
sys.addaudithook(hear)
"""


def test_a_deletion_that_is_killed_leaves_no_sweep_and_can_be_finished(storage, space, call):
    run(storage)
    there = ["--storage", storage]
    killed = process("delete", "small", "--yes", *there, "--tracking-uri", "none", first=KILLED)
    assert killed.code == -signal.SIGKILL
    assert {"ledger", "logs"} & {path.name for path in (storage / "small").iterdir()} in ({"ledger"}, {"logs"})
    for words in (["run", space, *QUIET], ["resume", "small", *QUIET], ["results", "small"], ["status", "small"]):
        refused(
            call(*words, *there),
            "small: is being deleted, or its deletion was cut short",
            f"raysweep delete small --storage {storage}",
        )
    assert "raysweep delete small" in call("list", *there).out
    refused(call("delete", "small", "--yes", *there, "--tracking-uri", "http://127.0.0.1:9/"), "--tracking-uri: ")
    refused(call("results", "small", *there), "small: is being deleted")  # it has not become a whole one again
    ok(call("delete", "small", "--yes", *there, "--tracking-uri", "none"))
    assert not (storage / "small").exists()
    ok(call("run", space, *there, *QUIET))


def test_a_lock_is_not_that_of_a_sweep_that_was_deleted(tmp_path):
    """Its file may be deleted after it was opened and before it is locked; another driver would lock a new one."""
    locked = []

    def delete_first(event, arguments):
        if event == "fcntl.flock":
            if not locked:
                (tmp_path / driver_lock.FILE).unlink()
            locked.append(arguments)

    with listening(delete_first), driver_lock.held(tmp_path):
        assert len(locked) == 2
        assert driver_lock.is_held(tmp_path)
        with pytest.raises(driver_lock.Busy), driver_lock.held(tmp_path):
            pass
    assert not driver_lock.is_held(tmp_path)
