"""What `raysweep store list`, `verify` and `prune` say and take away, and what they leave alone."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import files_of, ok
from stored_stage import STAGE, once, published, weights

from raysweep.commands import store as store_commands
from raysweep.errors import InputError
from raysweep.stages import prune, references
from raysweep.stages.store import Store


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


def test_prune_takes_nothing_while_a_reference_cannot_be_read(local):
    once(local)
    references.refer(local, "sweep", [STAGE])
    reference = next((Path(local.url) / "refs" / "sweep").iterdir())
    reference.write_bytes(reference.read_bytes()[:-5])
    with pytest.raises(InputError) as refused:
        store_commands.prune(local)
    assert str(refused.value).startswith(f"{local.url}: ")
    assert reference.name in str(refused.value)
    assert local.stages() == [STAGE]


def test_a_damaged_reference_is_mended_by_its_sweep(local):
    once(local)
    references.refer(local, "sweep", [STAGE])
    reference = next((Path(local.url) / "refs" / "sweep").iterdir())
    reference.write_bytes(b"")
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
