"""A deletion has its sweep for itself from first to last; one that is cut short is finished by the next. What store
list, verify and prune say and take away, and what they leave alone."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from auditing import listening
from conftest import QUIET, driving, files_of, nobody_else_writes, ok, process, refused, run, sql, until
from stored_stage import STAGE, once, published, weights

from raysweep.commands import store as store_commands
from raysweep.errors import InputError
from raysweep.query.sweep import open_sweep
from raysweep.stages import prune, references
from raysweep.stages.store import Store
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
        said = ("small: is being deleted, or its deletion was cut short", f"raysweep delete small --storage {storage}")
        refused(call(*words, *there), *said)
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


def test_list_tells_size_users_and_what_a_stage_is(any_store):
    once(any_store)
    once(any_store, "unused")
    references.refer(any_store, "overtraining-1", [STAGE])
    references.refer(any_store, "overtraining-2", [STAGE, "not-yet-computed"])
    lines = {text.split()[0]: text for text in store_commands.overview(any_store)}
    assert "overtraining-1, overtraining-2" in lines[STAGE]
    assert "language depth=2 pretrain_length=inf seed=0" in lines[STAGE]
    assert "kB" in lines[STAGE]
    assert "no sweep" in lines["unused"]
    assert "2 stages" in lines[f"{any_store.url}:"]
    assert "1 used by no sweep" in lines[f"{any_store.url}:"]


def test_prune_never_takes_what_a_sweep_refers_to_without_being_told(any_store):
    for stage in ("used", "unused", "later"):
        once(any_store, stage)
    references.refer(any_store, "sweep", ["used", "later"])
    assert any("unused" in text for text in store_commands.prune(any_store, dry_run=True))
    assert any_store.stages() == ["later", "unused", "used"]
    store_commands.prune(any_store)
    assert any_store.stages() == ["later", "used"]
    with pytest.raises(InputError, match="^used: .*sweep"):
        store_commands.prune(any_store, ["used"])
    assert any_store.stages() == ["later", "used"]
    store_commands.prune(any_store, ["used"], referred=True)
    assert any_store.stages() == ["later"]
    references.forget(any_store, "sweep")
    store_commands.prune(any_store)
    assert any_store.files.names("entries") == any_store.files.names("leases") == []


def test_prune_takes_nothing_while_a_reference_cannot_be_read_which_its_sweep_mends(local):
    once(local)
    references.refer(local, "sweep", [STAGE])
    reference = next((Path(local.url) / "refs" / "sweep").iterdir())
    for damaged in (reference.read_bytes()[:-5], b""):
        reference.write_bytes(damaged)
        with pytest.raises(InputError) as refused:
            store_commands.prune(local)
        assert str(refused.value).startswith(f"{local.url}: ")
        assert reference.name in str(refused.value)
        assert local.stages() == [STAGE]
        references.refer(local, "sweep", [STAGE])
        assert references.users(local) == {STAGE: ["sweep"]}
        store_commands.prune(local)
        assert local.stages() == [STAGE]


def test_prune_leaves_work_in_progress_and_takes_leftovers_of_the_dead(local):
    def compute(progress):
        progress.save({"x": np.zeros(3)}, {})
        store_commands.prune(local)
        assert progress.load() is not None
        return weights(), {}

    local.once(STAGE, compute, describe={})
    references.refer(local, "sweep", [STAGE])
    entries = Path(local.url) / "entries"
    stale = [
        entries / "dead.feedfeedfeed.safetensors",
        entries / ".dead.json.abc.part",
        Path(local.url) / "leases" / "dead.1.json",
    ]
    fresh = entries / "upload.feedfeedfeed.safetensors"
    for path in [*stale, fresh]:
        path.write_bytes(b"{}")
    for path in stale:
        os.utime(path, (time.time() - 2 * prune.LEFTOVER_AGE,) * 2)
    store_commands.prune(local)
    assert [path.exists() for path in [*stale, fresh]] == [False, False, False, True]
    assert local.fetch(STAGE) is not None


def test_damaged_entries_are_kept_until_prune_is_told(local):
    once(local)
    published(local)[1].unlink()
    local.fetch(STAGE)
    store_commands.prune(local)
    assert local.files.names("damaged")
    store_commands.prune(local, damaged=True)
    assert local.files.names("damaged") == []


def test_the_command_line_lists_verifies_and_prunes(call, tmp_path):
    missing = call("store", "list", "--storage", tmp_path)
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    store = Store(tmp_path / "store")
    once(store)
    once(store, "needed")
    references.refer(store, "sweep", ["needed"])
    assert "2 stages" in call("store", "list", "--storage", tmp_path).out
    ok(call("store", "verify", "--store", store.url))
    assert "1 to prune" in call("store", "prune", "--storage", tmp_path, "--dry-run").out
    refused = call("store", "prune", "needed", "--yes", "--storage", tmp_path)
    assert (refused.code, refused.err.split(":")[0]) == (2, "needed")
    before = files_of(tmp_path)
    refused_here = call("store", "prune", "--storage", tmp_path)  # nobody is there to answer
    assert (refused_here.code, refused_here.err.count("\n"), refused_here.err[:7]) == (2, 1, "--yes: ")
    assert files_of(tmp_path) == before
    ok(call("store", "prune", "--yes", "--storage", tmp_path))
    assert store.stages() == ["needed"]
    weight = next((tmp_path / "store" / "entries").glob("*.safetensors"))
    weight.write_bytes(b"")
    assert call("store", "verify", "--storage", tmp_path).code == 1
    assert call("store", "nonsense").code == 2
